#!/usr/bin/env python3
"""Compiles exported models for the host target, runs them, and compares with PyTorch's numbers.

usage: check_models.py --ditc build/bin/ditc FOLDER [NAME...]
       check_models.py --ditc build/bin/ditc --folder-from ENVIRONMENT_VARIABLE   (exit 77 when it is unset)
       check_models.py --ditc build/bin/ditc FOLDER --options "--target sm_90a" --packages OUT   (compiles into OUT only)
       check_models.py --runner ditc-run FOLDER --packages OUT --run "--device cuda"             (runs what lies there)

FOLDER holds one folder per model: model.pt2 with inputs.safetensors and outputs.safetensors; optionally
model_core.pt2 (the same after decomposition), outputs_bf16.safetensors (eager in bf16, for a bf16 model),
and for symbolic exports inputs_SUFFIX/outputs_SUFFIX pairs of other sizes, which model_dyn.pt2, else
model.pt2, is compiled for as buckets of one package.

fp32 models: relative L2 error of every output at most 1e-4 (exact for integers and booleans). bf16 models:
at most 1.25 times the error of eager bf16. Models of single ops whose golden outputs were computed in half
types: one unit in the last place of the type; for their fp32 outputs too when ditc may skip roundings.
"""
import argparse
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
from array import array

FP32_TOLERANCE = 1e-4
BF16_FACTOR = 1.25
ULP = {"bf16": 2.0 ** -7, "f16": 2.0 ** -10}


