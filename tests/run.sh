#!/usr/bin/env bash
# Builds telensor and runs its tests.
#
#   tests/run.sh            everything, on a Release build
#   tests/run.sh --quick    without what takes minutes (tests marked slow; ctest label slow)
#   tests/run.sh --asan     C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   tests/run.sh --tsan     C++ tests of what threads share (client, sessions, scheduler, allocator) under ThreadSanitizer
#   tests/run.sh --wheel    the client's wheel: builds it, checks its size, and tests it beside grpcio, protobuf and torch
#   --within SECONDS        stop after that time, with exit status 75 if nothing has failed till then
#
# Fails if a part fails, and if a part runs no test.
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
python=/usr/bin/python3
mode=tests
quick=false
within=0
while (($#)); do
  case "$1" in
    --asan) mode=asan ;;
    --tsan) mode=tsan ;;
    --wheel) mode=wheel ;;
    --quick) quick=true ;;
    --within) within=${2:?}; shift ;;
    -h|--help) sed -n '2,/^set -/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "tests/run.sh: unknown argument '$1'" >&2; exit 2 ;;
  esac
  shift
done

results=()
failed=false
cut=false
# part NAME SECONDS COMMAND...: runs a part within a time, shows what it says and notes how it ended.
part() {
  local name=$1 limit=$2 start=$SECONDS
  shift 2
  printf '\n==> %s\n' "$name"
  local code=0 left=$((within - SECONDS)) last=false
  if ((within > 0 && left < limit)); then
    limit=$((left > 1 ? left : 1))
    last=true
  fi
  timeout --kill-after=20 "$limit" "$@" </dev/null || code=$?
  local took=$((SECONDS - start))
  case $code in
    0) results+=("ok      $name (${took} s)") ;;
    124 | 137)
      if $last; then
        results+=("cut     $name: no time left after $limit s")
        cut=true
        finish
      fi
      results+=("FAILED  $name: not done within $limit s")
      failed=true
      ;;
    *) results+=("FAILED  $name: exit status $code (${took} s)"); failed=true ;;
  esac
  return $code
}
finish() {
  printf '\n==> summary (%s)\n' "$mode"
  printf '%s\n' "${results[@]}"
  if $failed; then
    echo "tests/run.sh: FAILED"
    exit 1
  fi
  if $cut; then
    echo "tests/run.sh: out of time, nothing has failed till then"
    exit 75
  fi
  echo "tests/run.sh: all parts passed"
  exit 0
}

# unittest reports success for no test at all.
unittests() {
  local out code=0
  out=$(cd "$1" && "$python" -B -m unittest discover -s . -p "$2" -v 2>&1) || code=$?
  printf '%s\n' "$out"
  ((code == 0)) || return $code
  if grep -qE '^Ran 0 tests' <<<"$out"; then
    echo "no test was run in $1" >&2
    return 5
  fi
}
generator_tests() {
  local pattern='test*.py'
  compgen -G 'proto/gen/test*.py' >/dev/null || pattern='*_test.py'
  unittests proto/gen "$pattern"
}

# The interpreter for the Python tests: Debian's, whose packages hold torch, the oracle, and telensor itself in a
# folder of its own.
make_venv() {
  set -e
  [[ -x build/venv/bin/python ]] || "$python" -m venv --system-site-packages build/venv
  build/venv/bin/python -c 'import nanobind, scikit_build_core' 2>/dev/null ||
    build/venv/bin/pip install --disable-pip-version-check -q scikit-build-core nanobind
  build/venv/bin/pip install --disable-pip-version-check -q --no-build-isolation --no-deps --force-reinstall ./client-python
  build/venv/bin/python -c 'import telensor, torch; print("telensor and torch", torch.__version__, "are importable")'
}
python_tests() {
  local folders=()
  for folder in client-python/tests tests/python; do
    [[ -d $folder ]] && folders+=("$folder")
  done
  local args=(-ra --durations=10 -p no:cacheprovider -o "markers=slow: takes minutes")
  if $quick; then args+=(-m "not slow"); fi
  # A server of yours would be used instead of the one under test.
  env -u TELENSOR_ADDR TELENSORD="$root/build/$mode/server/telensord" PATH="$root/build/venv/bin:$PATH" \
    PYTHONDONTWRITEBYTECODE=1 build/venv/bin/python -m pytest "${args[@]}" "${folders[@]}"
}
export -f unittests generator_tests make_venv python_tests
export root python mode quick
# Two clones of the tree share what was compiled.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

