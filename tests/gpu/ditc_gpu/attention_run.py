# SPDX-License-Identifier: Apache-2.0
"""Attention as ditc emits it: a grid of cases against fp64, and rates beside torch's back ends in the same run.

    python3 -m ditc_gpu.attention_run BUNDLE check[:spread]|check-mma[:spread]|check-quantized[:spread]|bench[-mma[-small]][:SHAPE,...] FIRST     the worker for supervise.py

The grid poisons what a kernel must neither read nor write: memory around the operands, scratch and masks' ends hold NaN
or rubbish, memory around the result a sentinel, and every buffer ends at a hole in the address space (guarded.py). Every case runs twice and has to agree to the bit. Rates are of CUDA
graphs of several launches over rotating buffers, in turns with the back ends of torch."""
import json
import os
import sys
import zlib

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import attention_plans, attention_problems, guarded, timing

TOLERANCE = {"bf16": 6e-3, "f16": 1.2e-3, "f32": 2e-6}
QUANTIZED_TOLERANCE = 5.5e-2  # docs/quantization.md: 4.3e-2 of random numbers
SENTINEL = 12345.0
SAMPLE = 1 << 28  # scores that the reference may hold at once
SMALL_CARVE_OUT = 43  # percent of an H200's 228 KB: 100 KB, as GPUs of 8.6, 8.9 and 12.0 have
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


