# SPDX-License-Identifier: Apache-2.0
"""The attention kernels that are tested and measured: a configuration becomes a short translation unit, then a cubin.

    python3 tests/gpu/ditc_gpu/attention_kernels.py build-gpu/attention      compiles all of them; needs no GPU
"""

import concurrent.futures
import dataclasses
import os
import sys

import nvrtc

TEMPLATES = os.path.join(os.path.dirname(__file__), "..", "..", "..", "codegen", "templates", "cuda")

# Masks: C++ type, the extra kernel arguments, and the expression that makes the mask from them.
MASKS = {
    "none": ("NoMask", "", "NoMask{}"),
    "lengths": ("KeyLengths", ", const int *lengths", "KeyLengths{{}, lengths}"),
    "causal": ("Causal", "", "Causal{{}, 0}"),
    "causal_lengths": ("Both<Causal, KeyLengths>", ", const int *lengths",
                       "Both<Causal, KeyLengths>{Causal{{}, 0}, KeyLengths{{}, lengths}}"),
    "window": ("Window", ", int before, int after", "Window{{}, before, after}"),
    "softcap": ("Both<SoftCap, Causal>", ", float inverse, float factor",
                "Both<SoftCap, Causal>{SoftCap{{}, inverse, factor}, Causal{{}, 0}}"),
    "bits": (
        "BitMask",
        ", const u32 *words, const u8 *verdicts, long long wordBatch, long long wordHead, long long wordRow,"
        " long long verdictBatch, long long verdictHead, long long verdictRow, int rows",
        "BitMask{{}, words, verdicts, wordBatch, wordHead, wordRow, verdictBatch, verdictHead, verdictRow, rows}",
    ),
    "bias": (
        "AdditiveMask<{element}>",
        ", const void *bias, long long biasBatch, long long biasHead, long long biasRow, int rows, float inverseScale",
        "AdditiveMask<{element}>{{}, bias, biasBatch, biasHead, biasRow, rows, p.keys, inverseScale}",
    ),
    "columns": (  # one bias for all rows
        "ColumnBias<{element}, true>",
        ", const void *bias, long long biasBatch, long long biasHead, float inverseScale",
        "ColumnBias<{element}, true>{{}, bias, biasBatch, biasHead, p.keys, inverseScale}",
    ),
}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One configuration of attention_sm90.cuh."""

    d: int
    n: int
    c: int = 2
    stages: int = 2
    qk_panel: int = 64
    v_panel: int = 64
    split: bool = True  # may share the last round's tiles
    ordered: bool = True
    mask: str = "none"
    element: str = "BF16"
    v_dim: int = 0  # columns of V and out; 0: as many as Q and K have
    grid: int = 0  # blocks of the launch, as on a smaller GPU; 0: as many as the host counted on

    @property
    def dv(self):
        return self.v_dim or self.d

    @property
    def name(self):
        return (
            f"d{self.d}{f'v{self.v_dim}' if self.v_dim else ''}_n{self.n}_c{self.c}_s{self.stages}_q{self.qk_panel}_v{self.v_panel}"
            f"_{'o' if self.ordered else 'u'}{'' if self.split else 'w'}_{self.mask}_{self.element.lower()}"
        )

    @property
    def shares(self):
        return self.split and self.mask in ("none", "bias", "columns")

    @property
    def rows(self):
        return 64 * self.c

    @property
    def threads(self):
        return 128 * (self.c + 1)

    @property
    def shared_bytes(self):
        qk = -(-self.d // self.qk_panel) * self.qk_panel
        v = -(-self.dv // self.v_panel) * self.v_panel
        tiles = 2 * (self.rows * qk + self.stages * self.n * (qk + v))
        return tiles + 8 * (2 * self.c + 4 * self.stages) + 1024

    def source(self):
        _, arguments, mask = MASKS[self.mask]
        mask = mask.replace("{element}", self.element)
        return f"""#include "attention_sm90.cuh"