part "Debian packages" 1800 deploy/packages.sh build data test || finish

if [[ $mode == wheel ]]; then
  # deploy/wheel.sh tests with a server that is there; this is the one of this tree.
  part "configure" 300 cmake --preset tests -DPython3_EXECUTABLE="$python" || finish
  part "server" 2400 cmake --build --preset tests --target telensord || finish
  part "wheel" 1800 env TELENSORD="$root/build/tests/server/telensord" deploy/wheel.sh
  finish
fi

if [[ $mode == tests ]]; then
  part "include lint" 60 "$python" -B tests/lint/includes.py
  part "tests of the lint" 120 bash -c 'unittests tests/lint "test_*.py"'
  part "generator" 120 bash -c generator_tests
  part "configure" 300 cmake --preset tests -DPython3_EXECUTABLE="$python" || finish
  part "build" 2400 cmake --build --preset tests || finish
  ctest_args=()
  if $quick; then ctest_args+=(-LE slow); fi
  part "ctest" 900 ctest --preset tests --no-tests=error "${ctest_args[@]}"
  part "Python package" 900 bash -c make_venv && part "pytest" 1200 bash -c python_tests
  finish
fi

# Debian's OpenMP, gRPC, protobuf and Abseil are not instrumented. One OpenMP thread keeps libgomp out of the picture.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
if [[ $mode == asan ]]; then
  export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1:check_initialization_order=1
  export UBSAN_OPTIONS=print_stacktrace=1
  export LSAN_OPTIONS=suppressions=$root/deploy/sanitizers/lsan.supp:print_suppressions=0
  part "configure" 300 cmake --preset asan -DPython3_EXECUTABLE="$python" || finish
  part "build" 2700 cmake --build --preset asan || finish
  part "ctest under ASan and UBSan" 1200 ctest --preset asan --no-tests=error -LE slow
  finish
fi

# What threads share. A test's name is its target's.
shared='session|batcher|scheduler|executor|server|service|connection|tensor_table|allocator|pool|budget|transfer|client|fault_backend'
export TSAN_OPTIONS=suppressions=$root/deploy/sanitizers/tsan.supp:ignore_noninstrumented_modules=1:second_deadlock_stack=1
mkdir -p build/tsan
# absl::Mutex comes from an uninstrumented library: this tells ThreadSanitizer of its locks.
# Named by its contents: programs are linked again when it changes.
sum=$(cksum <deploy/sanitizers/tsan_absl_mutex.cc)
shim=$root/build/tsan/tsan_absl_mutex.${sum%% *}.o
part "mutex annotations" 120 g++ -std=c++17 -O1 -fPIC -c deploy/sanitizers/tsan_absl_mutex.cc -o "$shim" || finish
part "configure" 300 cmake --preset tsan -DPython3_EXECUTABLE="$python" -DCMAKE_EXE_LINKER_FLAGS="-fsanitize=thread $shim -lstdc++ -ldl" || finish
targets=$(ctest --test-dir build/tsan -N -R "$shared" | sed -n 's/^ *Test *#[0-9]*: //p')
if [[ -z $targets ]]; then
  echo "no test matches $shared" >&2
  results+=("FAILED  no test to run under TSan"); failed=true
  finish
fi
# shellcheck disable=SC2086  # names without spaces
part "build" 2700 cmake --build --preset tsan --target telensord $targets || finish
part "ctest under TSan" 1200 ctest --preset tsan --no-tests=error -R "$shared" -LE slow
finish