def read_header(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return header, 8 + size


def read_floats(path):
    """Every f32 or bf16 tensor of a safetensors file as a list of floats."""
    header, start = read_header(path)
    data = path.read_bytes()
    tensors = {}
    for name, info in header.items():
        first, last = info["data_offsets"]
        raw = data[start + first:start + last]
        if info["dtype"] == "F32":
            tensors[name] = array("f", raw)
        elif info["dtype"] == "BF16":
            tensors[name] = array("f", struct.pack(f"<{len(raw) // 2}I", *(h << 16 for h in array("H", raw))))
    return tensors


def relative_l2(values, reference):
    error = math.fsum((a - b) ** 2 for a, b in zip(values, reference))
    return math.sqrt(error / max(math.fsum(b * b for b in reference), 1e-300))


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return result.returncode, result.stdout, result.stderr


def bucket_specs(ditc, model, inputs):
    """One --bucket per inputs file, which binds every symbolic dimension by input and position."""
    code, out, err = run(ditc, "inspect", model, "--json")
    if code and not out.startswith("{"):  # what is not supported as it is may be with a pinned input
        raise RuntimeError(err)
    inspection = json.loads(out)
    specs = []
    for suffix, path in inputs.items():
        header, _ = read_header(path)
        binds = []
        for port in inspection["inputs"]:
            shape = next((header[key]["shape"] for key in (port["name"], port["name"].replace(".", "_")) if key in header), None)
            binds += [f"{port['name']}.{i}={shape[i]}" for i, size in enumerate(port.get("shape", [])) if shape and not size.isdigit()]
        if binds:
            specs += ["--bucket", f"{suffix or 'default'}:" + ",".join(binds)]
    return specs


class Checker:
    def __init__(self, ditc, runner, options, run_options):
        self.ditc, self.runner, self.options, self.run_options = ditc, runner, options, run_options
        self.failures, self.count = [], 0

    def fail(self, what, text):
        self.failures.append(what)
        print(f"FAILED {what}: {text.strip()}")

    def check_package(self, what, package, folder, suffixes):
        for suffix in suffixes:
            tail = f"_{suffix}" if suffix else ""
            code, out, err = run(self.runner, "run", package, *self.run_options, "--inputs", folder / f"inputs{tail}.safetensors",
                                 "--check", folder / f"outputs{tail}.safetensors", "--tolerance", "1e30", "--poison", "--json")
            self.count += 1
            if not out.startswith("{"):  # a failed comparison still prints its figures, which are judged here
                self.fail(f"{what}{tail}", err or out)
                continue
            self.judge(f"{what}{tail}", json.loads(out), folder, suffix)

    def judge(self, what, result, folder, suffix):
        eager = folder / "outputs_bf16.safetensors"
        is_bf16 = any(port["dtype"] == "bf16" for port in result["outputs"]) and eager.exists() and not suffix
        if is_bf16:
            reference, own = read_floats(folder / "outputs.safetensors"), read_floats(eager)
            limits = [BF16_FACTOR * relative_l2(own[name], reference[name]) for name in reference]
        dtypes = [port["dtype"] for port in result["outputs"]]
        mixed = "--numerics=eager" not in self.options and any(dtype in ULP for dtype in dtypes)
        notes = folder / "notes.json"
        if notes.exists() and "autocast" in notes.read_text():  # products in half types between fp32 tensors
            mixed = True
        worst = 0.0
        for i, output in enumerate(result["check"].get("outputs", [])):
            dtype = next(port["dtype"] for port in result["outputs"] if port["name"] == output["name"])
            limit = limits[i] if is_bf16 else ULP.get(dtype, ULP["bf16"] if mixed and dtype == "f32" else FP32_TOLERANCE)
            error = output["relative_l2"]
            matched = output["non_finite"] == output["non_finite_reference"]
            if not matched or not error <= limit:
                self.fail(what, f"output '{output['name']}': relative L2 {error} is above {limit:.3e}, or NaN differs: {output}")
            worst = max(worst, error / limit if limit else 0)
        print(f"ok {what}: {len(result['check'].get('outputs', []))} outputs, worst at {worst:.3f} of its limit")

    def check_model(self, folder, scratch):
        suffixes = sorted(p.stem[len("inputs_"):] for p in folder.glob("inputs_*.safetensors"))
        dynamic = folder / "model_dyn.pt2"
        jobs = [(folder / "model.pt2", [""] if dynamic.exists() else ["", *suffixes])]
        if (folder / "model_core.pt2").exists():
            jobs.append((folder / "model_core.pt2", ["", *suffixes]))
        if dynamic.exists():
            # inputs_dyn1, where it is there, stands for the first size of the symbolic export
            jobs.append((dynamic, suffixes if "dyn1" in suffixes else ["", *suffixes]))
        for model, sizes in jobs:
            what = f"{folder.name}/{model.stem}"
            package = scratch / f"{folder.name}-{model.stem}.dita"
            if not self.ditc:
                if package.exists():
                    self.check_package(what, package, folder, sizes)
                continue
            inputs = {suffix: folder / (f"inputs_{suffix}.safetensors" if suffix else "inputs.safetensors") for suffix in sizes}
            specs = bucket_specs(self.ditc, model, inputs)
            code, out, err = run(self.ditc, "compile", model, *specs, "-o", package, "-q", *self.options)
            if code:
                self.fail(what, err or out)
            elif self.runner:
                self.check_package(what, package, folder, sizes if specs or len(sizes) == 1 else [""])
            else:
                self.count += 1


def folder_named_by(variable):
    """The folder that the environment variable names; None, and a word about it, when there is none."""
    folder = os.environ.get(variable, "")
    if folder and pathlib.Path(folder).is_dir():
        return pathlib.Path(folder)
    print(f"skipped: {variable} names no folder")
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ditc", type=pathlib.Path, help="compiles, and runs unless --packages is given")
    parser.add_argument("--runner", type=pathlib.Path, help="ditc-run, for packages that were compiled before")
    parser.add_argument("--packages", type=pathlib.Path, help="folder of packages: filled by --ditc, read by --runner")
    parser.add_argument("--options", default="", help="further options of ditc compile")
    parser.add_argument("--run", default="", help="further options of ditc run")
    parser.add_argument("--folder-from", help="environment variable that names the folder")
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.folder_from:
        arguments.folder = folder_named_by(arguments.folder_from)
        if not arguments.folder:
            return 77
    if arguments.packages and arguments.ditc:
        arguments.packages.mkdir(parents=True, exist_ok=True)
    runner = arguments.runner or (None if arguments.packages else arguments.ditc)
    checker = Checker(arguments.ditc, runner, arguments.options.split(), arguments.run.split())
    with tempfile.TemporaryDirectory() as scratch:
        for folder in sorted(p.parent for p in arguments.folder.glob("*/model.pt2")):
            if not arguments.names or folder.name in arguments.names:
                try:
                    checker.check_model(folder, arguments.packages or pathlib.Path(scratch))
                except (RuntimeError, ValueError, KeyError) as error:
                    checker.fail(folder.name, repr(error))
    print(f"{checker.count} runs, {len(checker.failures)} failures")
    return 1 if checker.failures or not checker.count else 0


if __name__ == "__main__":
    sys.exit(main())
