# SPDX-License-Identifier: Apache-2.0
"""Packages of bf16 models that were compiled with --quantize fp8 for the host and a GPU.

    python3 -m ditc_gpu.quantized BUNDLE

Both devices multiply the same e4m3 numbers but for roundings on the way, so the GPU's results may be no further from the golden
ones (PyTorch, fp32) than the host's, times 1.25; every run's scratch and outputs are poisoned before. compute-sanitizer looks at
each once. The last line that is printed is a JSON object. Needs neither torch nor the Python package."""
import json
import pathlib
import subprocess
import sys

from .zoo import sanitize

LIMIT = 1.25


def error(bundle, folder, device, *options):
    """Worst relative L2 over the outputs, against the golden ones."""
    command = [bundle / "bin/ditc-run", "run", folder / "model.dita", "--device", device, "--inputs", folder / "inputs.safetensors",
               "--check", folder / "outputs.safetensors", "--tolerance", "1", "--poison", "--json", *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    return max(output["relative_l2"] for output in json.loads(done.stdout)["check"]["outputs"])


def measure(bundle, folder):
    graphs, launches = error(bundle, folder, "cuda", "--repeat", "3"), error(bundle, folder, "cuda", "--no-graphs")
    return {"host": error(bundle, folder, "host"), "graphs": graphs, "launches": launches,
            **sanitize(bundle, folder / "model.dita", folder / "inputs.safetensors")}


def faults(row):
    wrong = [f"{way}'s error is {row[way]:.2e}, the host's {row['host']:.2e}" for way in ("graphs", "launches") if not row[way] <= LIMIT * row["host"]]
    return wrong + [f"{tool}: {row[tool]}" for tool in ("memcheck", "racecheck") if row[tool] != 0]


def main():
    bundle = pathlib.Path(sys.argv[1]).resolve()
    rows, failures = {}, []
    for folder in sorted(path.parent for path in bundle.glob("quantized/*/model.dita")):
        try:
            rows[folder.name] = measure(bundle, folder)
            failures += [f"{folder.name}: {fault}" for fault in faults(rows[folder.name])]
            print(f"{folder.name:28} " + "  ".join(f"{key} {value:.3e}" if isinstance(value, float) else f"{key} {value}" for key, value in rows[folder.name].items()), flush=True)
        except (RuntimeError, subprocess.TimeoutExpired) as problem:
            failures.append(f"{folder.name}: {problem}")
    print("\n".join(failures[:20]) + f"\nquantized: {len(rows)} models, {len(failures)} failures")
    print(json.dumps({"models": rows, "failures": failures or ([] if rows else ["nothing ran"])}))


if __name__ == "__main__":
    main()
