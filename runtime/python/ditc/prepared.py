# SPDX-License-Identifier: Apache-2.0
"""Calls that repeat. What a run has found out about its arguments is kept: the next one with tensors of the same names,
types, shapes and places only writes their addresses. All else, and all that is wrong, goes the long way of context.py.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from . import abi
from .dlpack import View
from .package import Bucket, Package
from .placement import ALIGNMENT, GpuFramework
from .structure import assembler, flatten
from .tensors import structs

# Arguments that are no tensors; the export fixed their values.
PLAIN = (bool, int, float, str, type(None))
MOST = 64  # prepared calls of a context; sizes that never come back must not pile up


def _torch_traits(value: Any) -> tuple[Any, ...]:
    return value.dtype, value.shape, value.device, value.layout, value.is_neg()


def _numpy_traits(value: Any) -> tuple[Any, ...]:
    return value.dtype, value.shape


def _numpy_address(value: Any) -> int:
    return value.__array_interface__["data"][0]


def _is_dense_array(value: Any) -> bool:
    return value.flags.c_contiguous


class Framework:
    """How tensors of torch or numpy are read without DLPack: exact classes only, since others may mean other memory."""

    def __init__(self, kind: str):
        self.kind = kind
        module = sys.modules[kind]
        self.empty: Callable[..., Any] = module.empty_strided if kind == "torch" else module.empty
        if kind == "torch":
            self.classes = (module.Tensor, module.nn.Parameter)
            self.traits: Callable[[Any], tuple[Any, ...]] = _torch_traits
            self.address: Callable[[Any], int] = module.Tensor.data_ptr
            self.is_dense: Callable[[Any], bool] = module.Tensor.is_contiguous
        else:
            self.classes = (module.ndarray,)
            self.traits, self.address, self.is_dense = _numpy_traits, _numpy_address, _is_dense_array

    def maker(self, value: Any) -> Callable[[], Any]:
        """A function that makes a tensor like this one, not filled."""
        if self.kind == "numpy":
            return functools.partial(self.empty, value.shape, value.dtype)
        strides, step = [], 1
        for size in reversed(value.shape):
            strides.insert(0, step)
            step *= max(size, 1)
        # torch.empty takes twice the time, for the conversion of the sizes.
        return functools.partial(self.empty, value.shape, strides, dtype=value.dtype, device=value.device)


class Ran(NamedTuple):
    """A run: its bucket, the names of all tensors of the call, what was handed over, and results with their memory."""

    bucket: Bucket
    names: list[str]
    views: dict[str, View]
    results: dict[str, Any]
    outputs: dict[str, View]


class Prepared:
    """A bucket that ran with certain tensors, ready to run with others like them.

    ``pinned`` are inputs that must be known ones and are not handed over, by place in the call; ``is_padded``: the
    tensors are smaller than the bucket; ``nones`` are results without a tensor; ``arguments`` of ditc_run after the context; ``gpu``: where it runs, else None.
    """

    def __init__(
        self, made_by: Framework, ran: Ran, gpu: GpuFramework | None, tensors: Sequence[Any], nones: Sequence[str]
    ):
        self.framework, self.bucket, self.gpu = made_by, ran.bucket, gpu
        views = {name: ran.views[name]._replace(strides=None) for name in ran.names if name in ran.views}
        outputs = {name: held._replace(strides=None) for name, held in ran.outputs.items()}
        sizes = {name: info.shape for name, info in ran.bucket.inputs.items()}
        self.is_padded = any(view.shape != sizes.get(name, view.shape) for name, view in views.items())
        self.pinned = [(index, name) for index, name in enumerate(ran.names) if name not in views]
        self._arrays = structs(views), structs(outputs)
        inputs, places = (ctypes.c_void_p(ctypes.addressof(array)) for array in self._arrays)
        counts = ctypes.c_size_t(len(views)), ctypes.c_size_t(len(outputs))
        self.arguments = (ctypes.c_char_p(ran.bucket.name.encode()), inputs, counts[0], places, counts[1])
        handed_over = [index for index, name in enumerate(ran.names) if name in views]
        self._inputs = list(zip(handed_over, self._arrays[0]))
        self._outputs = list(self._arrays[1])
        self._is_foreign = [gpu is not None and not tensor.is_cuda for tensor in tensors]
        self._makers = [made_by.maker(value) for value in ran.results.values()]
        self._traits = [made_by.traits(value) for value in ran.results.values()]
        self.output_indices = {name: index for index, name in enumerate(ran.results)}
        self.assemble = assembler(list(ran.results), nones)

    def accepts(self, index: int, value: Any) -> bool:
        """Whether ``value`` may take the place of a result that was made here."""
        framework = self.framework
        return (
            type(value) in framework.classes
            and framework.traits(value) == self._traits[index]
            and framework.is_dense(value)
            and (value.flags.writeable if framework.kind == "numpy" else value.data_ptr() % ALIGNMENT == 0)
        )

    def write_inputs(self, tensors: list[Any]) -> None:
        """Addresses of tensors of the host into the arguments."""
        address = self.framework.address
        for index, entry in self._inputs:
            entry.data = address(tensors[index])

    def place_inputs(self, tensors: list[Any], gpu: GpuFramework) -> list[Any]:
        """The same on a GPU; tensors of the host, strided and misaligned ones are replaced by copies. What was handed
        over."""
        placed = []
        for index, entry in self._inputs:
            value = tensors[index]
            address = value.data_ptr()
            if self._is_foreign[index] or address % ALIGNMENT or not value.is_contiguous():
                value = gpu.place(value)
                address = value.data_ptr()
            entry.data = address
            placed.append(value)
        return placed

    def write_results(self, given: Sequence[Any]) -> list[Any]:
        """The same for the results, which are returned. Those not given are made."""
        if given:
            results = [make() if held is None else held for held, make in zip(given, self._makers)]
        else:
            results = self.make_results()
        self.write_places(results)
        return results

    def make_results(self) -> list[Any]:
        """New tensors for all results, not filled."""
        return [make() for make in self._makers]

    def write_places(self, results: Sequence[Any]) -> None:
        """Addresses of the results into the arguments."""
        address = self.framework.address
        for entry, value in zip(self._outputs, results):
            entry.data = address(value)


class PreparedCalls:
    """The prepared calls of one context."""

    def __init__(self, package: Package):
        self._package = package
        self._frameworks: dict[str, Framework] = {}
        self._traits: dict[type, Callable[[Any], tuple[Any, ...]]] = {}  # by exact class
        self._tensor_class: type | None = None  # torch.Tensor, when torch has been seen
        self._calls: dict[Any, Prepared] = {}
        self._last: tuple[Any, Prepared | None] = ([], None)

    def _key(self, inputs: Mapping[str, Any], bucket: str | None) -> tuple[list[Any] | None, list[Any]]:
        """What a call has in common with those like it, and its tensors; None and [] for what is never prepared."""
        known, tensor_class = self._traits, self._tensor_class
        parts: list[Any] = [bucket, self._package.pads]
        tensors = []
        for name, value in inputs.items():
            if type(value) is tensor_class:  # what _torch_traits does, without a call
                parts += name, value.dtype, value.shape, value.device, value.layout, value.is_neg()
                tensors.append(value)
                continue
            if type(value) in PLAIN:
                parts += name, value
                continue
            for leaf, held in ((name, value),) if type(value) in known else flatten({name: value}).items():
                traits = known.get(type(held))
                if traits is not None:
                    parts.append(leaf)
                    parts += traits(held)
                    tensors.append(held)
                elif isinstance(held, PLAIN):
                    parts += leaf, held
                else:
                    return None, []
        return parts, tensors

    def find(self, inputs: Mapping[str, Any], bucket: str | None) -> tuple[Prepared | None, list[Any]]:
        """The call like this one, if there is one, and this one's tensors in its order."""
        if not self._calls or type(inputs) is not dict or not (bucket is None or type(bucket) is str):
            return None, []
        key, tensors = self._key(inputs, bucket)
        last = self._last  # read once: a thread that should not be here may replace it
        if key == last[0]:
            return last[1], tensors
        call = self._calls.get(tuple(key)) if key else None
        if call is not None:
            self._last = (key, call)
        return call, tensors

    def learn(
        self, kind: str, gpu: GpuFramework | None, inputs: Mapping[str, Any], bucket: str | None, ran: Ran
    ) -> None:
        """Keeps a call that has just run, unless its like must be looked at anew each time: pinned inputs that are not
        known yet, results elsewhere than new ones, complex numbers (torch conjugates them lazily), derived classes."""
        package = self._package
        if kind not in ("torch", "numpy") or kind not in sys.modules or not package.pinned.isdisjoint(ran.views):
            return
        framework = self._frameworks.get(kind)
        if framework is None:
            framework = self._frameworks[kind] = Framework(kind)
            self._traits.update(dict.fromkeys(framework.classes, framework.traits))
            if kind == "torch":
                self._tensor_class = framework.classes[0]
        here = (abi.CUDA, package.device_index) if gpu is not None else (abi.HOST, 0)
        for held in (*ran.views.values(), *ran.outputs.values()):
            if (held.device, held.index) != here or abi.DTYPES[held.dtype].startswith("c"):
                return
        key, tensors = self._key(inputs, bucket)
        if key is None or len(tensors) != len(ran.names):
            return
        if not all(type(value) in framework.classes for value in (*tensors, *ran.results.values())):
            return
        if len(self._calls) >= MOST:
            self._calls.clear()
        self._calls[tuple(key)] = Prepared(framework, ran, gpu, tensors, package.nones)
