# SPDX-License-Identifier: Apache-2.0
"""Reads tensors of other libraries without copies: DLPack capsules (old and versioned) and Python buffers.

A capsule is not consumed: it is kept for as long as its memory is used, and its own destructor frees the tensor.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from typing import Any, NamedTuple

from . import abi
from .errors import Error

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY

# (DLDataTypeCode, bits) -> name.
_DTYPES = {
    (0, 8): "i8",
    (0, 16): "i16",
    (0, 32): "i32",
    (0, 64): "i64",
    (1, 8): "u8",
    (1, 16): "u16",
    (1, 32): "u32",
    (1, 64): "u64",
    (2, 16): "f16",
    (2, 32): "f32",
    (2, 64): "f64",
    (4, 16): "bf16",
    (5, 32): "c32",
    (5, 64): "c64",
    (5, 128): "c128",
    (6, 8): "b1",
    (10, 8): "f8e4m3",
    (12, 8): "f8e5m2",
}


class View(NamedTuple):
    """Memory of somebody else's tensor. ``strides`` in elements, None when dense; ``owner`` keeps it alive."""

    data: int
    dtype: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: int
    index: int
    readonly: bool
    owner: Any


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [py_object, ctypes.c_char_p]
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = c_void_p, [py_object, ctypes.c_char_p]


def from_dlpack(value: Any, stream: int | None) -> View:
    """A view of ``value``, which has ``__dlpack__``. On CUDA its work is ordered before ``stream``.

    Raises BufferError when it cannot be exported, Error when its type or device is none of ditc's.
    """
    on_gpu = value.__dlpack_device__()[0] == CUDA
    if on_gpu and stream is None and hasattr(value, "block_until_ready"):  # jax, which has no stream to follow
        value.block_until_ready()
    # 0 is ambiguous in the protocol; 1 is the default stream.
    keywords: dict[str, Any] = {"stream": stream or 1} if on_gpu and stream is not None else {}
    try:
        capsule = value.__dlpack__(max_version=(1, 0), **keywords)
    except TypeError:  # made before versions were
        capsule = value.__dlpack__(**keywords)
    return from_capsule(capsule)


def from_capsule(capsule: Any) -> View:
    """A view of a ``dltensor`` or ``dltensor_versioned`` capsule. Raises Error for other ones."""
    readonly = False
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise Error(f"the tensor is exported by DLPack {managed.major}.{managed.minor}; ditc reads version 1")
        readonly = bool(managed.flags & READ_ONLY)
        tensor = managed.tensor
    elif _is_valid(capsule, b"dltensor"):
        tensor = _Tensor.from_address(_get_pointer(capsule, b"dltensor"))
    else:
        raise Error(f"expected a DLPack capsule that nobody has used, got {capsule!r}")
    name = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        raise Error(
            f"ditc has no type for the DLPack type (code {tensor.code}, {tensor.bits} bits, "
            f"{tensor.lanes} lanes); convert the tensor before the call"
        )
    if tensor.device_type not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        raise Error(
            f"the tensor is on DLPack device type {tensor.device_type}; ditc takes tensors of the host and of CUDA"
        )
    on_gpu = tensor.device_type in (CUDA, CUDA_MANAGED)
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.ndim and tensor.strides else None
    return View(
        (tensor.data or 0) + tensor.byte_offset,
        abi.DTYPE_VALUES[name],
        shape,
        strides,
        abi.CUDA if on_gpu else abi.HOST,
        tensor.device_id if on_gpu else 0,
        readonly,
        capsule,
    )


class _Buffer(ctypes.Structure):
    """Py_buffer; owns the export until it is collected."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", POINTER(ctypes.c_ssize_t)),
        ("strides", POINTER(ctypes.c_ssize_t)),
        ("suboffsets", POINTER(ctypes.c_ssize_t)),
        ("internal", c_void_p),
    ]

    def __del__(self) -> None:
        _release(ctypes.byref(self))


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.restype, _get_buffer.argtypes = ctypes.c_int, [py_object, POINTER(_Buffer), ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.restype, _release.argtypes = None, [POINTER(_Buffer)]
_STRIDES_AND_FORMAT = 0x0010 | 0x0008 | 0x0004

_KINDS = {**dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQNc", "u"), **dict.fromkeys("efd", "f"), "?": "b"}


def from_buffer(value: Any, dtype: str | None = None) -> View:
    """A view of an object with the buffer protocol: array.array, bytes, memoryview, numpy arrays.

    ``dtype`` overrides what the buffer says, for types of the same size that Python has not (bf16).
    """
    buffer = _Buffer()
    _get_buffer(value, ctypes.byref(buffer), _STRIDES_AND_FORMAT)
    name = dtype or _format_name((buffer.format or b"B").decode(), buffer.itemsize)
    if name is None or abi.DTYPE_SIZES[abi.DTYPE_VALUES[name]] != buffer.itemsize:
        raise Error(
            f"a buffer of format '{(buffer.format or b'B').decode()}' with elements of {buffer.itemsize} bytes is "
            f"{'none of the types of ditc' if name is None else 'not ' + name}; convert the tensor before the call"
        )
    shape = tuple(buffer.shape[: buffer.ndim])
    steps = tuple(buffer.strides[: buffer.ndim])
    if any(step % buffer.itemsize for step in steps):
        raise Error(f"the buffer has steps of {steps} bytes for elements of {buffer.itemsize}; make it contiguous")
    return View(
        buffer.buf or 0,
        abi.DTYPE_VALUES[name],
        shape,
        tuple(step // buffer.itemsize for step in steps),
        abi.HOST,
        0,
        bool(buffer.readonly),
        buffer,
    )


def _format_name(text: str, itemsize: int) -> str | None:
    code = text.lstrip("@=<")
    if code in ("Zf", "Zd"):
        return {8: "c64", 16: "c128"}[itemsize]
    kind = _KINDS.get(code)
    return {"b": "b1"}.get(kind, f"{kind}{8 * itemsize}") if kind else None
