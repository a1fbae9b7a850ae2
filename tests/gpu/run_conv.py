# SPDX-License-Identifier: Apache-2.0
"""run_conv.py BUNDLE OUT [check] [bench] [norms] [tiles]: on a CUDA machine with torch: what build_conv.sh made. check: the grid of
convolutions against fp64; bench: layers of models beside cuDNN; norms: GroupNorm of very long rows, in parts and whole; tiles:
convolutions with tiles by hand. The first three unless named. Writes OUT/conv.json, which is what is kept in tests/bench/results/; exit status 1 when something was not
right."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ditc_gpu import conv_run, environment, norm_problems, supervise  # noqa: E402


def conv_line(r):
    text = f"{r['name']:28} {r['relative']:.2e} (cuDNN {r['cudnn_relative']:.2e})"
    if "us" not in r:
        return f"{text}  {r['problem']}"
    return text + (f"  {r['us']:8.1f} us {r['tflops']:6.1f} TFLOP/s, kernel alone {r['kernel_us']:8.1f} {r['kernel_tflops']:6.1f}, {r['gb_s']:5} GB/s;  cuDNN {r['cudnn_us']:8.1f} "
                   f"{r['cudnn_tflops']:6.1f}, channels last {r['cudnn_last_us']:8.1f} {r['cudnn_last_tflops']:6.1f};  x{r['ratio']:.2f}")


def norm_line(r):
    return (f"{r['name']:28} {r['split_relative']:.2e} (torch.compile {r['compile_relative']:.2e})  {r['us']:8.1f} us {r['gb_s']:5} GB/s, a block a row "
            f"{r['whole_us']:8.1f}, torch.compile {r['compile_us']:8.1f}")


def tiles_line(r):
    return f"{r['name']:28} TFLOP/s " + ", ".join(f"{label} {rate}" for label, rate in r["tflops"].items())


def show(part, results, line_of):
    right = sum("wrong" not in r and "error" not in r for r in results)
    print(f"{part}: {right} of {len(results)} right")
    for r in results:
        if "error" in r:
            print(f"FAILED case {r['case']}: {r['error']}")
        elif part != "check" or "wrong" in r:
            print(line_of(r) + ("  WRONG" if "wrong" in r else ""), flush=True)


def main():
    bundle, out, parts = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:] or ["check", "bench", "norms"]
    os.makedirs(out, exist_ok=True)
    written = {"what": "convolutions as the compiler emits them beside cuDNN in the same run (us: laying out the image included), GroupNorm of very long rows beside "
                       "torch.compile: random data, CUDA graphs over rotating buffers, medians of turns", **environment.environment(bundle)}
    for part in parts:
        module, count, line_of = "conv_run", len(conv_run.cases(part)), tiles_line if part == "tiles" else conv_line
        if part == "norms":
            module, count, line_of = "norm_run", len(norm_problems.norms()), norm_line
        written[part] = supervise.run("ditc_gpu." + module, bundle, part, count, timeout=90, startup=180, patience=5)
        show(part, written[part], line_of)
        with open(os.path.join(out, "conv.json"), "w") as file:
            json.dump(written, file, indent=1)
    return any("error" in r or "wrong" in r for part in parts for r in written[part])


if __name__ == "__main__":
    sys.exit(main())
