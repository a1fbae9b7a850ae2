# SPDX-License-Identifier: Apache-2.0
"""What models write out by hand and the compiler has one operation for: attention, norms, patch embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randn

Results = dict[str, Tensor]


def to_heads(x: Tensor, heads: int = 2) -> Tensor:
    """[B, N, H D] to [B H, N, D], as diffusers does for bmm."""
    batch, tokens, width = x.shape
    return x.reshape(batch, tokens, heads, width // heads).permute(0, 2, 1, 3).reshape(batch * heads, tokens, -1)


def from_heads(x: Tensor, heads: int = 2) -> Tensor:
    batch, tokens, width = x.shape
    return x.reshape(batch // heads, heads, tokens, width).permute(0, 2, 1, 3).reshape(batch // heads, tokens, -1)


def with_bmm(x: Tensor, y: Tensor, bias: Tensor) -> Results:
    """x (2, 4, 16), y (2, 6, 16), bias (2, 6): batch and heads in one dimension."""
    q, k, v = to_heads(x), to_heads(y), to_heads(y * 0.5)
    mask = bias[:, None].repeat_interleave(2, dim=0)
    empty = torch.empty(q.shape[0], q.shape[1], k.shape[1])
    scores = torch.baddbmm(empty, q, k.transpose(-1, -2), beta=0, alpha=8**-0.5)
    masked = torch.baddbmm(mask.expand(-1, 4, -1), q, k.transpose(-1, -2), beta=1, alpha=8**-0.5)
    bq, bk, bv = q.bfloat16(), k.bfloat16(), v.bfloat16()
    upcast = torch.bmm(bq, bk.transpose(1, 2)).float() * 8**-0.5
    return {
        "bmm": from_heads(torch.bmm(scores.softmax(dim=-1), v)),
        "bmm_mask": from_heads(torch.bmm(masked.softmax(dim=-1), v)),
        "bmm_mask_row": torch.bmm((torch.bmm(q, k.mT) / 8**0.5 + bias[:1, None]).softmax(-1), v),
        "bmm_upcast": from_heads(torch.bmm(upcast.softmax(-1).to(bv.dtype), bv)),
        "bmm_two_steps": torch.bmm(exp_and_divide(torch.bmm(q, k.mT)), v),
    }


def exp_and_divide(scores: Tensor) -> Tensor:
    power = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return power / power.sum(dim=-1, keepdim=True)


def with_matmul(x: Tensor, y: Tensor, bias: Tensor) -> Results:
    """Batch and heads apart; keep hides keys but never all of a row."""
    q = x.unflatten(-1, (2, 8)).transpose(1, 2)
    k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in (y, y * 0.5))
    keep = (bias > -0.5)[:, None, None].index_fill(-1, torch.tensor([0]), True)
    low = torch.finfo(torch.float32).min
    scores = q @ k.transpose(-2, -1)
    float_scores = q.bfloat16().float() @ k.bfloat16().float().mT
    return {
        "matmul": scores.mul(0.25).softmax(-1) @ v,
        "matmul_scaled_query": (q * 8**-0.5 @ k.mT).softmax(-1) @ v,
        "matmul_no_scale_bias": (scores + bias[0].expand(1, 2, 4, 6)).softmax(-1) @ v,
        "matmul_fill": scores.masked_fill(~keep, float("-inf")).softmax(-1) @ v,
        "matmul_where_low": torch.where(keep, scores * 0.5, low).softmax(-1) @ v,
        "matmul_where_row_hidden": torch.where(keep & (bias[:, 1:2, None, None] > 0), scores, low).softmax(-1) @ v,
        "matmul_zero_mask": (scores + torch.zeros(1, 1, 4, 6)).softmax(-1) @ v,
        "matmul_float_of_bf16": float_scores.softmax(-1) @ v.bfloat16().float(),
        "weights_read_twice": (scores.softmax(-1) @ v) * scores.softmax(-1).sum((-1, -2), keepdim=True),
        "mask_is_scaled": ((scores + bias[:, None, None]) * 0.5).softmax(-1) @ v,
        "softmax_over_queries": scores.softmax(-2) @ v,
    }


def with_masks(x: Tensor, y: Tensor, bias: Tensor) -> Results:
    """Several masks of one attention, hidden keys in f16, weights that are turned, products by einsum."""
    q = x.unflatten(-1, (2, 8)).transpose(1, 2)
    k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in (y, y * 0.5))
    hq, hk, hv = q.half(), k.half(), v.half()
    hidden = (bias < -0.5)[:, None, None].index_fill(-1, torch.tensor([0]), False)
    row_hidden = hidden | (bias[:, 1:2, None, None] > 0)
    near = torch.ones(4, 6, dtype=torch.bool).tril(1).triu(-2)
    low = torch.finfo(torch.float16).min
    scores, half_scores = q @ k.mT, hq @ hk.mT
    windows = scores.view(1, 2, 2, 4, 6) + bias.view(1, 2, 1, 1, 6)
    weights = torch.einsum("bhid,bhjd->bhij", hq, hk).float().softmax(-1).type_as(hq)
    return {
        "masks_added": (scores * 0.5 + bias[:, None, None] + bias[:1, :4, None]).softmax(-1) @ v,
        "masks_bias_and_fill": (scores + bias[:, None, None]).masked_fill(hidden, float("-inf")).softmax(-1) @ v,
        "masks_both_fill": scores.masked_fill(hidden, float("-inf")).masked_fill(~near, float("-inf")).softmax(-1) @ v,
        "masks_half_low": half_scores.masked_fill(row_hidden, low).softmax(-1, dtype=torch.float32).half() @ hv,
        "masks_half_low_twice": (half_scores + hidden.half() * low + (~near).half() * low).softmax(-1) @ hv,
        "masks_of_windows": windows.view(2, 2, 4, 6).softmax(-1) @ v,
        "weights_turned": v.mT @ scores.softmax(-1).mT,
        "weights_by_einsum": torch.einsum("bhij,bhjd->bihd", weights, hv),
    }


def grouped(x: Tensor, y: Tensor) -> Results:
    """Four query heads share two key heads; x and y have 4 x 4 and 2 x 4 of 16 columns."""
    q = x.unflatten(-1, (4, 4)).transpose(1, 2)
    k, v = y[..., :8].unflatten(-1, (2, 4)), y[..., 8:].unflatten(-1, (2, 4))
    wide = [t.unsqueeze(3).repeat(1, 1, 1, 2, 1).flatten(2, 3).transpose(1, 2) for t in (k, v)]
    late = [t.transpose(1, 2).repeat_interleave(2, dim=1) for t in (k, v)]
    expanded = [t.transpose(1, 2)[:, :, None].expand(2, 2, 2, 6, 4).reshape(2, 4, 6, 4) for t in (k, v)]
    tiled = [t.transpose(1, 2).repeat(1, 2, 1, 1) for t in (k, v)]
    return {
        "grouped_before": F.scaled_dot_product_attention(q, *wide),
        "grouped_after": F.scaled_dot_product_attention(q, *late),
        "grouped_expand": F.scaled_dot_product_attention(q, *expanded),
        "grouped_written": (q @ late[0].mT).softmax(-1) @ late[1],
        "tiled_not_grouped": F.scaled_dot_product_attention(q, *tiled),
    }


class Spelled(nn.Module):
    """Attention of x (2, 4, 16) to y (2, 6, 16) with bias (2, 6), norms of y, patches of image and video."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(1 + torch.randn(16) / 4), nn.Parameter(torch.randn(16) / 4)
        self.patch = nn.Conv2d(4, 8, 2, stride=2)
        self.edge = nn.Conv2d(4, 8, 3, stride=3)
        self.volume = nn.Conv3d(4, 8, (1, 2, 2), stride=(1, 2, 2))
        self.pointwise = nn.Conv2d(4, 6, 1, bias=False)
        self.skipping = nn.Conv1d(4, 6, 1, stride=2)

    def forward(self, x: Tensor, y: Tensor, bias: Tensor, image: Tensor) -> Results:
        return with_bmm(x, y, bias) | with_matmul(x, y, bias) | with_masks(x, y, bias) | grouped(x, y) | self.norms(y) | self.patches(image)

    def norms(self, y: Tensor) -> Results:
        """LayerNorm and RMSNorm in arithmetic."""
        mean = y.mean(-1, keepdim=True)
        centred = y - mean
        brain = y.bfloat16()
        wide = brain.float()
        wide = wide - wide.mean(-1, keepdim=True)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return {
            "layer_mean_of_squares": centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-6),
            "layer_var": centred * torch.rsqrt(y.var(-1, unbiased=False, keepdim=True) + 1e-6) * self.weight + self.bias,
            "layer_pow": self.weight * (centred * (centred.pow(2).mean(-1, keepdim=True) + 1e-6).pow(-0.5)) + self.bias,
            "layer_bf16": (wide * self.weight + self.bias).to(brain.dtype),
            "layer_reciprocal": centred * (1 / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()),
            "layer_unbiased": centred / torch.sqrt(y.var(-1, keepdim=True) + 1e-6),
            "layer_eps_outside": centred / (torch.sqrt(centred.square().mean(-1, keepdim=True)) + 1e-3),
            "rms_weight": y / torch.sqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight,
        }

    def patches(self, image: Tensor) -> Results:
        """Convolutions with windows side by side; image (2, 4, 6, 8)."""
        return {
            "patch_tokens": self.patch(image).flatten(2).transpose(1, 2),
            "patch_image": self.patch(image),
            "patch_edge": self.edge(image),
            "patch_volume": self.volume(image[:, :, None].expand(2, 4, 3, 6, 8)).flatten(2).transpose(1, 2),
            "pointwise": self.pointwise(image.contiguous()),
            "pointwise_skipping": self.skipping(image.flatten(2)),
        }


def models() -> list[TestModel]:
    inputs = (randn(2, 4, 16, seed=1), randn(2, 6, 16, seed=2), randn(2, 6, seed=3), randn(2, 4, 6, 8, seed=4))
    return [TestModel("ops_spelled", "attention, norms, patch embedding out of simple ops", Spelled, {"": Call(inputs)}, core=True)]
