# SPDX-License-Identifier: Apache-2.0
"""A compiled package in the place of a torch module: the same calls, the same results, eager where the package ends."""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
import typing
import warnings
from typing import Any, Callable, Mapping

from .abi import DTYPE_VALUES, HOST
from .context import MISSED
from .errors import USAGE, Error
from .model import Model, load
from .prepared import PLAIN
from .structure import flatten
from .tensors import empty, view

POLICIES = ("eager", "error", "nearest")
FLOATS = ("f64", "f32", "f16", "bf16")


def weights_of_module(module: Any) -> dict[str, Any]:
    """Parameters and buffers by name, also tied and non-persistent ones, as they lie in the module."""
    named = dict(module.named_buffers(remove_duplicate=False))
    named.update(module.named_parameters(remove_duplicate=False))
    named.update({name: value for name, value in module.state_dict().items() if hasattr(value, "shape")})
    return named


def innermost(module: Any) -> Any:
    """The torch module below whatever packages it is wrapped with."""
    while isinstance(module, Wrapped):
        module = module.module
    return module


def find_output_type(module: Any) -> type | None:
    """The class that forward returns with ``return_dict=True``: from its annotation, else the only class called
    ``...Output`` that the module's source file knows. None when neither tells."""
    forward = inspect.unwrap(type(innermost(module)).forward)
    try:
        annotation = typing.get_type_hints(forward).get("return")
    except Exception:  # annotations may name what was only imported for a type checker
        annotation = None
    known = [held for name, held in getattr(forward, "__globals__", {}).items() if name.endswith("Output")]
    for found in ([annotation, *typing.get_args(annotation)], known):
        classes = {held for held in found if isinstance(held, type) and dataclasses.is_dataclass(held)}
        if len(classes) == 1:
            return classes.pop()
    return None


def _plain_parameters(signature: inspect.Signature) -> tuple[list[str], frozenset[str], frozenset[str]]:
    """Names that may be given by position, by name, and must be given; none at all when binding takes more."""
    parameters = signature.parameters.values()
    if not all(held.kind in (held.POSITIONAL_OR_KEYWORD, held.KEYWORD_ONLY) for held in parameters):
        return [], frozenset(), frozenset()
    return (
        [held.name for held in parameters if held.kind is held.POSITIONAL_OR_KEYWORD],
        frozenset(signature.parameters),
        frozenset(held.name for held in parameters if held.default is held.empty),
    )


