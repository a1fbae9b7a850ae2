# SPDX-License-Identifier: Apache-2.0
"""The declarations of ditc.h as ctypes. tests/python/test_abi.py holds them against the header."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

# ditc_dtype. Names are those that packages and messages use.
DTYPES = tuple("f64 f32 f16 bf16 i64 i32 i16 i8 u8 u16 u32 u64 b1 c32 c64 c128 f8e4m3 f8e5m2".split())
DTYPE_SIZES = (8, 4, 2, 2, 8, 4, 2, 1, 1, 2, 4, 8, 1, 4, 8, 16, 1, 1)
DTYPE_VALUES = {name: value for value, name in enumerate(DTYPES)}

# ditc_device.
HOST = 0
CUDA = 1

# ditc_bucket_policy, by the names of on_unknown_shape. The callback of C is not used from Python.
POLICIES = {"error": 0, "nearest": 1}


class Tensor(ctypes.Structure):
    """ditc_tensor"""

    _fields_ = [
        ("name", c_char_p),
        ("data", c_void_p),
        ("dtype", c_int),
        ("ndim", c_int32),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("device", c_int),
    ]


class TensorInfo(ctypes.Structure):
    """ditc_tensor_info"""

    _fields_ = [("name", c_char_p), ("dtype", c_int), ("ndim", c_int32), ("shape", POINTER(c_int64))]


class Options(ctypes.Structure):
    """ditc_options"""

    _fields_ = [
        ("size", c_size_t),
        ("device", c_char_p),
        ("threads", c_uint32),
        ("weight_files", POINTER(c_char_p)),
        ("weight_file_count", c_size_t),
        ("skip_weight_check", c_int),
        ("memory_budget", c_uint64),
        ("no_graphs", c_int),
        ("no_jit", c_int),
    ]


class MemoryInfo(ctypes.Structure):
    """ditc_memory_info"""

    _fields_ = [
        ("size", c_size_t),
        ("weight_bytes", c_uint64),
        ("prepared_bytes", c_uint64),
        ("context_bytes", c_uint64),
    ]


PACKAGE = c_void_p
CONTEXT = c_void_p
TENSORS = POINTER(Tensor)


class Status(c_int):
    """ditc_status; Library checks it."""


# Function -> (result, arguments).
FUNCTIONS = {
    "ditc_version": (c_char_p, []),
    "ditc_last_error": (c_char_p, []),
    "ditc_dtype_name": (c_char_p, [c_int]),
    "ditc_dtype_size": (c_size_t, [c_int]),
    "ditc_open": (Status, [c_char_p, POINTER(Options), POINTER(PACKAGE)]),
    "ditc_close": (None, [PACKAGE]),
    "ditc_bucket_count": (c_size_t, [PACKAGE]),
    "ditc_bucket_name": (c_char_p, [PACKAGE, c_size_t]),
    "ditc_input_count": (c_size_t, [PACKAGE]),
    "ditc_output_count": (c_size_t, [PACKAGE]),
    "ditc_input_info": (Status, [PACKAGE, c_char_p, c_size_t, POINTER(TensorInfo)]),
    "ditc_output_info": (Status, [PACKAGE, c_char_p, c_size_t, POINTER(TensorInfo)]),
    "ditc_weight_count": (c_size_t, [PACKAGE]),
    "ditc_weight_info": (Status, [PACKAGE, c_size_t, POINTER(TensorInfo)]),
    "ditc_weight_is_missing": (c_int, [PACKAGE, c_char_p]),
    "ditc_set_weights": (Status, [PACKAGE, TENSORS, c_size_t, c_int]),
    "ditc_update_weights": (Status, [PACKAGE, TENSORS, c_size_t]),
    "ditc_revert_weights": (Status, [PACKAGE]),
    "ditc_memory": (Status, [PACKAGE, POINTER(MemoryInfo)]),
    "ditc_prepare": (Status, [PACKAGE, c_char_p]),
    "ditc_choose_bucket": (Status, [PACKAGE, TENSORS, c_size_t, POINTER(c_char_p)]),
    "ditc_output_shape": (Status, [PACKAGE, c_char_p, TENSORS, c_size_t, c_size_t, POINTER(c_int64)]),
    "ditc_set_bucket_policy": (Status, [PACKAGE, c_int, c_void_p, c_void_p]),
    "ditc_context_create": (Status, [PACKAGE, POINTER(CONTEXT)]),
    "ditc_context_destroy": (None, [CONTEXT]),
    "ditc_run": (Status, [CONTEXT, c_char_p, TENSORS, c_size_t, TENSORS, c_size_t]),
    "ditc_run_on": (Status, [CONTEXT, c_char_p, TENSORS, c_size_t, TENSORS, c_size_t, c_void_p]),
}
