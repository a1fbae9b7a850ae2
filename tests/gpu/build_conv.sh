#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build_conv.sh [BUNDLE] [BUILD]: convolutions and norms of long rows as the compiler emits them, for run_conv.py on a CUDA
# machine. Needs NVRTC, no GPU; build ditc-opt, compile_kernels and compile_units before.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
bundle=${1:-$root/build-gpu/conv}
build=${2:-$root/build}

rm -rf "$bundle"
python3 "$root/tests/gpu/write_conv.py" "$bundle"
for part in grid models; do
  "$build/bin/ditc-opt" --ditc-plan-convolutions "$bundle/$part.mlir" -o "$bundle/$part.planned.mlir"
  "$build/bin/compile_kernels" sm_90a "$bundle/$part" "$bundle/$part.planned.mlir" > "$bundle/$part.txt"
done
lower="--canonicalize --ditc-lower-to-plan=device=true"
# shellcheck disable=SC2086
"$build/bin/ditc-opt" --ditc-split-norms $lower "$bundle/norms.mlir" -o "$bundle/split.planned.mlir"
# shellcheck disable=SC2086
"$build/bin/ditc-opt" $lower "$bundle/norms.mlir" -o "$bundle/whole.planned.mlir"
for part in split whole; do
  "$build/bin/compile_kernels" sm_90a "$bundle/$part" "$bundle/$part.planned.mlir" > "$bundle/$part.txt"
done
python3 "$root/tests/gpu/ditc_gpu/conv_tiles.py" "$bundle"
"$build/bin/compile_units" sm_90a "$root/codegen/templates/cuda" "$bundle"/tiles/*.cu > "$bundle/tiles.txt"
find "$bundle" -name '*.cu' -delete
python3 "$root/tests/gpu/note_commit.py" "$bundle" codegen dialects passes
du -sh "$bundle"
