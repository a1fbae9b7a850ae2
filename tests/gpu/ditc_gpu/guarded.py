# SPDX-License-Identifier: Apache-2.0
"""Tensors whose memory ends where the GPU's address space has a hole: a kernel that reads past their end faults.

torch's allocator puts tensors side by side in large blocks, where a read past the end of one goes unnoticed until, in
somebody's process, the block ends there. Each tensor here takes whole pages of 2 MiB, the last of which it ends, up to 15 bytes:
kernels may count on addresses that are multiples of 16.
"""
import ctypes

import torch

from . import driver

ALIGNMENT = 16
RECOMMENDED, PINNED, DEVICE, READ_WRITE = 1, 1, 1, 3  # CUmemAllocationGranularity, -Type, CUmemLocationType, CUmemAccess


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", _Location), ("metadata", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class _Pages:
    """Memory for `size` bytes that ends with its pages; the pages behind are reserved and stay empty."""

    def __init__(self, size):
        library, address, handle, page = driver.library(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_size_t()
        location = _Location(DEVICE, torch.cuda.current_device())
        properties = _Properties(type=PINNED, location=location)
        driver.check(library.cuMemGetAllocationGranularity(ctypes.byref(page), ctypes.byref(properties), RECOMMENDED), "page size")
        step = page.value
        self.bytes, self.reserved = -(-max(size, 1) // step) * step, -(-max(size, 1) // step) * step + step
        driver.check(library.cuMemAddressReserve(ctypes.byref(address), ctypes.c_size_t(self.reserved), ctypes.c_size_t(step), ctypes.c_uint64(0), ctypes.c_uint64(0)),
                     "reserving addresses")
        driver.check(library.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(self.bytes), ctypes.byref(properties), ctypes.c_uint64(0)), "guarded memory")
        driver.check(library.cuMemMap(address, ctypes.c_size_t(self.bytes), ctypes.c_size_t(0), handle, ctypes.c_uint64(0)), "mapping")
        driver.check(library.cuMemSetAccess(address, ctypes.c_size_t(self.bytes), ctypes.byref(_Access(location, READ_WRITE)), ctypes.c_size_t(1)), "access")
        self.address, self.handle = address, handle
        start = address.value + self.bytes - -(-size // ALIGNMENT) * ALIGNMENT
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (start, False), "version": 3}

    def __del__(self):
        library = driver.library()
        torch.cuda.synchronize()
        library.cuMemUnmap(self.address, ctypes.c_size_t(self.bytes))
        library.cuMemRelease(self.handle)
        library.cuMemAddressFree(self.address, ctypes.c_size_t(self.reserved))


def full(count, value, dtype):
    """`count` elements of this value."""
    flat = torch.as_tensor(_Pages(count * dtype.itemsize), device="cuda").view(dtype) if count else torch.empty(0, dtype=dtype, device="cuda")
    return flat.fill_(value)


def guarded(tensor):
    """A contiguous copy."""
    copy = full(tensor.numel(), 0, tensor.dtype).view(tensor.shape)
    return copy.copy_(tensor)
