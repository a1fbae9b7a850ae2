# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: the package itself, models of tests/models, and compiled packages.

    DITC_RUNTIME=build/lib DITC_BINARY=build/bin/ditc python3 -m unittest discover -s tests/python

Needs nothing but Python; tests that need numpy, torch or diffusers are skipped without them.
"""

import atexit
import functools
import importlib.util
import math
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
if importlib.util.find_spec("ditc") is None:  # else an installed wheel is under test
    sys.path.insert(0, str(ROOT / "runtime" / "python"))

import ditc  # noqa: E402
from ditc import safetensors  # noqa: E402

MODELS = ROOT / "tests" / "models"
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_DIFFUSERS = HAS_TORCH and importlib.util.find_spec("diffusers") is not None

needs_compiler = unittest.skipUnless(os.environ.get("DITC_BINARY"), "DITC_BINARY does not name the compiler")
needs_numpy = unittest.skipUnless(HAS_NUMPY, "numpy is not installed")
needs_torch = unittest.skipUnless(HAS_TORCH, "torch is not installed")
needs_diffusers = unittest.skipUnless(HAS_DIFFUSERS, "diffusers is not installed")

DIT_BUCKETS = {"two": {"hidden_states.0": 2}, "four": {"hidden_states.0": 4}}


@functools.lru_cache(maxsize=None)
def scratch() -> pathlib.Path:
    """A folder that goes away with the process."""
    folder = tempfile.mkdtemp(prefix="ditc-python-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return pathlib.Path(folder)


@functools.lru_cache(maxsize=None)
def trees() -> str:
    """A package with nested inputs and outputs and fixed arguments."""
    return ditc.compile(MODELS / "trees" / "model.pt2", output=scratch() / "trees.dita")


@functools.lru_cache(maxsize=None)
def dit(*options: str) -> str:
    """A small DiT with buckets for two batch sizes."""
    output = scratch() / f"dit{len(options)}.dita"
    return ditc.compile(MODELS / "dit" / "model.pt2", output=output, buckets=DIT_BUCKETS, options=options)


def golden(model: str, what: str) -> dict:
    return safetensors.load(str(MODELS / model / f"{what}.safetensors"))


def first_rows(tensor, rows):
    """The first rows of a dense tensor."""
    size = len(tensor.data) // tensor.shape[0]
    return ditc.Tensor(bytes(tensor.data[: rows * size]), tensor.dtype, (rows, *tensor.shape[1:]))


def numbers(value) -> list:
    """All elements of a tensor or of nested lists, in order."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [number for item in value for number in numbers(item)] if isinstance(value, list) else [value]


class TestCase(unittest.TestCase):
    def assert_close(self, got, expected, tolerance=1e-4):
        """Relative L2 error of all elements."""
        got, expected = numbers(got), numbers(expected)
        self.assertEqual(len(got), len(expected))
        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(got, expected)) / sum(b * b for b in expected))
        self.assertLessEqual(error, tolerance)