class Wrapped:
    """What ditc.wrap returns. Attributes that it has not (``config``, ``dtype``, ``device``) are the module's.

    ``model`` is the package, ``module`` the eager module (or another package around it), ``calls`` the number of calls, ``fallbacks`` how many of them
    ran eagerly, ``last_fallback`` why.
    """

    def __init__(
        self, module: Any, model: Model, policy: str, output_type: Callable[..., Any] | None, ignore: tuple[str, ...]
    ):
        self.module = module
        self.model = model
        self.policy = policy
        self.output_type = output_type
        self.ignore = frozenset(ignore)
        self.calls = 0
        self.fallbacks = 0
        self.last_fallback: str | None = None
        self._numbers: dict[str, tuple[Any, Any]] = {}
        self._signature = inspect.signature(innermost(module).forward)
        self._positional, self._named, self._required = _plain_parameters(self._signature)
        self._return_dict = self._default("return_dict")
        self._inputs = frozenset({*model.inputs, *model.constants, *model._package.pinned})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Arguments of the module's forward. Raises ditc.Error when the package cannot take them, by policy."""
        self.calls += 1
        arguments = self._bind(args, kwargs)
        wants_dict = arguments.pop("return_dict", self._return_dict)
        inputs, reason = self._inputs_of(arguments)
        if reason is None:
            result, reason = self._run(inputs)
            if reason is None:
                return self._as_module_returns(result, wants_dict)
        return self._fall_back(reason, args, kwargs)

    forward = __call__

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name; those of ``**kwargs`` among them. Raises TypeError as the call of forward would."""
        merged = dict(zip(self._positional, args), **kwargs) if len(args) <= len(self._positional) else {}
        if len(merged) == len(args) + len(kwargs) and self._required <= merged.keys() <= self._named:
            return merged
        bound = self._signature.bind(*args, **kwargs)
        arguments: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                arguments.update(value)
            else:
                arguments[name] = value
        return arguments

    def _default(self, name: str) -> Any:
        parameter = self._signature.parameters.get(name)
        return parameter.default if parameter and parameter.default is not parameter.empty else None

    def _inputs_of(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """What the package is called with, and why it cannot be called, if so."""
        inputs: dict[str, Any] = {}
        for name, value in arguments.items():
            if name in self._inputs and not isinstance(value, (dict, list, tuple, Mapping)):
                inputs[name] = value
                continue
            leaves = flatten({name: value})
            known = self._inputs & leaves.keys()
            if not known and (name in self.ignore or not leaves or self._is_default(name, value)):
                continue
            for leaf, held in leaves.items():
                if leaf not in known and held is not None:
                    return inputs, f"argument '{leaf}' was not an input when the package was compiled"
            inputs.update((leaf, leaves[leaf]) for leaf in leaves if leaf in known)
        return self._tensors_of(inputs)

    def _is_default(self, name: str, value: Any) -> bool:
        return value is None or (isinstance(value, (bool, int, float, str)) and value == self._default(name))

    def _tensors_of(self, inputs: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
        """Checks and drops the fixed arguments among ``inputs``."""
        tensors = {}
        for name, value in inputs.items():
            if not isinstance(value, PLAIN):
                tensors[name] = value
            elif self._takes_number(name, value):
                tensors[name] = self._number(name, value)
            elif name not in self.model.constants:
                return inputs, f"argument '{name}' is {value!r}, the package takes a tensor"
            elif value != self.model.constants[name]:
                return (
                    inputs,
                    f"argument '{name}' is {value!r}, the package was compiled with {self.model.constants[name]!r}",
                )
        return tensors, None

    def _takes_number(self, name: str, value: Any) -> bool:
        """Whether the package has a tensor without dimensions where the module is given a number of Python."""
        port = self.model.inputs.get(name)
        if port is None or port.shape or isinstance(value, bool) or "torch" not in sys.modules:
            return False
        return isinstance(value, (int, float) if port.dtype in FLOATS else int)

    def _number(self, name: str, value: Any) -> Any:
        """Such a tensor. The last one of each name is kept: a pipeline gives the same in most steps."""
        last, tensor = self._numbers.get(name, (None, None))
        if tensor is None or last != value:
            tensor = empty("torch", DTYPE_VALUES[self.model.inputs[name].dtype], (), HOST, 0)
            tensor.fill_(value)
            self._numbers[name] = (value, tensor)
        return tensor

    def _run(self, inputs: dict[str, Any]) -> tuple[Any, str | None]:
        """The package's results, or why it cannot be called."""
        result = self.model._context().repeat(inputs, exact=self.policy != "nearest")
        if result is not MISSED:
            return result, None
        reason = self._misfit(inputs)
        if reason is not None:
            return None, reason
        try:
            return self.model.run(inputs), None
        except Error as error:
            if not self.model._package.pinned & inputs.keys():
                raise
            return None, str(error)  # most likely: another value than the one that is compiled in

    def _misfit(self, tensors: Mapping[str, Any]) -> str | None:
        """Why no bucket takes the tensors by the policy."""
        if self.policy == "nearest":
            return None
        return self.model._package.misfit({name: view(value, f"input '{name}'") for name, value in tensors.items()})

    def _fall_back(self, reason: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        text = f"'{self.model.path}' cannot take this call: {reason}"
        if self.policy != "eager":
            raise Error(f'{text}; compile a bucket for it, or wrap with on_unknown_shape="eager"')
        self.fallbacks += 1
        if self.last_fallback != reason and not isinstance(self.module, Wrapped):
            warnings.warn(f"{text}; the eager module runs instead", stacklevel=3)
        self.last_fallback = reason
        return self.module(*args, **kwargs)

    def _as_module_returns(self, result: Any, wants_dict: Any) -> Any:
        if "return_dict" not in self._signature.parameters:
            return result
        fields = result if isinstance(result, dict) else None
        values = tuple(result.values()) if fields else result if isinstance(result, tuple) else (result,)
        if not wants_dict:
            return values
        if self.output_type is None:
            raise Error(
                f"the class that {type(self.module).__name__} returns is not known; wrap with output_type=, or call "
                "with return_dict=False",
                USAGE,
            )
        return self.output_type(**fields) if fields else self.output_type(*values)

    def reload_weights(self) -> None:
        """Takes the module's weights again, after they were changed or replaced (a fused LoRA, ``load_state_dict``)."""
        package = self.model._package
        package.set_weights(package.weights_of(weights_of_module(self.module)), borrow=True)

    def to(self, *args: Any, **kwargs: Any) -> Wrapped:
        """Moves or converts the eager module. The package stays on its device, with the weights that it has."""
        self.module.to(*args, **kwargs)
        return self

    def eval(self) -> Wrapped:
        """The package is always in inference mode; the eager module is set to it."""
        self.module.eval()
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Wrapped:
        """Of the eager module; the package computes no gradients."""
        self.module.requires_grad_(requires_grad)
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "module":  # not yet set: __init__ failed, or an unpickled object
            raise AttributeError(name)
        return getattr(self.module, name)

    def __repr__(self) -> str:
        counts = f"{self.fallbacks} of {self.calls} calls eager"
        return f"<ditc.Wrapped {type(self.module).__name__} by {self.model!r}, {counts}>"


def wrap(
    module: Any,
    package: str | os.PathLike[str] | Model,
    on_unknown_shape: str = "eager",
    weights: str = "module",
    *,
    device: Any = None,
    output_type: Callable[..., Any] | None = None,
    ignore: tuple[str, ...] = (),
    **options: Any,
) -> Wrapped:
    """Puts a package in the place of the torch module that it was compiled from: ``pipe.transformer = ditc.wrap(...)``.

    on_unknown_shape: what happens to a call that no bucket of the package takes as it is (other shapes or types,
    arguments that were not there or had another value at the export): "eager" runs ``module``, counts it in
    ``fallbacks`` and warns; "error" raises ditc.Error;
    "nearest" pads to the next larger bucket, in packages compiled for that, and raises for what else does not fit.
    module may be wrapped already: this package then takes the calls that are its own, that one the others.
    weights: "module" borrows the module's own memory (call ``reload_weights`` after changing it), "package" uses those
    of the package. device: as in ditc.load; None: where the module's parameters are.
    output_type: what to make of the results with ``return_dict=True``; found by itself for classes of diffusers.
    ignore: names of arguments that do not change the result and may have any value. options: see ditc.load.

    Raises ditc.Error: see ditc.load; the module lacks a weight that the package needs.
    """
    if on_unknown_shape not in POLICIES:
        raise Error(f"on_unknown_shape is {on_unknown_shape!r}; expected one of {', '.join(POLICIES)}", USAGE)
    if weights not in ("module", "package"):
        raise Error(f'weights is {weights!r}; expected "module" or "package"', USAGE)
    if not hasattr(module, "named_parameters"):
        raise Error(f"wrap takes the torch module that the package was compiled from, not {type(module).__name__}", USAGE)
    named = weights_of_module(module)
    if isinstance(package, Model):
        model = package
    else:
        place = device if device is not None else next((value.device for value in named.values()), None)
        model = load(package, place, **options)
    if on_unknown_shape == "nearest":
        model._package.set_policy("nearest")
    wrapped = Wrapped(module, model, on_unknown_shape, output_type or find_output_type(module), ignore)
    if weights == "module":
        wrapped.reload_weights()
    return wrapped
