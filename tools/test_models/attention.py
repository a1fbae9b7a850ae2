# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention: masks of every shape, GQA, scales, head sizes, and hand-written attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

from exporter.folder import Call
from test_models.case import TestModel, randn

Results = dict[str, Tensor]


def masked(q: Tensor, k: Tensor, v: Tensor, keep: Tensor, bias: Tensor) -> Results:
    """q (2, 3, 4, 8), k and v (2, 3, 6, 8); keep (2, 6) bool, its second row has no true; bias (4, 6)."""
    keys = keep[:, None, None]
    some = keep | ~keep.any(-1, keepdim=True)
    rows = torch.ones(4, 6, dtype=torch.bool).index_fill(0, torch.tensor([2]), False)
    return {
        "plain": sdpa(q, k, v),
        "scale": sdpa(q, k, v, scale=0.5),
        "mask_keys": sdpa(q, k, v, attn_mask=some[:, None, None]),
        "mask_keys_empty": sdpa(q, k, v, attn_mask=keys),
        "mask_square": sdpa(q, k, v, attn_mask=keys.expand(2, 1, 4, 6)),
        "mask_heads": sdpa(q, k, v, attn_mask=keys.expand(2, 3, 4, 6)),
        "mask_2d": sdpa(q, k, v, attn_mask=bias > 0),
        "mask_row_empty": sdpa(q, k, v, attn_mask=rows),
        "mask_all_true": sdpa(q, k, v, attn_mask=torch.ones(1, 1, 4, 6, dtype=torch.bool)),
        "bias_2d": sdpa(q, k, v, attn_mask=bias),
        "bias_keys": sdpa(q, k, v, attn_mask=(1 - some.float())[:, None, None] * -10000.0),
        "bias_inf": sdpa(q, k, v, attn_mask=torch.zeros(2, 1, 1, 6).masked_fill(~keys, float("-inf"))),
        "bias_heads": sdpa(q, k, v, attn_mask=bias * torch.tensor([0.5, 1.0, 2.0])[:, None, None]),
        "causal_wide": sdpa(q, k, v, is_causal=True),
        "causal_tall": sdpa(k, q, q, is_causal=True),
        "causal_square": sdpa(q, q, q, is_causal=True),
        "causal_mask": sdpa(q, k, v, attn_mask=torch.ones(4, 6, dtype=torch.bool).tril()),
        "one_key": sdpa(q, k[:, :, :1], v[:, :, :1]),
        "one_query": sdpa(q[:, :, :1], k, v),
        "mask_and": sdpa(q, q, q, attn_mask=(some[:, :4, None] & some[:, None, :4])[:, None]),
    }


def shapes(x: Tensor, tokens: Tensor) -> Results:
    """Layouts and head counts. x (2, 6, 8 heads, 8); tokens (2, 5, 240)."""
    q, k, v = x.transpose(1, 2).chunk(2, dim=1)[0], x[:, :, 2:4].transpose(1, 2), x[:, :, :2].transpose(1, 2)
    fused = tokens.reshape(2, 5, 3, 2, 40).permute(2, 0, 3, 1, 4)
    wide = tokens[..., :216].reshape(2, 5, 3, 1, 72).permute(2, 0, 3, 1, 4)
    return {
        "gqa": sdpa(q, k, v, enable_gqa=True),
        "gqa_repeat": sdpa(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)),
        "gqa_expand": sdpa(
            q,
            k[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2),
            v[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2),
        ),
        "multi_query": sdpa(q, k[:, :1], v[:, :1], enable_gqa=True),
        "head_40": sdpa(fused[0], fused[1], fused[2]).transpose(1, 2).flatten(2),
        "head_72": sdpa(wide[0], wide[1], wide[2]),
        "three_dims": sdpa(x[0], x[1], x[1]),
        "two_dims": sdpa(x[0, 0], x[1, 0], x[1, 1]),
        "value_width": sdpa(x, x, tokens[:, :1, :96].reshape(2, 1, 8, 12).expand(2, 6, 8, 12)),
        "five_dims": sdpa(x[None], x[None], x[None]),
        "broadcast_batch": sdpa(q, k[:1, :1], v[:1, :1]),
        "bf16": sdpa(q.bfloat16(), q.bfloat16(), q.bfloat16()),
        "f16": sdpa(q.half(), q.half(), q.half()),
        "f64": sdpa(q.double(), q.double(), q.double()),
    }