def visible_keys(p, shape):
    """A boolean mask of this shape."""
    keys, key = shape[-1], torch.arange(shape[-1], device="cuda")
    query = torch.arange(shape[2], device="cuda")[:, None]
    if p.mask == "half":
        return (key < keys // 2).expand(shape).contiguous()
    if p.mask == "segments":  # packed sequences of uneven lengths
        bounds = torch.tensor([int(keys * f) for f in (0.21, 0.5, 0.57, 0.83)], device="cuda")
        return (torch.bucketize(key, bounds, right=True) == torch.bucketize(query, bounds, right=True)).expand(shape).contiguous()
    if p.mask == "band":
        return ((key - query).abs() <= keys // 8).expand(shape).contiguous()
    if p.mask == "boolean":
        return torch.rand(shape, device="cuda") < 0.5
    if p.mask in ("keys", "holes"):
        result = torch.rand(shape, device="cuda") < 0.7
        result[0, ..., keys // 2:] = False
        if p.mask == "holes":
            result[:, ..., keys // 5: keys * 4 // 5] = False
        result[-1] = False  # a sequence without keys
        if shape[0] > 2:
            result[1] = True
        return result
    result = torch.rand(shape, device="cuda") < 0.5
    result[:, :, : shape[2] // 2, keys // 3:] = False
    result[:, :, -1] = False
    return result


def make_mask(p):
    """(flat memory of the mask, mask as torch takes it) or two Nones."""
    kind = attention_problems.mask_type(p)
    if kind is None:
        return None, None
    shape, element = kind
    if p.mask in ("expanded", "padding"):
        shape = (p.batch, 1, 1, p.keys)
    if element == "i1":
        mask = visible_keys(p, shape)
        return mask.view(torch.uint8).flatten(), mask
    if p.mask == "padding":  # of the last sequence of the grid nothing is left
        length = torch.tensor([0 if p.gap and b == p.batch - 1 else p.keys // (2 if b == 0 or not p.gap else 3) for b in range(p.batch)], device="cuda")
        hidden = torch.arange(p.keys, device="cuda") >= length[:, None, None, None]
        mask = hidden.to(attention_plans.DTYPES[element]) * -10000.0
        return mask.flatten(), mask
    mask = torch.randn(shape, device="cuda").mul(2).to(attention_plans.DTYPES[element])
    if p.gap:
        mask[..., torch.rand(p.keys, device="cuda") < 0.1] = float("-inf")
        if p.mask in ("row", "expanded"):
            mask[-1] = torch.finfo(mask.dtype).min  # a sequence that sees nothing: the mean of V, as softmax says
    return mask.flatten(), mask


class Bound:
    """A problem with its memory, its plan and its operands as (batch, head, token, column)."""

    def __init__(self, p, program, images, poison=True):
        self.p, dtype = p, attention_plans.DTYPES[p.element]
        self.memory, where = {}, attention_problems.places(p)
        for name, (space, kind) in program.buffers.items():
            element = attention_plans.DTYPES[kind.element]
            fill = SENTINEL if space == "output" else float("nan") if element.is_floating_point else 0 if space == "zeroed" else 77
            self.memory[name] = guarded.full(kind.span, fill, element) if poison else torch.full((kind.span,), fill, dtype=element, device="cuda")
        # Buffers come in the order in which attention_problems.program wrote them.
        names = list(dict.fromkeys(place.buffer for key, place in where.items() if key != "out"))
        buffers = dict(zip(names, program.inputs))
        self.tensors = {}
        for key in "qkv":
            place = where[key]
            self.tensors[key] = self.memory[buffers[place.buffer]].as_strided(place.shape, place.strides, place.offset)
            self.tensors[key].copy_(torch.randn(place.shape, device="cuda", dtype=torch.float32 if p.gap else dtype))
        flat, self.mask = make_mask(p)
        if flat is not None:
            self.memory[program.inputs[len(names)]] = guarded.guarded(flat) if poison else flat
        self.out = self.memory[program.outputs[0]].as_strided(where["out"].shape, where["out"].strides, where["out"].offset)
        self.sums = self.memory[program.outputs[1]].view(p.batch, p.heads, p.queries) if p.log_sum_exp else None
        self.plan = attention_plans.Plan(program, images, self.memory)


def hidden_by_position(p, rows):
    """Keys that `causal` and `window` hide from these queries, or None."""
    key = torch.arange(p.keys, device="cuda")
    hidden = None
    if p.causal:
        hidden = key > rows[:, None]
    if p.window:
        distance = key - rows[:, None]
        outside = (distance < -p.window[0]) | (distance > p.window[1])
        hidden = outside if hidden is None else hidden | outside
    return hidden


def reference(bound, rows):
    """Output and log-sum-exp of these rows of all heads, fp64; and which rows see no key."""
    p = bound.p
    q, k, v = (bound.tensors[name] for name in "qkv")
    group = p.heads // p.kv_heads
    q = q[:, :, rows].double()
    k, v = k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = q @ k.transpose(2, 3) * p.factor
    if p.soft_cap:
        scores = p.soft_cap * torch.tanh(scores / p.soft_cap)
    if bound.mask is not None:
        mask = bound.mask if bound.mask.shape[2] == 1 else bound.mask[:, :, rows]
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask.double()
    if (hidden := hidden_by_position(p, rows)) is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    top = scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    weights = (scores - top).exp()
    total = weights.sum(-1, keepdim=True)
    return weights @ v / total.clamp_min(1e-300), (top + total.log()).squeeze(-1), total.squeeze(-1) == 0


def sampled_rows(p):
    count = max(1, min(p.queries, SAMPLE // (p.batch * p.heads * p.keys)))
    return torch.arange(p.queries, device="cuda") if count == p.queries else torch.randperm(p.queries, device="cuda")[:count].sort().values


def tolerance(p):
    return QUANTIZED_TOLERANCE if p.quantized else TOLERANCE[p.element]


def same_sums(got, expected):
    """Of rows that see nothing but the lowest numbers it is some such number."""
    hidden = (got == float("-inf")) == (expected == float("-inf"))
    return bool(hidden.all()) and torch.allclose(got.clamp_min(-1e30), expected.clamp_min(-1e30), rtol=1e-3, atol=1e-3)


def judge(bound, program, runs):
    """What is wrong, or None; and the relative error."""
    p = bound.p
    rows = sampled_rows(p)
    expected, sums, empty = reference(bound, rows)
    got = runs[0][:, :, rows].double()
    error = float((got - expected).norm() / expected.norm().clamp_min(1e-30))
    if not torch.isfinite(runs[0]).all():
        return f"{int((~torch.isfinite(runs[0])).sum())} values not finite", 9.0
    if not error <= tolerance(p):
        return f"relative L2 {error:.2e}", error
    if not torch.equal(runs[0], runs[1]):
        return "two runs differ", error
    if not (got[empty] == 0).all():
        return "a row without keys is not 0", error
    if bound.sums is not None and not same_sums(bound.sums[:, :, rows].double(), sums):
        return "log-sum-exp is off", error
    bound.out.fill_(SENTINEL)
    if not (bound.memory[program.outputs[0]] == torch.tensor(SENTINEL, dtype=runs[0].dtype)).all():
        return "wrote outside of the output", error
    return None, error


def check(p, program, images):
    seed = zlib.crc32(str(p).encode())
    torch.manual_seed(seed)
    images.multiprocessors = 100 if seed % 4 == 0 else 0
    bound = Bound(p, program, images)
    runs = []
    for _ in range(2):
        bound.out.fill_(float("nan"))
        bound.plan()
        torch.cuda.synchronize()
        runs.append(bound.out.clone())
    wrong, error = judge(bound, program, runs)
    return {"problem": str(p), "relative": error, **({"wrong": wrong} if wrong else {})}


def peer_call(p, bound, backend):
    """torch on the same operands, (batch, token, head, column) in memory, as its models have them."""
    q, k, v = (bound.tensors[name].transpose(1, 2).contiguous().transpose(1, 2) for name in "qkv")
    mask = bound.mask
    if p.window:
        mask = ~hidden_by_position(p, torch.arange(p.queries, device="cuda"))[None, None]
    if mask is not None:
        mask = mask.expand(p.batch, p.heads if mask.dtype != torch.bool else mask.shape[1], p.queries, p.keys)

    def call():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=p.causal, scale=p.factor)

    return call


def bench(name, p, program, images, backends):
    torch.manual_seed(1)
    estimate_us = max(p.flop / 6e8, p.bytes / 3e6, 5.0)
    sets = min(6, timing.sets_for(p.bytes))
    bounds = [Bound(p, program, images, poison=False) for _ in range(sets)]
    calls, problems = {"ditc": lambda i: bounds[i].plan()}, []
    bounds[0].out.fill_(float("nan"))
    bounds[0].plan()
    rows = sampled_rows(p)[:: max(1, p.queries // 64)]
    expected, _, _ = reference(bounds[0], rows)
    error = float((bounds[0].out[:, :, rows].double() - expected).norm() / expected.norm())
    del expected
    for peer, backend in backends.items():
        if p.soft_cap or (estimate_us > 2e4 and peer == "efficient"):  # torch has no soft cap
            continue
        try:
            ours = [peer_call(p, bound, backend) for bound in bounds]
            ours[0]()
            calls[peer] = lambda i, ours=ours: ours[i]()
        except Exception as reason:
            problems.append(f"{peer}: {str(reason).splitlines()[0][:80]}")
    rounds = 7 if estimate_us < 1e4 else 3
    microseconds = timing.compare(calls, sets, target_ms=3.0 if estimate_us < 1e4 else 1.0, rounds=rounds)
    peers = {peer: us for peer, us in microseconds.items() if peer != "ditc"}
    best, ours = min(peers, key=peers.get, default=None), microseconds["ditc"]
    return {"name": name, "problem": str(p), "us": ours, "tflops": p.flop / ours / 1e6, "tb_s": p.bytes / ours / 1e6, "peers_us": peers, "peer": best,
            "ratio": peers[best] / ours if peers else None, "relative": error, "scratch_bytes": program.scratch_bytes, "refused": problems,
            "kernels": [kernel for kernel, _ in program.launches], **({} if error < tolerance(p) else {"wrong": f"relative L2 {error:.2e}"})}


def peer_text(r):
    return f"{r['peer']:9} {r['peers_us'][r['peer']]:10.2f} us  x{r['ratio']:.3f}" if r["peer"] else "no peer"


def table(results):
    lines = []
    for r in results:
        if "error" in r:
            lines.append(f"FAILED case {r['case']}: {r['error'][:300]}")
        elif "us" in r:
            lines.append(f"{r['name']:22} {r['us']:10.2f} us {r['tflops']:7.1f} TF {r['tb_s']:5.2f} TB/s  {peer_text(r)}  {r['relative']:.1e} {r.get('wrong', '')}")
        elif "wrong" in r:
            lines.append(f"WRONG {r['problem']}: {r['wrong']}")
    checked = [r for r in results if "us" not in r and "relative" in r]
    if checked:
        right = [r for r in checked if "wrong" not in r]
        lines.append(f"{len(right)} of {len(checked)} right, worst relative L2 {max(r['relative'] for r in checked):.2e}")
    return "\n".join(lines)


def cases(what):
    """[(program's name, problem)]"""
    if what.startswith("check"):
        problems = attention_problems.GRIDS[folder_of(what)]()
        some = attention_problems.spread(problems) if what.endswith(":spread") else range(len(problems))
        return [(f"case_{i}", problems[i]) for i in some]
    models, wanted = attention_problems.models(), what.partition(":")[2].split(",")
    every = models if folder_of(what) == "models" else attention_problems.PORTABLE_MODELS
    return [(name, models[name]) for name in (wanted if wanted != [""] else every)]


def folder_of(what):
    part = what.split(":")[0]
    folders = {"check": "grid", "check-mma": "grid_mma", "check-quantized": "grid_quantized", "bench": "models", "bench-mma": "models_mma", "bench-mma-small": "models_mma_small"}
    return folders[part]


def peers_of(what):
    """Back ends of torch that the architectures of these kernels have."""
    return PEERS if what.split(":")[0] == "bench" else {name: backend for name, backend in PEERS.items() if name != "cudnn"}


def main():
    bundle, what, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
    folder = os.path.join(bundle, folder_of(what))
    programs, images = attention_plans.programs(folder + ".planned.mlir"), attention_plans.Images(folder)
    images.carve_out = SMALL_CARVE_OUT if what.startswith("bench-mma-small") else None
    for i, (name, p) in enumerate(cases(what)):
        if i < first:
            continue
        result = bench(name, p, programs[name], images, peers_of(what)) if what.startswith("bench") else check(p, programs[name], images)
        print(json.dumps({"case": i, **result}), flush=True)
        if what.startswith("bench") or i % 50 == 0:
            torch.cuda.empty_cache()
    print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main()
