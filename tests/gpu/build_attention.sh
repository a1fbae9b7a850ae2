#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build_attention.sh [BUNDLE] [BUILD]: attention as the compiler emits it, for run_attention.py on a CUDA machine: the grid
# and the shapes of models for sm_90a, and the grid by the kernels of other architectures. Needs NVRTC, no GPU.
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
cp "$bundle/grid_mma.mlir" "$bundle/grid_mma.planned.mlir"
"$build/bin/compile_kernels" sm_90 "$bundle/grid_mma" "$bundle/grid_mma.mlir" > "$bundle/grid_mma.txt"
find "$bundle" -name '*.cu' -delete
python3 "$root/tests/gpu/note_commit.py" "$bundle" codegen dialects passes
du -sh "$bundle"
