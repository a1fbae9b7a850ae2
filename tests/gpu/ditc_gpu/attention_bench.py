# SPDX-License-Identifier: Apache-2.0
"""Attention rates beside torch SDPA's cuDNN and FlashAttention back ends, in the same run.

Everything is captured into CUDA graphs of several launches over rotating buffers, the graphs are replayed in turn, and
the median over the turns counts. FLOP = 4·B·H·Nq·Nk·D whatever the mask hides."""

import functools
import statistics

from attention_kernels import Kernel, SmallKernel, default

TURNS = 7

# name: batch, heads, queries, keys, head size, mask
SHAPES = {
    "flux_1024": (1, 24, 4608, 4608, 128, "none"),
    "flux_2048": (1, 24, 16896, 16896, 128, "none"),
    "sd35_1024": (2, 38, 4429, 4429, 64, "none"),
    "pixart_1024": (2, 16, 4096, 4096, 72, "none"),
    "pixart_cross": (2, 16, 4096, 300, 72, "none"),
    "pixart_cross_bias": (2, 16, 4096, 300, 72, "columns"),
    "wan_cross": (1, 40, 32760, 512, 128, "none"),
    "dit_256": (2, 16, 256, 256, 72, "none"),
    "dit_512": (2, 16, 1024, 1024, 72, "none"),
    "sd15_512": (2, 8, 4096, 4096, 40, "none"),
    "sd15_mid": (2, 8, 1024, 1024, 80, "none"),
    "wan_480p": (1, 40, 32760, 32760, 128, "none"),
    "d80": (2, 16, 4096, 4096, 80, "none"),
    "d96": (2, 16, 4096, 4096, 96, "none"),
    "d160": (2, 8, 4096, 4096, 160, "none"),
    "auraflow": (2, 12, 4360, 4360, 256, "none"),
    "latte_temporal": (3840, 16, 16, 16, 72, "none"),
    "windows_8x8": (1024, 16, 64, 64, 64, "none"),
    "flux_half_keys": (1, 24, 4608, 4608, 128, "half"),
    "flux_2048_half_keys": (1, 24, 16896, 16896, 128, "half"),
    "sd35_half_keys": (2, 38, 4429, 4429, 64, "half"),
    "cross_half_keys": (2, 16, 4096, 300, 72, "half"),
    "flux_boolean": (1, 24, 4608, 4608, 128, "boolean"),
    "sd35_boolean": (2, 38, 4429, 4429, 64, "boolean"),
    "flux_causal": (1, 24, 4608, 4608, 128, "causal"),
}


def plan():
    """(shape, kernels to time on it)"""
    whole = dict(split=False)
    temporal = [SmallKernel(72, 64, 16, 4, panel=64, stages=s, blocks=b) for s, b in ((1, 4), (2, 2), (1, 3))]
    windows = [SmallKernel(64, 64, stages=1, blocks=b) for b in (4, 5)]
    half = {d: [default(d, "lengths"), default(d, "bits")] for d in (64, 72, 128)}
    half[72] += [Kernel(72, 112, 3, mask="lengths"), Kernel(72, 96, 3, mask="bits")]
    return [
        ("flux_1024", [default(128), Kernel(128, 128), default(128, **whole)]),
        ("flux_2048", [default(128), Kernel(128, 128)]),
        ("wan_480p", [default(128), Kernel(128, 128)]),
        ("sd35_1024", [default(64), default(64, **whole)]),
        ("pixart_1024", [default(72), Kernel(72, 112, 3), default(72, **whole)]),
        ("pixart_cross", [default(72), Kernel(72, 112, 3), Kernel(72, 80, 3)]),
        ("pixart_cross_bias", [Kernel(72, n, 3, mask="columns") for n in (112, 96, 80)]
         + [Kernel(72, 128, 2, mask="columns"), Kernel(72, 96, 3, mask="bias")]),
        ("wan_cross", [default(128), Kernel(128, 64, 3, **whole), Kernel(128, 128, **whole)]),
        ("dit_256", [Kernel(72, 64, 1), Kernel(72, 64, 1, stages=3), SmallKernel(72, 256, panel=64, stages=1, blocks=1)]),
        ("dit_512", [default(72), Kernel(72, 128), Kernel(72, 80, 3)]),
        ("sd15_512", [default(40), Kernel(40, 144, 3)]),
        ("sd15_mid", [Kernel(80, 128)]),
        ("d80", [Kernel(80, 128), Kernel(80, 176), default(80)]),
        ("d96", [default(96), Kernel(96, 160)]),
        ("d160", [default(160)]),
        ("auraflow", [default(256), default(256, **whole)]),
        ("latte_temporal", temporal), ("windows_8x8", windows),
        ("flux_half_keys", half[128]), ("flux_2048_half_keys", half[128]), ("sd35_half_keys", half[64]),
        ("cross_half_keys", half[72]), ("flux_boolean", [default(128, "bits"), Kernel(128, 160, mask="bits")]),
        ("sd35_boolean", [default(64, "bits")]), ("flux_causal", [default(128, "causal"), Kernel(128, 96, mask="causal")]),
    ]


