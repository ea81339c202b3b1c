#!/usr/bin/env bash
# The CUDA plug-in's checks on a machine with a GPU.
#
#   tests/gpu.sh build            compiles the plug-in, the conformance suite and the timing program, and packs them
#                                 with the libraries they need into build/gpu-bundle.tar.gz; needs nvcc, no GPU
#   tests/gpu.sh run [BUNDLE]     unpacks the bundle and runs it here: a few minutes on one GPU
#   tests/gpu.sh simulate         runs the kernels' source on the CPU against the CPU's kernels: needs the toolkit's
#                                 headers, no GPU; says nothing of races, of speed, or of how nvcc compiles them
#   tests/gpu.sh run --sanitize   the conformance suite under compute-sanitizer as well, which takes longer
#
# `run` needs an NVIDIA driver, cuBLAS and cuDNN 9 (in the loader's path or LD_LIBRARY_PATH), and nothing of the build.
# GPU_BUILD names another build folder, JOBS the number of compilers at once (1).
# Exit status 0: everything passed; 1: something failed; 3: there is no GPU here.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
bundle=$root/build/gpu-bundle.tar.gz
mode=${1:-}
shift || true
sanitize=false
for argument in "$@"; do
  case "$argument" in
    --sanitize) sanitize=true ;;
    *) bundle=$argument ;;
  esac
done

# Two clones of the tree share what was compiled.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

build() {
  local build=${GPU_BUILD:-$root/build/cuda} stage
  (cd "$root" && cmake --preset cuda -B "$build")
  cmake --build "$build" -j "${JOBS:-1}" --target telensor_cuda gpu_conformance gpu_timing
  stage=$(mktemp -d)
  mkdir -p "$(dirname "$bundle")"
  mkdir -p "$stage/lib"
  cp "$build"/tests/gpu/gpu_conformance "$build"/tests/gpu/gpu_timing "$stage"/
  cp "$build"/kernels/cuda/libtelensor_cuda.so "$stage"/
  strip "$stage"/gpu_conformance "$stage"/gpu_timing "$stage"/libtelensor_cuda.so
  # The C library and its like come with every machine; what computes on the CPU travels.
  ldd "$stage"/gpu_conformance | awk '$3 ~ /^\// {print $3}' |
    grep -Ev '/(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
    while read -r library; do cp -L "$library" "$stage/lib/"; done
  tar -C "$stage" -czf "$bundle" .
  rm -rf "$stage"
  echo "gpu.sh: $bundle, $(du -h "$bundle" | cut -f1)"
}

run() {
  local stage code=0
  if [[ ! -f $bundle ]]; then
    echo "gpu.sh: $bundle is missing; make it with: tests/gpu.sh build" >&2
    exit 2
  fi
  stage=$(mktemp -d)
  trap 'rm -rf "$stage"' EXIT
  tar -C "$stage" -xzf "$bundle"
  export LD_LIBRARY_PATH=$stage/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/usr/local/cuda/lib64
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || true
  fi
  # The timing program opens the plug-in and says why there is no device.
  echo "==> timing"
  timeout 300 "$stage"/gpu_timing "$stage"/libtelensor_cuda.so || code=$?
  if ((code == 3)); then
    exit 3
  fi
  if ((code != 0)); then
    echo "gpu.sh: the timing program failed with exit status $code" >&2
    code=1
  fi
  echo "==> conformance"
  timeout 300 "$stage"/gpu_conformance --plugin "$stage"/libtelensor_cuda.so -v || code=1
  if $sanitize; then
    if command -v compute-sanitizer >/dev/null; then
      echo "==> conformance under compute-sanitizer"
      timeout 500 compute-sanitizer --error-exitcode 1 \
        "$stage"/gpu_conformance --plugin "$stage"/libtelensor_cuda.so || code=1
    else
      echo "gpu.sh: compute-sanitizer is not installed" >&2
      code=1
    fi
  fi
  exit $code
}

simulate() {
  local build=${GPU_BUILD:-$root/build/gpu-simulated}
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTELENSOR_CUDA=OFF -DTELENSOR_BUILD_EXAMPLES=OFF
  cmake --build "$build" -j "${JOBS:-1}" --target telensor_cuda_simulated gpu_conformance
  "$build"/tests/gpu/gpu_conformance --plugin "$build"/tests/gpu/simulator/libtelensor_cuda_simulated.so -v
}

case "$mode" in
  build) build ;;
  run) run ;;
  simulate) simulate ;;
  *) sed -n '2,/^set -/s/^# \{0,1\}//p' "$0"; [[ $mode == -h || $mode == --help ]] || exit 2 ;;
esac
