# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ do what they say, on the host."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

import support
from ditc.library import library
from support import ROOT, ditc, golden, needs_compiler, needs_diffusers, safetensors

EXAMPLES = ROOT / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(ditc.__file__))}
CC = os.environ.get("CC") or shutil.which("cc") or shutil.which("clang")


@needs_compiler
class Service(support.TestCase):
    def setUp(self):
        self.process = subprocess.Popen([sys.executable, str(EXAMPLES / "service.py"), support.dit(), "--port", "0"], env=ENVIRONMENT,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.stop)
        self.url = re.search(r"http://\S+/", self.process.stdout.readline()).group()

    def stop(self):
        self.process.kill()
        self.process.communicate()

    def test_requests(self):
        with urllib.request.urlopen(self.url) as answer:
            self.assertEqual(list(json.load(answer)["buckets"]), ["two", "four"])
        for suffix in ("", "_batch4"):
            body = safetensors.dumps(golden("dit", f"inputs{suffix}"))
            with urllib.request.urlopen(self.url + "run", data=body) as answer:
                self.assert_close(safetensors.loads(answer.read())["output.0"], golden("dit", f"outputs{suffix}")["output.0"])
        for body, text in ((b"nonsense", "no safetensors file"), (safetensors.dumps({}), "input 'hidden_states' is missing")):
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(self.url + "run", data=body)
            with caught.exception as answer:
                self.assertEqual(answer.code, 400)
                self.assertIn(text, answer.read().decode())


@needs_compiler
@unittest.skipUnless(CC, "no C compiler")
class C(unittest.TestCase):
    def test_the_c_program(self):
        program = str(support.scratch() / "run")
        subprocess.run([CC, "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/runtime/include", str(EXAMPLES / "c" / "run.c"), library().path,
                        "-o", program, f"-Wl,-rpath,{os.path.dirname(library().path)}"], check=True)
        done = subprocess.run([program, support.dit()], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"(?s)^two\n  output.0: f32, 4096 elements, mean \S+\nfour\n  output.0: f32, 8192 elements, mean ")
        failed = subprocess.run([program, "/nonexistent.dita"], capture_output=True, text=True)
        self.assertEqual((failed.returncode, failed.stdout), (1, ""))
        self.assertIn("/nonexistent.dita", failed.stderr)


@needs_compiler
@needs_diffusers
class Diffusers(unittest.TestCase):
    def test_the_pipeline(self):
        done = subprocess.run([sys.executable, str(EXAMPLES / "diffusers_dit.py"), "--tiny", "--package", str(support.scratch() / "example.dita")],
                              env=ENVIRONMENT, capture_output=True, text=True, check=True)
        self.assertEqual(len(re.findall(r"images: largest difference \d\.\d+e-0[5-9]|images: largest difference 0.00e\+00", done.stdout)), 3, done.stdout)
        self.assertIn("4 of 12 calls eager", done.stdout)


if __name__ == "__main__":
    unittest.main()
