# SPDX-License-Identifier: Apache-2.0
"""Which variants of gemm_sm90 exist, which shapes they are checked and timed at, and what the peers do there."""
import dataclasses

from . import gemm_fused
from .gemm import F16, Variant

# ---- tiles ----------------------------------------------------------------------------------------------------------

PINGPONG_128x192 = Variant(128, 192, stages=4, pingpong=True)
PINGPONG_128x128 = Variant(128, 128, stages=6, pingpong=True)
COOP_128x256 = Variant(128, 256, stages=4, cluster_m=2)
COOP_192x192 = Variant(192, 192, stages=4, consumers=3, cluster_m=2, boxes=1)
COOP_128x128 = Variant(128, 128, stages=6)


def wide_box(variant, box):
    """Tiles whose width is no multiple of 64."""
    return dataclasses.replace(variant, box=box, epilogue=f"Pointwise<Element, NoActivation, {box}>")


PINGPONG_128x144 = wide_box(Variant(128, 144, stages=5, pingpong=True), 48)
COOP_128x112 = wide_box(Variant(128, 112, stages=6, boxes=1), 112)
PLAIN = [
    PINGPONG_128x192, dataclasses.replace(PINGPONG_128x192, cluster_m=2),
    dataclasses.replace(PINGPONG_128x192, group=16),
    PINGPONG_128x128, dataclasses.replace(PINGPONG_128x128, cluster_m=2),
    wide_box(Variant(128, 176, stages=4, pingpong=True, boxes=1), 176),
    PINGPONG_128x144, COOP_128x256, COOP_192x192, COOP_128x128, COOP_128x112,
]
# For few rows: tiles that fit the number of multiprocessors, and k split over the blocks of a cluster.
SPLITS = [
    Variant(128, 128, stages=6, split=2, boxes=1), Variant(128, 128, stages=6, split=3, boxes=1), Variant(128, 64, stages=8, split=2, boxes=1),
    wide_box(Variant(128, 192, stages=5, split=4, boxes=1), 48), wide_box(Variant(128, 96, stages=7, split=2, boxes=1), 48),
    wide_box(Variant(128, 144, stages=6, split=3, boxes=1), 48), wide_box(Variant(128, 64, stages=7, split=4, boxes=1), 16),
    wide_box(Variant(256, 144, stages=4, split=2, boxes=1), 48), Variant(192, 192, stages=4, consumers=3, split=3, boxes=1),
]
FEW_ROWS = [
    Variant(128, 192, stages=4), wide_box(Variant(128, 144, stages=5), 48), wide_box(Variant(128, 96, stages=6), 48),
    Variant(128, 64, stages=8), Variant(128, 64, stages=8, pingpong=True), wide_box(Variant(128, 176, stages=4, boxes=1), 176), *SPLITS,
]
# Timed a second time by programmatic dependent launch.
DEPENDENT = [PINGPONG_128x192, PINGPONG_128x144, COOP_128x128, COOP_128x112]

FP8 = [dataclasses.replace(v, fp8=True) for v in PLAIN]

# ---- shapes: (name, rows, columns, k) --------------------------------------------------------------------------------

LARGE = [
    ("flux qkv image", 4096, 9216, 3072), ("flux out", 4096, 3072, 3072), ("flux mlp up", 4096, 12288, 3072),
    ("flux mlp down", 4096, 3072, 12288), ("flux single in", 4608, 21504, 3072),
    ("flux single out", 4608, 3072, 15360), ("sd3.5 qkv", 8192, 7296, 2432), ("sd3.5 up", 8192, 9728, 2432),
    ("pixart qkv", 8192, 3456, 1152), ("pixart up", 8192, 4608, 1152), ("pixart down", 8192, 1152, 4608),
    ("pixart out", 8192, 1152, 1152), ("wan qkv", 32760, 15360, 5120), ("wan up", 32760, 13824, 5120),
]
# Products of e4m3 beside torch._scaled_mm.
FP8_SHAPES = [shape for shape in LARGE if shape[0].startswith(("flux", "sd3.5"))]
# Bound by latency and by tiles that fill less than one wave.
SMALL = [("flux qkv text", 512, 9216, 3072),
         *[(f"dit {part}, {rows} rows", rows, columns, k) for rows in (512, 2048)
           for part, columns, k in (("qkv", 3456, 1152), ("up", 4608, 1152), ("down", 1152, 4608), ("out", 1152, 1152))]]

# ---- correctness: (batches, rows, columns, k ranges) ------------------------------------------------------------------

CHECK_SHAPES = [
    (1, 1024, 1536, (1024,)), (1, 8192, 3072, (512,)), (2, 300, 520, (200,)), (3, 77, 1152, (1152,)), (1, 1, 64, (8,)),
    (1, 129, 264, (64,)), (1, 640, 768, (72, 136)), (2, 500, 1000, (1000, 24)),
]
FP8_CHECK_SHAPES = [(1, 1024, 1536, (1024,)), (2, 300, 520, (208,)), (1, 1, 64, (16,)), (1, 640, 768, (80, 144)), (1, 512, 1152, (4608,))]
# Shapes that are timed as two products in one launch beside the peer's two calls: (name, image rows, text rows, columns, k).
JOINT = [("flux joint qkv, plain", 4096, 512, 9216, 3072), ("flux joint up, plain", 4096, 512, 12288, 3072),
         ("flux joint out, plain", 4096, 512, 3072, 3072), ("flux joint down, plain", 4096, 512, 3072, 12288)]

CHECK_VARIANTS = PLAIN + SPLITS + [
    dataclasses.replace(COOP_128x256, cluster_m=1, cluster_n=2), Variant(256, 128, stages=4, cluster_n=2),
    dataclasses.replace(PINGPONG_128x192, cluster_n=2),
]


@dataclasses.dataclass(frozen=True)
class Case:
    variant: Variant
    shape: tuple
    kind: str = "plain"


def checks():
    """Correctness: every tile over the grid of shapes, tails included."""
    tailed = [dataclasses.replace(v, even=False) for v in CHECK_VARIANTS]
    return ([Case(v, shape) for v in tailed for shape in CHECK_SHAPES if sum(-(-k // 64) for k in shape[3]) >= v.split]
            + [Case(dataclasses.replace(tailed[0], dtype=F16), shape) for shape in CHECK_SHAPES[:3]]
            + [Case(dataclasses.replace(v, fp8=True), shape) for v in tailed for shape in FP8_CHECK_SHAPES if sum(-(-k // 128) for k in shape[3]) >= v.split])


def named(cases, part):
    """Of the part's name "fused=dit,joint" the part, and those cases whose name has one of the words."""
    kind, _, words = part.partition("=")
    return kind, [case for case in cases[kind]() if not words or any(word in case[0] for word in words.split(","))]


def benches():
    """One case per shape: all variants beside the peer."""
    return LARGE + SMALL + JOINT


def variants():
    """Everything that a bundle holds."""
    timed = [dataclasses.replace(v, whole=True) for v in PLAIN + FEW_ROWS + FP8]
    everything = [case.variant for case in checks()] + timed + [dataclasses.replace(v, problems=2) for v in timed]
    everything += [dataclasses.replace(v, early=True) for v in timed]
    for case in [*gemm_fused.cases().values(), *gemm_fused.small_cases().values()]:
        everything += case.variants
    return list({v.name: v for v in everything}.values())
