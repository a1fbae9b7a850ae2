# SPDX-License-Identifier: Apache-2.0
"""The correctness grid of attention: head sizes × lengths × masks × layouts × key-head sharing, against fp64.

Every case poisons what the kernel must neither read nor write: memory around the output holds a sentinel, the output
itself NaN, and the rows behind the last token of padded inputs (and behind a sequence's key length) NaN. Every case runs
twice and the results have to agree bit for bit."""

import ctypes
import dataclasses
import zlib

from attention_kernels import DEFAULTS, Kernel, SmallKernel, default

TOLERANCE = {"BF16": 6e-3, "F16": 1.2e-3}
CAP = 5.0  # of the soft-capped cases
LAYOUTS = ("token", "head", "padded", "fused")


@dataclasses.dataclass(frozen=True)
class Case:
    kernel: object
    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    layout: str
    mask: str = "none"  # none, lengths, causal, keybits, holes, bits, headbits, bias, rowbias, columns


def cases():
    result = []
    sizes = [(1, 1), (17, 17), (64, 64), (100, 333), (333, 100), (1000, 1000), (131, 4101), (4096, 77)]
    turn = 0
    for d in DEFAULTS:
        for element in ("BF16", "F16"):
            for queries, keys in sizes if element == "BF16" else sizes[3:6]:
                turn += 1
                key_heads = (4, 2, 1)[turn % 3]
                layout = LAYOUTS[turn % 4 if queries == keys and key_heads == 4 else turn % 3]
                result.append(Case(default(d, element=element), 2, 4, key_heads, queries, keys, layout))
        for mask, queries, keys in (
            ("lengths", 64, 64), ("lengths", 200, 1000), ("lengths", 77, 300), ("lengths", 513, 640),
            ("causal", 100, 100), ("causal", 1000, 1000), ("causal", 300, 1111),
            ("keybits", 200, 300), ("keybits", 77, 1000), ("holes", 300, 1500), ("bits", 333, 555), ("headbits", 130, 700),
            ("bias", 100, 333), ("rowbias", 200, 600), ("columns", 200, 600), ("columns", 100, 334), ("columns", 64, 1002), ("bias", 64, 1000), ("causal_lengths", 300, 700),
            ("causal_lengths", 1000, 1000), ("window", 700, 900), ("softcap", 300, 500), ("bits", 1, 4096), ("lengths", 1, 129),
        ):
            turn += 1
            kind = {"keybits": "bits", "holes": "bits", "headbits": "bits", "rowbias": "bias"}.get(mask, mask)
            result.append(Case(default(d, kind), 3, 2, (2, 1)[turn % 2], queries, keys, LAYOUTS[turn % 3], mask))
    for d, n, c, changes in (
        (128, 80, 3, {}), (64, 128, 3, {}), (64, 224, 2, {}), (64, 192, 2, dict(split=False)), (128, 144, 2, {}),
        (72, 192, 2, dict(qk_panel=32, v_panel=32)), (128, 128, 2, dict(ordered=False)), (64, 256, 1, {}),
        (72, 128, 3, dict(ordered=False)), (72, 192, 2, dict(qk_panel=16, v_panel=16)),
        (72, 160, 2, dict(stages=3, qk_panel=32, v_panel=32)), (72, 128, 3, dict(grid=100)), (128, 128, 2, dict(grid=7)),
    ):
        for queries, keys in ((333, 1000), (1000, 129), (2000, 4101), (5000, 2222)):
            result.append(Case(Kernel(d, n, c, **changes), 2, 4, 4, queries, keys, "token"))
    for kernel in (Kernel(64, 128, 2, v_dim=128), Kernel(128, 128, 2, v_dim=64), Kernel(72, 128, 2, v_dim=40)):
        for queries, keys in ((333, 1000), (17, 100), (4500, 2222)):
            result.append(Case(kernel, 2, 4, 2, queries, keys, "padded"))
    for kernel, batch, heads, queries, keys, layout, mask in (
        (SmallKernel(72, 256, panel=32, stages=1, blocks=1), 2, 16, 256, 256, "fused", "none"),
        (SmallKernel(72, 256, panel=32, stages=1, blocks=1), 2, 3, 200, 129, "padded", "none"),
        (SmallKernel(64, 64, blocks=4), 100, 4, 64, 64, "fused", "none"),
        (SmallKernel(64, 64, blocks=4), 100, 4, 49, 49, "head", "none"),
        (SmallKernel(64, 64, blocks=4), 7, 4, 64, 30, "padded", "none"),
        (SmallKernel(72, 64, 16, 4, panel=32), 200, 16, 16, 16, "fused", "none"),
        (SmallKernel(72, 64, 16, 4, panel=32), 33, 8, 13, 11, "padded", "none"),
        (SmallKernel(72, 64, 16, 1, panel=16), 33, 5, 16, 16, "token", "none"),
        (SmallKernel(72, 48, 16, 4, stages=1, blocks=4), 33, 8, 13, 11, "padded", "none"),
        (SmallKernel(64, 128, 32, 2, stages=1), 50, 6, 10, 64, "padded", "none"),
        (SmallKernel(64, 64, stages=1, blocks=4, mask="columns"), 33, 5, 64, 64, "padded", "columns"),
        (SmallKernel(64, 64, stages=1, blocks=4, mask="bias"), 33, 5, 50, 64, "padded", "bias"),
        (SmallKernel(72, 64, 16, 1, panel=16), 331, 5, 9, 16, "head", "none"),
        (SmallKernel(72, 64, 16, 1, panel=16, mask="lengths"), 33, 5, 16, 16, "padded", "lengths"),
        (SmallKernel(64, 64, mask="lengths"), 33, 5, 64, 64, "padded", "lengths"),
        (SmallKernel(72, 128, panel=32, blocks=2, mask="causal"), 5, 5, 128, 128, "token", "causal"),
        (SmallKernel(64, 64, 32, 2), 50, 6, 32, 32, "token", "none"),
        (SmallKernel(64, 64, 32, 1), 51, 6, 27, 31, "token", "none"),
        (SmallKernel(40, 64, 64, 1, element="F16"), 20, 8, 64, 64, "fused", "none"),
    ):
        result.append(Case(kernel, batch, heads, heads, queries, keys, layout, mask))
    return result


