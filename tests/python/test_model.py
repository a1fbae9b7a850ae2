# SPDX-License-Identifier: Apache-2.0
"""Packages run from Python on the host: results, structure, buckets, weights, threads, and what goes wrong."""

import os
import subprocess
import sys
import threading
import unittest

import support
from ditc.structure import flatten
from support import (
    HAS_NUMPY,
    HAS_TORCH,
    MODELS,
    ditc,
    golden,
    needs_compiler,
    needs_numpy,
    needs_torch,
    numbers,
    safetensors,
)

if HAS_NUMPY:
    import numpy
if HAS_TORCH:
    import torch


@needs_compiler
class Trees(support.TestCase):
    def setUp(self):
        self.model = ditc.load(support.trees())
        inputs = golden("trees", "inputs")
        self.inputs = {"x": inputs["x"], "states": [inputs[f"states.{i}"] for i in range(3)],
                       "pair": (inputs["pair.0"], {"b": inputs["pair.1.b"], "c": inputs["pair.1.c"]}),
                       "conditions": {"text": inputs["conditions.text"], "extra": {"size": None}}}

    def test_nested_inputs_and_outputs(self):
        result = self.model(**self.inputs, scale=0.5, mode="sum")
        expected = golden("trees", "outputs")
        leaves = flatten(result)
        self.assertIsNone(leaves.pop("none"))
        self.assertEqual(set(leaves), set(expected))
        for name, value in leaves.items():
            self.assert_close(value, expected[name])
        self.assertIsInstance(result["parts"], tuple)
        self.assertEqual(set(result["nested"]["a"]), {"b"})

    def test_results_are_given_in_the_order_of_the_outputs(self):
        expected = golden("trees", "outputs")
        for repeat in range(2):  # the long way, then as a call that repeats
            targets = [ditc.Tensor.empty(info.dtype, info.shape) for info in next(iter(self.model.buckets.values())).outputs.values()]
            self.model(**self.inputs, out=targets)
            for name, target in zip(self.model.outputs, targets):
                self.assert_close(target, expected[name])
        with self.assertRaisesRegex(ditc.Error, "unknown output 'output.0'"):
            self.model(**self.inputs, out=targets[:1])

    def test_names_may_be_dotted(self):
        self.assert_close(self.model.run(golden("trees", "inputs"))["hidden"], golden("trees", "outputs")["hidden"])

    def test_fixed_arguments_are_checked(self):
        with self.assertRaisesRegex(ditc.Error, "input 'mode' is 'product', but .* was compiled with 'sum'"):
            self.model(**self.inputs, mode="product")
        with self.assertRaisesRegex(ditc.Error, "input 'conditions.extra.size' is 3, but .* was compiled with None"):
            self.model(**{**self.inputs, "conditions": {"text": self.inputs["conditions"]["text"], "extra": {"size": 3}}})

    def test_wrong_inputs_are_named(self):
        for change, text in (({"x": 3}, "input 'x' is 3, expected a tensor f32 .2, 4."), ({"y": 3}, "input 'y' is 3, expected one of x, states.0"),
                             ({"x": [1, 2]}, "input 'x.0' is 1"), ({"y": self.inputs["x"]}, "unknown input 'y'")):
            with self.assertRaisesRegex(ditc.Error, text):
                self.model(**{**self.inputs, **change})
        with self.assertRaisesRegex(ditc.Error, "input 'states.0' is missing"):
            self.model(x=self.inputs["x"])

    def test_what_the_package_says(self):
        self.assertEqual(self.model.inputs["x"], ("f32", (2, 4)))
        self.assertEqual(self.model.outputs["number"], ("i64", ()))
        self.assertEqual(self.model.constants["mode"], "sum")
        self.assertIn("linear.bias", self.model.weights)


