# SPDX-License-Identifier: Apache-2.0
"""ditc.wrap: the module's calls and results, its weights, and eager runs where the package ends."""

import dataclasses
import types
import unittest
import unittest.mock
import warnings

import support
from support import (
    HAS_DIFFUSERS,
    HAS_NUMPY,
    HAS_TORCH,
    ditc,
    golden,
    needs_compiler,
    needs_diffusers,
    needs_numpy,
    needs_torch,
)

if HAS_NUMPY:
    import numpy
if HAS_TORCH:
    import torch
if HAS_DIFFUSERS:
    import diffusers
    from diffusers.models.modeling_outputs import Transformer2DModelOutput


@dataclasses.dataclass
class FakeOutput:
    sample: object


class FakeModule:
    """What wrap needs of a torch module, over the weights of a package."""

    config = types.SimpleNamespace(in_channels=4)

    def __init__(self, weights):
        self.weights, self.eager_calls = weights, 0

    def forward(self, hidden_states, timestep=None, class_labels=None, cross_attention_kwargs=None, return_dict: bool = True) -> "FakeOutput | tuple":
        return ("eager", hidden_states)

    def __call__(self, *args, **kwargs):
        self.eager_calls += 1
        return self.forward(*args, **kwargs)

    def named_parameters(self, remove_duplicate=True):
        return list(self.weights.items())

    named_buffers = named_parameters

    def state_dict(self):
        return {**self.weights, "extra_state": object()}

    def eval(self):
        return self


class WithDevice(ditc.Tensor):
    device = "cpu"


def weights_of(path):
    import zipfile
    with zipfile.ZipFile(path) as archive:
        return {name: WithDevice(archive.read(f"weights/{name}"), *info) for name, info in ditc.load(path).weights.items()}


