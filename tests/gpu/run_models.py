# SPDX-License-Identifier: Apache-2.0
"""run_models.py BUNDLE OUT [PART...]: whole packages and rowwise kernels on this machine's GPU.

Each part runs in processes of its own, prints a table and writes OUT/PART.json with the environment; a part whose piece
of the bundle is not there is passed over; `peers`, which takes long, runs only when it is named. Exit status 1 when one of them found something wrong."""
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
from ditc_gpu import supervise  # noqa: E402
from ditc_gpu.environment import environment  # noqa: E402


def module(name, *arguments, limit=400):
    """Runs a module of ditc_gpu, whose last line is its result; the lines before it are its table."""
    command = [sys.executable, "-u", "-m", f"ditc_gpu.{name}", *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=HERE, check=False)
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode(errors="replace")
        return {"failures": [f"no end after {limit} s"], "output": text[-2000:]}
    lines = done.stdout.strip().splitlines() or [""]
    if lines[-1].startswith("{"):
        print("\n".join(line for line in lines[:-1] if line), flush=True)
        return json.loads(lines[-1])
    print("\n".join(lines), done.stderr[-2000:], flush=True)
    return {"failures": [f"exit status {done.returncode}: {done.stderr.strip()[-500:]}"]}


def conformance(bundle, out):
    result = module("zoo", "conformance", bundle)
    eager = module("zoo_eager", bundle)
    return {**result, "beside_eager": eager.get("errors"), "failures": result["failures"] + eager["failures"]}


def full(bundle, out, options=""):
    names = sorted(path.name.removesuffix(".notes.json") for path in (bundle / "full").glob("*.notes.json"))
    chosen = os.environ.get("DITC_MODELS")
    names = [name for name in names if not chosen or name in chosen.split(",")]
    command = [sys.executable, "-u", "-m", "ditc_gpu.full_models", bundle / "full", out / "full_models.json", *names,
               *(os.environ.get("DITC_FULL_OPTIONS") or options).split()]
    subprocess.run([str(word) for word in command], cwd=HERE, check=False)
    written = out / "full_models.json"
    results = json.loads(written.read_text()) if written.exists() else []
    return {"models": results, "failures": [f"{r['model']}: {r['error']}" for r in results if "error" in r] if results else ["no results"]}


def rowwise(bundle, out):
    from ditc_gpu import rowwise as bench

    folder = str(bundle / "rowwise")
    results = supervise.run("ditc_gpu.rowwise", folder, "bench", len(bench.cases(folder)), timeout=90)
    print(bench.table(results), flush=True)
    failures = [f"{r.get('name', r['case'])}: {r.get('error') or r.get('errors')}" for r in results if "error" in r or r.get("ok") is False]
    return {"kernels": results, "failures": failures}


def python(bundle, out):
    command = [sys.executable, "-m", "unittest", "-v", "test_cuda"]
    variables = {**os.environ, "DITC_CUDA_PACKAGE": str(bundle / "python/dit.dita")}
    done = subprocess.run(command, cwd=ROOT / "tests/python", env=variables, capture_output=True, text=True, timeout=400, check=False)
    print(done.stderr[-3000:])
    count = re.search(r"Ran (\d+) tests", done.stderr)
    return {"tests": int(count[1]) if count else 0, "summary": done.stderr.strip().splitlines()[-1:],
            "failures": re.findall(r"^(?:FAIL|ERROR): .*", done.stderr, re.MULTILINE) + ([] if count else ["no tests ran"])}


# Part -> (function, a path of the bundle that it needs).
PARTS = {
    "conformance": (conformance, "*/zoo"),
    "quantized": (lambda bundle, out: module("quantized", bundle), "quantized/*/model.dita"),
    "python": (python, "python/dit.dita"),
    "threads": (lambda bundle, out: module("steps", "threads", bundle, limit=120), "*/packages/flux-model_dyn.dita"),
    "swap": (lambda bundle, out: module("steps", "swap", bundle, limit=120), "*/packages/flux-model.dita"),
    "latency": (lambda bundle, out: module("latency", bundle, limit=200), "full/dit_xl2_256.dita"),
    "rowwise": (rowwise, "rowwise/kernels.json"),
    "full": (full, "full/*.notes.json"),
    "peers": (lambda bundle, out: full(bundle, out, "--peers all --budget 400 --profile 30"), "full/*.notes.json"),
    "sanitizer": (lambda bundle, out: module("zoo", "sanitizer", bundle, limit=550), "*/zoo"),
}


def main():
    bundle, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    unknown = [name for name in sys.argv[3:] if name not in PARTS]
    if unknown:
        sys.exit(f"run_models.py: no part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    environment_ = environment(bundle)
    wrong = []
    for name in sys.argv[3:] or [name for name in PARTS if name != "peers"]:
        function, needs = PARTS[name]
        if not any(bundle.glob(needs)):
            print(f"== {name}: passed over, the bundle has no {needs}")
            continue
        print(f"== {name}", flush=True)
        result = function(bundle, out)
        (out / f"{name}.json").write_text(json.dumps({"environment": environment_, **result}, indent=1))
        wrong += [f"{name}: {failure}" for failure in result["failures"]]
    print("\n".join(["== wrong", *wrong]) if wrong else "== all right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
