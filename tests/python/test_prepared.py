# SPDX-License-Identifier: Apache-2.0
"""Calls that repeat: the same results and the same errors as those of a first call."""

import sys
import threading
import unittest
from unittest import mock

import fake_torch
import support
from ditc import abi, context, prepared
from support import HAS_NUMPY, HAS_TORCH, ditc, golden, needs_compiler, needs_numpy, needs_torch

if HAS_NUMPY:
    import numpy
if HAS_TORCH:
    import torch


def prepared_calls(model):
    return model._context()._calls._calls


@needs_compiler
@needs_numpy
class Numpy(support.TestCase):
    def setUp(self):
        self.model = ditc.load(support.dit())
        self.inputs = {name: numpy.asarray(tensor).copy() for name, tensor in golden("dit", "inputs").items()}
        self.expected = golden("dit", "outputs")["output.0"]
        self.first = self.model(**self.inputs)[0]
        self.assertEqual(len(prepared_calls(self.model)), 1)

    def repeated(self, *, out=None, bucket=None, **inputs):
        """The results of a prepared call, which this must be."""
        results = self.model._context().repeat(inputs, out, bucket)
        self.assertIsNot(results, context.MISSED)
        return results

    def test_other_tensors_of_the_same_shapes(self):
        again = self.repeated(**self.inputs)[0]
        self.assertIsNot(again, self.first)
        numpy.testing.assert_array_equal(again, self.first)
        other = {**self.inputs, "hidden_states": self.inputs["hidden_states"] * 2}
        changed = self.repeated(**other)[0]
        numpy.testing.assert_array_equal(changed, ditc.load(support.dit())(**other)[0])
        self.assertFalse(numpy.array_equal(changed, self.first))
        numpy.testing.assert_array_equal(again, self.first)  # results do not share memory

    def test_buckets_have_calls_of_their_own(self):
        four = {name: numpy.asarray(tensor) for name, tensor in golden("dit", "inputs_batch4").items()}
        for _ in range(2):
            self.assert_close(self.model(**four)[0], golden("dit", "outputs_batch4")["output.0"])
            self.assert_close(self.model(**self.inputs)[0], self.expected)
            self.assert_close(self.model(**self.inputs, bucket="two")[0], self.expected)
        self.assertEqual(len(prepared_calls(self.model)), 3)

    def test_results_go_where_the_caller_says(self):
        for make in (lambda t: t, lambda t: (t,), lambda t: [t], lambda t: {"output": [t]}, lambda t: {"output.0": t}):
            target = numpy.full((2, 8, 16, 16), numpy.nan, "float32")
            self.assertIs(self.repeated(**self.inputs, out=make(target))[0], target)
            self.assert_close(target, self.expected)

    def test_what_is_not_alike_goes_the_long_way(self):
        wide = numpy.zeros((2, 4, 16, 32), "float32")
        wide[..., ::2] = self.inputs["hidden_states"]
        self.assert_close(self.model(**{**self.inputs, "hidden_states": wide[..., ::2]})[0], self.expected)
        rows = numpy.zeros((2, 8, 16, 32), "float32")
        self.assert_close(self.model(**self.inputs, out=rows[..., ::2])[0], self.expected)
        read_only = numpy.zeros((2, 8, 16, 16), "float32")
        read_only.flags.writeable = False
        for options, text in (({"out": read_only}, "output 'output.0' is read-only"), ({"bucket": "five"}, "has no bucket 'five'"), ({"bucket": 3}, "bucket is 3"),
                              ({"bucket": []}, r"bucket is \[\]"), ({"stream": "s"}, "stream is 's'"), ({"stream": -1}, "stream is -1"),
                              ({"out": numpy.zeros(3, "float32")}, "bucket 'two' expects 'output.0'"), ({"out": {"other": rows}}, "unknown output 'other'"),
                              ({"out": {"output.0": None}}, "output 'output.0' is None"), ({"hidden_states": 3}, "input 'hidden_states' is 3, expected a tensor"),
                              ({"timestep": self.inputs["timestep"].astype("float32")}, "'timestep' is f32, expected i64"),
                              ({"timestep": self.inputs["timestep"].astype(">i8")}, "input 'timestep'"), ({"other": self.inputs["timestep"]}, "unknown input 'other'")):
            with self.assertRaisesRegex(ditc.Error, text):
                self.model(**{**self.inputs, **options})
        with self.assertRaisesRegex(ditc.Error, "input 'timestep' is missing"):
            self.model(hidden_states=self.inputs["hidden_states"], class_labels=self.inputs["class_labels"])
        self.assert_close(self.repeated(**self.inputs)[0], self.expected)

    def test_derived_classes_are_looked_at_anew(self):
        class Derived(numpy.ndarray):
            pass

        hidden = self.inputs["hidden_states"].view(Derived)
        self.assert_close(self.model(**{**self.inputs, "hidden_states": hidden})[0], self.expected)
        self.assertEqual(len(prepared_calls(self.model)), 1)

    def test_padded_calls(self):
        model = ditc.load(support.dit(), on_unknown_shape="nearest")
        one = {name: value[:1].copy() for name, value in self.inputs.items()}
        first, again = model(**one)[0], model(**one)[0]
        self.assertEqual(again.shape, (1, 8, 16, 16))
        numpy.testing.assert_array_equal(first, again)
        self.assertIs(model._context().repeat(one, exact=True), context.MISSED)
        model._package.set_policy("error")
        with self.assertRaisesRegex(ditc.Error, "no bucket of .* takes these shapes"):
            model(**one)

    def test_sizes_that_never_return_do_not_pile_up(self):
        with mock.patch.object(prepared, "MOST", 2):
            for bucket in (None, "two", None, "two"):
                for suffix in ("", "_batch4"):
                    self.model.run({name: numpy.asarray(tensor) for name, tensor in golden("dit", f"inputs{suffix}").items()}, bucket=bucket if not suffix else None)
                    self.assertLessEqual(len(prepared_calls(self.model)), 2)

    def test_errors_of_the_library_are_raised(self):
        library = self.model._package.library
        with mock.patch.object(library, "repeat", library._checked(lambda *arguments: 1)), self.assertRaises(ditc.Error):
            self.repeated(**self.inputs)

    def test_threads(self):
        failures = []

        def work(factor):
            try:
                inputs = {**self.inputs, "hidden_states": self.inputs["hidden_states"] * factor}
                first = self.model(**inputs)[0]
                for _ in range(50):
                    numpy.testing.assert_array_equal(self.model(**inputs)[0], first)
            except BaseException as error:  # reported by the main thread
                failures.append(error)

        threads = [threading.Thread(target=work, args=(factor,)) for factor in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_a_context_that_another_thread_uses(self):
        held = self.model._context()
        with held._writing:
            self.assertIs(held.repeat(self.inputs), context.MISSED)
        self.repeated(**self.inputs)

    def test_nested_inputs_and_constants(self):
        model = ditc.load(support.trees())
        leaves = {name: numpy.asarray(tensor) for name, tensor in golden("trees", "inputs").items()}
        inputs = {"x": leaves["x"], "states": [leaves[f"states.{i}"] for i in range(3)], "mode": "sum",
                  "pair": (leaves["pair.0"], {"b": leaves["pair.1.b"], "c": leaves["pair.1.c"]}),
                  "conditions": {"text": leaves["conditions.text"], "extra": {"size": None}}}
        first = model(**inputs)
        again = model._context().repeat(inputs)
        self.assertIsNot(again, context.MISSED)
        self.assertEqual(list(again), list(first))
        numpy.testing.assert_array_equal(again["hidden"], first["hidden"])
        self.assertIsInstance(again["parts"], tuple)
        with self.assertRaisesRegex(ditc.Error, "input 'mode' is 'product', but .* was compiled with 'sum'"):
            model(**{**inputs, "mode": "product"})


@needs_compiler
@needs_torch
class Torch(support.TestCase):
    def setUp(self):
        self.model = ditc.load(support.dit())
        self.inputs = {name: torch.tensor(tensor.tolist()) for name, tensor in golden("dit", "inputs").items()}
        self.expected = golden("dit", "outputs")["output.0"]
        self.model(**self.inputs)

    def test_repeated(self):
        hidden = torch.nn.Parameter(self.inputs["hidden_states"])
        for changes in ({}, {"hidden_states": hidden}):
            results = self.model._context().repeat({**self.inputs, **changes})
            self.assertIsNot(results, context.MISSED)
            self.assert_close(results[0], self.expected)
            self.assertFalse(results[0].requires_grad)

    def test_lazy_sparse_and_strided_tensors_are_not_taken_for_plain_ones(self):
        hidden = self.inputs["hidden_states"]
        negated = torch.complex(torch.zeros_like(hidden), -hidden).conj().imag
        self.assertTrue(negated.is_neg())
        for value in (negated, hidden.to_sparse()):
            with self.assertRaisesRegex(ditc.Error, "input 'hidden_states' is .* no plain memory"):
                self.model(**{**self.inputs, "hidden_states": value})
        self.assert_close(self.model(**{**self.inputs, "hidden_states": hidden.transpose(2, 3).contiguous().transpose(2, 3)})[0], self.expected)


@needs_compiler
class OnGpu(support.TestCase):
    """What is put on which stream and what is held, with run_on replaced by a run on the host."""

    gpu, cpu = fake_torch.Device("cuda", 0), fake_torch.Device("cpu", None)

    def setUp(self):
        self.torch = fake_torch.Torch()
        patch = mock.patch.dict(sys.modules, {"torch": self.torch})
        patch.start()
        self.addCleanup(patch.stop)
        fake_torch.forget()
        self.addCleanup(fake_torch.forget)
        self.model = ditc.load(support.dit())
        package = self.model._package
        package.on_gpu = True
        self.streams = []
        for name, function in (("run_on", self.run_on), ("repeat_on", self.repeat_on)):
            replaced = mock.patch.object(package.library, name, function)
            replaced.start()
            self.addCleanup(replaced.stop)
        self.expected = golden("dit", "outputs")["output.0"]
        (self.first,) = self.model(**self.inputs())

    def run_on(self, context, bucket, inputs, input_count, outputs, output_count, stream):
        self.streams.append(stream)
        entries = [*inputs, *outputs]
        for entry in entries:
            self.assertEqual((entry.device, entry.data % 16), (abi.CUDA, 0))
            entry.device = abi.HOST
        self.model._package.library.run(context, bucket, inputs, input_count, outputs, output_count)
        for entry in entries:
            entry.device = abi.CUDA

    def repeat_on(self, context, bucket, inputs, input_count, outputs, output_count, stream):
        arrays = [(abi.Tensor * count.value).from_address(array.value) for array, count in ((inputs, input_count), (outputs, output_count))]
        self.run_on(context, bucket.value, arrays[0], input_count.value, arrays[1], output_count.value, stream.value or 0)

    def inputs(self, **devices):
        return {name: fake_torch.on(devices.get(name, self.gpu), tensor) for name, tensor in golden("dit", "inputs").items()}

    def repeated(self, inputs, out=None, stream=None):
        results = self.model._context().repeat(inputs, out, None, stream)
        self.assertIsNot(results, context.MISSED)
        self.assert_close(results[0].tolist(), self.expected)
        return results[0]

    def test_a_call_is_put_on_the_current_stream_and_its_tensors_are_held(self):
        self.torch.stream = 7
        inputs = self.inputs()
        result = self.repeated(inputs)
        self.assertEqual((type(result), result.device, self.streams), (fake_torch.Tensor, self.gpu, [0, 7]))
        self.assertEqual([value.recorded for value in inputs.values()], [[7]] * 3)
        held = self.model._context()._held
        self.assertEqual([id(value) for value in (*held[0], *held[1])], [id(value) for value in (*inputs.values(), result)])
        self.torch.stream = 8
        self.repeated(inputs)
        self.assertEqual([value.recorded for value in inputs.values()], [[7, 8]] * 3)

    def test_a_named_stream_is_made_the_current_one(self):
        self.torch.stream = 7
        inputs = self.inputs()
        self.repeated(inputs, stream=9)
        self.repeated(inputs, stream=7)
        self.assertEqual((self.streams, self.torch.entered, self.torch.stream), ([0, 9, 7], [9], 7))
        self.assertEqual(inputs["timestep"].recorded, [9, 7])

    def test_results_go_where_the_caller_says(self):
        target = fake_torch.Tensor((2, 8, 16, 16), "float32", self.gpu)
        self.assertIs(self.repeated(self.inputs(), out=target), target)
        self.assertEqual(target.recorded, [0])
        for wrong in (fake_torch.Tensor((2, 8, 16, 16), "float32", self.cpu), fake_torch.Tensor((2, 8, 16, 16), "float32", self.gpu, shift=4),
                      fake_torch.Tensor((2, 8, 16, 8), "float32", self.gpu)):
            self.assertIs(self.model._context().repeat(self.inputs(), wrong), context.MISSED)

    def test_results_of_the_next_call_are_made_while_the_gpu_works(self):
        made = self.torch.made
        results = [self.repeated(self.inputs()) for _ in range(3)]
        self.assertEqual((len({id(result) for result in results}), self.torch.made - made), (3, 4))
        target = fake_torch.Tensor((2, 8, 16, 16), "float32", self.gpu)
        self.repeated(self.inputs(), out=target)
        self.repeated(self.inputs())
        self.assertEqual(self.torch.made - made, 5)

    def test_results_made_ahead_are_of_the_same_stream_and_mode(self):
        self.repeated(self.inputs())
        for change in ({"stream": 7}, {"infers": True}, {"stream": 8, "infers": False}):
            vars(self.torch).update(change)
            made = self.torch.made
            self.repeated(self.inputs())
            self.assertEqual(self.torch.made - made, 2)

    def test_nothing_is_made_ahead_while_a_graph_is_recorded(self):
        self.repeated(self.inputs())
        self.torch.captures, made = True, self.torch.made
        self.repeated(self.inputs())
        self.assertEqual((self.torch.made - made, self.model._context()._spare), (1, None))
        self.torch.captures = False
        self.repeated(self.inputs())
        self.assertEqual(self.torch.made - made, 3)

    def test_misaligned_and_strided_tensors_and_those_of_the_host_are_placed(self):
        inputs = self.inputs()
        inputs["hidden_states"] = fake_torch.on(self.gpu, golden("dit", "inputs")["hidden_states"], shift=4)
        self.repeated(inputs)
        inputs["hidden_states"].is_strided = True
        self.repeated(inputs)
        on_host = self.inputs(timestep=self.cpu)
        self.assertIs(self.model._context().repeat(on_host), context.MISSED)
        self.model(**on_host)
        self.repeated(on_host)


if __name__ == "__main__":
    unittest.main()
