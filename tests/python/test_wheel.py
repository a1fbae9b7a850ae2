# SPDX-License-Identifier: Apache-2.0
"""The wheel installs into a folder and runs a model from there, with its own library."""

import importlib.util
import os
import subprocess
import sys
import unittest
import zipfile

import support
from ditc.library import library
from support import ROOT, needs_compiler

# Runs with the installed package alone.
PROGRAM = """
import sys, ditc
from ditc import safetensors
from ditc.library import library
folder, package, inputs = sys.argv[1:]
assert ditc.__file__.startswith(folder) and library().path.startswith(folder), (ditc.__file__, library().path)
print(ditc.load(package).run(safetensors.load(inputs))["hidden"].tolist())
"""


def build(folder):
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "wheel.py"), "--library", library().path, "--output", str(folder)],
                          capture_output=True, text=True, check=True)
    return done.stdout.strip()


@unittest.skipUnless(os.path.isabs(library().path), "the library has no known place")
class Wheel(support.TestCase):
    def test_the_same_files_give_the_same_wheel(self):
        first, second = (build(support.scratch() / name) for name in ("wheel1", "wheel2"))
        with open(first, "rb") as a, open(second, "rb") as b:
            self.assertEqual(a.read(), b.read())
        names = zipfile.ZipFile(first).namelist()
        for module in (ROOT / "runtime" / "python" / "ditc").glob("*.py"):
            self.assertIn(f"ditc/{module.name}", names)
        self.assertFalse([name for name in names if "__pycache__" in name])

    @needs_compiler
    @unittest.skipUnless(importlib.util.find_spec("pip"), "pip is not installed")
    def test_install_and_run(self):
        wheel, folder = build(support.scratch() / "wheel"), str(support.scratch() / "installed")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", folder, wheel],
                       check=True, stderr=subprocess.PIPE)
        environment = {key: value for key, value in os.environ.items() if key not in ("DITC_RUNTIME", "DITC_BINARY")}
        environment["PYTHONPATH"] = folder
        done = subprocess.run([sys.executable, "-c", PROGRAM, folder, support.trees(), str(support.MODELS / "trees" / "inputs.safetensors")],
                              cwd="/", env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("8.82872200012207", done.stdout)


if __name__ == "__main__":
    unittest.main()
