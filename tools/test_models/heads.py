# SPDX-License-Identifier: Apache-2.0
"""Attention whose heads are 72 wide (DiT-XL's width in sixteen heads), normalised and turned, in bf16."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randn

HEADS, SIZE, TOKENS = 2, 72, 21


def turned_halves(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def turned_pairs(x: Tensor) -> Tensor:
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([-second, first], dim=-1).flatten(-2)


def table(halves: bool) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every column."""
    angle = torch.arange(TOKENS)[:, None] * 100.0 ** (-torch.arange(0, SIZE, 2) / SIZE)
    angle = torch.cat([angle, angle], dim=-1) if halves else angle.repeat_interleave(2, dim=-1)
    return angle.cos(), angle.sin()


class OneLayer(nn.Module):
    """timm's spelling: queries, keys and values are columns of one layer; column j turns with j + 36."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(HEADS * SIZE, 3 * HEADS * SIZE)
        self.q_norm, self.k_norm = nn.RMSNorm(SIZE, eps=1e-6), nn.RMSNorm(SIZE, eps=1e-6)
        self.proj = nn.Linear(HEADS * SIZE, HEADS * SIZE)

    def turn(self, x: Tensor) -> Tensor:
        cosine, sine = table(halves=True)
        return (x.float() * cosine + turned_halves(x.float()) * sine).to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        y = F.scaled_dot_product_attention(self.turn(self.q_norm(q)), self.turn(self.k_norm(k)), v)
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, width))


class ThreeLayers(nn.Module):
    """A layer each; columns 2j and 2j + 1 turn; norms without weights, behind the rotation."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(HEADS * SIZE, HEADS * SIZE, bias=i == 2) for i in range(3))

    def turn(self, x: Tensor) -> Tensor:
        cosine, sine = table(halves=False)
        turned = (x.float() * cosine + turned_pairs(x.float()) * sine).to(x.dtype)
        return F.rms_norm(turned, (SIZE,), eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for layer in self.layers)
        return F.scaled_dot_product_attention(self.turn(q), self.turn(k), v).transpose(1, 2).flatten(2)


class HeadsOf72(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one_layer, self.three_layers = OneLayer(), ThreeLayers()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        first = self.one_layer(x)
        return {"one_layer": first, "three_layers": self.three_layers(first)}


def models() -> list[TestModel]:
    return [
        TestModel(
            "heads_of_72",
            "QK-norm and rotary embedding of heads of 72, one layer and three",
            lambda: HeadsOf72().to(torch.bfloat16),
            {"": Call((randn(2, TOKENS, HEADS * SIZE, seed=1, dtype=torch.bfloat16),))},
        )
    ]
