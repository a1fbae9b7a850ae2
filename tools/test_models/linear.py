# SPDX-License-Identifier: Apache-2.0
"""Linear attention as models spell it, and the convolutional feed-forward that Sana has behind it, in bf16."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randn

HEADS, SIZE, SIDE = 3, 16, 8  # a grid of 8 x 12 tokens
TOKENS, WIDTH = SIDE * (SIDE + 4), HEADS * SIZE


class Projected(nn.Module):
    """Queries, keys and values as [batch, heads, channels, tokens]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def heads(self, x: Tensor) -> list[Tensor]:
        return [layer(x).transpose(1, 2).unflatten(1, (HEADS, SIZE)) for layer in self.layers]


class Normalised(Projected):
    """Sana: a row of ones below the values sums what the result is divided by."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        q, k, v = F.relu(q).float(), F.relu(k.transpose(2, 3)).float(), v.float()
        scores = torch.matmul(F.pad(v, (0, 0, 0, 1), mode="constant", value=1.0), k)
        y = torch.matmul(scores, q)
        y = y[:, :, :-1] / (y[:, :, -1:] + 1e-15)
        return y.flatten(1, 2).transpose(1, 2).to(x.dtype)


class Turned(Projected):
    """SANA-Video: queries and keys turn with their place, but for the normaliser."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        q, k = F.relu(q), F.relu(k)
        angle = torch.arange(TOKENS) * 0.1
        sign = torch.tensor([1.0, -1.0]).repeat(SIZE // 2)[:, None]
        q_turned = (q.float() * angle.cos() + q.float() * sign * angle.sin()).to(q.dtype).float()
        k_turned = (k.float() * angle.cos() + k.float() * sign * angle.sin()).to(k.dtype).float()
        z = 1 / (k.sum(dim=-1, keepdim=True).transpose(-2, -1) @ q + 1e-2)
        y = torch.matmul(torch.matmul(v.float(), k_turned.transpose(-1, -2)), q_turned) * z
        return y.flatten(1, 2).transpose(1, 2).to(x.dtype)


class Natural(Projected):
    """Q (Kᵀ V) of batch and heads in one, with elu + 1 as features."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.transpose(2, 3).flatten(0, 1).float() for part in self.heads(x))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        y = torch.bmm(q, torch.bmm(k.transpose(1, 2), v)) / TOKENS
        return y.unflatten(0, (-1, HEADS)).transpose(1, 2).flatten(2).to(x.dtype)


class GatedConvolutions(nn.Module):
    """Tokens become an image: 1x1, activation, depthwise 3x3, a gate, 1x1."""

    def __init__(self) -> None:
        super().__init__()
        self.inverted = nn.Conv2d(WIDTH, 4 * WIDTH, 1)
        self.depth = nn.Conv2d(4 * WIDTH, 4 * WIDTH, 3, padding=1, groups=4 * WIDTH)
        self.point = nn.Conv2d(2 * WIDTH, WIDTH, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        image = x.unflatten(1, (SIDE, -1)).permute(0, 3, 1, 2)
        y, gate = self.depth(F.silu(self.inverted(image))).chunk(2, dim=1)
        return self.point(y * F.silu(gate)).flatten(2).transpose(1, 2)


class LinearAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.normalised, self.turned, self.natural, self.convolutions = Normalised(), Turned(), Natural(), GatedConvolutions()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        first = self.normalised(x)
        image = self.convolutions(x + first)
        return {"normalised": first, "turned": self.turned(x), "natural": self.natural(x), "convolutions": image}


def models() -> list[TestModel]:
    return [
        TestModel(
            "linear_attention",
            "linear attention in three spellings, and a feed-forward of convolutions",
            lambda: LinearAttention().to(torch.bfloat16),
            {"": Call((randn(2, TOKENS, WIDTH, seed=1, dtype=torch.bfloat16),))},
        )
    ]
