#!/usr/bin/env python3
"""Digests of what the compiler emits for the models of tests/models: plans, and the kernels by their names, which
hash their content. A refactor keeps them; a change of a pass changes them, and --update shows which models it
touched in the diff of digests.json.
"""
import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def digest(ditc, model, scratch):
    package = pathlib.Path(scratch) / "model.dita"
    command = [ditc, "compile", str(model), "-o", str(package), "--no-cache", "-q"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        return f"does not compile: {run.stderr.strip()}"
    with zipfile.ZipFile(package) as members:
        plans = sorted(name for name in members.namelist() if name.endswith("plan.json"))
        text = b"".join(members.read(name) for name in plans)
        return {"kernels": sum(len(json.loads(members.read(name))["kernels"]) for name in plans), "sha256": hashlib.sha256(text).hexdigest()[:32]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ditc", required=True)
    parser.add_argument("--update", action="store_true", help="write digests.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        models = sorted((HERE.parent / "models").glob("*/model*.pt2"))
        found = {f"{model.parent.name}/{model.stem}": digest(arguments.ditc, model, scratch) for model in models}
    path = HERE / "digests.json"
    if arguments.update:
        path.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    expected = json.loads(path.read_text())
    changed = [name for name in sorted(expected | found) if expected.get(name) != found.get(name)]
    for name in changed:
        print(f"{name}: {expected.get(name)} became {found.get(name)}")
    print(f"{len(found)} models, {len(changed)} changed" + ("; if that was the purpose, run with --update" if changed else ""))
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