using namespace ditc;
struct Config {{
  using Element = {self.element};
  static constexpr int HEAD_DIM = {self.d}, V_DIM = {self.dv}, BLOCK_N = {self.n}, CONSUMERS = {self.c};
  static constexpr int STAGES = {self.stages}, QK_PANEL = {self.qk_panel}, V_PANEL = {self.v_panel};
  static constexpr bool ORDERED = {str(self.ordered).lower()}, SHARES = {str(self.shares).lower()};
}};
extern "C" __global__ void __launch_bounds__({self.threads}, 1)
attention(const __grid_constant__ attention_sm90::Params p{arguments}) {{
  attention_sm90::run<Config>(p, {mask}, StorePlain{{}});
}}
"""


@dataclasses.dataclass(frozen=True)
class SmallKernel:
    """One configuration of attention_small.cuh."""

    d: int
    n: int  # keys of the tile, rows of all packed segments
    segment: int = 64  # query rows of one problem in the tile
    pack_heads: int = 1
    panel: int = 64
    stages: int = 2
    blocks: int = 3  # blocks per multiprocessor
    mask: str = "none"
    element: str = "BF16"

    @property
    def name(self):
        return (
            f"small_d{self.d}_n{self.n}_g{self.segment}x{self.pack_heads}_p{self.panel}_s{self.stages}"
            f"_b{self.blocks}_{self.mask}_{self.element.lower()}"
        )

    threads = 128

    @property
    def shared_bytes(self):
        columns = -(-self.d // self.panel) * self.panel
        return 2 * self.stages * columns * (64 + 2 * self.n) + 8 * self.stages + 1024

    def source(self):
        _, arguments, mask = MASKS[self.mask]
        mask = mask.replace("{element}", self.element)
        return f"""#include "attention_small.cuh"
using namespace ditc;
struct Config {{
  using Element = {self.element};
  static constexpr int HEAD_DIM = {self.d}, V_DIM = {self.d}, BLOCK_N = {self.n}, SEGMENT = {self.segment};
  static constexpr int PACK_HEADS = {self.pack_heads};
  static constexpr int PANEL = {self.panel}, STAGES = {self.stages};
}};
extern "C" __global__ void __launch_bounds__(128, {self.blocks})
attention(const __grid_constant__ attention_small::Params p{arguments}) {{
  attention_small::run<Config>(p, {mask}, StorePlain{{}});
}}
"""


PACK_SOURCE = """#include "attention_mask_pack.cuh"
using namespace ditc;
extern "C" __global__ void __launch_bounds__(128) mask_pack(const MaskPackParams p) { packMask(p); }
"""

# Head size: consumer warpgroups, keys per block, panels of Q/K and V. Chosen by measurement on an H200.
DEFAULTS = {
    32: (3, 144, 32, 32),
    40: (3, 128, 64, 64),
    64: (3, 128, 64, 64),
    72: (4, 64, 64, 64),
    80: (3, 112, 64, 64),
    88: (2, 160, 64, 64),
    96: (2, 160, 64, 64),
    112: (2, 144, 64, 64),
    128: (3, 80, 64, 64),
    160: (2, 128, 64, 32),
    192: (2, 96, 64, 64),
    256: (2, 80, 64, 64),
}


def default(d, mask="none", element="BF16", **changes):
    """The kernel that a head size gets; packed masks want whole words, so their blocks are rounded down to 32 keys."""
    c, n, qk_panel, v_panel = DEFAULTS[d]
    if mask not in ("none", "lengths"):
        n = n // 32 * 32
    values = dict(d=d, n=n, c=c, qk_panel=qk_panel, v_panel=v_panel, mask=mask, element=element)
    return Kernel(**{**values, **changes})


def build(kernel, folder):
    source = kernel if isinstance(kernel, str) else kernel.source()
    name = "mask_pack" if isinstance(kernel, str) else kernel.name
    path = os.path.join(folder, name + ".cubin")
    newest = max(os.path.getmtime(file.path) for file in os.scandir(TEMPLATES))
    if os.path.exists(path) and os.path.getmtime(path) > newest:
        return name, "?", []
    cubin, log = nvrtc.compile(source, include=[TEMPLATES], name=name + ".cu")
    with open(path, "wb") as file:
        file.write(cubin)
    spill = [line for line in log.splitlines() if "spill" in line and not " 0 bytes spill stores" in line]
    warn = [line for line in log.splitlines() if "C75" in line or "warning" in line]
    registers = next((line.split("Used")[1].split()[0] for line in log.splitlines() if "Used" in line), "?")
    return name, registers, spill + warn


def build_all(kernels, folder):
    os.makedirs(folder, exist_ok=True)
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for name, registers, trouble in pool.map(build, kernels, [folder] * len(kernels)):
            if trouble:
                print(name, registers, *trouble, sep="\n    ")
    print(f"{len(kernels)} kernels in {folder}")


if __name__ == "__main__":
    import attention

    build_all(attention.kernels(), sys.argv[1])
