# SPDX-License-Identifier: Apache-2.0
"""The template gemm_sm90: its variants as translation units, and launches of them on torch's tensors."""
import dataclasses
import os
import struct

import torch

from . import tensormap
from .driver import Kernel

BF16, F16, F8 = torch.bfloat16, torch.float16, torch.float8_e4m3fn


@dataclasses.dataclass(frozen=True)
class Variant:
    """A Config of the template, an epilogue type (C++, in terms of Element) and a number of problems."""
    m: int
    n: int
    stages: int
    consumers: int = 2
    cluster_m: int = 1
    cluster_n: int = 1
    split: int = 1
    pingpong: bool = False
    group: int = 8
    boxes: int = 2
    box: int = 64
    even: bool = True
    cut: bool = False  # a residual whose last box reaches past N
    early: bool = False  # B may be fetched before the kernel before has ended
    gated: bool = False
    whole: bool = False  # one output without heads
    dtype: torch.dtype = BF16
    fp8: bool = False  # operands are e4m3
    epilogue: str = "Pointwise<Element>"
    label: str = "plain"  # a short name of the epilogue
    problems: int = 1

    @property
    def name(self):
        shape = f"{self.m}x{self.n}_s{self.stages}_c{self.consumers}_{self.cluster_m}x{self.cluster_n}"
        schedule = ("pingpong" if self.pingpong else "coop") + (f"_k{self.split}" if self.split > 1 else "")
        box = "" if self.box == 64 else f"x{self.box}"
        tail = ("" if self.even else "_tail") + ("_cut" if self.cut else "") + ("_gated" if self.gated else "") + ("_early" if self.early else "") + ("_whole" if self.whole else "")
        dtype = ("_fp8" if self.fp8 else "") + ("" if self.dtype == BF16 else "_f16")
        return f"{self.label}_{shape}_{schedule}_g{self.group}_b{self.boxes}{box}_p{self.problems}{tail}{dtype}"

    @property
    def operand(self):
        return F8 if self.fp8 else self.dtype

    @property
    def k_step(self):
        """Values of k in a step: 128 bytes."""
        return 128 if self.fp8 else 64

    @property
    def threads(self):
        return 128 * (self.consumers + 1)

    @property
    def cluster(self):
        return self.cluster_m * self.cluster_n * self.split

    @property
    def shared_bytes(self):
        warps = 4 * self.consumers
        return self.stages * 128 * (self.m + self.n) + warps * self.boxes * 32 * self.box \
            + 8 * (2 * self.stages + warps * self.boxes + (warps if self.split > 1 else 0)) + 1024

    def unit(self):
        """The translation unit, as the compiler would write it."""
        flag = {True: "true", False: "false"}
        element = "BF16" if self.dtype == BF16 else "F16"
        return f"""\
// {self.name}: a variant of gemm_sm90 for tests and benchmarks.
#include "gemm_sm90.cuh"
using namespace ditc;
using Element = {element};
struct Config {{
  using Element = ::Element;
  using Operand = {"E4M3" if self.fp8 else "Element"};
  static constexpr int BLOCK_M = {self.m}, BLOCK_N = {self.n}, STAGES = {self.stages}, CONSUMERS = {self.consumers};
  static constexpr int CLUSTER_M = {self.cluster_m}, CLUSTER_N = {self.cluster_n}, SPLIT = {self.split}, GROUP = {self.group};
  static constexpr int BOX = {self.box}, BOXES = {self.boxes};
  static constexpr int OUTPUTS = {1 if self.whole else 2}, HEAD = {0 if self.whole else -1};
  static constexpr bool PINGPONG = {flag[self.pingpong]}, EVEN = {flag[self.even]}, CUT = {flag[self.cut]}, GATED = {flag[self.gated]};
  static constexpr bool EARLY = {flag[self.early]};
}};
using Epilogue = {self.epilogue};
extern "C" __global__ void __launch_bounds__(gemm_sm90::Layout<Config>::THREADS, 1)
kernel(const __grid_constant__ gemm_sm90::Params<{self.problems}> params,
       const __grid_constant__ gemm_sm90::Epilogues<Epilogue, {self.problems}> epilogues) {{
  gemm_sm90::run<Config>(params, epilogues);
}}
"""

    def load(self, bundle):
        with open(os.path.join(bundle, self.name + ".cubin"), "rb") as file:
            return Kernel(file.read(), "kernel", self.threads, self.shared_bytes, self.cluster)


def pointer(tensor):
    return 0 if tensor is None else tensor.data_ptr()


# ---- epilogues' arguments, laid out like the structs in epilogue.cuh ------------------------------------------------

