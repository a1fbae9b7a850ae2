# SPDX-License-Identifier: Apache-2.0
"""Loaded packages as callables, from any thread."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Mapping, Sequence

from . import abi
from .context import Context
from .errors import USAGE, Error
from .package import Bucket, Package, TensorInfo, bucket_name


class Model:
    """A package that is ready to run. Made by ditc.load; may be called from any number of threads.

    Attributes: ``inputs``, ``outputs``, ``weights`` (name -> TensorInfo), ``buckets`` (name -> Bucket),
    ``constants`` (arguments that the export fixed), ``device``, ``path``.
    """

    def __init__(self, package: Package):
        self._package = package
        self._local = threading.local()
        self.path: str = package.path
        self.device: str = package.device
        self.inputs: dict[str, TensorInfo] = package.inputs
        self.outputs: dict[str, TensorInfo] = package.outputs
        self.weights: dict[str, TensorInfo] = package.weights
        self.buckets: dict[str, Bucket] = package.buckets
        self.constants: dict[str, Any] = package.constants

    def __call__(self, *, out: Any = None, bucket: str | None = None, stream: int | None = None, **inputs: Any) -> Any:
        """Runs the bucket whose shapes the inputs have, in this thread's own context. With on_unknown_shape="nearest"
        inputs of fewer rows are padded to the smallest bucket that holds them, and results have their own rows only.

        Inputs by name; nested ones as dicts and lists; those that the export fixed may be left out. Returns a tensor,
        a tuple or a dict, as the exported module did, in the framework of the inputs (torch, cupy, else numpy), or in
        ``out``: a tensor, all in order, or a dict by name. On a GPU the work is put on ``stream`` (a CUDA stream's
        address), else on the current stream of torch or cupy, and is not waited for; otherwise it is done on return.

        Raises ditc.Error: a name, type, shape, device or fixed value that the package has not; missing weights.
        """
        return self._context().run(inputs, out=out, bucket=bucket, stream=stream)

    def run(
        self, inputs: Mapping[str, Any], *, out: Any = None, bucket: str | None = None, stream: int | None = None
    ) -> Any:
        """The same with inputs as a mapping, whose names may be dotted (``{"states.0": t}``)."""
        return self._context().run(inputs, out=out, bucket=bucket, stream=stream)

    def _context(self) -> Context:
        context = getattr(self._local, "context", None)
        if context is None:
            context = self._local.context = self.context()
        return context

    def context(self) -> Context:
        """A context of its own, for callers that spread calls over threads themselves."""
        return Context(self._package)

    def prepare(self, bucket: str | None = None) -> None:
        """Loads kernels and prepares weights of a bucket (None: of all) now rather than in its first run."""
        self._package.library.prepare(self._package.handle, bucket_name(bucket))

    def set_weights(self, tensors: Mapping[str, Any], *, borrow: bool = False) -> None:
        """Sets weights by name, all or none. With ``borrow`` they are not copied and must not change from then on.

        Raises ditc.Error: a name, type or shape that ``weights`` has not.
        """
        self._package.set_weights(tensors, borrow)

    def update_weights(self, tensors: Mapping[str, Any]) -> None:
        """Replaces values of weights by name, all or none, by copies: another checkpoint, a LoRA that was merged.

        Waits for runs that have begun; nothing is compiled or recorded again. Raises ditc.Error as set_weights does.
        """
        self._package.update_weights(tensors)

    def revert_weights(self) -> None:
        """Takes the last update_weights back, to the bit. Raises ditc.Error when there is none."""
        self._package.library.revert_weights(self._package.handle)

    def memory(self) -> dict[str, int]:
        """Bytes on the device: ``weights`` (without borrowed ones), ``prepared`` from them, ``context`` for each."""
        info = abi.MemoryInfo(size=ctypes.sizeof(abi.MemoryInfo))
        self._package.library.memory(self._package.handle, ctypes.byref(info))
        return {"weights": info.weight_bytes, "prepared": info.prepared_bytes, "context": info.context_bytes}

    def __repr__(self) -> str:
        return f"<ditc.Model '{self.path}' on {self.device}, buckets {', '.join(self.buckets)}>"


def _check_arguments(path: Any, weights: Any, memory_budget: Any, threads: Any) -> None:
    """What would otherwise fail in ctypes, or wrap around. Raises Error."""
    if not isinstance(path, (str, os.PathLike)):
        raise Error(f"the package is {path!r}; expected the path of a .dita file", USAGE)
    for name, value, most in (("memory_budget", memory_budget, 2**64), ("threads", threads, 2**32)):
        if name == "memory_budget" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < most:
            raise Error(f"{name} is {value!r}; expected a whole number from 0 to 2^{most.bit_length() - 1} - 1", USAGE)
    files = weights if isinstance(weights, Sequence) and not isinstance(weights, (str, bytes)) else [weights]
    if isinstance(weights, Mapping) or weights is None:
        return
    if isinstance(weights, bytes) or not all(isinstance(file, (str, os.PathLike)) for file in files):
        raise Error(
            f"weights is {weights!r}; expected None, a safetensors file, a list of them, or a mapping from names to tensors",
            USAGE,
        )


def load(
    path: str | os.PathLike[str],
    device: Any = None,
    weights: Any = None,
    *,
    graphs: bool = True,
    memory_budget: int | None = None,
    allow_jit: bool = True,
    on_unknown_shape: str = "error",
    threads: int = 0,
    check_weights: bool = True,
) -> Model:
    """Opens a package.

    device: "host", "cuda:N" or a torch.device; None: the host when the package has code for it, else the first GPU.
    weights: None (the package's), one or several safetensors files or *.safetensors.index.json in their place, or a
    mapping from names to tensors, such as ``module.state_dict()``, which are borrowed: they must not change while the
    model lives (``update_weights`` changes them). Names that the package does not know are passed over.
    graphs: run by CUDA graphs. memory_budget: bytes that the package may take on a GPU; None: what is free.
    allow_jit: take code that the CUDA driver has to compile, where the package has none for this very GPU.
    on_unknown_shape: "error", or "nearest": pad to the next larger bucket, in dimensions for which the compiler has shown
    that this changes nothing (an error for packages without any).
    threads: of matrix products on the host; 0: all. check_weights: hold weights against their hashes at first use.

    Raises ditc.Error: no package, damaged, made for another device; no library; weights of another type or shape.
    """
    _check_arguments(path, weights, memory_budget, threads)
    if on_unknown_shape not in abi.POLICIES:
        raise Error(f"on_unknown_shape is {on_unknown_shape!r}; expected one of {', '.join(abi.POLICIES)}", USAGE)
    is_mapping = isinstance(weights, Mapping)
    files: Sequence[Any] = (
        [] if weights is None or is_mapping else [weights] if isinstance(weights, (str, os.PathLike)) else weights
    )
    settings = {
        "threads": threads,
        "skip_weight_check": not check_weights,
        "memory_budget": memory_budget or 0,
        "no_graphs": not graphs,
        "no_jit": not allow_jit,
    }
    package = Package(os.fspath(path), device, [os.fspath(file) for file in files], settings)
    if on_unknown_shape != "error":
        package.set_policy(on_unknown_shape)
    if is_mapping:
        package.set_weights(package.weights_of(weights), borrow=True)
    return Model(package)
