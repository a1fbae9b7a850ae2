#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_models.sh BUNDLE OUT [PART...]: on a CUDA machine with torch: what build_models.sh made, by run_models.py, with the
# Python package of this tree and the library of the bundle. Where diffusers is not installed, the wheels in BUNDLE/wheels
# or beside BUNDLE are.
# PART: conformance quantized python threads swap latency rowwise full sanitizer, all of them unless named; peers (full beside every
# mode of torch.compile: minutes a model).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bundle=$(cd "$1" && pwd)
out=$2
shift 2

mkdir -p "$out"
for wheels in "$bundle/wheels" "$bundle/../wheels"; do
  if [ -d "$wheels" ] && ! python3 -c "import diffusers" 2> /dev/null; then
    python3 -m pip install -q --no-deps --no-index --break-system-packages "$wheels"/*.whl 2>&1 | tail -2 || true
  fi
done
export PYTHONPATH="$here/../../runtime/python:$here" DITC_RUNTIME="$bundle/bin/libditrt.so" PYTHONUNBUFFERED=1
exec python3 "$here/run_models.py" "$bundle" "$out" "$@"