@needs_compiler
class Wrap(support.TestCase):
    """Without torch: the rules."""

    def setUp(self):
        self.module = FakeModule(weights_of(support.dit()))
        self.wrapped = ditc.wrap(self.module, support.dit("--weights-in", "none"), output_type=FakeOutput)
        self.inputs = golden("dit", "inputs")
        self.expected = golden("dit", "outputs")["output.0"]

    def test_results_are_what_the_module_returns(self):
        result = self.wrapped(**self.inputs)
        self.assertIsInstance(result, FakeOutput)
        self.assert_close(result.sample, self.expected)
        (result,) = self.wrapped(**self.inputs, return_dict=False)
        self.assert_close(result, self.expected)
        self.assertEqual((self.wrapped.calls, self.wrapped.fallbacks, self.module.eager_calls), (2, 0, 0))

    def test_other_things_than_modules_are_refused(self):
        for other in (None, self.module.forward):
            with self.assertRaisesRegex(ditc.Error, "takes the torch module that the package was compiled from, not") as caught:
                ditc.wrap(other, support.dit())
            self.assertEqual(caught.exception.status, 2)

    def test_arguments_by_position_and_empty_ones(self):
        values = [self.inputs[name] for name in ("hidden_states", "timestep", "class_labels")]
        for further in ((), (None,), ({},), ({}, False)):
            self.assert_close(list(vars(self.wrapped(*values, *further)).values())[0] if len(further) < 2 else self.wrapped(*values, *further)[0],
                              self.expected)
        with self.assertRaises(TypeError):
            self.wrapped(*values, nonsense=1)

    def test_what_the_package_does_not_cover_runs_eagerly(self):
        one = {name: ditc.Tensor(tensor.data[:len(tensor.data) // 2], tensor.dtype, (1, *tensor.shape[1:])) for name, tensor in self.inputs.items()}
        cases = ((one, "no bucket takes 'hidden_states' .1, 4, 16, 16."),
                 ({**self.inputs, "cross_attention_kwargs": {"scale": 0.5}}, "'cross_attention_kwargs.scale' was not an input"),
                 ({**self.inputs, "timestep": 3}, "'timestep' is 3, the package takes a tensor"),
                 ({**self.inputs, "timestep": None}, "'timestep' is None, the package takes a tensor"),
                 ({**self.inputs, "timestep": ditc.Tensor(bytes(8), "f32", (2,))}, "'timestep' is f32, the package takes i64"))
        for count, (arguments, text) in enumerate(cases, 1):
            with self.assertWarnsRegex(UserWarning, text):
                self.assertEqual(self.wrapped(**arguments)[0], "eager")
            self.assertEqual((self.wrapped.fallbacks, self.module.eager_calls), (count, count))
            self.assertRegex(self.wrapped.last_fallback, text)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the same reason again
            self.wrapped(**cases[-1][0])

    def test_or_is_an_error(self):
        strict = ditc.wrap(self.module, support.dit(), on_unknown_shape="error", weights="package")
        with self.assertRaisesRegex(ditc.Error, "'timestep' is missing; compile a bucket for it"):
            strict(self.inputs["hidden_states"])
        self.assertEqual(self.module.eager_calls, 0)

    def test_or_is_padded(self):
        wrapped = ditc.wrap(self.module, support.dit("--weights-in", "none"), "nearest", output_type=FakeOutput)
        one = {name: support.first_rows(value, 1) for name, value in self.inputs.items()}
        sample = wrapped(**one, return_dict=True).sample
        self.assertEqual(tuple(sample.shape), (1, 8, 16, 16))
        whole = support.numbers(wrapped(**self.inputs, return_dict=True).sample)
        self.assertLess(max(abs(a - b) for a, b in zip(support.numbers(sample), whole)), 1e-4)
        self.assertEqual(self.module.eager_calls, 0)

    def test_arguments_that_do_not_matter_are_ignored_when_told(self):
        wrapped = ditc.wrap(self.module, support.dit(), weights="package", output_type=FakeOutput, ignore=("cross_attention_kwargs",))
        self.assert_close(wrapped(**self.inputs, cross_attention_kwargs={"scale": 0.5}).sample, self.expected)

    def test_attributes_are_the_module_s(self):
        self.assertEqual(self.wrapped.config.in_channels, 4)
        self.assertIs(self.wrapped.eval(), self.wrapped)
        with self.assertRaises(AttributeError):
            self.wrapped.nonsense

    def test_weights_of_the_module(self):
        name = next(name for name, held in self.module.weights.items() if len(held.shape) == 2)
        self.module.weights[name] = WithDevice(bytes(len(self.module.weights[name].data)), "f32", self.module.weights[name].shape)
        self.assert_close(self.wrapped(**self.inputs).sample, self.expected)
        self.wrapped.reload_weights()
        with self.assertRaises(AssertionError):
            self.assert_close(self.wrapped(**self.inputs).sample, self.expected)
        del self.module.weights[name]
        with self.assertRaisesRegex(ditc.Error, f"needs weights that are not among .*: {name}"):
            ditc.wrap(self.module, support.dit("--weights-in", "none"))

    def test_wrong_options(self):
        for options in ({"on_unknown_shape": "pad"}, {"weights": "none"}):
            with self.assertRaisesRegex(ditc.Error, "expected"):
                ditc.wrap(self.module, support.dit(), **options)

    def test_the_output_type_is_found_or_asked_for(self):
        self.assertIs(ditc.wrap(self.module, support.dit()).output_type, FakeOutput)
        self.wrapped.output_type = None
        with self.assertRaisesRegex(ditc.Error, "wrap with output_type="):
            self.wrapped(**self.inputs)


@needs_compiler
@needs_numpy
class Repeated(support.TestCase):
    """Calls like one that has run before."""

    def setUp(self):
        self.module = FakeModule({})
        self.model = ditc.load(support.dit(), on_unknown_shape="nearest")
        self.wrapped = ditc.wrap(self.module, self.model, weights="package", output_type=FakeOutput)
        self.inputs = {name: numpy.asarray(tensor) for name, tensor in golden("dit", "inputs").items()}
        self.expected = golden("dit", "outputs")["output.0"]
        self.wrapped(**self.inputs)

    def test_by_name_and_by_position(self):
        values = [self.inputs[name] for name in ("hidden_states", "timestep", "class_labels")]
        self.wrapped(*values)
        with unittest.mock.patch.object(self.model, "run", side_effect=AssertionError("the long way")):
            self.assert_close(self.wrapped(**self.inputs).sample, self.expected)
            self.assert_close(self.wrapped(*values, None, False)[0], self.expected)
            self.assert_close(self.wrapped(*values, cross_attention_kwargs={}).sample, self.expected)
        self.assertEqual((self.wrapped.calls, self.wrapped.fallbacks), (5, 0))

    def test_arguments_that_do_not_fit_the_signature(self):
        values = [self.inputs[name] for name in ("hidden_states", "timestep", "class_labels")]
        for args, kwargs, text in (((*values, None, False, 1), {}, "too many positional"), (values, {"timestep": values[1]}, "multiple values"),
                                   ((), {"timestep": values[1]}, "missing a required argument: 'hidden_states'"), (values, {"other": 1}, "unexpected keyword")):
            with self.assertRaisesRegex(TypeError, text):
                self.wrapped(*args, **kwargs)

    def test_a_call_that_the_model_padded_runs_eagerly_by_this_policy(self):
        one = {name: value[:1].copy() for name, value in self.inputs.items()}
        for _ in range(2):
            self.assertEqual(self.model(**one)[0].shape, (1, 8, 16, 16))
        with self.assertWarnsRegex(UserWarning, "no bucket takes 'hidden_states' .1, 4, 16, 16."):
            self.assertEqual(self.wrapped(**one)[0], "eager")

    def test_forward_with_open_arguments(self):
        module = FakeModule({})
        module.forward = lambda hidden_states, **kwargs: None
        wrapped = ditc.wrap(module, self.model, weights="package")
        for _ in range(2):
            self.assert_close(wrapped(**self.inputs)[0], self.expected)


class ControlNet(torch.nn.Module if HAS_TORCH else object):
    """As those of diffusers: a list and None as results, a number of Python and a list that is not always there as arguments."""

    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(8, 8)

    def forward(self, hidden_states, conditioning_scale=1.0, samples=None):
        hidden_states = self.proj(hidden_states)
        for sample in samples or ():
            hidden_states = hidden_states + sample
        return [hidden_states * conditioning_scale], None


@needs_compiler
@needs_torch
class Beside(support.TestCase):
    """What ControlNets take and give."""

    @classmethod
    def setUpClass(cls):
        cls.module = ControlNet().eval()
        cls.hidden_states = torch.randn(4, 8)
        cls.samples = [torch.randn(4, 8), torch.randn(4, 8)]
        plain = {"hidden_states": cls.hidden_states, "conditioning_scale": torch.tensor(0.5)}
        cls.paths = [support.scratch() / name for name in ("plain.dita", "control.dita")]
        for path, kwargs in zip(cls.paths, (plain, {**plain, "samples": cls.samples})):
            ditc.compile(cls.module, kwargs=kwargs, output=path)

    def assert_same(self, wrapped, *arguments):
        (result,), none = wrapped(*arguments)
        with torch.no_grad():
            torch.testing.assert_close(result, self.module(*arguments)[0][0])
        self.assertIsNone(none)

    def test_numbers_where_the_package_has_a_tensor(self):
        wrapped = ditc.wrap(self.module, self.paths[0], on_unknown_shape="error")
        for scale in (0.7, 0.7, 0, torch.tensor(0.25), 0.7):
            self.assert_same(wrapped, self.hidden_states, scale)
        with self.assertRaisesRegex(ditc.Error, "'conditioning_scale' is True"):
            wrapped(self.hidden_states, True)

    def test_a_package_for_calls_with_samples_and_one_for_those_without(self):
        inner = ditc.wrap(self.module, self.paths[0], on_unknown_shape="error")
        wrapped = ditc.wrap(inner, self.paths[1])
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing runs eagerly
            for samples in (self.samples, None, tuple(self.samples)):
                self.assert_same(wrapped, self.hidden_states, 0.7, samples)
        self.assertEqual((wrapped.calls, wrapped.fallbacks, inner.calls, inner.fallbacks), (3, 1, 1, 0))


def tiny_dit():
    torch.manual_seed(0)
    module = diffusers.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2,
                                             sample_size=8, num_embeds_ada_norm=1000).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return module


@needs_compiler
@needs_diffusers
class Diffusers(support.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.module = tiny_dit()
        cls.inputs = {"hidden_states": torch.randn(4, 4, 8, 8), "timestep": torch.tensor([3, 500, 1, 999]), "class_labels": torch.tensor([1, 2, 3, 4])}
        batch = {0: torch.export.Dim("batch", min=1, max=8)}
        shapes = {"hidden_states": batch, "timestep": batch, "class_labels": batch, "return_dict": None}
        cls.package = ditc.compile(cls.module, kwargs={**cls.inputs, "return_dict": False}, dynamic_shapes=shapes, output=support.scratch() / "tiny.dita",
                                   buckets={"four": {"hidden_states.0": 4}}, options=["--weights-in", "none"])

    def test_same_results_from_the_module_s_own_weights(self):
        wrapped = ditc.wrap(self.module, self.package, on_unknown_shape="error")
        with torch.no_grad():
            expected = self.module(**self.inputs)
            for result in (wrapped(**self.inputs), wrapped(self.inputs["hidden_states"], self.inputs["timestep"], class_labels=self.inputs["class_labels"])):
                self.assertIsInstance(result, Transformer2DModelOutput)
                self.assert_close(result.sample, expected.sample)
            self.assertIsInstance(wrapped(**self.inputs, return_dict=False), tuple)
        self.assertEqual((wrapped.dtype, str(wrapped.device), wrapped.config.in_channels), (torch.float32, "cpu", 4))

    def test_in_a_pipeline(self):
        vae = diffusers.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=4)
        pipeline = diffusers.DiTPipeline(transformer=self.module, vae=vae, scheduler=diffusers.DDIMScheduler())
        pipeline.set_progress_bar_config(disable=True)

        def images():
            return pipeline(class_labels=[1, 2], num_inference_steps=3, generator=torch.manual_seed(0), output_type="np").images

        expected = images()
        pipeline.transformer = ditc.wrap(self.module, self.package, on_unknown_shape="error")
        self.assert_close(images(), expected)
        self.assertEqual((pipeline.transformer.calls, pipeline.transformer.fallbacks), (3, 0))


if __name__ == "__main__":
    unittest.main()
