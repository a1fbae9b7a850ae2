#!/usr/bin/env python3
"""Exports the tiny variant of every recipe of tools/export_diffusers.py and checks it as check_models.py does.

usage: check_recipes.py --ditc build/bin/ditc [NAME...]

$DITC_EXPORT_PYTHON is a Python that has tools/requirements-export.txt; without it the test is skipped (exit 77). Some
seconds a recipe. Programs of which a size is read out of an input are compiled with that input pinned.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPORTER = ROOT / "tools/export_diffusers.py"
PINNED = {"mochi-1": "encoder_attention_mask"}


def recipes(python):
    """Names of all recipes; the first line of the list is its heading."""
    listed = subprocess.run([python, EXPORTER, "--list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in listed.stdout.splitlines()[1:] if line.strip()]


def check(python, ditc, name, scratch):
    """What is wrong with a recipe, or None."""
    exported = subprocess.run([python, EXPORTER, "--recipe", name, "--tiny", "-o", scratch / name], capture_output=True, text=True, check=False)
    if exported.returncode:
        return "its export fails: " + (exported.stderr or exported.stdout).strip()[-400:]
    pin = f"--pin {PINNED[name]}={scratch / name / 'inputs.safetensors'}" if name in PINNED else ""
    checker = pathlib.Path(__file__).with_name("check_models.py")
    checked = subprocess.run([sys.executable, checker, "--ditc", ditc, f"--options={pin}", scratch, name], capture_output=True, text=True, check=False)
    print(checked.stdout.splitlines()[0] if checked.stdout else checked.stderr, flush=True)
    return None if checked.returncode == 0 else "its program is wrong"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ditc", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    python = os.environ.get("DITC_EXPORT_PYTHON")
    if not python:
        print("skipped: DITC_EXPORT_PYTHON names no Python with torch and diffusers")
        return 77
    failures = 0
    names = arguments.names or recipes(python)
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            wrong = check(python, arguments.ditc, name, pathlib.Path(scratch))
        if wrong:
            failures += 1
            print(f"FAILED {name}: {wrong}", flush=True)
    print(f"{len(names)} recipes, {failures} failures")
    return 1 if failures or not names else 0


if __name__ == "__main__":
    sys.exit(main())
