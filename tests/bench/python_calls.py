#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Python package adds to a call of the C library, in microseconds of the host.

usage: PYTHONPATH=runtime/python DITC_RUNTIME=build/lib python3 tests/bench/python_calls.py PACKAGE [--device cuda:0]

PACKAGE is compiled from tests/models/dit with the bucket hidden_states.0=2, for the host or a GPU. The library's functions
that run are replaced by one that does nothing, so that neither kernels nor the library are measured: `fegetround` of
the C library, which returns 0 whatever it is given. `--whole` leaves them in place. Tensors come from every framework that
is installed; on a GPU from torch alone. The least of the medians of several rounds is printed: other processes only add.
"""
import argparse
import ctypes
import ctypes.util
import statistics
import time

import ditc
from ditc import abi

MODEL_INPUTS = {"hidden_states": "f32", "timestep": "i64", "class_labels": "i64"}


def microseconds(call, calls=1000, rounds=9):
    medians = []
    for _ in range(rounds):
        times = []
        for _ in range(calls):
            start = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - start)
        medians.append(statistics.median(times) / 1e3)
    return min(medians)


def without_runs(model):
    """Replaces what runs by a function that returns at once."""
    library, nothing = model._package.library, ctypes.CDLL(ctypes.util.find_library("m"))
    for name in ("run", "run_on"):
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *abi.FUNCTIONS[f"ditc_{name}"][1])
        setattr(library, name, library._checked(prototype(("fegetround", nothing))))
    library.repeat = library.repeat_on = library._checked(nothing["fegetround"])


def inputs_of(model, framework, device):
    shapes = {name: info.shape for name, info in next(iter(model.buckets.values())).inputs.items()}
    if framework == "numpy":
        import numpy
        return {name: numpy.ones(shapes[name], {"f32": "float32", "i64": "int64"}[dtype]) for name, dtype in MODEL_INPUTS.items()}
    if framework == "torch":
        import torch
        return {name: torch.ones(shapes[name], dtype={"f32": torch.float32, "i64": torch.int64}[dtype], device=device) for name, dtype in MODEL_INPUTS.items()}
    return {name: ditc.Tensor.empty(dtype, shapes[name]) for name, dtype in MODEL_INPUTS.items()}


class Module:
    """Takes the place of the torch module that is wrapped."""

    def forward(self, hidden_states, timestep=None, class_labels=None, cross_attention_kwargs=None, return_dict: bool = True):
        raise AssertionError("the eager module ran")

    __call__ = forward

    def named_parameters(self, remove_duplicate=True):
        return []

    named_buffers = named_parameters

    def state_dict(self):
        return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("--device", default="host")
    parser.add_argument("--whole", action="store_true", help="with the library's part and, on the host, the kernels")
    arguments = parser.parse_args()
    model = ditc.load(arguments.package, device=arguments.device)
    if not arguments.whole:
        without_runs(model)
    wrapped = ditc.wrap(Module(), model, on_unknown_shape="error", weights="package")
    place = "cpu" if arguments.device == "host" else arguments.device
    for framework in ("torch",) if place != "cpu" else ("torch", "numpy", "none"):
        try:
            inputs = inputs_of(model, framework, place)
        except ImportError:
            continue
        (target,) = model(**inputs)
        cases = {"model(**tensors)": lambda: model(**inputs), "model(**tensors, out=tensor)": lambda: model(**inputs, out=target),
                 "wrapped(**tensors, return_dict=False)": lambda: wrapped(**inputs, return_dict=False)}
        for what, call in cases.items():
            print(f"{framework:6} {what:40} {microseconds(call):7.1f} us")


if __name__ == "__main__":
    main()
