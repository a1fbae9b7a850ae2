# SPDX-License-Identifier: Apache-2.0
"""Reads and writes safetensors without other packages: files and request bodies as ditc.Tensor by name."""

from __future__ import annotations

import json
import mmap
import struct
from math import prod
from typing import Any, Mapping

from . import abi
from .errors import Error
from .tensors import Tensor, view

_NAMES = {
    "F64": "f64",
    "F32": "f32",
    "F16": "f16",
    "BF16": "bf16",
    "I64": "i64",
    "I32": "i32",
    "I16": "i16",
    "I8": "i8",
    "U8": "u8",
    "U16": "u16",
    "U32": "u32",
    "U64": "u64",
    "BOOL": "b1",
    "C64": "c64",
    "F8_E4M3": "f8e4m3",
    "F8_E5M2": "f8e5m2",
}
_SAFETENSORS_NAMES = {name: key for key, name in _NAMES.items()}


def load(path: str) -> dict[str, Tensor]:
    """Tensors of a file, mapped and not copied. Raises Error when it is no such file, OSError when it is not there."""
    with open(path, "rb") as file:
        try:
            data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # empty
            data = b""
    return loads(data, path)


def loads(data: Any, what: str = "the data") -> dict[str, Tensor]:
    """Tensors of a buffer that holds a safetensors file; they borrow its memory. Raises Error when it is none."""
    memory = memoryview(data).cast("B")
    try:
        size = struct.unpack_from("<Q", memory)[0]
        header = json.loads(bytes(memory[8 : 8 + size]))
        header.pop("__metadata__", None)
        tensors = {}
        for name, entry in header.items():
            first, last = (8 + size + offset for offset in entry["data_offsets"])
            if last > len(memory):
                raise ValueError(f"'{name}' ends at byte {last} of {len(memory)}")
            tensors[name] = Tensor(memory[first:last], _NAMES[entry["dtype"]], entry["shape"])
        return tensors
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, OverflowError, Error) as error:
        raise Error(f"{what} is no safetensors file that ditc can read: {error}") from None


def dumps(tensors: Mapping[str, Any]) -> bytes:
    """The safetensors file with these dense tensors of the host, of any framework. Raises Error for others."""
    header, parts, offset = {}, [], 0
    for name, tensor in tensors.items():
        held = view(tensor, f"'{name}'")
        dtype = abi.DTYPES[held.dtype]
        if held.device != abi.HOST or dtype not in _SAFETENSORS_NAMES or not _is_dense(held.shape, held.strides):
            raise Error(f"'{name}' is not a dense tensor of the host of a type that safetensors has; convert it first")
        size = prod(held.shape) * abi.DTYPE_SIZES[held.dtype]
        header[name] = {
            "dtype": _SAFETENSORS_NAMES[dtype],
            "shape": list(held.shape),
            "data_offsets": [offset, offset + size],
        }
        parts.append((abi.ctypes.c_char * size).from_address(held.data).raw if size else b"")
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *parts])


def save(tensors: Mapping[str, Any], path: str) -> None:
    """Writes what dumps gives to a file."""
    with open(path, "wb") as file:
        file.write(dumps(tensors))


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    if 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides or ())):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True
