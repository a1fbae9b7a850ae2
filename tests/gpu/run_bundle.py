# SPDX-License-Identifier: Apache-2.0
"""run_bundle.py BUNDLE OUT [check|small|bench|fp8|fused]...: correctness and speed of a bundle's kernels on this machine's GPU.
`fused=dit,joint` takes only the cases with one of these words in their names.

Prints a table and writes OUT/gemm.json with the GPU, versions, and every figure; peers run in the same process.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ditc_gpu import gemm_cases, gemm_fused, report, supervise  # noqa: E402
from ditc_gpu.environment import environment  # noqa: E402


def main():
    bundle, out = os.path.abspath(sys.argv[1]), sys.argv[2]
    parts = sys.argv[3:] or ["check", "small", "bench", "fused"]
    lists = {"check": gemm_cases.checks, "bench": gemm_cases.benches, "fp8": lambda: gemm_cases.FP8_SHAPES,
             "small": lambda: list(gemm_fused.small_cases().items()), "fused": lambda: list(gemm_fused.cases().items())}
    results = {}
    kept = {"environment": environment(bundle)}
    for chosen in parts:
        part, cases = gemm_cases.named(lists, chosen)
        results[part] = supervise.run("ditc_gpu.gemm_run", bundle, chosen, len(cases), timeout=150 if part == "fused" else 15)
        kept[part] = report.stored(part, results[part])
        with open(os.path.join(out, "gemm.json"), "w") as file:
            json.dump(kept, file, indent=1)
        print(report.table(part, cases, results[part]), flush=True)
        if any("error" in r or not r.get("ok", True) for r in results[part]):
            sys.exit(f"{part}: not right, so nothing more is timed")


if __name__ == "__main__":
    main()