def pointwise(bias=None):
    return struct.pack("<Q", pointer(bias))


def swiglu(bias=None):
    """The bias of gate and up, one behind the other."""
    halves = (None, None) if bias is None else bias.chunk(2)
    return struct.pack("<QQ", *map(pointer, halves))


def gate_residual(bias=None, gate=None, batch_stride=0, row_stride=0):
    return struct.pack("<QQii", pointer(bias), pointer(gate), batch_stride, row_stride)


def head_norm_rope(bias, query_scale, key_scale, rotations, columns_per_part, epsilon):
    return struct.pack("<QQQQif", pointer(bias), pointer(query_scale), pointer(key_scale), pointer(rotations),
                       columns_per_part, epsilon)


def divisor(value):
    """gemm_sm90::Divisor."""
    value = max(value, 1)
    shift = 31 + (value - 1).bit_length()
    return struct.pack("<iIi", value, -(-(1 << shift) // value), shift)


def by_columns(first, second, split):
    return first + second + struct.pack("<ii", split, 0)


@dataclasses.dataclass
class Problem:
    """One product. Tensors: a (batch, rows, k) or two of them for two ranges of k; b (columns, k), of a gated variant gate
    and up one behind the other; out and residual
    (batch, rows, heads, columns of a head) as views of any strides, or (batch, rows, columns)."""
    a: list
    b: torch.Tensor
    out: list
    epilogue: bytes
    residual: torch.Tensor = None
    out_split: int = 1 << 30

    def pack(self, variant):
        def operand(tensor, box_rows):
            batch, rows, k = tensor.shape
            assert tensor.stride(2) == 1
            return tensormap.encode(tensor.data_ptr(), tensor.dtype, [k, rows, batch],
                                    [tensor.stride(1), max(tensor.stride(0), tensor.stride(1))], [variant.k_step, box_rows, 1])

        def output(tensor):
            if tensor.dim() == 3:
                tensor = tensor.unsqueeze(2)
            batch, rows, heads, columns = tensor.shape
            assert tensor.stride(3) == 1
            strides = [tensor.stride(1), tensor.stride(2) if heads > 1 else tensor.stride(1),
                       tensor.stride(0) if batch > 1 else tensor.stride(1)]
            return tensormap.encode(tensor.data_ptr(), tensor.dtype, [columns, rows, heads, batch], strides,
                                    [variant.box, 16, 1, 1], swizzle=128 if variant.box == 64 else 0), columns

        a = [operand(t, variant.m // variant.cluster_n) for t in self.a]
        if variant.gated:
            gate, up = (operand(half.unsqueeze(0), variant.n // 2) for half in self.b.chunk(2))
            b = gate + 3 * up
        else:
            b = 4 * operand(self.b.unsqueeze(0), variant.n // variant.cluster_m)
        out, head_columns = zip(*[output(t) for t in self.out])
        residual = output(self.residual)[0] if self.residual is not None else bytes(128)
        batches, rows, _ = self.a[0].shape
        maps = a[0] + a[-1] + b + out[0] + 3 * out[-1] + residual
        never = (1 << 31) - 1
        numbers = struct.pack("<17i", rows, batches, self.b.shape[0] // (2 if variant.gated else 1), self.a[0].shape[2],
                              self.a[1].shape[2] if len(self.a) == 2 else 0, head_columns[0],
                              head_columns[-1], head_columns[-1], head_columns[-1], self.out_split, never, never, never, never, never, never, never)
        down, across = self.grid(variant)
        order = struct.pack("<i", self.tiles(variant)) + divisor(down) + divisor(variant.group * across) + divisor(down * batches % variant.group)
        return (maps + numbers + order).ljust(24 * 64, b"\0")

    def grid(self, variant):
        """Cluster tiles above each other in a batch, and beside each other."""
        return -(-self.a[0].shape[1] // (variant.m * variant.cluster_m)), -(-self.b.shape[0] // (variant.n * variant.cluster_n))

    def tiles(self, variant):
        down, across = self.grid(variant)
        return down * self.a[0].shape[0] * across


def launcher(kernel, variant, problems, dependent=False):
    """A function that runs the product(s)."""
    assert len(problems) == variant.problems
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    tiles = sum(p.tiles(variant) for p in problems)
    clusters = tiles if variant.split > 1 else min(processors // variant.cluster, tiles)
    params = b"".join(p.pack(variant) for p in problems)
    epilogues = b"".join(p.epilogue for p in problems)
    return kernel.bind(clusters * variant.cluster, params, epilogues, dependent=dependent)
