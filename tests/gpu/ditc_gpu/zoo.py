# SPDX-License-Identifier: Apache-2.0
"""The zoo of a bundle: parts (folders with packages/ and zoo/), their packages and golden tensors.

    python3 -m ditc_gpu.zoo conformance BUNDLE     packages against golden outputs, with CUDA graphs and without
    python3 -m ditc_gpu.zoo sanitizer BUNDLE       compute-sanitizer over some of them

The last line that is printed is a JSON object. Needs neither torch nor the Python package."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
# With graphs a bucket runs launch by launch, records, and replays: the third result is compared.
WAYS = {"graphs": ["--device", "cuda", "--repeat", "3"], "launches": ["--device", "cuda", "--no-graphs"]}
# One of each way to normalise, embed positions, attend and mask; small enough for tools that slow kernels down.
SANITIZED = ("dit", "dit_bf16", "flux_bf16", "sd3_bf16", "pixart_bf16", "wan_bf16", "sana_bf16", "hunyuan_video_bf16", "qwenimage",
             "lumina2_fullmask_bf16")
# Without the driver's own errors: the runtime asks for one kernel parameter too many, to hear that there is no more.
TOOLS = {"memcheck": (["--report-api-errors", "no"], r"ERROR SUMMARY: (\d+) error"), "racecheck": ([], r"RACECHECK SUMMARY: (\d+) hazard")}


def parts(bundle):
    return sorted(path.parent for path in pathlib.Path(bundle).glob("*/zoo"))


def find(bundle, name):
    """(package, folder of golden tensors) of a package such as flux-model_dyn; None when no part has it."""
    for part in parts(bundle):
        package = part / "packages" / f"{name}.dita"
        if package.exists():
            return package, part / "zoo" / name.rsplit("-", 1)[0]
    return None


def conformance(bundle):
    rows, result = {}, {"failures": []}
    for way, options in WAYS.items():
        for part in parts(bundle):
            command = [sys.executable, ROOT / "tests/models/check_models.py", "--runner", bundle / "bin/ditc-run", part / "zoo", "--packages",
                       part / "packages", f"--run={' '.join(options)}"]
            output = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False).stdout
            for name, share in re.findall(r"^ok (\S+):.* worst at (\S+) of its limit", output, re.MULTILINE):
                rows.setdefault(name, {})[way] = float(share)
            result["failures"] += [f"{way} {line}" for line in output.splitlines() if line.startswith("FAILED")]
    result["share_of_limit"] = rows
    if not rows:
        result["failures"].append("nothing ran")
    result["right"] = min((sum(way in row for row in rows.values()) for way in WAYS), default=0)
    for name, row in sorted(rows.items()):
        print(f"{name:44}" + "".join(f" {way} {row.get(way, float('nan')):6.3f}" for way in WAYS))
    print("\n".join(result["failures"][:20]))
    print(f"conformance: {len(rows)} runs, {result['right']} right with graphs and without, {len(result['failures'])} failures")
    return result


def sanitize(bundle, package, inputs):
    """What each tool has to say of one run: a count, or why there is none."""
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    row = {}
    for tool, (options, pattern) in TOOLS.items():
        command = [program, "--tool", tool, *options, "--print-limit", "5", bundle / "bin/ditc-run", "run", package, "--device", "cuda", "--no-graphs",
                   "--inputs", inputs]
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False)
            output = done.stdout + done.stderr
            count = re.search(pattern, output)
            row[tool] = int(count[1]) if count else "no summary: " + output.strip()[-200:]
        except subprocess.TimeoutExpired:
            row[tool] = "timeout"
    return row


def sanitizer(bundle):
    rows, failures = {}, []
    for name in SANITIZED:
        found = find(bundle, f"{name}-model")
        if found:
            package, folder = found
            rows[name] = sanitize(bundle, package, folder / "inputs.safetensors")
            print(f"{name:32} {rows[name]}", flush=True)
            failures += [f"{name} {tool}: {count}" for tool, count in rows[name].items() if count != 0]
    print(f"sanitizer: {len(rows)} packages, {len(failures)} with reports")
    return {"reports": rows, "failures": failures}


if __name__ == "__main__":
    outcome = {"conformance": conformance, "sanitizer": sanitizer}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve())
    print(json.dumps(outcome))
