#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build_conv.sh [BUNDLE] [BUILD]: convolutions as the compiler emits them, for run_conv.py on a CUDA machine. Needs NVRTC,
# no GPU; build ditc-opt and compile_kernels before.
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
find "$bundle" -name '*.cu' -delete
python3 "$root/tests/gpu/note_commit.py" "$bundle" codegen dialects passes
du -sh "$bundle"
