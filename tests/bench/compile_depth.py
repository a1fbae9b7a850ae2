#!/usr/bin/env python3
"""How the work of `ditc compile` grows with a model's depth: least processor seconds of several runs, by part.

usage: compile_depth.py --ditc build/bin/ditc MODEL.pt2...       exports of one model with different numbers of layers

Exports without weights will do, as tools/export_diffusers.py --graph-only writes them:
  echo '{"num_layers": 2, "num_single_layers": 2}' > layers.json
  export_diffusers.py --recipe flux.1-dev@1024 --graph-only --config layers.json -o flux-4

A part is the difference between a compilation that stops behind it and one that stops in front of it. Processor
seconds of all threads: what else runs on the machine hardly matters.
"""
import argparse
import pathlib
import resource
import subprocess
import tempfile

PARTS = {"import": ["--stop-after", "imported"], "specialise": ["--stop-after", "specialised"], "fuse": ["--stop-after", "fused"],
         "plan": ["--stop-after", "planned"], "emit": []}


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compile_seconds(ditc, model, options, runs):
    least = float("inf")
    with tempfile.TemporaryDirectory() as scratch:
        command = [ditc, "compile", model, "--weights-in", "none", "--no-cache", "-q", "-o", str(pathlib.Path(scratch) / "model.dita"), *options]
        for _ in range(runs):
            start = cpu_seconds()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            least = min(least, cpu_seconds() - start)
    return least


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ditc", required=True)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--target", default="host", help="of ditc compile")
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    print("".join(f"{name:>12}" for name in [*PARTS, "total"]) + "  model")
    for model in arguments.models:
        ends = [compile_seconds(arguments.ditc, model, [*options, "--target", arguments.target], arguments.runs) for options in PARTS.values()]
        parts = [end - start for start, end in zip([0, *ends], ends)]
        print("".join(f"{seconds:12.3f}" for seconds in [*parts, ends[-1]]) + f"  {model}", flush=True)


if __name__ == "__main__":
    main()
