# SPDX-License-Identifier: Apache-2.0
"""One run after the other: arguments become tensors of the C interface, results come in the caller's framework."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any, Mapping, Sequence

from . import abi
from .errors import USAGE, Error
from .package import Bucket, Package, bucket_name
from .placement import GpuFramework
from .prepared import PLAIN, Prepared, PreparedCalls, Ran
from .structure import flatten, unflatten
from .tensors import empty, framework, structs, view

MISSED = object()  # instead of results: this call must go the long way


class Context:
    """Scratch memory of one bucket run after the other. One thread at a time; made by ``model.context()``."""

    def __init__(self, package: Package):
        self._package = package
        handle = abi.CONTEXT()
        package.library.context_create(package.handle, ctypes.byref(handle))
        self._handle = handle
        self._held: Any = None  # what the last run on a stream may still read
        self._calls = PreparedCalls(package)
        self._writing = threading.Lock()  # addresses into a prepared call
        self._gpu: GpuFramework | None = None
        self._spare: tuple[Prepared, Any, list[Any]] | None = None  # see _take_results
        self._seen_pinned: dict[tuple[str, str], tuple[Any, int | None]] = {}
        weakref.finalize(self, package.library.context_destroy, handle).atexit = False

    def __call__(self, *, out: Any = None, bucket: str | None = None, stream: int | None = None, **inputs: Any) -> Any:
        """Runs the package; see Model.__call__."""
        return self.run(inputs, out=out, bucket=bucket, stream=stream)

    def run(
        self, inputs: Mapping[str, Any], *, out: Any = None, bucket: str | None = None, stream: int | None = None
    ) -> Any:
        """The same with inputs as a mapping, whose names may be dotted (``{"states.0": t}``)."""
        results = self.repeat(inputs, out, bucket, stream)
        if results is not MISSED:
            return results
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
        gpu = self._gpu_of(kind)
        if gpu is None:
            ran = self._run(tensors, kind, out, bucket, stream, abi.HOST)
        else:
            with gpu.scope(stream):
                placed = {name: gpu.place(tensor) for name, tensor in tensors.items()}
                ran = self._run(placed, kind, out, bucket, gpu.current_stream(), abi.CUDA)
                gpu.record([*placed.values(), *ran.results.values()])
        self._calls.learn(kind, gpu, inputs, bucket, ran)
        return unflatten({**ran.results, **dict.fromkeys(package.nones)})

    def repeat(
        self, inputs: Mapping[str, Any], out: Any = None, bucket: Any = None, stream: Any = None, *, exact: bool = False
    ) -> Any:
        """What `run` does, when a call like this one has run before; else MISSED, and nothing has happened.

        With ``exact`` calls that are padded are missed.
        """
        call, tensors = self._calls.find(inputs, bucket)
        if call is None or (exact and call.is_padded) or not (stream is None or (type(stream) is int and stream >= 0)):
            return MISSED
        for index, name in call.pinned:
            if not self._is_known_pinned(call.bucket.name, name, tensors[index]):
                return MISSED
        given = () if out is None else self._accepted(call, out)
        if given is None or (call.gpu is None and not all(map(call.framework.is_dense, tensors))):
            return MISSED
        if not self._writing.acquire(False):  # by another thread, which the library refuses in its own words
            return MISSED
        try:
            if call.gpu is not None:
                return call.assemble(self._repeat_on_gpu(call, call.gpu, tensors, given, stream))
            return call.assemble(self._repeat_on_host(call, tensors, given))
        finally:
            self._writing.release()

    def _repeat_on_host(self, call: Prepared, tensors: list[Any], given: Sequence[Any]) -> list[Any]:
        call.write_inputs(tensors)
        results = call.write_results(given)
        weights = self._package.borrowed
        self._package.library.repeat(self._handle, *call.arguments)
        del weights  # until here: they may be replaced while this run reads them
        return results

    def _repeat_on_gpu(
        self, call: Prepared, gpu: GpuFramework, tensors: list[Any], given: Sequence[Any], stream: int | None
    ) -> list[Any]:
        current = gpu.current_stream()
        if stream is not None and stream != current:
            with gpu.scope(stream):
                return self._repeat_on_gpu(call, gpu, tensors, given, None)
        placed = call.place_inputs(tensors, gpu)
        pool = None if given else gpu.pool(current)
        results = call.write_results(given) if given else self._take_results(call, pool)
        weights = self._package.borrowed
        self._package.library.repeat_on(self._handle, *call.arguments, ctypes.c_void_p(current))
        gpu.record_all(current, placed)
        if given:  # the other results were made on this stream
            gpu.record_all(current, results)
        elif pool is not None:
            self._spare = call, pool, call.make_results()
        self._held = (placed, results, weights)
        return results

    def _take_results(self, call: Prepared, pool: Any) -> list[Any]:
        """Results of a call, with their addresses in its arguments. While the GPU works on a call those of the next one
        like it are made, which a GPU that is waited for in every step would otherwise wait for in turn."""
        spare, self._spare = self._spare, None
        if spare is None or pool is None or spare[0] is not call or spare[1] != pool:
            return call.write_results(())
        call.write_places(spare[2])
        return spare[2]

    def _accepted(self, call: Prepared, out: Any) -> list[Any] | None:
        """``out`` in the order of the call's results, with None for those to be made; None when it is not like what was
        made for the call before."""
        if len(call.output_indices) == 1 and call.accepts(0, out):
            return [out]
        named = self._by_name(out)
        if not named.keys() <= call.output_indices.keys():
            return None
        if not all(call.accepts(call.output_indices[name], value) for name, value in named.items()):
            return None
        return [named.get(name) for name in call.output_indices]

    def _gpu_of(self, kind: str) -> GpuFramework | None:
        """Of the framework that the inputs come from; None when the run takes memory of the host."""
        if not self._package.on_gpu or kind == "numpy":
            return None
        if self._gpu is None or self._gpu.kind != kind:
            self._gpu = GpuFramework(kind, self._package.device_index)
        return self._gpu

    def _run(
        self, tensors: Mapping[str, Any], kind: str, out: Any, bucket: str | None, stream: int | None, place: int
    ) -> Ran:
        """Runs with tensors that are where they should be; new results are made at ``place``."""
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
        return Ran(chosen, list(tensors), views, results, outputs)

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
        given = {} if out is None else self._by_name(out)
        missing = {name: info for name, info in bucket.outputs.items() if name not in given}
        made = {
            name: empty(kind, abi.DTYPE_VALUES[info.dtype], info.shape, place, self._package.device_index)
            for name, info in missing.items()
        }
        return {**{name: given.get(name, made.get(name)) for name in bucket.outputs}, **given}

    def _by_name(self, out: Any) -> dict[str, Any]:
        """The tensors of ``out=`` by the names of outputs."""
        if isinstance(out, Mapping):
            return flatten(out)
        names = self._package.outputs
        if isinstance(out, (list, tuple)):
            leaves = flatten({"output": out})
            # In the order of the outputs, where they are nested or have names.
            return leaves if leaves.keys() <= names.keys() or len(leaves) != len(names) else dict(zip(names, leaves.values()))
        if len(names) != 1:
            raise Error(f"out= is one tensor, but the package has the outputs {', '.join(names)}; give a dict", USAGE)
        return {next(iter(names)): out}


def _version(tensor: Any) -> int | None:
    """torch's count of in-place changes; None where there is none, as in inference mode."""
    try:
        return tensor._version
    except (AttributeError, RuntimeError):
        return None