def written(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Results:
    """Attention out of matmul and softmax, and attention without softmax."""
    scores = q @ k.transpose(-2, -1) * 8**-0.5
    flat = [t.flatten(0, 1) for t in (q, k, v)]
    fused = torch.baddbmm(bias.expand(6, 4, 6), flat[0], flat[1].mT, beta=1, alpha=8**-0.5).softmax(-1)
    rq, rk = torch.relu(q.mT), torch.relu(k.mT)
    ones = torch.nn.functional.pad(v.mT, (0, 0, 0, 1), value=1.0)
    linear = (ones @ rk.mT) @ rq
    einsum = torch.einsum("bhqd,bhkd->bhqk", q, k).mul(0.25).softmax(dim=-1, dtype=torch.float32)
    return {
        "written": scores.softmax(-1) @ v,
        "written_bias": torch.softmax(scores + bias, dim=-1) @ v,
        "written_baddbmm": torch.bmm(fused, flat[2]),
        "written_scaled": (q * 8**-0.25) @ (k * 8**-0.25).mT,
        "written_einsum": torch.einsum("bhqk,bhkd->bqhd", einsum, v).flatten(2),
        "written_masked": scores.masked_fill(bias > 0.8, float("-inf")).softmax(-1) @ v,
        "linear": (linear[:, :, :-1] / (linear[:, :, -1:] + 1e-15)).mT,
        "written_half": (scores.half().softmax(-1, dtype=torch.float32).half() @ v.half()).float(),
    }


class AttentionLayers(nn.Module):
    """Self-attention with a fused projection, and joint attention of two streams."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.norm = nn.RMSNorm(8, eps=1e-6)
        self.out = nn.Linear(16, 16)
        self.torch_module = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Tensor) -> Results:
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        attended = sdpa(self.norm(q), self.norm(k), v).transpose(1, 2).flatten(2)
        first, second = torch.cat([attended[:, 2:], attended[:, :2]], dim=1).split([4, 2], dim=1)
        return {
            "layer": self.out(attended),
            "joint_first": first,
            "joint_second": self.out(second),
            "torch_module": self.torch_module(x, x, x, need_weights=False)[0],
        }


class Attention(nn.Module):
    """Functions on given queries, keys and values, and attention layers on x (2, 6, 16)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = AttentionLayers()

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor, bias: Tensor, x: Tensor, tokens: Tensor
    ) -> Results:
        return (
            masked(q, k, v, keep, bias)
            | shapes(x, tokens)
            | written(q, k, v, bias)
            | self.layers(x.flatten(2)[..., :16])
        )


class AttentionSample(Attention):
    """A few of each kind: taken apart, all of them would make a large file."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor, bias: Tensor, x: Tensor) -> Results:
        return {
            "plain": sdpa(q, k, v),
            "scale": sdpa(q, k, v, scale=0.5),
            "mask_keys_empty": sdpa(q, k, v, attn_mask=keep[:, None, None]),
            "bias": sdpa(q, k, v, attn_mask=bias),
            "causal_wide": sdpa(q, k, v, is_causal=True),
            "gqa": sdpa(q, k[:, :1], v[:, :1], enable_gqa=True),
            "bf16": sdpa(q.bfloat16(), k.bfloat16(), v.bfloat16()),
        } | self.layers(x.flatten(2)[..., :16])


def models() -> list[TestModel]:
    keep = torch.tensor([[1, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0]]).bool()
    inputs = (
        randn(2, 3, 4, 8, seed=1),
        randn(2, 3, 6, 8, seed=2),
        randn(2, 3, 6, 8, seed=3),
        keep,
        randn(4, 6, seed=4),
        randn(2, 6, 8, 8, seed=5),
        randn(2, 5, 240, seed=6),
    )
    return [
        TestModel(
            "ops_attention", "attention with masks, GQA, scales; written out by hand", Attention, {"": Call(inputs)}
        ),
        TestModel(
            "ops_attention_core",
            "a sample of ops_attention, also in core ATen",
            AttentionSample,
            {"": Call(inputs[:6])},
            core=True,
        ),
    ]
