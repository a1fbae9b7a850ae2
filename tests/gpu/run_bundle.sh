#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_bundle.sh BUNDLE OUT [PART...]: on a CUDA machine with torch: correctness and speed of a bundle's kernels
# (run_bundle.py), the clocks and power while it ran, and the memory checker over the small cases. Needs no build.
set -u
here=$(cd "$(dirname "$0")" && pwd)
bundle=$(cd "$1" && pwd)
out=$2
shift 2

nvidia-smi --query-gpu=clocks.sm,power.draw,clocks_event_reasons.active --format=csv,noheader,nounits -lms 100 \
  > "$out/clocks.csv" 2>/dev/null &
sampler=$!
PYTHONUNBUFFERED=1 timeout 500 python3 "$here/run_bundle.py" "$bundle" "$out" "$@"
status=$?
kill $sampler

for tool in memcheck; do
  (cd "$here" && timeout 45 compute-sanitizer --tool $tool --print-limit 5 \
    python3 -m ditc_gpu.gemm_run "$bundle" small 0 > "$out/$tool.txt" 2>&1)
  echo "$tool: $(grep -c '"ok": true' "$out/$tool.txt") cases; $(tail -1 "$out/$tool.txt")"
done
exit $status
