# SPDX-License-Identifier: Apache-2.0
"""Tensors of all frameworks as views, new tensors in the caller's framework, and Tensor, which needs none."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from math import prod
from typing import Any, Sequence

from . import abi
from .dlpack import View, from_buffer, from_dlpack
from .errors import USAGE, Error

_STRUCT_CODES = {
    "f64": "d",
    "f32": "f",
    "f16": "e",
    "i64": "q",
    "i32": "i",
    "i16": "h",
    "i8": "b",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "b1": "?",
    "bf16": "H",
    "f8e4m3": "B",
    "f8e5m2": "B",
}
_NUMPY_NAMES = {
    "b1": "bool",
    "c64": "complex64",
    "c128": "complex128",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    **{f"{kind}{bits}": f"{word}{bits}" for kind, word in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
}
_TORCH_NAMES = {**_NUMPY_NAMES, "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


class Tensor:
    """A dense tensor in memory of the host, for programs without numpy or torch.

    ``data`` is any writable or read-only buffer with the elements in row-major order. numpy reads it without a
    copy (``numpy.asarray(tensor)``) when numpy has the type.
    """

    def __init__(self, data: Any, dtype: str, shape: Sequence[int]):
        if dtype not in abi.DTYPE_VALUES:
            raise Error(f"'{dtype}' is no type; the types are {', '.join(abi.DTYPES)}", USAGE)
        self.data = memoryview(data).cast("B")
        self.dtype = dtype
        self.shape = tuple(shape)
        expected = prod(self.shape) * abi.DTYPE_SIZES[abi.DTYPE_VALUES[dtype]]
        if len(self.data) != expected:
            raise Error(f"{dtype} {list(self.shape)} takes {expected} bytes, got {len(self.data)}", USAGE)

    @staticmethod
    def empty(dtype: str, shape: Sequence[int]) -> Tensor:
        """A tensor of zeros."""
        return Tensor(bytearray(prod(shape) * abi.DTYPE_SIZES[abi.DTYPE_VALUES[dtype]]), dtype, shape)

    def tolist(self) -> Any:
        """Nested lists of numbers, or a number for no dimensions. bf16 as floats. Raises Error for fp8 and complex."""
        if self.dtype.startswith(("c", "f8")):
            raise Error(f"{self.dtype} has no Python numbers; read .data", USAGE)
        code = _STRUCT_CODES[self.dtype]
        flat: Any = struct.unpack(f"<{prod(self.shape)}{code}", self.data)
        if self.dtype == "bf16":
            flat = struct.unpack(f"<{len(flat)}f", struct.pack(f"<{len(flat)}I", *(bits << 16 for bits in flat)))
        for size in reversed(self.shape[1:]):
            flat = [list(flat[i : i + size]) for i in range(0, len(flat), size)] if size else []
        return list(flat) if self.shape else flat[0]

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.dtype not in _NUMPY_NAMES:
            raise AttributeError(f"numpy has no type {self.dtype}")
        kind = {"b": "b", "i": "i", "u": "u", "f": "f", "c": "c"}[self.dtype[0]]
        size = abi.DTYPE_SIZES[abi.DTYPE_VALUES[self.dtype]]
        return {
            "shape": self.shape,
            "typestr": f"{'|' if size == 1 else '<'}{kind}{size}",
            "data": self.data,
            "version": 3,
        }

    def __repr__(self) -> str:
        return f"ditc.Tensor({self.dtype} {list(self.shape)})"


def framework(value: Any) -> str:
    """Where new tensors beside this one come from: "torch", "cupy" or "numpy" (also for all others)."""
    if is_torch(value):
        return "torch"
    return "cupy" if type(value).__module__.split(".")[0] == "cupy" else "numpy"


def view(value: Any, what: str, stream: int | None = None) -> View:
    """The memory of a tensor. ``what`` names it in messages.

    Raises Error for what is no tensor, has no memory, or has a type or device that ditc does not know.
    """
    if isinstance(value, Tensor):
        flat = from_buffer(value.data)
        return flat._replace(dtype=abi.DTYPE_VALUES[value.dtype], shape=value.shape, strides=None)
    if is_torch(value):
        return _torch_view(value, what)
    try:
        if hasattr(value, "__dlpack__"):
            try:
                return from_dlpack(value, stream)
            except BufferError:  # a read-only array before numpy 2.1, a bool before numpy 1.25
                return from_buffer(value)
        return from_buffer(value)
    except (TypeError, NotImplementedError):
        raise Error(
            f"{what} is {_describe(value)}; expected a tensor: torch, numpy, anything with __dlpack__ or the buffer "
            "protocol, or ditc.Tensor"
        ) from None
    except Error as error:
        raise Error(f"{what}: {error}") from None
    except (BufferError, ValueError) as error:  # in the words of the other library
        raise Error(f"{what}: {error}; convert the tensor before the call") from None


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _describe(value: Any) -> str:
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else f"of type {type(value).__name__}"


@functools.lru_cache(maxsize=None)
def _torch_types() -> dict[Any, int]:
    torch = sys.modules["torch"]
    return {getattr(torch, name): abi.DTYPE_VALUES[key] for key, name in _TORCH_NAMES.items() if hasattr(torch, name)}


def _torch_view(value: Any, what: str) -> View:
    """Without DLPack, which refuses tensors that need gradients and costs more than the launch of a small kernel."""
    torch = sys.modules["torch"]
    if value.layout is not torch.strided or hasattr(value, "__tensor_flatten__") or value.is_conj() or value.is_neg():
        raise Error(
            f"{what} is a {type(value).__name__} that is no plain memory (sparse, quantised, conjugated or negated "
            "lazily); make it a dense tensor before the call"
        )
    if value.device.type not in ("cpu", "cuda"):
        raise Error(f"{what} is on device '{value.device}'; ditc takes tensors of cpu and cuda")
    if value.dtype not in _torch_types():
        raise Error(f"{what} is {value.dtype}, which ditc has not; convert it before the call")
    on_gpu = value.device.type == "cuda"
    plain = value.detach()  # holds the memory, even when the parameter gets another one
    return View(
        plain.data_ptr(),
        _torch_types()[value.dtype],
        tuple(value.shape),
        None if value.is_contiguous() else value.stride(),
        abi.CUDA if on_gpu else abi.HOST,
        value.device.index or 0 if on_gpu else 0,
        False,
        plain,
    )


def empty(kind: str, dtype: int, shape: Sequence[int], device: int, index: int) -> Any:
    """A new tensor of the framework ``kind``; Tensor where numpy is missing or lacks the type.

    Raises Error when the memory must be on a GPU and the framework has none there.
    """
    name = abi.DTYPES[dtype]
    if kind == "torch" and name in _TORCH_NAMES:
        torch = sys.modules["torch"]
        place = f"cuda:{index}" if device == abi.CUDA else "cpu"
        return torch.empty(tuple(shape), dtype=getattr(torch, _TORCH_NAMES[name]), device=place)
    if device == abi.CUDA:
        if kind != "cupy" or name not in _NUMPY_NAMES:
            raise Error(f"an output of type {name} on a GPU cannot be made by {kind}; pass tensors as out=")
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(index):
            return cupy.empty(tuple(shape), dtype=_NUMPY_NAMES[name])
    try:
        import numpy
    except ImportError:
        return Tensor.empty(name, shape)
    return numpy.empty(tuple(shape), dtype=_NUMPY_NAMES[name]) if name in _NUMPY_NAMES else Tensor.empty(name, shape)


def structs(views: dict[str, View]) -> Any:
    """An array of ditc_tensor. It borrows: the views must live as long."""
    array = (abi.Tensor * len(views))()
    for entry, (name, held) in zip(array, views.items()):
        count = len(held.shape)
        sizes = ctypes.c_int64 * count
        entry.name, entry.data, entry.dtype, entry.ndim, entry.device = (
            name.encode(),
            held.data,
            held.dtype,
            count,
            held.device,
        )
        entry.shape = sizes(*held.shape)
        if held.strides is not None and count:
            entry.strides = sizes(*held.strides)
    return array
