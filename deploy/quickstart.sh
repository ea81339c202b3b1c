#!/usr/bin/env bash
# From a fresh Debian 12 to a model in training. Run it again at any time: what is done is not done twice.
#
#   deploy/quickstart.sh [--no-train] [-- ARGUMENTS OF examples/fashion_mnist.py]
#
# Installs Debian packages (deploy/packages.sh), builds the server, the examples and the Python package in
# build/release, makes .venv with `telensor`, `telensord` and numpy in it, and trains.
set -euo pipefail

usage() { sed -n '2,/^set -/s/^# \{0,1\}//p' "$0"; }
train=true
while (($#)); do
  case "$1" in
    --no-train) train=false ;;
    --) shift; break ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
python=/usr/bin/python3
bold="" plain=""
if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; fi
step() { echo "$bold==> $*$plain"; }
# Runs a step that has much to say: its words are shown only if it fails.
quietly() {
  local log=build/quickstart.log
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    echo "quickstart: failed: $* (the whole of it is in $log)" >&2
    exit 1
  fi
}

step "Debian packages"
groups=(build)
if $train; then groups+=(data); fi
deploy/packages.sh "${groups[@]}"
mkdir -p build

step "Server and examples (build/release; minutes the first time)"
# Also true where there is no build.ninja: the presets' settings go into builds of older ones.
if [[ build/release/build.ninja -ot CMakePresets.json ]]; then
  quietly cmake --preset release -DPython3_EXECUTABLE="$python"
fi
cmake --build --preset release
# The server looks for the plug-in in its own build folder.
echo "CUDA plug-in: $(sed -n 's/^TELENSOR_CUDA_STATE:INTERNAL=//p' build/release/CMakeCache.txt)"

step "Python package (.venv)"
if [[ ! -x .venv/bin/python ]]; then "$python" -m venv .venv; fi
tools=(scikit-build-core nanobind numpy)
if ! .venv/bin/python -c 'import nanobind, numpy, scikit_build_core' 2>/dev/null; then
  quietly .venv/bin/pip install --disable-pip-version-check "${tools[@]}"
fi
# The package is a function of these files and of the tools that build it.
state=$({
  find CMakeLists.txt deploy/cmake proto client-cpp client-python -type f ! -name '*.pyc' ! -path '*/tests/*' -print0 |
    sort -z | xargs -0 sha256sum
  .venv/bin/python -c 'import importlib.metadata as m; print(*(m.version(n) for n in ("nanobind", "scikit-build-core")))'
} | sha256sum)
stamp=.venv/telensor.stamp
if [[ "$(cat "$stamp" 2>/dev/null)" != "$state" ]]; then
  rm -f "$stamp"
  # The tools above build it, not others fetched for the occasion.
  quietly .venv/bin/pip install --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall ./client-python
  printf '%s\n' "$state" >"$stamp"
fi
ln -sfn "$root/build/release/server/telensord" .venv/bin/telensord
.venv/bin/python -c 'import importlib.metadata, telensor; print("telensor", importlib.metadata.version("telensor"), "is ready")'

if ! $train; then
  echo "Ready. In a shell: source .venv/bin/activate; python -c 'import telensor as torch; print(torch.ones(2) + 1)'"
  exit 0
fi
step "Training examples/fashion_mnist.py"
export PATH="$root/.venv/bin:$PATH"
exec .venv/bin/python examples/fashion_mnist.py "$@"