@needs_compiler
class Dit(support.TestCase):
    def setUp(self):
        self.model = ditc.load(support.dit())
        self.inputs = golden("dit", "inputs")

    def test_the_bucket_is_that_of_the_shapes(self):
        self.assertEqual(list(self.model.buckets), ["two", "four"])
        self.assertEqual(self.model.buckets["four"].outputs["output.0"].shape, (4, 8, 16, 16))
        for suffix in ("", "_batch4"):
            (result,) = self.model(**golden("dit", f"inputs{suffix}"))
            self.assert_close(result, golden("dit", f"outputs{suffix}")["output.0"])

    def test_other_shapes_and_types_are_errors(self):
        one = {name: ditc.Tensor(tensor.data[:len(tensor.data) // 2], tensor.dtype, (1, *tensor.shape[1:])) for name, tensor in self.inputs.items()}
        with self.assertRaisesRegex(ditc.Error, "no bucket of .* takes these shapes") as caught:
            self.model(**one)
        self.assertEqual(caught.exception.status, 1)
        with self.assertRaisesRegex(ditc.Error, "has no bucket 'five'"):
            self.model(**self.inputs, bucket="five")
        with self.assertRaisesRegex(ditc.Error, "'timestep' is f32, expected i64"):
            self.model(**{**self.inputs, "timestep": ditc.Tensor(bytes(8), "f32", (2,))})

    def test_results_go_where_the_caller_says(self):
        expected = golden("dit", "outputs")["output.0"]
        for make in (lambda t: (t,), lambda t: [t], lambda t: t, lambda t: {"output": [t]}, lambda t: {"output.0": t}):
            target = ditc.Tensor.empty("f32", (2, 8, 16, 16))
            (result,) = self.model(**self.inputs, out=make(target))
            self.assertIs(result, target)
            self.assert_close(target, expected)
        with self.assertRaisesRegex(ditc.Error, "output 'output.0' is read-only"):
            self.model(**self.inputs, out=ditc.Tensor(bytes(2 * 8 * 16 * 16 * 4), "f32", (2, 8, 16, 16)))
        with self.assertRaisesRegex(ditc.Error, "unknown output 'other'"):
            self.model(**self.inputs, out={"other": ditc.Tensor.empty("f32", (2, 8, 16, 16))})
        with self.assertRaisesRegex(ditc.Error, "bucket 'two' expects 'output.0'"):
            self.model(**self.inputs, out=ditc.Tensor.empty("f32", (4, 8, 16, 16)))

    def test_threads_have_contexts_of_their_own(self):
        expected = golden("dit", "outputs")["output.0"]
        failures = []

        def work(model):
            try:
                for _ in range(10):
                    self.assert_close(model(**self.inputs)[0], expected)
            except BaseException as error:  # reported by the main thread
                failures.append(error)

        threads = [threading.Thread(target=work, args=(model,)) for model in (self.model, self.model, self.model.context())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_a_context_outlives_its_model(self):
        context = self.model.context()
        del self.model
        self.assert_close(context(**self.inputs)[0], golden("dit", "outputs")["output.0"])

    @needs_numpy
    def test_numpy_arrays_give_numpy_arrays(self):
        inputs = {name: numpy.asarray(tensor) for name, tensor in self.inputs.items()}
        wide = numpy.zeros((2, 4, 16, 32), "float32")
        wide[..., ::2] = inputs["hidden_states"]
        for hidden in (inputs["hidden_states"], wide[..., ::2]):
            (result,) = self.model(**{**inputs, "hidden_states": hidden})
            self.assertIsInstance(result, numpy.ndarray)
            self.assert_close(result, golden("dit", "outputs")["output.0"])

    @needs_torch
    def test_torch_tensors_give_torch_tensors(self):
        inputs = {name: torch.frombuffer(bytearray(tensor.data), dtype=torch.float32 if tensor.dtype == "f32" else torch.int64).reshape(tensor.shape)
                  for name, tensor in self.inputs.items()}
        (result,) = self.model(**inputs)
        self.assertIsInstance(result, torch.Tensor)
        self.assert_close(result, golden("dit", "outputs")["output.0"])


@needs_compiler
class Weights(support.TestCase):
    def setUp(self):
        self.inputs = golden("dit", "inputs")
        self.expected = golden("dit", "outputs")["output.0"]
        self.package = support.dit("--weights-in", "none")
        model = ditc.load(support.dit())
        self.tensors = {name: ditc.Tensor(bytes(read_entry(support.dit(), f"weights/{name}")), *info) for name, info in model.weights.items()}

    def test_missing_weights_are_named(self):
        with self.assertRaisesRegex(ditc.Error, "weight"):
            ditc.load(self.package)(**self.inputs)
        with self.assertRaisesRegex(ditc.Error, "needs weights that are not among the 1 given: .*"):
            ditc.load(self.package, weights={"other": self.inputs["timestep"]})

    def test_a_mapping_is_borrowed_and_what_is_too_much_passed_over(self):
        model = ditc.load(self.package, weights={**self.tensors, "other": self.inputs["timestep"]})
        self.tensors.clear()
        self.assert_close(model(**self.inputs)[0], self.expected)

    def test_files(self):
        path = str(support.scratch() / "weights.safetensors")
        safetensors.save(self.tensors, path)
        for weights in (path, [path]):
            self.assert_close(ditc.load(self.package, weights=weights)(**self.inputs)[0], self.expected)

    def test_weights_are_set_all_or_none(self):
        model = ditc.load(support.dit())
        name = next(name for name, info in model.weights.items() if info.dtype == "f32" and len(info.shape) == 2)
        zeros = ditc.Tensor.empty(*model.weights[name])
        with self.assertRaisesRegex(ditc.Error, "other"):
            model.set_weights({name: zeros, "other": zeros})
        self.assert_close(model(**self.inputs)[0], self.expected)
        model.set_weights({name: zeros})
        with self.assertRaises(AssertionError):
            self.assert_close(model(**self.inputs)[0], self.expected)
        model.set_weights({name: self.tensors[name]})
        self.assert_close(model(**self.inputs)[0], self.expected)


    def test_updates_are_taken_back(self):
        model = ditc.load(support.dit())
        before = numbers(model(**self.inputs)[0])
        name = next(name for name, info in model.weights.items() if info.dtype == "f32" and len(info.shape) == 2)
        with self.assertRaises(ditc.Error):
            model.revert_weights()
        model.update_weights({name: ditc.Tensor.empty(*model.weights[name])})
        self.assertNotEqual(numbers(model(**self.inputs)[0]), before)
        model.revert_weights()
        self.assertEqual(numbers(model(**self.inputs)[0]), before)

    def test_memory(self):
        model = ditc.load(support.dit())
        model.prepare()
        self.assertEqual(set(model.memory()), {"weights", "prepared", "context"})
        self.assertGreater(model.memory()["context"], 0)


def read_entry(path, entry):
    import zipfile
    with zipfile.ZipFile(path) as archive:
        return archive.read(entry)


@needs_compiler
class Pinned(support.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.inputs = golden("dit", "inputs")
        path = str(support.scratch() / "labels.safetensors")
        safetensors.save({"class_labels": cls.inputs["class_labels"]}, path)
        cls.package = ditc.compile(MODELS / "dit" / "model.pt2", output=support.scratch() / "pinned.dita", options=["--pin", f"class_labels={path}"])
        cls.expected = golden("dit", "outputs")["output.0"]

    def test_pinned_inputs_may_be_left_out_and_are_checked(self):
        model = ditc.load(self.package)
        self.assert_close(model(**self.inputs)[0], self.expected)
        self.assert_close(model(hidden_states=self.inputs["hidden_states"], timestep=self.inputs["timestep"])[0], self.expected)
        with self.assertRaisesRegex(ditc.Error, "'class_labels' has other values"):
            model(**{**self.inputs, "class_labels": ditc.Tensor(bytes(16), "i64", (2,))})

    @needs_torch
    def test_a_torch_tensor_is_compared_again_when_it_changed(self):
        model = ditc.load(self.package)
        labels = torch.tensor(self.inputs["class_labels"].tolist())
        for _ in range(2):
            self.assert_close(model(**{**self.inputs, "class_labels": labels})[0], self.expected)
        self.assertTrue(model._context()._is_known_pinned("default", "class_labels", labels))
        labels += 1
        with self.assertRaisesRegex(ditc.Error, "'class_labels' has other values"):
            model(**{**self.inputs, "class_labels": labels})


class Loading(unittest.TestCase):
    def test_what_is_no_package(self):
        for path in ("/nonexistent.dita", __file__):
            with self.assertRaisesRegex(ditc.Error, "cannot read package"):
                ditc.load(path)

    @needs_compiler
    def test_unknown_device(self):
        with self.assertRaisesRegex(ditc.Error, "device"):
            ditc.load(support.trees(), device="abacus")

    @needs_compiler
    def test_policies_for_unknown_shapes(self):
        with self.assertRaisesRegex(ditc.Error, "cannot be padded to a larger bucket"):
            ditc.load(support.trees(), on_unknown_shape="nearest")
        with self.assertRaisesRegex(ditc.Error, "expected one of error, nearest"):
            ditc.load(support.dit(), on_unknown_shape="pad")

    @needs_compiler
    def test_fewer_rows_are_padded_and_cropped(self):
        model, exact = ditc.load(support.dit(), on_unknown_shape="nearest"), ditc.load(support.dit())
        four = golden("dit", "inputs_batch4")
        expected = numbers(exact.run(four)[0])
        for rows, bucket in ((3, None), (1, None), (4, None), (2, "four"), (3, None)):
            inputs = {name: support.first_rows(value, rows) for name, value in four.items()}
            (output,) = model.run(inputs, bucket=bucket)
            self.assertEqual(tuple(output.shape), (rows, 8, 16, 16))
            values = numbers(output)
            worst = max(abs(a - b) for a, b in zip(values, expected))
            self.assertLess(worst, 1e-4)
            self.assertEqual(len(values), rows * 8 * 16 * 16)
        with self.assertRaisesRegex(ditc.Error, "no bucket of .* takes these shapes"):
            exact.run({name: support.first_rows(value, 3) for name, value in four.items()})
        out = ditc.Tensor(bytearray(3 * 8 * 16 * 16 * 4), "f32", (3, 8, 16, 16))
        model.run({name: support.first_rows(value, 3) for name, value in four.items()}, out=out)
        self.assertLess(max(abs(a - b) for a, b in zip(numbers(out), expected)), 1e-4)

    @needs_compiler
    def test_arguments_of_wrong_types_are_refused(self):
        for options, text in (({"memory_budget": -1}, "memory_budget is -1; expected a whole number"), ({"memory_budget": 1.5}, "memory_budget is 1.5"),
                              ({"threads": "2"}, "threads is '2'"), ({"threads": -1}, "threads is -1"), ({"weights": 3}, "weights is 3; expected None"),
                              ({"weights": [None]}, "weights is .None.; expected None")):
            with self.assertRaisesRegex(ditc.Error, text):
                ditc.load(support.dit(), **options)
        with self.assertRaisesRegex(ditc.Error, "the package is None; expected the path"):
            ditc.load(None)
        model = ditc.load(support.dit())
        for call, text in ((lambda: model.run(None), "inputs are a NoneType; expected a mapping"), (lambda: model.run({}, bucket=3), "bucket is 3; expected None or the name"),
                           (lambda: model.run({}, stream="s"), "stream is 's'; expected a CUDA stream"), (lambda: model.set_weights(None), "weights are a NoneType"),
                           (lambda: model.prepare(3), "bucket is 3")):
            with self.assertRaisesRegex(ditc.Error, text):
                call()

    def test_a_missing_library_is_explained(self):
        code = "import support, ditc\ntry: ditc.runtime_version()\nexcept ditc.Error as error: print(error)"
        done = subprocess.run([sys.executable, "-c", code], cwd=os.path.dirname(os.path.abspath(__file__)), capture_output=True, text=True,
                              env={**os.environ, "DITC_RUNTIME": "/nowhere/libditrt.so"}, check=True)
        self.assertRegex(done.stdout, "cannot load the ditc runtime: /nowhere/libditrt.so .*set DITC_RUNTIME")


if __name__ == "__main__":
    unittest.main()
