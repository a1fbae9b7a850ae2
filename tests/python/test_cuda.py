# SPDX-License-Identifier: Apache-2.0
"""Packages on a GPU. DITC_CUDA_PACKAGE names tests/models/dit/model.pt2, compiled for it with the buckets of support.py:

    ditc compile tests/models/dit/model.pt2 --target sm_90a --bucket two:hidden_states.0=2 --bucket four:hidden_states.0=4 -o dit.dita

The last class needs no GPU: it holds the calls against what the C interface promises to take.
"""

import contextlib
import os
import threading
import unittest
from unittest import mock

import support
from ditc import abi, tensors
from ditc.context import MISSED
from support import HAS_NUMPY, HAS_TORCH, ditc, golden, needs_compiler

if HAS_TORCH:
    import torch
if HAS_NUMPY:
    import numpy

PACKAGE = os.environ.get("DITC_CUDA_PACKAGE")
TOLERANCE = 1e-4


@unittest.skipUnless(PACKAGE and HAS_TORCH and torch.cuda.is_available(), "DITC_CUDA_PACKAGE names no package, or torch has no GPU")
class Cuda(support.TestCase):
    def setUp(self):
        self.model = ditc.load(PACKAGE, device="cuda:0")
        self.inputs = {name: self.on_gpu(tensor) for name, tensor in golden("dit", "inputs").items()}
        self.expected = golden("dit", "outputs")["output.0"]

    @staticmethod
    def on_gpu(tensor):
        dtype = {"f32": torch.float32, "i64": torch.int64}[tensor.dtype]
        return torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(tensor.shape).cuda()

    def test_both_buckets(self):
        for suffix in ("", "_batch4"):
            inputs = {name: self.on_gpu(tensor) for name, tensor in golden("dit", f"inputs{suffix}").items()}
            (result,) = self.model(**inputs)
            self.assertEqual(str(result.device), "cuda:0")
            self.assert_close(result.cpu(), golden("dit", f"outputs{suffix}")["output.0"], TOLERANCE)

    def test_strided_misaligned_and_host_tensors_are_placed(self):
        hidden = self.inputs["hidden_states"]
        wide = torch.zeros(2, 4, 16, 32, device="cuda")
        wide[..., ::2] = hidden
        shifted = torch.zeros(hidden.numel() + 1, device="cuda")
        shifted[1:] = hidden.flatten()
        for change in ({"hidden_states": wide[..., ::2]}, {"hidden_states": shifted[1:].view(hidden.shape)}, {"timestep": self.inputs["timestep"].cpu()}):
            self.assert_close(self.model(**{**self.inputs, **change})[0].cpu(), self.expected, TOLERANCE)

    def test_another_stream(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            hidden = self.inputs["hidden_states"] * 1
            current = self.model(**{**self.inputs, "hidden_states": hidden})[0].cpu()
        named = self.model(**self.inputs, stream=stream.cuda_stream)[0]
        stream.synchronize()
        self.assert_close(current, self.expected, TOLERANCE)
        self.assertTrue(torch.equal(named.cpu(), current))

    def test_calls_like_one_before(self):
        wide = torch.zeros(2, 4, 16, 32, device="cuda")
        wide[..., ::2] = self.inputs["hidden_states"]
        target = torch.full((2, 8, 16, 16), float("nan"), device="cuda")
        shifted = torch.full((target.numel() + 1,), float("nan"), device="cuda")[1:].view(target.shape)
        for changes in ({}, {"hidden_states": wide[..., ::2]}, {"timestep": self.inputs["timestep"].cpu()}, {"out": target}, {"stream": torch.cuda.Stream().cuda_stream}):
            results = [self.model(**{**self.inputs, **changes})[0] for _ in range(3)]
            torch.cuda.synchronize()
            for result in results:
                self.assert_close(result.cpu(), self.expected, TOLERANCE)
        self.assertIsNot(self.model._context().repeat(self.inputs), MISSED)
        with self.assertRaisesRegex(ditc.Error, "not a multiple of 16"):
            self.model(**self.inputs, out=shifted)
        with self.assertRaisesRegex(ditc.Error, "'timestep' is f32, expected i64"):
            self.model(**{**self.inputs, "timestep": self.inputs["timestep"].float()})

    def test_inputs_may_be_dropped_at_once(self):
        results = []
        for _ in range(50):
            results.append(self.model(**{name: tensor.clone() for name, tensor in self.inputs.items()})[0])
            torch.full((1 << 20,), float("nan"), device="cuda")
        self.assertTrue(all(torch.equal(result, results[0]) for result in results))
        self.assert_close(results[0].cpu(), self.expected, TOLERANCE)

    def test_results_go_where_the_caller_says(self):
        target = torch.full((2, 8, 16, 16), float("nan"), device="cuda")
        self.assertIs(self.model(**self.inputs, out=target)[0], target)
        self.assert_close(target.cpu(), self.expected, TOLERANCE)

    @support.needs_numpy
    def test_numpy_in_and_out(self):
        (result,) = self.model(**{name: tensor.cpu().numpy() for name, tensor in self.inputs.items()})
        self.assertIsInstance(result, numpy.ndarray)
        self.assert_close(result, self.expected, TOLERANCE)

    def test_graphs_or_not(self):
        plain = ditc.load(PACKAGE, device="cuda:0", graphs=False)
        self.assertTrue(torch.equal(plain(**self.inputs)[0], self.model(**self.inputs)[0]))

    def test_weights_there_and_back(self):
        first = self.model(**self.inputs)[0].clone()
        name = next(name for name, info in self.model.weights.items() if len(info.shape) == 2)
        self.model.update_weights({name: torch.zeros(self.model.weights[name].shape, device="cuda")})
        self.assertFalse(torch.equal(self.model(**self.inputs)[0], first))
        self.model.revert_weights()
        self.assertTrue(torch.equal(self.model(**self.inputs)[0], first))

    def test_threads(self):
        failures = []

        def work():
            try:
                with torch.cuda.stream(torch.cuda.Stream()):
                    for _ in range(20):
                        self.assert_close(self.model(**self.inputs)[0].cpu(), self.expected, TOLERANCE)
            except BaseException as error:  # reported by the main thread
                failures.append(error)

        torch.cuda.synchronize()
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_memory_and_wrong_gpus(self):
        self.model.prepare()
        self.assertGreater(self.model.memory()["weights"], 0)
        with self.assertRaises(ditc.Error):
            ditc.load(PACKAGE, device="cuda:99")


class FakeGpu:
    """torch or cupy as placement.GpuFramework sees it, with memory of the host."""

    scopes, recorded = [], []

    def __init__(self, kind, index):
        pass

    def scope(self, stream):
        self.scopes.append(stream)
        return contextlib.nullcontext()

    def current_stream(self):
        return 7

    def place(self, value):
        return value

    def record(self, values):
        self.recorded.extend(values)


@needs_compiler
class WithoutGpu(support.TestCase):
    def test_a_framework_s_tensors_run_on_its_stream_and_are_held(self):
        model = ditc.load(support.dit())
        package = model._package
        package.on_gpu = True
        streams = []

        def run_on(*arguments):
            streams.append(arguments[-1])
            package.library.run(*arguments[:-1])

        def empty(kind, dtype, shape, device, index):
            self.assertEqual((kind, device), ("torch", abi.CUDA))
            return tensors.Tensor.empty(abi.DTYPES[dtype], shape)

        inputs = golden("dit", "inputs")
        with mock.patch("ditc.context.GpuFramework", FakeGpu), mock.patch("ditc.context.framework", lambda value: "torch"), \
                mock.patch("ditc.context.empty", empty), mock.patch.object(package.library, "run_on", run_on):
            (result,) = model(**inputs, stream=9)
        self.assert_close(result, golden("dit", "outputs")["output.0"])
        self.assertEqual((streams, FakeGpu.scopes), ([7], [9]))
        self.assertEqual([id(value) for value in FakeGpu.recorded], [id(value) for value in [*inputs.values(), result]])
        self.assertEqual(set(model._context()._held[0]), set(inputs))


if __name__ == "__main__":
    unittest.main()
