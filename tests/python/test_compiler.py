# SPDX-License-Identifier: Apache-2.0
"""ditc.compile, inspect and report call the compiler and hand on what it says."""

import os
import unittest
from unittest import mock

import support
from support import HAS_TORCH, MODELS, ditc, needs_compiler, needs_torch

if HAS_TORCH:
    import torch

DIT = MODELS / "dit" / "model.pt2"


@needs_compiler
class Compiler(support.TestCase):
    def test_compile_gives_a_package(self):
        path = ditc.compile(DIT, output=support.scratch() / "c.dita", buckets=["b1:hidden_states.0=1"], numerics="eager", targets=["host"])
        self.assertEqual(list(ditc.load(path).buckets), ["b1"])

    def test_products_in_fp8(self):
        path = ditc.compile(MODELS / "flux_bf16" / "model.pt2", output=support.scratch() / "q.dita", quantize="fp8", options=["--quantize-skip", "*.proj_out"])
        modules = ditc.report(path)["buckets"][0]["quantization"]["modules"]
        self.assertEqual({m["reason"] for m in modules if m["path"].endswith("}.proj_out")}, {"excluded"})

    def test_attention_in_int8(self):
        path = ditc.compile(MODELS / "flux_bf16" / "model.pt2", output=support.scratch() / "a.dita", quantize_attention="int8", options=["--quantize-only", "*.attn"])
        told = ditc.report(path)["buckets"][0]["attention_quantization"]
        self.assertEqual((told["attentions"], told["quantized"]), (2, 2))

    def test_several_exports_are_buckets(self):
        path = ditc.compile({"one": DIT, "same": DIT}, output=support.scratch() / "s.dita")
        self.assertEqual(list(ditc.load(path).buckets), ["one", "same"])

    def test_the_compiler_s_message_is_the_error(self):
        with self.assertRaisesRegex(ditc.Error, "^cannot open '/nonexistent.pt2'") as caught:
            ditc.compile("/nonexistent.pt2", output=support.scratch() / "x.dita")
        self.assertEqual(caught.exception.status, 1)
        with self.assertRaises(ditc.Error) as caught:
            ditc.compile(DIT, output=support.scratch() / "x.dita", options=["--nonsense"])
        self.assertEqual(caught.exception.status, 2)
        with self.assertRaisesRegex(ditc.Error, "model is of type int"):
            ditc.compile(3, output="x.dita")

    def test_inspect_and_report(self):
        self.assertEqual([port["name"] for port in ditc.inspect(DIT)["inputs"]][:2], ["hidden_states", "timestep"])
        refused = ditc.inspect(MODELS.parent / "errors" / "models" / "custom_op" / "model.pt2")
        self.assertEqual(len(refused["unsupported"]), 1)
        with self.assertRaisesRegex(ditc.Error, "no such file|No such file|cannot open"):
            ditc.inspect("/nowhere/model.pt2")
        report = ditc.report(support.dit(), bucket="four", gpu="L40S")
        self.assertEqual([bucket["name"] for bucket in report["buckets"]], ["four"])
        self.assertGreater(report["buckets"][0]["totals"]["launches"], 0)

    def test_one_text_is_a_list_of_one(self):
        path = ditc.compile(DIT, targets="host", buckets="one:hidden_states.0=1", output=support.scratch() / "one.dita")
        self.assertEqual([bucket["name"] for bucket in ditc.report(path)["buckets"]], ["one"])

    @needs_torch
    def test_a_module_is_exported(self):
        module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU()).train()
        x = torch.randn(2, 4)
        path = ditc.compile(module, (x,), output=support.scratch() / "linear.dita")
        self.assertTrue(module.training)
        self.assert_close(ditc.load(path)(input=x), module(x).detach())


class Finding(unittest.TestCase):
    def test_a_missing_compiler_is_explained(self):
        with mock.patch.dict(os.environ, {"DITC_BINARY": "/nowhere/ditc"}), self.assertRaisesRegex(ditc.Error, "/nowhere/ditc.*set DITC_BINARY"):
            ditc.inspect(DIT)


if __name__ == "__main__":
    unittest.main()
