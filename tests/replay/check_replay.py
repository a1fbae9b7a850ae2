#!/usr/bin/env python3
"""Digests of what the compiler emits for the models of tests/models: plans, and the kernels by their names, which
hash their content; for some models also the CUDA sources and launch shapes of two architectures (compiled by a stub of
NVRTC, --nvrtc). A refactor keeps them; a change of a pass changes them, and --update shows which models it touched in
the diff of digests.json.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
CUDA_MODELS = ("dit/model", "flux_bf16/model", "heads_of_72/model", "pixart/model", "rotary/model")
ARCHITECTURES = ("sm_80", "sm_90a")


def compile_model(ditc, model, package, options=(), environment=None):
    """The compiler's message when it fails."""
    command = [ditc, "compile", str(model), "-o", str(package), "--no-cache", "-q", *options]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    return f"does not compile: {run.stderr.strip()}" if run.returncode else None


def cuda_digest(ditc, model, architecture, nvrtc, scratch):
    """Sources of all kernels, how they are launched, and the plans."""
    package = pathlib.Path(scratch) / "cuda.dita"
    failure = compile_model(ditc, model, package, ["--target", architecture, "--weights-in", "none"], {"DITC_NVRTC": nvrtc})
    if failure:
        return failure
    with zipfile.ZipFile(package) as members:
        names = sorted(name for name in members.namelist() if name.endswith((".cu", "kernels.json", "plan.json")))
        text = b"".join(name.encode() + members.read(name) for name in names)
        return {"kernels": sum(name.endswith(".cu") for name in names), "sha256": hashlib.sha256(text).hexdigest()[:32]}


def digest(ditc, model, scratch):
    package = pathlib.Path(scratch) / "model.dita"
    if failure := compile_model(ditc, model, package):
        return failure
    with zipfile.ZipFile(package) as members:
        plans = sorted(name for name in members.namelist() if name.endswith("plan.json"))
        text = b"".join(members.read(name) for name in plans)
        return {"kernels": sum(len(json.loads(members.read(name))["kernels"]) for name in plans), "sha256": hashlib.sha256(text).hexdigest()[:32]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ditc", required=True)
    parser.add_argument("--nvrtc", help="libstub_nvrtc.so; without it CUDA sources are not compared")
    parser.add_argument("--update", action="store_true", help="write digests.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        models = sorted((HERE.parent / "models").glob("*/model*.pt2"))
        found = {f"{model.parent.name}/{model.stem}": digest(arguments.ditc, model, scratch) for model in models}
        for model in models if arguments.nvrtc else []:
            name = f"{model.parent.name}/{model.stem}"
            for architecture in ARCHITECTURES if name in CUDA_MODELS else []:
                found[f"{name} {architecture}"] = cuda_digest(arguments.ditc, model, architecture, arguments.nvrtc, scratch)
    path = HERE / "digests.json"
    if arguments.update:
        path.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    expected = json.loads(path.read_text())
    if not arguments.nvrtc:
        expected = {name: value for name, value in expected.items() if " " not in name}
    changed = [name for name in sorted(expected | found) if expected.get(name) != found.get(name)]
    for name in changed:
        print(f"{name}: {expected.get(name)} became {found.get(name)}")
    print(f"{len(found)} models, {len(changed)} changed" + ("; if that was the purpose, run with --update" if changed else ""))
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
