#!/usr/bin/env bash
# The Debian packages telensor needs, in one list. Installs what is missing, as root or by sudo.
#
#   deploy/packages.sh [build] [data] [test]    no group named: build
#   deploy/packages.sh --list [GROUP...]        prints the names and installs nothing
set -euo pipefail

build=(
  libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libspdlog-dev libgtest-dev libgmock-dev libdnnl-dev libopenblas-openmp-dev libsleef-dev
  libtomlplusplus-dev libcli11-dev libbenchmark-dev zlib1g-dev
  g++ cmake ninja-build ccache pkg-config
  python3 python3-dev python3-venv python3-pip
  patchelf git ca-certificates
)
data=(dataset-fashion-mnist)
test=(python3-torch python3-numpy python3-pytest python3-grpcio python3-protobuf clang-format clang-tidy libclang-rt-14-dev clang)

list=false
if [[ "${1:-}" == --list ]]; then
  list=true
  shift
fi
wanted=()
for group in "${@:-build}"; do
  case "$group" in
    build) wanted+=("${build[@]}") ;;
    data) wanted+=("${data[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    *)
      echo "packages.sh: no group '$group'; there are build, data and test" >&2
      exit 2
      ;;
  esac
done
if $list; then
  printf '%s\n' "${wanted[@]}"
  exit 0
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "packages.sh: this is no Debian system. Install what these packages hold, by your own means:" >&2
  printf '  %s\n' "${wanted[@]}" >&2
  exit 1
fi
# One query for all; a name dpkg has never heard of is missing too.
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^installed //p' || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "packages: all ${#wanted[@]} are installed"
  exit 0
fi

as_root=()
if [[ "$(id -u)" != 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "packages.sh: needs root, or sudo, to install: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "packages: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
