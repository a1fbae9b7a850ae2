# SPDX-License-Identifier: Apache-2.0
"""Products with what surrounds them in a diffusion transformer: as one launch of gemm_sm90, and as plain torch.

Every case is a class: `math` is the torch code, written once, which serves as reference (on fp32 tensors), as the eager
result whose error is the yardstick, and, through torch.compile, as the peer. `problems` is the same work for a variant.
"""
import dataclasses

import torch
from torch.nn import functional as F

from . import gemm
from .gemm import Problem, Variant

TILE_192 = Variant(128, 192, stages=4, pingpong=True)
TILE_128 = Variant(128, 128, stages=6, pingpong=True)


def with_clusters(*variants, **changes):
    """Each with the changes, alone and in clusters of two."""
    return [dataclasses.replace(v, cluster_m=m, **changes) for v in variants for m in (1, 2)]


def random(*shape, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(torch.bfloat16)


def weight(columns, k):
    return random(columns, k, scale=k ** -0.5)


def rotations(rows, head):
    """(rows, head/2, 2): cosine and sine of every pair, fp32."""
    position = torch.arange(rows, device="cuda")[:, None] + 1
    frequency = 10000.0 ** (-torch.arange(0, head, 2, device="cuda") / head)
    angle = (position * frequency).float()
    return torch.stack([angle.cos(), angle.sin()], -1).contiguous()


def rms(x, scale):
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * scale.float()).to(x.dtype)


def rope(x, rotation):
    """Interleaved pairs; x (heads, rows, head)."""
    pairs = x.float().unflatten(-1, (-1, 2))
    cosine, sine = rotation[..., 0], rotation[..., 1]
    turned = torch.stack([pairs[..., 0] * cosine - pairs[..., 1] * sine,
                          pairs[..., 1] * cosine + pairs[..., 0] * sine], -1)
    return turned.flatten(-2).to(x.dtype)


def rope_halves(x, rotation):
    """Column j turns with j + half."""
    first, second = x.float().chunk(2, -1)
    cosine, sine = rotation[..., 0], rotation[..., 1]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1).to(x.dtype)


def heads_of(x, head):
    """(rows, columns) -> (heads, rows, head)"""
    return x.unflatten(-1, (-1, head)).transpose(0, 1)


