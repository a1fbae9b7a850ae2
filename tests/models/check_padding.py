#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Symbolic exports run with fewer rows than their bucket has: every symbol that the compiler pads is made larger than the
inputs, alone and together with the others, and the results are held against PyTorch's numbers for the inputs' own sizes.

usage: check_padding.py --ditc build/bin/ditc FOLDER [--need COUNT] [--options "--target sm_80"] [--run "--device cuda"]
       check_padding.py --ditc build/bin/ditc --folder-from ENVIRONMENT_VARIABLE   (exit 77 when it is unset)

FOLDER is as for check_models.py. COUNT padded runs must have happened: a compiler that refuses everything is not right.
"""
import argparse
import itertools
import json
import pathlib
import re
import sys
import tempfile
import zipfile

from check_models import Checker, bucket_specs, folder_named_by, run


def manifest_of(package):
    with zipfile.ZipFile(package) as members:
        return json.loads(members.read("manifest.json"))


def enlarged(spec, rules, by):
    """The bucket with the dimensions of the rules larger by so many rows."""
    for rule in rules:
        for use in rule["inputs"]:
            spec = re.sub(rf"(\b{re.escape(use['name'])}\.{use['dim']}=)(\d+)", lambda found: found[1] + str(int(found[2]) + by), spec)
    return spec


def compile_larger(checker, model, spec, rules, package):
    """The first enlargement that the export's ranges allow; None when there is none."""
    for by in (5, 3, 2, 1):
        larger = enlarged(spec, rules, by)
        code, _, _ = run(checker.ditc, "compile", model, "--bucket", larger, "-o", package, "-q", *checker.options)
        if code == 0 and larger != spec:
            return larger
    return None


def check_model(checker, folder, scratch):
    model = next(path for path in (folder / "model_dyn.pt2", folder / "model.pt2") if path.exists())
    suffixes = sorted(path.stem[len("inputs_"):] for path in folder.glob("inputs_*.safetensors"))
    if "dyn1" not in suffixes:
        suffixes.insert(0, "")
    for suffix in suffixes:
        inputs = folder / (f"inputs_{suffix}.safetensors" if suffix else "inputs.safetensors")
        specs = bucket_specs(checker.ditc, model, {suffix: inputs})
        if not specs:
            return
        package = scratch / "exact.dita"
        code, out, err = run(checker.ditc, "compile", model, *specs, "-o", package, "-q", *checker.options)
        if code:
            checker.fail(f"{folder.name}_{suffix}", err or out)
            continue
        rules = manifest_of(package).get("padding", [])
        for chosen in itertools.chain([[rule] for rule in rules], [rules] if len(rules) > 1 else []):
            larger = compile_larger(checker, model, specs[1], chosen, scratch / "larger.dita")
            if larger:
                what = f"{folder.name} {'+'.join(rule['symbol'] for rule in chosen)} in {larger}"
                check_run(checker, what, scratch / "larger.dita", folder, suffix)


def check_run(checker, what, package, folder, suffix):
    tail = f"_{suffix}" if suffix else ""
    code, out, err = run(checker.ditc, "run", package, "--pad", *checker.run_options, "--inputs", folder / f"inputs{tail}.safetensors",
                         "--check", folder / f"outputs{tail}.safetensors", "--tolerance", "1e30", "--poison", "--repeat", "2", "--json")
    checker.count += 1
    if not out.startswith("{"):
        checker.fail(what, err or out)
    else:
        checker.judge(what, json.loads(out), folder, suffix)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ditc", type=pathlib.Path, required=True)
    parser.add_argument("--need", type=int, default=1)
    parser.add_argument("--options", default="")
    parser.add_argument("--run", default="")
    parser.add_argument("--folder-from")
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.folder_from:
        arguments.folder = folder_named_by(arguments.folder_from)
        if not arguments.folder:
            return 77
    checker = Checker(arguments.ditc, arguments.ditc, arguments.options.split(), arguments.run.split())
    with tempfile.TemporaryDirectory() as scratch:
        for folder in sorted(path.parent for path in arguments.folder.glob("*/model.pt2")):
            if list(folder.glob("inputs_*.safetensors")):
                check_model(checker, folder, pathlib.Path(scratch))
    print(f"{checker.count} padded runs, {len(checker.failures)} failures")
    return 1 if checker.failures or checker.count < arguments.need else 0


if __name__ == "__main__":
    sys.exit(main())
