# SPDX-License-Identifier: Apache-2.0
"""Rows of products in other orders than attention wants them: tokens before batches, frames and their places in turns, in bf16."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randn

WIDTH, HEADS = 48, 3  # an odd number: with an even one torch has an op for all of MultiheadAttention
FRAMES, PLACES, TEXT = 3, 6, 5


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.out = (nn.Linear(WIDTH, n * WIDTH) for n in (1, 2, 1))
        self.q_norm = nn.RMSNorm(WIDTH // HEADS, eps=1e-6)

    def forward(self, x: Tensor, context: Tensor, mask: Tensor | None = None) -> Tensor:
        q = self.q(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = self.kv(context).unflatten(-1, (2, HEADS, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        if context is x:
            q = self.q_norm(q)
        return self.out(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention within frames, or within places, then that of a text; the gate is one of each video."""

    def __init__(self, temporal: bool) -> None:
        super().__init__()
        self.temporal = temporal
        self.own, self.cross, self.feed = Attention(), Attention(), nn.Linear(WIDTH, WIDTH)

    def rows(self, x: Tensor) -> Tensor:
        apart = x.unflatten(1, (FRAMES, PLACES))
        return (apart.transpose(1, 2) if self.temporal else apart).flatten(0, 1)

    def tokens(self, rows: Tensor) -> Tensor:
        apart = rows.unflatten(0, (-1, PLACES if self.temporal else FRAMES))
        return (apart.transpose(1, 2) if self.temporal else apart).flatten(1, 2)

    def forward(self, x: Tensor, text: Tensor, gate: Tensor) -> Tensor:
        rows = self.rows(F.layer_norm(x, (WIDTH,)) * (1 + gate))
        x = x + gate * self.tokens(self.own(rows, rows))
        x = x + self.cross(x, text)
        return x + gate * self.feed(F.gelu(F.layer_norm(x, (WIDTH,))))


class Frames(nn.Module):
    """The rows of frames throughout; a text and a gate that are repeated for each."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.cross = Attention(), Attention()

    def forward(self, x: Tensor, text: Tensor, gate: Tensor, seen: Tensor) -> Tensor:
        y = x.unflatten(1, (FRAMES, PLACES)).flatten(0, 1)
        gates, texts = gate.repeat_interleave(FRAMES, 0), text.repeat_interleave(FRAMES, 0)
        y = y + gates * self.own(y, y)
        y = y + self.cross(y, texts, seen)
        places = y.unflatten(0, (-1, FRAMES)).transpose(1, 2).flatten(0, 1)
        places = places + gate.repeat_interleave(PLACES, 0) * self.own(F.layer_norm(places, (WIDTH,)), places)
        return places.unflatten(0, (-1, PLACES)).transpose(1, 2).flatten(1, 2)


class Turned(nn.Module):
    """Frames and places keep dimensions of their own, and change places for each attention."""

    def __init__(self) -> None:
        super().__init__()
        self.spatial, self.temporal = Attention(), Attention()

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(1, (FRAMES, PLACES))
        for attention in (self.spatial, self.temporal, self.spatial):
            rows = F.layer_norm(x, (WIDTH,)).flatten(0, 1)
            x = (x + attention(rows, rows).unflatten(0, x.shape[:2])).transpose(1, 2)
        return x.flatten(1, 2)


class Rows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(temporal) for temporal in (True, False, True))
        self.frames, self.turned = Frames(), Turned()
        self.batches_first = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.tokens_first = nn.MultiheadAttention(WIDTH, HEADS)

    def forward(self, x: Tensor, text: Tensor, gate: Tensor) -> dict[str, Tensor]:
        blocks = x
        for block in self.blocks:
            blocks = block(blocks, text, gate)
        seen = torch.arange(TEXT)[None, None, None] < TEXT - 1
        near = torch.ones(FRAMES * PLACES, FRAMES * PLACES, dtype=torch.bool).triu(4)
        turned = x.transpose(0, 1)
        return {
            "blocks": blocks,
            "frames": self.frames(x, text, gate, seen),
            "turned": self.turned(x),
            "weights": x + self.batches_first(x, x, x)[0],
            "batches_first": x + self.batches_first(x, x, x, need_weights=False)[0],
            "masked": x + self.batches_first(x, x, x, need_weights=False, attn_mask=near)[0],
            "cross": x + self.batches_first(x, text, text, need_weights=False)[0],
            "tokens_first": turned + self.tokens_first(turned, turned, turned, need_weights=False)[0],
        }


def models() -> list[TestModel]:
    return [
        TestModel(
            "row_orders",
            "attention within frames and places, texts of frames, and tokens before batches",
            lambda: Rows().to(torch.bfloat16),
            {
                "": Call(
                    (
                        randn(2, FRAMES * PLACES, WIDTH, seed=1, dtype=torch.bfloat16),
                        randn(2, TEXT, WIDTH, seed=2, dtype=torch.bfloat16),
                        randn(2, 1, WIDTH, seed=3, dtype=torch.bfloat16),
                    )
                )
            },
        )
    ]
