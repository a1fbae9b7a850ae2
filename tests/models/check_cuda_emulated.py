#!/usr/bin/env python3
"""Compiles exported models for a CUDA target and runs them without a GPU, on the libraries of tests/cuda_emulator.

usage: check_cuda_emulated.py --ditc build/bin/ditc --run build/bin/ditc-run --libraries build/lib FOLDER [NAME...]
       ... --folder-from ENVIRONMENT_VARIABLE [NAME...]     (exit 77 when it is unset)

Folders and limits are those of check_models.py. Every model runs with its threads in order, three times so that the
last is the replay of a CUDA graph; and once with its threads in reverse order and without graphs, which shows a missing
barrier.
"""
import argparse
import os
import pathlib
import sys
import tempfile
import time

import check_models


class EmulatedChecker(check_models.Checker):
    def check_package(self, what, package, folder, suffixes):
        for name, reverse, options in ((what, "", ["--repeat", "3"]), (f"reversed {what}", "1", ["--no-graphs"])):
            os.environ["FAKE_CUDA_REVERSE"] = reverse
            self.run_options = ["--device", "cuda", *options]
            start = time.monotonic()
            super().check_package(name, package, folder, suffixes)
            print(f"   {time.monotonic() - start:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ditc", required=True, type=pathlib.Path)
    parser.add_argument("--run", required=True, type=pathlib.Path, help="ditc-run")
    parser.add_argument("--libraries", required=True, type=pathlib.Path, help="folder of libfake_*.so")
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--options", default="", help="further options of ditc compile")
    parser.add_argument("--folder-from", help="environment variable that names the folder")
    parser.add_argument("names", nargs="*", help="the folder, unless --folder-from is given; then models (default: all)")
    arguments = parser.parse_args()
    if arguments.folder_from:
        folder = check_models.folder_named_by(arguments.folder_from)
        if not folder:
            return 77
    elif arguments.names:
        folder = arguments.names.pop(0)
    else:
        parser.error("no folder")
    for variable, library in {"NVRTC": "nvrtc", "CUDA_DRIVER": "cuda", "CUBLASLT": "cublasLt"}.items():
        os.environ[f"DITC_{variable}"] = str(arguments.libraries.resolve() / f"libfake_{library}.so")
    checker = EmulatedChecker(arguments.ditc, arguments.run, ["--target", arguments.target, *arguments.options.split()], [])
    with tempfile.TemporaryDirectory() as scratch:
        for model in sorted(p.parent for p in pathlib.Path(folder).glob("*/model.pt2")):
            if not arguments.names or model.name in arguments.names:
                try:
                    checker.check_model(model, pathlib.Path(scratch))
                except (RuntimeError, ValueError, KeyError) as error:
                    checker.fail(model.name, repr(error))
    print(f"{checker.count} runs, {len(checker.failures)} failures")
    return 1 if checker.failures or not checker.count else 0


if __name__ == "__main__":
    sys.exit(main())
