# SPDX-License-Identifier: Apache-2.0
"""run_attention.py BUNDLE OUT [PART...]: on a CUDA machine with torch: what build_attention.sh made.

PART: check (the grid against fp64), check-mma (the same by the kernels of other architectures), check-quantized (attention of 8-bit
numbers), bench or bench:SHAPE,SHAPE (beside torch's back ends), bench-mma (the kernels of other architectures beside the back ends that those have),
bench-mma-small (the same with tiles for 100 KB of shared memory a multiprocessor, and as much of it), sass (the instructions of the fast path, no local memory), sanitizer (memcheck and racecheck
over some cases); check, bench and sass unless named. Writes OUT/PART.json and, of check and bench, OUT/attention.json,
which is what is kept in tests/bench/results/."""
import concurrent.futures
import json
import math
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ditc_gpu import attention_run, environment, supervise  # noqa: E402

MODULE = "ditc_gpu.attention_run"
FAST_PATH = ("HGMMA", "UTMALDG", "USETMAXREG")
QUANTIZED_PATH = ("IGMMA", "QGMMA", "UTMALDG", "USETMAXREG")


def run_cases(bundle, part):
    return supervise.run(MODULE, bundle, part, len(attention_run.cases(part)), timeout=30, patience=5)


def sass(bundle):
    """By kernel: what of the fast path is missing, and instructions that use local memory."""
    folder = os.path.join(bundle, "models")
    with open(os.path.join(folder, "kernels.json")) as file:
        kernels = [kernel for kernel in json.load(file)["kernels"] if re.match("attention_[0-9a-f]+$", kernel["name"])]

    def look(kernel):
        text = subprocess.run(["cuobjdump", "-sass", os.path.join(folder, kernel["image"])], capture_output=True, text=True, check=True).stdout
        path = QUANTIZED_PATH if "IGMMA" in text else FAST_PATH
        missing = [name for name in path if name not in text and not (name == "USETMAXREG" and kernel["threads"] <= 256)]
        local = len(re.findall(r"\b(?:LDL|STL)\b", text))
        return {"kernel": kernel["name"], "missing": missing, "local": local, "products": len(re.findall(r"\b[HIQ]GMMA\b", text))}

    with concurrent.futures.ThreadPoolExecutor() as pool:
        return list(pool.map(look, kernels))


def sanitizer(bundle):
    """compute-sanitizer over a spread of cases of both grids; the last line of each tool says what it found."""
    results = []
    for tool in ("memcheck", "racecheck"):
        for part in ("check", "check-mma", "check-quantized"):
            command = ["compute-sanitizer", "--tool", tool, "--print-limit", "5", "--kernel-regex", "kns=attention", sys.executable, "-m", MODULE, bundle,
                       f"{part}:spread", "0"]
            run = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=os.path.dirname(os.path.abspath(__file__)), check=False)
            cases = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
            last = next((line for line in reversed((run.stdout + run.stderr).splitlines()) if "SUMMARY" in line), "no summary")
            results.append({"tool": tool, "part": part, "cases": sum("relative" in c for c in cases), "wrong": sum("wrong" in c for c in cases), "summary": last.strip("= ")})
    return results


def geometric_mean(values):
    return round(math.exp(sum(map(math.log, values)) / len(values)), 3)


def merged(bundle, parts):
    bench = [r for r in parts.get("bench", []) if "us" in r]
    checks = {part: [r for r in parts[part] if "relative" in r] for part in ("check", "check-mma", "check-quantized") if part in parts}
    out = {"what": "attention as the compiler emits it beside torch SDPA's back ends in the same run: bf16, random data, CUDA graphs of several launches over rotating "
                   "buffers, medians of turns; flop = 4*B*H*Nq*Nk*D; boolean masks: packing included; torch reads token-major tensors",
           **environment.environment(bundle)}
    if bench:
        plain = [r["ratio"] for r in bench if "mask='none'" in r["problem"] and "causal=True" not in r["problem"] and "window=()" in r["problem"] and r["ratio"]]
        out["geometric_mean"] = {"no mask": geometric_mean(plain), "all": geometric_mean([r["ratio"] for r in bench if r["ratio"]])}
        out["rows"] = bench
    for part in ("bench-mma", "bench-mma-small"):
        if rows := [r for r in parts.get(part, []) if "us" in r]:
            out[part] = {"geometric_mean": geometric_mean([r["ratio"] for r in rows if r["ratio"]]), "rows": rows}
    out["correctness"] = {part: {"cases": len(rs), "right": sum("wrong" not in r for r in rs), "worst_relative_l2": max(r["relative"] for r in rs)}
                          for part, rs in checks.items() if rs}
    for part in ("sass", "sanitizer"):
        if part in parts:
            out[part] = parts[part]
    return out


def text_of(part, results):
    if part == "sass":
        bad = [r for r in results if r["missing"] or r["local"]]
        return "\n".join([f"{r['kernel']}: without {r['missing']}, {r['local']} of local memory" for r in bad] + [f"SASS: {len(results) - len(bad)} of {len(results)} right"])
    if part == "sanitizer":
        return "\n".join(f"{r['tool']} {r['part']}: {r['cases']} cases, {r['wrong']} wrong; {r['summary']}" for r in results)
    return attention_run.table(results)


def main():
    bundle, out, *wanted = sys.argv[1:]
    bundle = os.path.abspath(bundle)
    os.makedirs(out, exist_ok=True)
    parts = {}
    for part in wanted or ["check", "bench", "sass"]:
        results = sass(bundle) if part == "sass" else sanitizer(bundle) if part == "sanitizer" else run_cases(bundle, part)
        name = part.split(":")[0]
        parts[name] = results
        with open(os.path.join(out, name + ".json"), "w") as file:
            json.dump(results, file, indent=1)
        print(text_of(name, results), flush=True)
    with open(os.path.join(out, "attention.json"), "w") as file:
        json.dump(merged(bundle, parts), file, indent=1)


if __name__ == "__main__":
    main()
