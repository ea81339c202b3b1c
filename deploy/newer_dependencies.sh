#!/usr/bin/env bash
# Compiles telensor with newer gRPC, protobuf and Abseil than the system's, and runs the tests that need no gRPC.
#
#   deploy/newer_dependencies.sh [VERSION]    of PyPI's grpcio-tools; the newest without it
#
# The sources of grpcio-tools hold Abseil, protobuf and protoc, gRPC's generator and gRPC's C++ headers, but not gRPC's
# library: the files that speak gRPC are compiled and not linked. Warnings are errors, but for deprecations: newer Abseil
# would have absl::MutexLock take a reference, and Debian's takes a pointer only. Everything is in build/newer; it can be run again.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
out=$root/build/newer
jobs=${JOBS:-$(nproc)}
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
step() { printf '==> %s\n' "$*"; }

deploy/packages.sh build test
mkdir -p "$out/sdist"

step "sources from PyPI"
[[ -x $out/venv/bin/python ]] || /usr/bin/python3 -m venv "$out/venv"
version=${1:-}
if [[ -n $version ]] || ! compgen -G "$out/sdist/grpcio_tools-*.tar.gz" >/dev/null; then
  rm -f "$out"/sdist/*.tar.gz
  "$out/venv/bin/python" -m pip download --disable-pip-version-check -q --no-deps --no-binary :all: -d "$out/sdist" \
    "grpcio-tools${version:+==$version}"
fi
archive=$(echo "$out"/sdist/grpcio_tools-*.tar.gz)
source=${archive%.tar.gz}
[[ -d $source ]] || tar -xzf "$archive" -C "$out/sdist"

step "building them"
cmake -G Ninja -S deploy/newer -B "$out/dependencies" -DNEWER_SOURCE="$source" >/dev/null
cmake --build "$out/dependencies" -j "$jobs" -- --quiet
abseil=$(sed -n 's/^#define ABSL_LTS_RELEASE_VERSION //p' "$source/third_party/abseil-cpp/absl/base/config.h")
protobuf=$("$out/dependencies/newer_protoc" --version)
grpc=$(sed -n 's/^VERSION *= *"\(.*\)"/\1/p; s/^VERSION *= *'"'\(.*\)'"'/\1/p' "$source/grpc_version.py")

step "compiling all of telensor with Abseil $abseil, $protobuf, gRPC $grpc"
packages=$out/dependencies/packages
# A debug build compiles fast and keeps the assertions of the libraries' headers.
cmake -G Ninja -S . -B "$out/telensor" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 "-DCMAKE_CXX_FLAGS=-Werror -Wno-error=deprecated-declarations" \
  -DPython3_EXECUTABLE=/usr/bin/python3 -DTELENSOR_CUDA=OFF -Dabsl_DIR="$packages/absl" \
  -DProtobuf_DIR="$packages/protobuf" -DgRPC_DIR="$packages/grpc" >"$out/configure.log" || { cat "$out/configure.log"; exit 1; }
cd "$out/telensor"
mapfile -t objects < <(ninja -t targets all | sed -n 's/^\(.*\.o\): CXX_COMPILER.*/\1/p')
ninja -j "$jobs" -k 0 --quiet "${objects[@]}"
echo "${#objects[@]} files compiled"
newer=$(ninja -t deps "$(printf '%s\n' "${objects[@]}" | grep client-cpp/.*connection.cc.o)" | grep -cE "grpcpp|google/protobuf|/absl/")
if ninja -t deps | grep -qE '/usr/include/(absl|grpc|grpcpp|google/protobuf)/'; then
  echo "newer_dependencies.sh: some file was compiled with the system's headers" >&2
  exit 1
fi
echo "client-cpp/connection.cc includes $newer of the newer headers, and no file one of the system's"

step "linking and running what needs no gRPC"
tests=()
while read -r name; do
  commands=$(ninja -t commands "$name" 2>/dev/null) || continue  # a test that is no program of its own
  grep -q libtelensor_grpc <<<"$commands" || tests+=("$name")
done < <(ctest -N | sed -n 's/^ *Test *#[0-9]*: //p')
if ((${#tests[@]} == 0)); then
  echo "newer_dependencies.sh: no test was found that needs no gRPC" >&2
  exit 1
fi
ninja -j "$jobs" --quiet "${tests[@]}"
ctest --output-on-failure --no-tests=error -LE slow -j "$jobs" -R "^($(IFS='|'; echo "${tests[*]}"))\$"
