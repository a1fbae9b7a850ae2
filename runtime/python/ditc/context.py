# SPDX-License-Identifier: Apache-2.0
"""One run after the other: arguments become tensors of the C interface, results come in the caller's framework."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Mapping

from . import abi
from .errors import USAGE, Error
from .package import Bucket, Package, bucket_name
from .placement import GpuFramework
from .structure import flatten, unflatten
from .tensors import empty, framework, structs, view

# Arguments that are no tensors; the export fixed their values.
PLAIN = (bool, int, float, str, type(None))


class Context:
    """Scratch memory of one bucket run after the other. One thread at a time; made by ``model.context()``."""

    def __init__(self, package: Package):
        self._package = package
        handle = abi.CONTEXT()
        package.library.context_create(package.handle, ctypes.byref(handle))
        self._handle = handle
        self._held: Any = None  # what the last run on a stream may still read
        self._seen_pinned: dict[tuple[str, str], tuple[Any, int | None]] = {}
        weakref.finalize(self, package.library.context_destroy, handle).atexit = False

    def __call__(self, *, out: Any = None, bucket: str | None = None, stream: int | None = None, **inputs: Any) -> Any:
        """Runs the package; see Model.__call__."""
        return self.run(inputs, out=out, bucket=bucket, stream=stream)

    def run(
        self, inputs: Mapping[str, Any], *, out: Any = None, bucket: str | None = None, stream: int | None = None
    ) -> Any:
        """The same with inputs as a mapping, whose names may be dotted (``{"states.0": t}``)."""
        package = self._package
        if not isinstance(inputs, Mapping):
            raise Error(f"inputs are a {type(inputs).__name__}; expected a mapping from names to tensors", USAGE)
        bucket_name(bucket)
        if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int) or stream < 0):
            raise Error(f"stream is {stream!r}; expected a CUDA stream's address, such as torch's stream.cuda_stream", USAGE)
        leaves = flatten(inputs)
        tensors = {name: leaf for name, leaf in leaves.items() if not self._is_checked_constant(name, leaf)}
        kinds = {framework(tensor) for tensor in tensors.values()}
        kind = next((kind for kind in ("torch", "cupy") if kind in kinds), "numpy")
        gpu = GpuFramework(kind, package.device_index) if package.on_gpu and kind != "numpy" else None
        if gpu is None:
            results = self._run(tensors, kind, out, bucket, stream, abi.HOST)
        else:
            with gpu.scope(stream):
                placed = {name: gpu.place(tensor) for name, tensor in tensors.items()}
                results = self._run(placed, kind, out, bucket, gpu.current_stream(), abi.CUDA)
                gpu.record([*placed.values(), *results.values()])
        return unflatten(results)

    def _run(
        self, tensors: Mapping[str, Any], kind: str, out: Any, bucket: str | None, stream: int | None, place: int
    ) -> dict[str, Any]:
        """Runs with tensors that are where they should be; results by name, new ones at ``place``."""
        package = self._package
        views = {name: view(tensor, f"input '{name}'", stream) for name, tensor in tensors.items()}
        chosen = package.choose_bucket(views, bucket)
        for name in package.pinned & views.keys():
            if self._is_known_pinned(chosen.name, name, tensors[name]):
                del views[name]
        results = self._results(chosen, kind, out, place)
        outputs = {name: view(tensor, f"output '{name}'", stream) for name, tensor in results.items()}
        for name, held in outputs.items():
            if held.readonly:
                raise Error(f"output '{name}' is read-only memory; give a tensor that may be written", USAGE)
        call = (self._handle, chosen.name.encode(), structs(views), len(views), structs(outputs), len(outputs))
        weights = package.borrowed
        if stream is not None and package.on_gpu:
            package.library.run_on(*call, stream)
            self._held = (views, outputs, weights)
        else:
            package.library.run(*call)
            del weights  # until here: they may be replaced while this run reads them
        self._remember_pinned(chosen.name, tensors)
        return results

    def _is_checked_constant(self, name: str, value: Any) -> bool:
        """Whether ``value`` is no tensor but what the package was compiled with. Raises Error when it is not."""
        constants = self._package.constants
        if not isinstance(value, PLAIN):
            return False
        if name not in constants:
            expected = self._package.inputs.get(name)
            what = (
                f"a tensor {expected.dtype} {list(expected.shape)}"
                if expected
                else f"one of {', '.join(self._package.inputs)}"
            )
            raise Error(f"input '{name}' is {value!r}, expected {what}", USAGE)
        if value != constants[name]:
            raise Error(
                f"input '{name}' is {value!r}, but '{self._package.path}' was compiled with {constants[name]!r}; "
                "leave it out, give that value, or compile again"
            )
        return True

    def _is_known_pinned(self, bucket: str, name: str, tensor: Any) -> bool:
        """A tensor that a run has found to be the pinned one, unchanged since: comparing waits for the GPU."""
        seen = self._seen_pinned.get((bucket, name))
        return seen is not None and seen[0]() is tensor and seen[1] == _version(tensor)

    def _remember_pinned(self, bucket: str, tensors: Mapping[str, Any]) -> None:
        for name in self._package.pinned & tensors.keys():
            if _version(tensors[name]) is not None:
                self._seen_pinned[bucket, name] = (weakref.ref(tensors[name]), _version(tensors[name]))

    def _results(self, bucket: Bucket, kind: str, out: Any, place: int) -> dict[str, Any]:
        """Tensors for all outputs of the bucket by name: those of ``out``, new ones for the rest."""
        package = self._package
        given: dict[str, Any] = {}
        if isinstance(out, Mapping):
            given = flatten(out)
        elif isinstance(out, (list, tuple)):
            given = flatten({"output": out})
        elif out is not None:
            if len(package.outputs) != 1:
                raise Error(
                    f"out= is one tensor, but the package has the outputs {', '.join(package.outputs)}; give a dict",
                    USAGE,
                )
            given = {next(iter(package.outputs)): out}
        missing = {name: info for name, info in bucket.outputs.items() if name not in given}
        made = {
            name: empty(kind, abi.DTYPE_VALUES[info.dtype], info.shape, place, package.device_index)
            for name, info in missing.items()
        }
        return {**{name: given.get(name, made.get(name)) for name in bucket.outputs}, **given}


def _version(tensor: Any) -> int | None:
    """torch's count of in-place changes; None where there is none, as in inference mode."""
    try:
        return tensor._version
    except (AttributeError, RuntimeError):
        return None
