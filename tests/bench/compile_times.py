#!/usr/bin/env python3
"""Seconds and peak memory of `ditc compile` on a folder of models: cold, and again from the cache.

usage: compile_times.py --ditc build/bin/ditc FOLDER     FOLDER holds NAME/model.pt2
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time


def timed(ditc, model, package, environment):
    start = time.monotonic()
    subprocess.run([ditc, "compile", str(model), "-o", str(package), "-q"], check=True, env=environment)
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ditc", required=True)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    cold, warm = [], []
    with tempfile.TemporaryDirectory() as scratch:
        environment = os.environ | {"DITC_CACHE_DIR": scratch + "/cache"}
        for model in sorted(arguments.folder.glob("*/model.pt2")):
            package = pathlib.Path(scratch) / "model.dita"
            cold.append(timed(arguments.ditc, model, package, environment))
            warm.append(timed(arguments.ditc, model, package, environment))
            print(f"{model.parent.name:24} {cold[-1]:6.2f} s   again {warm[-1]:6.3f} s")
    print(f"median {statistics.median(cold):.2f} s, from the cache {statistics.median(warm):.3f} s (largest {max(warm):.3f} s); "
          f"largest process {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