class QkvNormRope:
    """One stream: bias, per-head RMS norm and rotary embedding of queries and keys, heads outside."""
    epilogue, label, head = "HeadNormRope<Element, 128>", "qkv", 128
    turn = staticmethod(rope)
    variants = with_clusters(TILE_128, epilogue=epilogue, label=label)

    def __init__(self, rows=4096, width=3072, k=3072):
        self.rows, self.width, self.k = rows, width, k

    def tensors(self):
        return [random(self.rows, self.k), weight(3 * self.width, self.k), random(3 * self.width, scale=0.1),
                1 + random(self.head, scale=0.1), 1 + random(self.head, scale=0.1), rotations(self.rows, self.head)]

    def math(self, x, w, bias, query_scale, key_scale, rotation):
        q, k, v = (heads_of(part, self.head) for part in F.linear(x, w, bias).chunk(3, -1))
        return self.turn(rms(q, query_scale), rotation).contiguous(), self.turn(rms(k, key_scale), rotation).contiguous(), v

    def outputs(self):
        return [torch.full((3 * self.width // self.head, self.rows, self.head), float("nan"), device="cuda",
                           dtype=torch.bfloat16)]

    def arguments(self, bias, query_scale, key_scale, rotation):
        return gemm.head_norm_rope(bias, query_scale, key_scale, rotation, self.width, 1e-6)

    def problems(self, tensors, outputs):
        x, w, *rest = tensors
        return [Problem([x[None]], w, [outputs[0].transpose(0, 1)[None]], self.arguments(*rest))]

    def split(self, outputs):
        return outputs[0].chunk(3, 0)

    def flop(self):
        return 2 * self.rows * self.k * 3 * self.width


def heads_of_72(epilogue, label, *more):
    """Tiles of two heads, a box for each."""
    tiles = [Variant(128, 144, stages=5, box=72, boxes=2, pingpong=True), Variant(128, 144, stages=6, box=72, boxes=1),
             Variant(128, 144, stages=6, box=72, boxes=1, cluster_m=2), Variant(128, 144, stages=5, box=72, boxes=1, split=2), *more]
    return [dataclasses.replace(tile, epilogue=epilogue, label=label) for tile in tiles]


class QkvNormRope72(QkvNormRope):
    """Sixteen heads of 72, as of DiT-XL's width."""
    head = 72
    variants = heads_of_72("HeadNormRope<Element, 72>", "qkv72", Variant(128, 144, stages=6, box=72, boxes=1, pingpong=True),
                           Variant(128, 144, stages=5, box=72, boxes=2, pingpong=True, cluster_m=2),
                           Variant(128, 144, stages=5, box=24, boxes=3, pingpong=True))

    def __init__(self, rows=8192, width=1152, k=1152):
        super().__init__(rows, width, k)


class QkvNormRopeHalves72(QkvNormRope72):
    """Pairs that are 36 columns apart lie in two threads."""
    turn = staticmethod(rope_halves)
    variants = heads_of_72("HeadNormRope<Element, 72, false>", "qkv72_halves")


class JointQkvNormRope(QkvNormRope):
    """Image and text streams with weights of their own, into one sequence with the text first."""
    label = "joint"
    variants = with_clusters(TILE_128, epilogue=QkvNormRope.epilogue, label=label, problems=2)

    def __init__(self, text=512, **rest):
        super().__init__(**rest)
        self.text = text

    def tensors(self):
        image, text = super().tensors(), QkvNormRope(self.text, self.width, self.k).tensors()
        joint = rotations(self.text + self.rows, self.head)
        return image[:-1] + text[:-1] + [joint]

    def math(self, x, w, bias, sq, sk, text_x, text_w, text_bias, text_sq, text_sk, rotation):
        parts = [heads_of(p, self.head) for p in F.linear(x, w, bias).chunk(3, -1)]
        text = [heads_of(p, self.head) for p in F.linear(text_x, text_w, text_bias).chunk(3, -1)]
        q = torch.cat([rms(text[0], text_sq), rms(parts[0], sq)], 1)
        k = torch.cat([rms(text[1], text_sk), rms(parts[1], sk)], 1)
        return rope(q, rotation), rope(k, rotation), torch.cat([text[2], parts[2]], 1)

    def outputs(self):
        return QkvNormRope(self.text + self.rows, self.width, self.k).outputs()

    def problems(self, tensors, outputs):
        image, text, rotation = tensors[:5], tensors[5:10], tensors[10]
        out = outputs[0].transpose(0, 1)[None]
        return [Problem([image[0][None]], image[1], [out[:, self.text:]],
                        self.arguments(*image[2:], rotation[self.text:])),
                Problem([text[0][None]], text[1], [out[:, :self.text]], self.arguments(*text[2:], rotation))]

    def flop(self):
        return 2 * (self.rows + self.text) * self.k * 3 * self.width


class Up:
    """Bias and an activation."""
    def __init__(self, rows=4096, columns=12288, k=3072, activation="GeluTanh"):
        self.rows, self.columns, self.k, self.activation = rows, columns, k, activation
        self.variants = with_clusters(TILE_192, TILE_128, epilogue=f"Pointwise<Element, {activation}>",
                                      label=activation.lower(), whole=True)
        self.variants.append(Variant(128, 176, stages=4, pingpong=True, box=176, boxes=1, label=activation.lower(), whole=True,
                                     epilogue=f"Pointwise<Element, {activation}, 176>", even=columns % 176 == 0))

    def tensors(self):
        return [random(self.rows, self.k), weight(self.columns, self.k), random(self.columns, scale=0.1)]

    def math(self, x, w, bias):
        y = F.linear(x, w, bias)
        return (F.silu(y) if self.activation == "Silu" else
                F.gelu(y, approximate="tanh" if self.activation == "GeluTanh" else "none")),

    def library(self, x, w, bias):
        """cuBLASLt's own epilogue."""
        return torch._addmm_activation(bias, x, w.t(), use_gelu=True) if self.activation == "GeluTanh" else None

    def outputs(self):
        return [torch.full((self.rows, self.columns), float("nan"), device="cuda", dtype=torch.bfloat16)]

    def problems(self, tensors, outputs):
        x, w, bias = tensors
        return [Problem([x[None]], w, [outputs[0][None]], gemm.pointwise(bias))]

    def split(self, outputs):
        return outputs

    def flop(self):
        return 2 * self.rows * self.columns * self.k


class Gated(Up):
    """SwiGLU of one weight, gate and up one behind the other."""
    def __init__(self, **rest):
        super().__init__(activation="Silu", **rest)
        narrow = Variant(128, 192, stages=4, pingpong=True, box=48, even=self.columns % 96 == 0)
        self.variants = with_clusters(TILE_128, Variant(128, 256, stages=4), epilogue="SwiGlu<Element>", label="swiglu", gated=True)
        self.variants += with_clusters(narrow, epilogue="SwiGlu<Element, 48>", label="swiglu", gated=True)

    def math(self, x, w, bias):
        gate, up = F.linear(x, w, bias).chunk(2, -1)
        return F.silu(gate) * up,

    library = None

    def outputs(self):
        return [torch.full((self.rows, self.columns // 2), float("nan"), device="cuda", dtype=torch.bfloat16)]

    def problems(self, tensors, outputs):
        x, w, bias = tensors
        return [Problem([x[None]], w, [outputs[0][None]], gemm.swiglu(bias))]


class Down:
    """residual + gate · (x Wᵀ + bias), x in one or two ranges of k."""
    epilogue, label = "GateResidual<Element>", "residual"
    variants = with_clusters(
        dataclasses.replace(TILE_192, boxes=4), TILE_128, Variant(192, 192, stages=3, consumers=3, boxes=3),
        Variant(192, 192, stages=4, consumers=3, boxes=1), Variant(128, 176, stages=4, pingpong=True, box=176, boxes=1),
        Variant(128, 144, stages=5, pingpong=True, box=48, boxes=4), epilogue=epilogue, label=label, whole=True)

    def __init__(self, batches=1, rows=4096, columns=3072, ranges=(12288,)):
        self.batches, self.rows, self.columns, self.ranges = batches, rows, columns, ranges
        self.variants = [dataclasses.replace(v, cut=columns % v.box != 0) for v in type(self).variants]

    def tensors(self):
        return [weight(self.columns, sum(self.ranges)), random(self.columns, scale=0.1),
                random(self.batches, 1, self.columns), random(self.batches, self.rows, self.columns),
                *[random(self.batches, self.rows, k) for k in self.ranges]]

    def math(self, w, bias, gate, residual, *x):
        return residual + gate * F.linear(torch.cat(x, -1) if len(x) > 1 else x[0], w, bias),

    def outputs(self):
        return [torch.full((self.batches, self.rows, self.columns), float("nan"), device="cuda", dtype=torch.bfloat16)]

    def problems(self, tensors, outputs):
        w, bias, gate, residual, *x = tensors
        return [Problem(x, w, outputs, gemm.gate_residual(bias, gate, self.columns, 0), residual)]

    def split(self, outputs):
        return outputs

    def flop(self):
        return 2 * self.batches * self.rows * self.columns * sum(self.ranges)


class SingleIn(QkvNormRope):
    """Queries, keys and values beside the first half of an MLP: two epilogues by column, two outputs."""
    label = "single_in"
    epilogue = "ByColumns<HeadNormRope<Element, 128>, Pointwise<Element, GeluTanh, 128>>"
    variants = with_clusters(TILE_128, epilogue=epilogue, label=label)

    def __init__(self, rows=4608, width=3072, k=3072, hidden=12288):
        super().__init__(rows, width, k)
        self.hidden = hidden

    def tensors(self):
        x, _, _, *rest = super().tensors()
        columns = 3 * self.width + self.hidden
        return [x, weight(columns, self.k), random(columns, scale=0.1), *rest]

    def math(self, x, w, bias, query_scale, key_scale, rotation):
        qkv, hidden = F.linear(x, w, bias).split([3 * self.width, self.hidden], -1)
        q, k, v = (heads_of(part, self.head) for part in qkv.chunk(3, -1))
        return (rope(rms(q, query_scale), rotation).contiguous(), rope(rms(k, key_scale), rotation).contiguous(), v,
                F.gelu(hidden, approximate="tanh"))

    def outputs(self):
        return super().outputs() + Up(self.rows, self.hidden, self.k).outputs()

    def problems(self, tensors, outputs):
        x, w, bias, query_scale, key_scale, rotation = tensors
        split = 3 * self.width
        epilogue = gemm.by_columns(self.arguments(bias, query_scale, key_scale, rotation), gemm.pointwise(bias), split)
        return [Problem([x[None]], w, [outputs[0].transpose(0, 1)[None], outputs[1][None]], epilogue, out_split=split)]

    def split(self, outputs):
        return [*outputs[0].chunk(3, 0), outputs[1]]

    def flop(self):
        return 2 * self.rows * self.k * (3 * self.width + self.hidden)


class JointUp(Up):
    """Two streams with weights of their own in one launch."""
    def __init__(self, text=512, **rest):
        super().__init__(**rest)
        self.text = text
        self.variants = [dataclasses.replace(v, problems=2) for v in self.variants]

    def tensors(self):
        return super().tensors() + Up(self.text, self.columns, self.k).tensors()

    def math(self, x, w, bias, text_x, text_w, text_bias):
        return *super().math(x, w, bias), *super().math(text_x, text_w, text_bias)

    def library(self, x, w, bias, text_x, text_w, text_bias):
        return super().library(x, w, bias), super().library(text_x, text_w, text_bias)

    def outputs(self):
        return super().outputs() + Up(self.text, self.columns, self.k).outputs()

    def problems(self, tensors, outputs):
        return super().problems(tensors[:3], outputs[:1]) + super().problems(tensors[3:], outputs[1:])

    def flop(self):
        return 2 * (self.rows + self.text) * self.columns * self.k


class Sd3Qkv(QkvNormRope):
    """Heads of 64, norm without rotation, two batches as one sequence of rows."""
    epilogue, label, head = "HeadNormRope<Element, 64>", "qkv64", 64
    variants = with_clusters(TILE_192, TILE_128, epilogue=epilogue, label=label)

    def tensors(self):
        return super().tensors()[:-1]

    def math(self, x, w, bias, query_scale, key_scale):
        q, k, v = (heads_of(part, self.head) for part in F.linear(x, w, bias).chunk(3, -1))
        return rms(q, query_scale).contiguous(), rms(k, key_scale).contiguous(), v

    def arguments(self, bias, query_scale, key_scale):
        return gemm.head_norm_rope(bias, query_scale, key_scale, None, self.width, 1e-6)


FEW_ROWS = [Variant(128, 96, stages=7, split=2, box=48, boxes=1), Variant(128, 128, stages=6, split=3, boxes=1),
            Variant(128, 144, stages=6, split=3, box=48, boxes=1), Variant(128, 64, stages=8, boxes=1)]


def few_rows(case, tiles):
    """The case with tiles for less than a wave of large ones."""
    first = case.variants[0]
    case.variants = [dataclasses.replace(tile, epilogue=first.epilogue.replace("GeluTanh>", f"GeluTanh, {tile.box}>"), label=first.label + "_few", whole=True) for tile in tiles]
    return case


def cases():
    """{name: case} at full size, timed and checked."""
    return {
        "flux qkv + norm + rope": QkvNormRope(), "flux joint qkv + norm + rope": JointQkvNormRope(),
        "flux up + gelu": Up(), "flux joint up + gelu": JointUp(), "flux down + gate + residual": Down(),
        "flux out + gate + residual": Down(ranges=(3072,)),
        "flux single in": SingleIn(), "flux single out, two ranges": Down(rows=4608, ranges=(3072, 12288)),
        "heads of 72": QkvNormRope72(), "heads of 72, halves": QkvNormRopeHalves72(),
        "heads of 72, 512 rows": QkvNormRope72(512), "heads of 72, halves, 512 rows": QkvNormRopeHalves72(512),
        "sd3.5 qkv + norm": Sd3Qkv(8192, 2432, 2432), "pixart up + gelu": Up(8192, 4608, 1152),
        "pixart down + gate + residual": Down(2, 4096, 1152, (4608,)),
        "pixart out + gate + residual": Down(2, 4096, 1152, (1152,)),
        "dit up + gelu": few_rows(Up(512, 4608, 1152), [Variant(128, 144, stages=5, box=48), Variant(128, 128, stages=6)]),
        "dit down + gate + residual": few_rows(Down(2, 256, 1152, (4608,)), FEW_ROWS),
        "dit out + gate + residual": few_rows(Down(2, 256, 1152, (1152,)), FEW_ROWS),
        "swiglu": Gated(rows=4608, columns=18432, k=3072), "swiglu, lumina": Gated(rows=4096, columns=13824, k=2560),
    }


def small_cases():
    """Odd sizes, checked only: rows and columns that do not fill tiles, several batches."""
    even = [QkvNormRope(333, 384, 200), JointQkvNormRope(text=77, rows=301, width=256, k=512), Up(301, 768, 328),
            Up(130, 384, 64, "Silu"), Up(130, 384, 64, "GeluErf"), Gated(rows=301, columns=1280, k=256),
            Down(3, 77, 384, (264,)), Down(2, 300, 768, (72, 1000)), SingleIn(333, 256, 128, 640),
            JointUp(text=77, rows=301, columns=768, k=256), Sd3Qkv(333, 192, 192), QkvNormRope72(333, 288, 200),
            QkvNormRopeHalves72(301, 288, 256)]
    odd = [Up(301, 200, 328), Down(2, 77, 200, (264,)), Gated(rows=301, columns=208, k=256)]
    for case in odd:
        case.variants = [dataclasses.replace(v, even=False) for v in case.variants]
    return {f"small {type(case).__name__} {i}": case for i, case in enumerate(even + odd)}
