# SPDX-License-Identifier: Apache-2.0
"""What is around the operations: regions, trees of arguments, constants, symbolic sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.map import map as control_map
from torch._higher_order_ops.scan import scan
from torch.export import Dim
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randn

Results = dict[str, Tensor]


class Autocast(nn.Module):
    """Regions of other rules. Inside an enabled autocast region no cast is in the graph, yet matrix products
    happen in its type; a disabled region inside it computes as written."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 8)
        self.norm = nn.LayerNorm(8)
        self.conv = nn.Conv2d(2, 4, 3, padding=1)

    def forward(self, x: Tensor, image: Tensor) -> Results:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = F.gelu(self.first(x))
            attended = F.scaled_dot_product_attention(hidden, hidden, hidden)
            with torch.autocast("cpu", enabled=False):
                inner = self.first(x) @ self.second.weight.t()
            narrow = self.second(attended) + x
            scores = torch.softmax(torch.matmul(x, x.mT), dim=-1)
            convolved = self.conv(image)
            normed = self.norm(x)
        with torch.no_grad():
            frozen = self.second(self.first(x))
            with torch.autocast("cpu", dtype=torch.float16):
                half = torch.bmm(x, x.mT)
        with torch.autocast("cpu", enabled=False):
            full = self.norm(narrow.float())
        with torch.set_grad_enabled(True):
            last = full * 2
        return {
            "hidden": hidden,
            "attended": attended,
            "inner": inner,
            "narrow": narrow,
            "scores": scores,
            "convolved": convolved,
            "normed": normed,
            "frozen": frozen,
            "half": half,
            "full": full,
            "last": last,
        }


