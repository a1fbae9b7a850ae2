#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build_attention.sh [BUNDLE] [BUILD]: attention as the compiler emits it, for run_attention.py on a CUDA machine: the grid
# and the shapes of models for sm_90a, and both by the kernels of other architectures, once with the tiles of GPUs whose
# multiprocessors have 100 KB of shared memory (portable code, which the driver compiles). Needs NVRTC, no GPU.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
bundle=${1:-$root/build-gpu/attention}
build=${2:-$root/build}

rm -rf "$bundle"
python3 "$root/tests/gpu/write_attention.py" "$bundle"
for part in grid grid_quantized models; do
  "$build/bin/ditc-opt" --ditc-plan-attention "$bundle/$part.mlir" -o "$bundle/$part.planned.mlir"
  "$build/bin/compile_kernels" sm_90a "$bundle/$part" "$bundle/$part.planned.mlir" > "$bundle/$part.txt"
done
cp "$bundle/models_mma.mlir" "$bundle/models_mma_small.mlir"
for part in grid_mma:sm_90 models_mma:sm_90 models_mma_small:ptx; do
  name=${part%:*}
  cp "$bundle/$name.mlir" "$bundle/$name.planned.mlir"
  "$build/bin/compile_kernels" "${part#*:}" "$bundle/$name" "$bundle/$name.mlir" > "$bundle/$name.txt"
done
find "$bundle" -name '*.cu' -delete
python3 "$root/tests/gpu/note_commit.py" "$bundle" codegen dialects passes
du -sh "$bundle"
