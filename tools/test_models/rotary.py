# SPDX-License-Identifier: Apache-2.0
"""Rotary embeddings of queries and keys in front of attention, in the spellings of models, in bf16."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randn

HEADS, SIZE, TOKENS = 2, 32, 21
WIDTH = HEADS * SIZE


def angles() -> Tensor:
    """One of each token and pair of columns: (tokens, 1, pairs)."""
    return (torch.arange(TOKENS)[:, None] * 100.0 ** (-torch.arange(0, SIZE, 2) / SIZE))[:, None]


def rounded_parts(x: Tensor) -> Tensor:
    """Mochi 1: even and odd columns are rounded before they are put together."""
    cosine, sine = angles().cos(), angles().sin()
    even, odd = x[..., 0::2].float(), x[..., 1::2].float()
    parts = (even * cosine - odd * sine).to(x.dtype), (even * sine + odd * cosine).to(x.dtype)
    return torch.stack(parts, dim=-1).flatten(-2)


def summed_products(x: Tensor) -> Tensor:
    """Kandinsky 5: products with 2x2 matrices, written as products of elements and a sum."""
    cosine, sine = angles().cos(), angles().sin()
    matrices = torch.stack([cosine, -sine, sine, cosine], dim=-1).unflatten(-1, (2, 2))
    return (matrices * x.unflatten(-1, (-1, 1, 2)).float()).sum(dim=-1).flatten(-2).to(x.dtype)


def written_in_place(x: Tensor) -> Tensor:
    """LTX-2: all by cosines, then each half gets the other one by sines."""
    cosine, sine = angles().cos().unsqueeze(-2), angles().sin().unsqueeze(-2)
    halves = x.unflatten(-1, (2, -1)).float()
    first, second = halves[..., :1, :], halves[..., 1:, :]
    out = halves * cosine
    out[..., :1, :].addcmul_(-sine, second)
    out[..., 1:, :].addcmul_(sine, first)
    return out.flatten(-2).to(x.dtype)


class TurnedAttention(nn.Module):
    def __init__(self, turn: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.turn = turn
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.q_norm, self.k_norm = nn.RMSNorm(SIZE, eps=1e-6), nn.RMSNorm(SIZE, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (HEADS, SIZE)) for layer in self.layers)
        q, k, v = (t.transpose(1, 2) for t in (self.turn(self.q_norm(q)), self.turn(self.k_norm(k)), v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class RotarySpellings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.spellings = nn.ModuleDict({turn.__name__: TurnedAttention(turn) for turn in (rounded_parts, summed_products, written_in_place)})

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {name: attention(x) for name, attention in self.spellings.items()}


def models() -> list[TestModel]:
    return [
        TestModel(
            "rotary",
            "rotary embedding of queries and keys in three spellings",
            lambda: RotarySpellings().to(torch.bfloat16),
            {"": Call((randn(2, TOKENS, WIDTH, seed=1, dtype=torch.bfloat16),))},
        )
    ]