def allocate(torch, layout, batch, tokens, heads, d, element):
    """A (batch, token, head, column) view of random numbers, inside NaN where the layout leaves room."""
    kind = dict(dtype=element, device="cuda")
    if layout == "head":
        return torch.randn((batch, heads, tokens, d), **kind).transpose(1, 2)
    if layout == "padded":
        whole = torch.full((batch, tokens + 5, heads + 1, d), float("nan"), **kind)
        whole[:, :tokens, :heads] = torch.randn((batch, tokens, heads, d), **kind)
        return whole[:, :tokens, :heads]
    return torch.randn((batch, tokens, heads, d), **kind)


def make_mask(torch, case, attention, folder, k, v, scale):
    """Kernel arguments, a hidden-score predicate or bias of shape broadcasting to (batch, head, query, key), and a
    function to run before the kernel."""
    shape = (case.batch, case.heads, case.queries, case.keys)
    column = torch.arange(case.keys, device="cuda")
    if case.mask in ("lengths", "causal_lengths"):
        lengths = torch.randint(1, case.keys + 1, (case.batch,), dtype=torch.int32, device="cuda")
        lengths[-1] = 0
        for b, n in enumerate(lengths.tolist()):
            k[b, n:], v[b, n:] = float("nan"), float("nan")
        arguments, keep = attention.lengths_arguments(lengths)
        hidden = (column >= lengths[:, None])[:, None, None]
        if case.mask == "causal_lengths":
            hidden = hidden | (column > torch.arange(case.queries, device="cuda")[:, None])
        return arguments, hidden, None, keep
    if case.mask == "causal":
        return [], column > torch.arange(case.queries, device="cuda")[:, None], None, None
    if case.mask == "window":
        distance = column - torch.arange(case.queries, device="cuda")[:, None]
        return [ctypes.c_int32(100), ctypes.c_int32(33)], (distance < -100) | (distance > 33), None, None
    if case.mask == "softcap":  # the reference applies the cap itself
        arguments = [ctypes.c_float(2 * 1.4426950408889634 * scale / CAP), ctypes.c_float(CAP / scale)]
        return arguments, column > torch.arange(case.queries, device="cuda")[:, None], None, None
    if case.mask in ("bias", "rowbias", "columns"):
        rows = case.queries if case.mask == "bias" else 1
        element = attention.TORCH_TYPE[case.kernel.element]
        bias = torch.randn((1, case.heads, rows, case.keys), dtype=element, device="cuda") * 2
        bias[..., torch.rand(case.keys, device="cuda") < 0.1] = float("-inf")
        if case.mask == "columns":
            bias[0, -1] = torch.finfo(element).min  # a head that sees nothing: the mean of V, as softmax says
        make = attention.column_bias_arguments if case.mask == "columns" else attention.bias_arguments
        arguments, keep = make(bias, shape, scale)
        return arguments, bias.double(), None, keep
    if case.mask in ("keybits", "holes"):
        visible = torch.rand((case.batch, 1, 1, case.keys), device="cuda") < 0.7
        visible[0, ..., case.keys // 2 :] = False
        if case.mask == "holes":
            visible[:, ..., case.keys // 5 : case.keys * 4 // 5] = False
        visible[-1] = False
        visible[1] = True
    else:
        heads = case.heads if case.mask == "headbits" else 1
        visible = torch.rand((case.batch, heads, case.queries, case.keys), device="cuda") < 0.5
        visible[:, :, : case.queries // 2, case.keys // 3 :] = False
        visible[:, :, -1] = False
    packed = attention.PackedMask(folder, case.kernel, visible, shape)
    return packed.arguments, ~visible, packed.pack, packed


def reference(torch, q, k, v, scale, mask, cap):
    """Output (batch, token, head, column) and log-sum-exp (batch, head, token) in fp64."""
    q, k, v = (x.transpose(1, 2).double() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(2, 3) * scale
    if cap:
        scores = cap * torch.tanh(scores / cap)
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    top = scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    p = (scores - top).exp()
    total = p.sum(-1, keepdim=True)
    out = p @ v.nan_to_num() / total.clamp_min(1e-300)
    return out.transpose(1, 2), (top + total.log()).squeeze(-1)


def run(folder, case):
    import torch

    import attention_device as attention

    torch.manual_seed(zlib.crc32(str(case).encode()))
    kernel, d = case.kernel, case.kernel.d
    dv = getattr(kernel, "dv", d)
    element = attention.TORCH_TYPE[kernel.element]
    if case.layout == "fused" and case.key_heads == case.heads:
        qkv = torch.randn((case.batch, case.queries, 3, case.heads, d), dtype=element, device="cuda")
        q, k, v = qkv[:, :, 0], qkv[:, : case.keys, 1], qkv[:, : case.keys, 2]
    else:
        q = allocate(torch, case.layout, case.batch, case.queries, case.heads, d, element)
        k = allocate(torch, case.layout, case.batch, case.keys, case.key_heads, d, element)
        v = allocate(torch, case.layout, case.batch, case.keys, case.key_heads, dv, element)
    scale = d**-0.5 * (1.5 if case.mask == "none" else 1.0)
    arguments, mask, before, keep = [], None, None, None
    if case.mask != "none":
        arguments, mask, before, keep = make_mask(torch, case, attention, folder, k, v, scale)

    whole = torch.full((case.batch, case.queries + 3, case.heads, dv + 8), 12345.0, dtype=element, device="cuda")
    out = whole[:, : case.queries, :, :dv]
    sums = torch.full((case.batch, case.heads, case.queries), float("nan"), device="cuda")
    launch = attention.Attention(folder, kernel).bind(q, k, v, out, arguments, scale, sums)
    runs = []
    for _ in range(2):
        out.fill_(float("nan"))
        if before:
            before()
        launch()
        torch.cuda.synchronize()
        runs.append(out.clone())
    expected, expected_sums = reference(torch, q, k, v, scale, mask, CAP if case.mask == "softcap" else None)
    error = (runs[0].double() - expected).norm() / expected.norm().clamp_min(1e-30)
    result = {"job": str(case), "rel": float(error) if bool(error == error) else 9.0}
    if not torch.isfinite(runs[0]).all():
        bad = (~torch.isfinite(runs[0])).nonzero()
        result["error"] = f"{len(bad)} values not finite, first at {bad[0].tolist()}"
    elif result["rel"] > TOLERANCE[kernel.element]:
        rows = (runs[0].double() - expected).norm(dim=3) / (expected.norm(dim=3) + 1e-9)
        worst = rows.flatten().argmax()
        result["error"] = f"relative L2 {result['rel']:.2e}, worst row {rows.flatten()[worst]:.2e} at {int(worst)}"
    elif isinstance(kernel, Kernel) and not torch.allclose(sums.double(), expected_sums, rtol=1e-3, atol=1e-3):
        result["error"] = f"log-sum-exp off by {(sums.double() - expected_sums).abs().max().item():.2e}"
    elif not torch.equal(runs[0], runs[1]):
        result["error"] = "two runs differ"
    elif not ((whole[:, case.queries :] == 12345.0).all() and (whole[..., dv:] == 12345.0).all()):
        result["error"] = "wrote outside of the output"
    elif mask is not None and mask.dtype == torch.bool:
        dead = mask.expand(case.batch, case.heads, case.queries, case.keys).all(-1).transpose(1, 2)
        if not (runs[0][dead] == 0).all():
            result["error"] = "a row without keys is not 0"
    return result
