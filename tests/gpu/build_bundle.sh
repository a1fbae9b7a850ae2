#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build_bundle.sh [BUNDLE] [BUILD]: compiles the kernels that tests/gpu runs on a CUDA machine into BUNDLE (a folder that
# git ignores, build-gpu/bundle unless given), with the program compile_units of the build folder BUILD. Needs NVRTC, no GPU.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
bundle=${1:-$root/build-gpu/bundle}
build=${2:-$root/build}

rm -rf "$bundle"
python3 "$root/tests/gpu/write_units.py" "$bundle"
"$build/bin/compile_units" sm_90a "$root/codegen/templates/cuda" "$bundle"/*.cu | tee "$bundle/resources.txt"
python3 "$root/tests/gpu/note_commit.py" "$bundle" codegen/templates tests/gpu
du -sh "$bundle"
