# SPDX-License-Identifier: Apache-2.0
"""Tensor maps: how the copy engine sees a tensor."""
import ctypes

import torch

from .driver import check, library

DTYPES = {torch.uint8: 0, torch.float8_e4m3fn: 0, torch.float16: 6, torch.float32: 7, torch.bfloat16: 9}  # e4m3 as bytes
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
PROMOTE_L2_256 = 3


def encode(pointer, dtype, sizes, strides, box, swizzle=128):
    """The 128 bytes of a map. Sizes, strides and box from the innermost dimension out, in elements; the innermost
    stride is 1 and is left out of `strides`."""
    rank = len(sizes)
    assert len(strides) == rank - 1 and len(box) == rank
    element_bytes = torch.empty(0, dtype=dtype).element_size()
    room = ctypes.create_string_buffer(128 + 64)
    address = (ctypes.addressof(room) + 63) & ~63
    check(library().cuTensorMapEncodeTiled(
        ctypes.c_void_p(address), DTYPES[dtype], rank, ctypes.c_void_p(pointer),
        (ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * (rank - 1))(*[s * element_bytes for s in strides]),
        (ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*[1] * rank),
        0, SWIZZLES[swizzle], PROMOTE_L2_256, 0), f"tensor map of {sizes}, strides {strides}, box {box}")
    return ctypes.string_at(address, 128)