class Trees(nn.Module):
    """Arguments and results in dicts, tuples and lists; arguments that are no tensors; parameters that share."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.linear.weight
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("saved", torch.arange(4.0))
        self.register_buffer("computed", torch.arange(4.0) / 8, persistent=False)
        self.register_buffer("slice_of_larger", torch.arange(12.0)[2:6])
        self.register_buffer("transposed", torch.arange(12.0).view(3, 4).t())
        self.plain = torch.tensor([1.0, -1.0, 0.5, 2.0])

    def forward(
        self,
        x: Tensor,
        states: list[Tensor],
        pair: tuple[Tensor, dict[str, Tensor]],
        mask: Tensor | None = None,
        *,
        conditions: dict[str, Any],
        scale: float = 1.0,
        flip: bool = False,
        mode: str = "sum",
    ) -> dict[str, Any]:
        hidden = self.tied(self.linear(x)) * scale + self.saved + self.computed * self.plain + self.slice_of_larger
        if mask is not None:
            hidden = hidden.masked_fill(mask, 0.0)
        if flip:
            hidden = hidden.flip(-1)
        total = sum(states) if mode == "sum" else states[0]
        inner = conditions["text"] + (conditions["extra"]["size"] if conditions["extra"]["size"] is not None else 0)
        return {
            "hidden": hidden,
            "parts": [total, (inner, pair[0] - pair[1]["b"])],
            "nested": {"a": {"b": pair[1]["c"] @ self.transposed.t()}},
            "none": None,
            "number": 3,
            "input": x,
            "parameter": self.linear.bias,
            "twice": hidden,
            "constant": torch.ones(2),
        }


class Symbolic(nn.Module):
    """Arithmetic of sizes: x (batch, 4, 2h, 2w), tokens (batch, n, 8), other (m, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(4, 8, 2, stride=2)
        self.table = nn.Parameter(torch.randn(1, 24, 24, 8))

    def forward(self, x: Tensor, tokens: Tensor, other: Tensor) -> Results:
        return self.image(x) | self.sequence(tokens) | self.two(tokens, other)

    def image(self, x: Tensor) -> Results:
        """Patches, a centred crop of a table, and back to an image."""
        batch, _, height, width = x.shape
        rows, columns = height // 2, width // 2
        hidden = self.patch(x).flatten(2).transpose(1, 2)
        top, left = (24 - rows) // 2, (24 - columns) // 2
        crop = self.table[:, top : top + rows, left : left + columns].reshape(1, -1, 8)
        image = (hidden + crop).reshape(batch, rows, columns, 2, 2, 2)
        grid = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), -1).flatten(0, 1)
        centred = torch.arange(-(rows - rows // 2), rows // 2)
        return {
            "patches": hidden,
            "cropped": hidden + crop,
            "unpatchified": torch.einsum("nhwpqc->nchpwq", image).reshape(batch, 2, height, width),
            "grid": grid,
            "centred": centred,
            "ratio": x * (height / width),
            "upsampled": F.interpolate(x, scale_factor=2.0),
            "mean": x.sum((2, 3)) / (height * width),
            "resized": F.interpolate(self.table.permute(0, 3, 1, 2), size=(rows, columns), mode="nearest"),
            "area": torch.full((1,), rows * columns),
        }

    def sequence(self, tokens: Tensor) -> Results:
        """Padding to a multiple, halves, tails, heads."""
        batch, count, width = tokens.shape
        padded = F.pad(tokens, (0, 0, 0, -count % 8))
        root = torch.sym_sqrt(count)
        last = tokens[:, -(count - count // 2) :]
        heads = tokens.view(batch, count, 2, width // 2).transpose(1, 2)
        return {
            "padded": padded,
            "windows": padded.unfold(1, 8, 8).mean(-1),
            "window_count": torch.arange((count + 7) // 8),
            "last": last,
            "without_last": tokens[:, :-1],
            "third": tokens[:, count // 3 : 2 * count // 3],
            "heads": F.scaled_dot_product_attention(heads, heads, heads),
            "positions": torch.arange(count, dtype=torch.float32) / count,
            "remainder": tokens * (count % 3),
            "scaled": tokens * (1.0 / root),
            "expanded": tokens[:, :1].expand(-1, count, -1),
            "flat": tokens.flatten(0, 1),
            "zeros": torch.zeros(batch, count + 1),
            "count": tokens[:, 0] + count,
            "every_third": tokens[:, ::3],
            "repeated": tokens.repeat_interleave(2, dim=1),
            "mask": torch.arange(count)[None] >= torch.full((batch, 1), 3),
        }

    def two(self, tokens: Tensor, other: Tensor) -> Results:
        """Two lengths: sums, products, the larger and the smaller one."""
        count, second = tokens.shape[1], other.shape[0]
        joint = torch.cat([tokens, other.expand(tokens.shape[0], -1, -1)], dim=1)
        longest, shortest = torch.sym_max(count, second), torch.sym_min(count, second)
        return {
            "joint": joint,
            "first_part": joint[:, :count],
            "second_part": joint[:, count:],
            "negative_part": joint[:, -second:],
            "split": joint.split([count, second], dim=1)[1],
            "outer": tokens[0] @ other.t(),
            "longest": torch.arange(longest),
            "shortest": torch.ones(shortest, 2),
            "bias": torch.zeros(count + second, count + second),
        }


class NoRows(nn.Module):
    """Two streams in the same layers, of which one may have no rows: a text without tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(16, 64)
        self.gated = nn.Linear(64, 48, bias=False)

    def forward(self, text: Tensor, image: Tensor) -> tuple[Tensor, ...]:
        return (*(self.stream(x) for x in (text, image)), torch.cat([text, image * 3], 1))

    def stream(self, x: Tensor) -> Tensor:
        heads = self.wide(torch.cat([x, x * 2], -1)).unflatten(-1, (4, 16))
        turned = torch.cat([-heads[..., 8:], heads[..., :8]], -1)
        gate, value = self.gated(F.rms_norm(heads + turned, (16,)).flatten(2)).chunk(2, -1)
        return F.silu(gate) * value


class Loops(nn.Module):
    """Loops of a known number of steps: a scan with a state, a map, a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Results:
        def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            state = state * 0.5 + row
            return state, torch.tanh(state)

        def counted(count: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            return count + 1, F.silu(self.proj(state))

        last, states = scan(step, torch.zeros(2, 8), x, dim=0)
        count, looped = torch.while_loop(lambda count, state: count < 3, counted, (torch.tensor(0), x))
        return {
            "last": last,
            "states": states,
            "mapped": control_map(lambda row: self.proj(row).sin(), x),
            "count": count,
            "looped": looped,
        }


class Encoder(nn.Module):
    """Layers that PyTorch runs as one op in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        shape = {"d_model": 16, "nhead": 2, "dim_feedforward": 24, "batch_first": True}
        self.first = nn.TransformerEncoderLayer(**shape, activation="gelu", norm_first=True)
        self.last = nn.TransformerEncoderLayer(**shape)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor, hidden: Tensor) -> Results:
        near = torch.ones(5, 5, dtype=torch.bool).triu(3)
        attended, weights = self.attend(x, hidden, True, True, 1)
        return {
            "first": self.first(x),
            "last": self.last(x, src_key_padding_mask=hidden),
            "masked": self.first(x, src_mask=near),
            "both": self.last(x, src_mask=near, src_key_padding_mask=hidden),
            "attended": attended,
            "weights": weights,
            "weights_of_heads": self.attend(x, near, True, False, 0)[1],
            "without_weights": self.attend(x, None, False, True, None)[0],
            "module": self.attention(x, x, x, key_padding_mask=hidden)[0],
        }

    def attend(self, x: Tensor, mask: Tensor | None, weights: bool, mean: bool, kind: int | None) -> tuple[Tensor, Tensor]:
        inner, outer = self.attention, self.attention.out_proj
        parameters = (inner.in_proj_weight, inner.in_proj_bias, outer.weight, outer.bias)
        return torch._native_multi_head_attention(x, x, x, 16, 4, *parameters, mask, weights, mean, kind)


def models() -> list[TestModel]:
    def sized(batch: int, height: int, width: int, count: int, second: int, seed: int) -> Call:
        return Call(
            (
                randn(batch, 4, height, width, seed=seed),
                randn(batch, count, 8, seed=seed + 1),
                randn(second, 8, seed=seed + 2),
            )
        )

    batch, height, width = Dim("batch", min=1, max=8), Dim("height", min=2, max=24), Dim("width", min=2, max=24)
    count, second = Dim("count", min=9, max=512), Dim("second", min=2, max=64)
    shapes = ({0: batch, 2: 2 * height, 3: 2 * width}, {0: batch, 1: count}, {0: second})
    tree = Call(
        (
            randn(2, 4, seed=1),
            [randn(4, seed=2), randn(4, seed=3), randn(4, seed=4)],
            (randn(3, seed=5), {"c": randn(2, 3, seed=6), "b": randn(3, seed=7)}),
        ),
        {
            "conditions": {"text": randn(2, seed=8), "extra": {"size": None, "ratio": None}},
            "scale": 0.5,
            "flip": True,
            "mode": "sum",
        },
    )
    return [
        TestModel(
            "autocast",
            "autocast and no_grad regions",
            Autocast,
            {"": Call((randn(2, 3, 8, seed=1), randn(1, 2, 4, 5, seed=2)))},
        ),
        TestModel("loops", "loops of a known number of steps", Loops, {"": Call((randn(3, 2, 8, seed=1),))}),
        TestModel(
            "encoder_strict",
            "layers as one op, as a strict export has them",
            Encoder,
            {"": Call((randn(2, 5, 16, seed=1), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])))},
            strict=True,
        ),
        TestModel("trees", "nested arguments and results, constants, tied and strided weights", Trees, {"": tree}),
        TestModel(
            "no_rows",
            "a stream without rows beside one that has some",
            NoRows,
            {"": Call((randn(2, 0, 8, seed=1), randn(2, 20, 8, seed=2)))},
        ),
        TestModel(
            "symbolic",
            "arithmetic of symbolic sizes",
            Symbolic,
            {"": sized(2, 12, 16, 9, 7, 1), "wide": sized(2, 6, 20, 16, 3, 4), "one": sized(1, 14, 8, 12, 21, 7)},
            shapes,
            deferred_checks=True,
        ),
    ]