def label(kernel):
    return kernel.name + ("" if getattr(kernel, "split", True) else "_whole")


def capture(torch, launches, bytes_each, estimate_s):
    """A graph of enough launches for about 2 ms; `launches` are the same work on different buffers."""
    count = max(len(launches), min(200, int(2e-3 / max(estimate_s, 1e-6))))
    launches[0]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            launches[i % len(launches)]()
    return graph, count


def measure(torch, contestants):
    """contestants: name -> (graph, launches in it). Median seconds per launch."""
    times = {name: [] for name in contestants}
    for turn in range(TURNS + 1):
        for name, (graph, count) in contestants.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if turn:
                times[name].append(begin.elapsed_time(end) * 1e-3 / count)
    return {name: statistics.median(values) for name, values in times.items()}


def run(folder, job):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    import attention_device as attention

    shape, kernels = job
    batch, heads, queries, keys, d, mask = SHAPES[shape]
    bytes_each = 2 * batch * heads * d * (2 * queries + 2 * keys)
    flop = 4.0 * batch * heads * queries * keys * d
    estimate = max(flop / 6e14, bytes_each / 3e12, 5e-6)
    sets = max(1, min(6, int(2.4e8 / bytes_each)))
    torch.manual_seed(1)
    new = lambda tokens: torch.randn((batch, tokens, heads, d), dtype=torch.bfloat16, device="cuda")
    data = [(new(queries), new(keys), new(keys), new(queries)) for _ in range(sets)]

    peer_mask, arguments, prepare = None, lambda kernel: ([], None, None), None
    if mask == "half":
        lengths = torch.full((batch,), keys // 2, dtype=torch.int32, device="cuda")
        visible = (torch.arange(keys, device="cuda") < keys // 2).expand(batch, 1, 1, keys).contiguous()
        peer_mask = visible.expand(batch, 1, queries, keys)
    if mask == "columns":
        peer_mask = torch.randn((batch, 1, 1, keys), dtype=torch.bfloat16, device="cuda")
        peer_mask = peer_mask.expand(batch, heads, queries, keys)
    if mask == "boolean":
        visible = torch.rand((1, 1, queries, keys), device="cuda") < 0.5
        peer_mask = visible

    def bind(kernel, q, k, v, out):
        extra, before = [], None
        if kernel.mask == "lengths":
            extra, _ = attention.lengths_arguments(lengths)
        if kernel.mask in ("columns", "bias"):
            make = attention.column_bias_arguments if kernel.mask == "columns" else attention.bias_arguments
            extra, _ = make(peer_mask[:, :1, :1], (batch, heads, queries, keys), d**-0.5)
        if kernel.mask == "bits":
            packed = attention.PackedMask(folder, kernel, visible, None)
            extra, before = packed.arguments, packed.pack
        launch = attention.Attention(folder, kernel).bind(q, k, v, out, extra)
        return lambda: (before() if before else None, launch())  # packing the mask is part of the time

    contestants, errors = {}, {}
    q, k, v, _ = data[0]
    peers = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
             "efficient": SDPBackend.EFFICIENT_ATTENTION}
    for name, backend in peers.items():
        if estimate > 2e-2 and name == "efficient":
            continue
        def call(q, k, v, backend=backend):
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(
                    q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=peer_mask, is_causal=mask == "causal")
        try:
            expected = call(q, k, v).transpose(1, 2)
            contestants[name] = capture(torch, [functools.partial(call, *x[:3]) for x in data], bytes_each, estimate)
        except Exception as error:
            errors[name] = str(error).splitlines()[0][:80]
    for kernel in kernels:
        try:
            data[0][3].fill_(float("nan"))
            contestants[label(kernel)] = capture(torch, [bind(kernel, *x) for x in data], bytes_each, estimate)
            torch.cuda.synchronize()
            difference = ((data[0][3].float() - expected.float()).norm() / expected.float().norm()).item()
            if not difference < 8e-3:
                errors[label(kernel)] = f"differs from torch by {difference:.2e}"
        except Exception as error:
            errors[label(kernel)] = str(error)[:120]
    seconds = measure(torch, contestants)
    best_peer = min(seconds[name] for name in peers if name in seconds)
    lines = [f"{shape} {SHAPES[shape]}"]
    for name, value in seconds.items():
        lines.append(f"  {name:52s} {value * 1e6:10.2f} us {flop / value / 1e12:7.1f} TF {best_peer / value:6.3f}x"
                     f" {bytes_each / value / 1e12:5.2f} TB/s {errors.get(name, '')}")
    lines += [f"  {name}: {text}" for name, text in errors.items() if name not in seconds]
    return {"job": shape, "shape": SHAPES[shape], "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
            "seconds": seconds, "tflops": {n: flop / s / 1e12 for n, s in seconds.items()},
            "best_peer_over": {n: best_peer / s for n, s in seconds.items() if n not in peers}, "errors": errors,
            "table": "\n".join(lines)}
