#!/usr/bin/env python3
"""Inspects full-size exports without weights and compiles them up to the contract `specialised`.

DITC_ZOO_FULL_DIR holds *.pt2.gz; without it the test is skipped (exit 77). Prints seconds and peak memory of
each compilation for people; limits belong to benchmarks, so they are not tested.
"""
import argparse
import gzip
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time


def run(*command):
    start = time.monotonic()
    result = subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return result.returncode, result.stderr, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ditc", required=True)
    parser.add_argument("--stop-after", default="specialised")
    arguments = parser.parse_args()
    folder = os.environ.get("DITC_ZOO_FULL_DIR", "")
    archives = sorted(pathlib.Path(folder).glob("*.pt2.gz")) if folder else []
    if not archives:
        print("skipped: DITC_ZOO_FULL_DIR names no folder of *.pt2.gz")
        return 77
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for archive in archives:
            model = pathlib.Path(scratch) / archive.name.removesuffix(".gz")
            with gzip.open(archive) as packed, open(model, "wb") as plain:
                shutil.copyfileobj(packed, plain)
            for command in (["inspect", model], ["compile", model, "--stop-after", arguments.stop_after, "--no-cache"]):
                code, errors, seconds = run(arguments.ditc, *command)
                failures += code != 0
                print(f"{'FAILED' if code else 'ok'} {command[0]} {archive.name}: {seconds:.2f} s {errors.strip() if code else ''}")
            model.unlink()
    print(f"largest process: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")
    print(f"{len(archives)} models, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
