#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_models.sh BUNDLE OUT [PART...]: on a CUDA machine with torch: what build_models.sh made, by run_models.py, with the
# Python package of this tree and the library of the bundle. Wheels in BUNDLE/wheels are installed when diffusers is not there.
# PART: conformance python threads swap latency rowwise full sanitizer; all of them unless named.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bundle=$(cd "$1" && pwd)
out=$2
shift 2

mkdir -p "$out"
if [ -d "$bundle/wheels" ] && ! python3 -c "import diffusers" 2> /dev/null; then
  pip install -q --no-deps --no-index "$bundle"/wheels/*.whl 2>&1 | tail -2 || true
fi
export PYTHONPATH="$here/../../runtime/python:$here" DITC_RUNTIME="$bundle/bin/libditrt.so" PYTHONUNBUFFERED=1
exec python3 "$here/run_models.py" "$bundle" "$out" "$@"
