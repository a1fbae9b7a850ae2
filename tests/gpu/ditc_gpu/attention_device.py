# SPDX-License-Identifier: Apache-2.0
"""Launches attention cubins through the CUDA driver on torch tensors. Tensors are views (batch, token, head, column)."""

import ctypes
import os

import torch

from attention_kernels import Kernel, SmallKernel

cuda = ctypes.CDLL("libcuda.so.1")
LOG2E = 1.4426950408889634
TORCH_TYPE = {"BF16": torch.bfloat16, "F16": torch.float16}


def check(status, what):
    if status != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value.decode() if text.value else status}")


class Aligned:
    """Host bytes on a 64-byte boundary, as tensor maps want."""

    def __init__(self, size):
        self.raw = ctypes.create_string_buffer(size + 64)
        self.address = (ctypes.addressof(self.raw) + 63) // 64 * 64


def encode_map(address, tensor, box):
    """A map over (column, token, head, batch) of a view; the swizzle follows from the box's width."""
    batch, tokens, heads, columns = tensor.shape
    size = tensor.element_size()
    # A dimension of one element is never stepped along, so its stride may be anything legal.
    strides = [s * size if n > 1 else 16 for s, n in zip(tensor.stride()[:3], tensor.shape[:3])]
    assert tensor.stride(3) == 1 and tensor.data_ptr() % 16 == 0 and all(s % 16 == 0 for s in strides)
    type_code = {torch.float16: 6, torch.bfloat16: 9}[tensor.dtype]
    swizzle = {16: 1, 32: 2, 64: 3}[box[0]]
    status = cuda.cuTensorMapEncodeTiled(
        ctypes.c_void_p(address), ctypes.c_int(type_code), ctypes.c_uint32(4), ctypes.c_void_p(tensor.data_ptr()),
        (ctypes.c_uint64 * 4)(columns, tokens, heads, batch),
        (ctypes.c_uint64 * 3)(strides[1], strides[2], strides[0]),
        (ctypes.c_uint32 * 4)(*box), (ctypes.c_uint32 * 4)(1, 1, 1, 1),
        ctypes.c_int(0), ctypes.c_int(swizzle), ctypes.c_int(3), ctypes.c_int(0))
    check(status, f"tensor map {tuple(tensor.shape)} {tensor.stride()} box {box}")


class Function:
    def __init__(self, folder, name, entry, shared_bytes=0):
        with open(os.path.join(folder, name + ".cubin"), "rb") as file:
            self.image = file.read()
        module, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuModuleLoadData(ctypes.byref(module), self.image), f"loading {name}")
        check(cuda.cuModuleGetFunction(ctypes.byref(self.handle), module, entry.encode()), entry)
        self.shared_bytes = shared_bytes
        if shared_bytes > 48 * 1024:
            check(cuda.cuFuncSetAttribute(self.handle, 8, shared_bytes), f"{shared_bytes} bytes of shared memory")

    def launch(self, grid, threads, arguments):
        pointers = (ctypes.c_void_p * len(arguments))(
            *[a.address if isinstance(a, Aligned) else ctypes.addressof(a) for a in arguments])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        check(cuda.cuLaunchKernel(self.handle, *grid, threads, 1, 1, self.shared_bytes, stream, pointers, None), "launch")


