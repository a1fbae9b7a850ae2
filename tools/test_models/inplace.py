# SPDX-License-Identifier: Apache-2.0
"""Writes into tensors and into views of tensors, which an importer must turn into values."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from exporter.folder import Call
from test_models.case import TestModel, randint, randn

Results = dict[str, Tensor]


def on_bases(x: Tensor, y: Tensor, mask: Tensor) -> Results:
    """Writes into tensors that own their elements."""
    add = x.clone()
    add.add_(y, alpha=2)
    chain = x.clone().mul_(2).add_(1).clamp_(-1, 3).sub_(y)
    scaled = x.clone().div_(4.0)
    scaled *= y
    masked = x.clone().masked_fill_(mask, -10000.0)
    filled = torch.empty_like(x).fill_(1.5)
    copied = torch.empty_like(x).copy_(y)  # y is broadcast
    relu, silu = (x * 1).relu_(), torch.nn.functional.silu(x * 1, inplace=True)
    zeroed, negated = (x + 1).zero_(), x.clone().neg_().exp_()
    rounded = torch.zeros(3, 4, dtype=torch.bfloat16).copy_(y)  # copying casts
    swapped = x.clone()
    swapped.transpose_(0, 1).unsqueeze_(0)
    return {
        "add_": add,
        "chain": chain,
        "imul": scaled,
        "masked_fill_": masked,
        "fill_": filled,
        "copy_": copied,
        "relu_": relu,
        "silu_": silu,
        "zero_": zeroed,
        "neg_exp_": negated,
        "copy_casts": rounded,
        "transpose_": swapped,
        "sigmoid_tanh_": x.clone().sigmoid_().tanh_(),
        "pow_sqrt_": x.clone().pow_(2).sqrt_(),
    }


def through_views(x: Tensor, y: Tensor) -> Results:
    """Writes into views; the base is read afterwards by its old name."""
    select = x.clone()
    select[0].add_(10.0)
    step = torch.empty_like(x)
    step[..., ::2] = x[..., ::2] * 2
    step[..., 1::2] = x[..., 1::2] - 1
    window = x.clone()
    window[:, 1:, 1:3] += y[1:, 1:3]
    negative = x.clone()
    negative[:, -1] = 7.0
    transposed = x.clone()
    transposed.transpose(1, 2)[:, 0].copy_(y[:, 0])
    nested = x.clone()
    nested[1][:, 1:][1].fill_(-3.0)
    viewed = x.clone()
    viewed.view(2, 12)[:, 3:5].mul_(0.0)
    halves = x.clone()
    first, second = halves.chunk(2, dim=-1)
    first.mul_(2)
    second.copy_(first)
    expanded = torch.zeros_like(x)
    expanded.unsqueeze(0).squeeze(0)[:, 1] = y[1]
    diagonal = x.clone()
    torch.diagonal(diagonal, dim1=1, dim2=2).fill_(0.5)
    flat = torch.zeros(24)
    flat[5:17].view(3, 4).copy_(y)
    unbound = x.clone()
    unbound.unbind(0)[1].copy_(y)
    return {
        "select": select,
        "steps": step,
        "window": window,
        "negative": negative,
        "transposed": transposed,
        "nested": nested,
        "viewed": viewed,
        "halves": halves,
        "expanded": expanded,
        "diagonal": diagonal,
        "flat": flat,
        "unbound": unbound,
    }


def aliases(x: Tensor, y: Tensor) -> Results:
    """What is seen of a write depends on who shares the elements, and on the order of statements."""
    base = x.clone()
    view = base[:, 1]  # sees the write below
    before = base[:, 1].clone()  # does not
    doubled = view * 2  # computed before
    base.add_(1)
    after = view * 2  # computed after
    same = x.clone()
    alias = same.to(torch.float32)  # no cast: the same elements
    alias.mul_(3)
    kept = x.clone()
    other = kept.to(torch.float64)  # a cast: elements of its own
    other.mul_(3)
    first = x.clone()
    second = first.contiguous()  # contiguous already: the same elements
    second.zero_()
    reshaped = x.clone()
    reshaped.reshape(24).add_(100)  # a view
    copied = x.clone()
    copied.transpose(0, 1).reshape(24).add_(100)  # a copy: nothing happens to the base
    detached = x.clone()
    detached.detach().sub_(5)
    overlapping = torch.zeros(4)
    overlapping[1:] = torch.ones(3)
    overlapping[:2] = overlapping[2:] + 1
    return {
        "view": view,
        "before": before,
        "doubled": doubled,
        "after": after,
        "base": base,
        "alias": same,
        "cast": kept,
        "contiguous": first,
        "reshape_view": reshaped,
        "reshape_copy": copied,
        "detached": detached,
        "overlapping": overlapping,
    }


def indexed(x: Tensor, y: Tensor, index: Tensor, mask: Tensor) -> Results:
    """Writes at places that a tensor names."""
    put = x.clone()
    put[:, index] = y[:2]
    put_scalar = x.clone()
    put_scalar[1, index] = 0.0
    accumulated = torch.zeros(3, 4).index_put_((index,), y[:2], accumulate=True)
    masked = x.clone()
    masked[mask] = -1.0
    scattered = torch.zeros(3, 4).scatter_(1, torch.stack([index, index, index]), 2.0)
    added = x.clone().index_add_(1, index, torch.ones(2, 2, 4), alpha=0.5)
    copied = x.clone().index_copy_(1, index, torch.zeros(2, 2, 4))
    filled = x.clone().index_fill_(2, index, 9.0)
    scatter_add = torch.zeros(3, 4).scatter_add_(0, index.expand(4, 2).t(), y[:2])
    return {
        "put": put,
        "put_scalar": put_scalar,
        "accumulated": accumulated,
        "masked": masked,
        "scatter_": scattered,
        "index_add_": added,
        "index_copy_": copied,
        "index_fill_": filled,
        "scatter_add_": scatter_add,
    }


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Results:
    """Rotary embeddings that write even and odd places, or only the tail of the sequence."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    rotated = torch.empty_like(x)
    rotated[..., 0::2] = even * cos - odd * sin
    rotated[..., 1::2] = even * sin + odd * cos
    tail = x.clone()
    tail[:, 1:] = tail[:, 1:] * cos.repeat_interleave(2, -1)
    return {"rotary": rotated, "rotary_tail": tail}


class Inplace(nn.Module):
    """Everything starts from clones: inputs stay as they are."""

    def forward(self, x: Tensor, y: Tensor, mask: Tensor, index: Tensor, cos: Tensor, sin: Tensor) -> Results:
        return (
            on_bases(x, y, mask)
            | through_views(x, y)
            | aliases(x, y)
            | indexed(x, y, index, mask)
            | rotary(x, cos, sin)
        )


def models() -> list[TestModel]:
    angle = randn(2, seed=5)
    inputs = (
        randn(2, 3, 4, seed=1),
        randn(3, 4, seed=2),
        randint(0, 2, 2, 3, 4, seed=3).bool(),
        torch.tensor([2, 0]),
        angle.cos(),
        angle.sin(),
    )
    return [TestModel("ops_inplace", "writes into tensors, through views, at indices", Inplace, {"": Call(inputs)})]
