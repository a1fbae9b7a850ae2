# SPDX-License-Identifier: Apache-2.0
"""run_conv.py BUNDLE OUT [check] [bench]: on a CUDA machine with torch: what build_conv.sh made, the grid against fp64 and
layers of models beside cuDNN. Writes OUT/conv.json, which is what is kept in tests/bench/results/; exit status 1 when
something was not right."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ditc_gpu import conv_run, environment, supervise  # noqa: E402


def line_of(result):
    if "error" in result:
        return f"FAILED case {result['case']}: {result['error']}"
    right = "WRONG" if "wrong" in result else "right"
    text = f"{result['name']:28} {right} {result['relative']:.2e} (cuDNN {result['cudnn_relative']:.2e})"
    if "us" in result:
        text += (f"  {result['us']:8.1f} us {result['tflops']:6.1f} TFLOP/s, kernel alone {result['kernel_us']:8.1f} {result['kernel_tflops']:6.1f};  cuDNN "
                 f"{result['cudnn_us']:8.1f} {result['cudnn_tflops']:6.1f}, channels last {result['cudnn_last_us']:8.1f} {result['cudnn_last_tflops']:6.1f};  x{result['ratio']:.2f}")
    return text + ("" if right == "right" else f"  {result['problem']}")


def main():
    bundle, out, parts = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:] or ["check", "bench"]
    os.makedirs(out, exist_ok=True)
    written = {"what": "convolutions as the compiler emits them beside cuDNN in the same run: random data, CUDA graphs over rotating buffers, medians of turns; "
                       "us: laying out the image included", **environment.environment(bundle)}
    failed = False
    for part in parts:
        results = supervise.run("ditc_gpu.conv_run", bundle, part, len(conv_run.cases(part)), timeout=60, patience=5)
        print(f"{part}: {sum('relative' in r and 'wrong' not in r for r in results)} of {len(conv_run.cases(part))} right")
        for result in results:
            if part == "bench" or "error" in result or "wrong" in result:
                print(line_of(result), flush=True)
        failed = failed or any("error" in r or "wrong" in r for r in results)
        written[part] = results
    with open(os.path.join(out, "conv.json"), "w") as file:
        json.dump(written, file, indent=1)
    return failed


if __name__ == "__main__":
    sys.exit(main())