class Attention:
    """A kernel bound to tensors; calling it launches. q, k, v, out: (batch, token, head, column) views."""

    def __init__(self, folder, kernel, cache={}):
        if kernel not in cache:
            cache[kernel] = Function(folder, kernel.name, "attention", kernel.shared_bytes)
        self.kernel, self.function = kernel, cache[kernel]

    def bind(self, q, k, v, out, mask_arguments=(), scale=None, log_sum_exp=None):
        kernel = self.kernel
        batch, queries, heads, d = q.shape
        keys, key_heads = k.shape[1], k.shape[2]
        scale = d**-0.5 if scale is None else scale
        params = Aligned(512)
        boxes = self.boxes()
        for i, (tensor, box) in enumerate(zip((q, k, v), boxes)):
            encode_map(params.address + 128 * i, tensor, box)
        output = (ctypes.c_int64 * 4)(out.data_ptr(), out.stride(0), out.stride(2), out.stride(1))
        ctypes.memmove(params.address + 384, output, 32)
        sizes = (ctypes.c_int32 * 5)(batch, heads, heads // key_heads, queries, keys)
        ctypes.memmove(params.address + 416, sizes, 20)
        ctypes.memmove(params.address + 436, (ctypes.c_float * 1)(scale * LOG2E), 4)
        multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
        if isinstance(kernel, SmallKernel):
            pack = 64 // kernel.segment
            items = -(-queries // kernel.segment) * -(-heads // kernel.pack_heads) * -(-batch // (pack // kernel.pack_heads))
            grid = min(items, multiprocessors * kernel.blocks)
        else:
            tiles = -(-queries // kernel.rows) * heads * batch
            shared_tiles = self.shared_tiles(tiles, -(-keys // kernel.n), multiprocessors)
            grid = kernel.grid or (multiprocessors if shared_tiles else min(tiles, multiprocessors))
            parts, counters = self.sharing(multiprocessors)
            ctypes.memmove(params.address + 440, (ctypes.c_int64 * 2)(parts.data_ptr(), counters.data_ptr()), 16)
            ctypes.memmove(params.address + 456, (ctypes.c_int32 * 1)(shared_tiles), 4)
            if log_sum_exp is not None:
                ctypes.memmove(params.address + 464, (ctypes.c_int64 * 1)(log_sum_exp.data_ptr()), 8)
        arguments = [params, *mask_arguments]
        keep = (q, k, v, out, log_sum_exp)
        return lambda keep=keep: self.function.launch((grid, 1, 1), kernel.threads, arguments)

    def shared_tiles(self, tiles, blocks, multiprocessors):
        """How many of the last tiles all blocks share. Writing and adding parts costs about as much as 7 key blocks
        (measured: 2×16×1024×72 and 2×8×4096×160 lost with 2 and 4 blocks to gain, 2×8×4096×40 won with 11)."""
        rest = tiles % multiprocessors
        gained_blocks = blocks * (multiprocessors - rest) / multiprocessors
        worth_it = self.kernel.split and self.kernel.mask in ("none", "bias") and gained_blocks >= 8
        return rest if worth_it else 0

    def sharing(self, multiprocessors, cache={}):
        """Device memory where the parts of shared tiles meet; launches on one stream may use the same."""
        kernel = self.kernel
        floats = 2 * multiprocessors * kernel.c * 128 * (kernel.dv // 2 + 4)
        if cache.get("floats", 0) < floats:
            cache["floats"] = floats
            cache.setdefault("old", []).append(cache.get("memory"))  # bound launches keep their address
            cache["memory"] = (torch.full((floats,), float("nan"), device="cuda"),
                               torch.zeros(4 * multiprocessors, dtype=torch.int32, device="cuda"))
        return cache["memory"]

    def boxes(self):
        kernel = self.kernel
        if isinstance(kernel, Kernel):
            return ((kernel.qk_panel, 64, 1, 1), (kernel.qk_panel, kernel.n, 1, 1), (kernel.v_panel, kernel.n, 1, 1))
        pack = 64 // kernel.segment
        packed = (kernel.pack_heads, pack // kernel.pack_heads)
        keys = (kernel.panel, kernel.n // pack, *packed)
        return ((kernel.panel, kernel.segment, *packed), keys, keys)


def lengths_arguments(lengths):
    return [ctypes.c_void_p(lengths.data_ptr())], lengths


def bias_arguments(bias, shape, scale):
    """bias broadcasts to (batch, head, query, key)."""
    expanded = bias.expand(shape)
    assert expanded.stride(3) == 1
    strides = [ctypes.c_int64(s) for s in expanded.stride()[:3]]
    return [ctypes.c_void_p(bias.data_ptr()), *strides, ctypes.c_int32(shape[2]), ctypes.c_float(1 / scale)], bias


def column_bias_arguments(bias, shape, scale):
    """bias broadcasts to (batch, head, query, key) and is the same for all queries."""
    expanded = bias.expand(shape)
    assert expanded.stride(3) == 1 and bias.shape[2] == 1
    strides = [ctypes.c_int64(s) for s in expanded.stride()[:2]]
    return [ctypes.c_void_p(bias.data_ptr()), *strides, ctypes.c_float(1 / scale)], bias


class PackedMask:
    """Packs a boolean mask (batch, head, query, key), where broadcast dimensions have one element, for BitMask."""

    def __init__(self, folder, kernel, mask, shape, cache={}):
        if "pack" not in cache:
            cache["pack"] = Function(folder, "mask_pack", "mask_pack")
        self.function = cache["pack"]
        batch, heads, rows, keys = mask.shape
        blocks, tiles = -(-keys // kernel.n), -(-rows // kernel.rows)
        words = blocks * (kernel.n // 32)
        self.words = torch.empty((batch, heads, rows, words), dtype=torch.int32, device="cuda")
        self.verdicts = torch.empty((batch, heads, tiles, blocks), dtype=torch.uint8, device="cuda")
        self.mask = mask.view(torch.uint8)
        self.grid = (blocks, tiles, batch * heads)
        strides = [0 if n == 1 else s for n, s in zip(mask.shape, self.mask.stride())]
        self.params = Aligned(80)
        packed = (ctypes.c_int64 * 7)(self.mask.data_ptr(), self.words.data_ptr(), self.verdicts.data_ptr(), *strides[:3],
                                      self.mask.stride(3))
        ctypes.memmove(self.params.address, packed, 56)
        ctypes.memmove(self.params.address + 56, (ctypes.c_int32 * 5)(heads, rows, keys, kernel.rows, kernel.n), 20)
        zero = lambda t, i: 0 if t.shape[i] == 1 else t.stride(i)
        self.arguments = [
            ctypes.c_void_p(self.words.data_ptr()), ctypes.c_void_p(self.verdicts.data_ptr()),
            *[ctypes.c_int64(zero(self.words, i)) for i in range(3)],
            ctypes.c_int64(zero(self.verdicts, 0)), ctypes.c_int64(zero(self.verdicts, 1)),
            ctypes.c_int64(0 if rows == 1 else self.verdicts.stride(2)), ctypes.c_int32(rows)]

    def pack(self):
        self.function.launch(self.grid, 128, [self.params])
