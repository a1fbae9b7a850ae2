# SPDX-License-Identifier: Apache-2.0
"""Linear layers of which rows go different ways, or columns are not read."""

from __future__ import annotations

from torch import Tensor, nn

from exporter.folder import Call
from test_models.case import TestModel, randn

TEXT, IMAGE, CHANNELS = 64, 96, 64


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(CHANNELS, CHANNELS)
        self.norm = nn.LayerNorm(CHANNELS)
        self.wide = nn.Linear(CHANNELS, 3 * CHANNELS)

    def forward(self, x: Tensor, image: Tensor, text: Tensor, gate: Tensor) -> dict[str, Tensor]:
        text_part, image_part = self.out(x).split([TEXT, IMAGE], dim=1)
        image, text = image + gate * image_part, text + (1 - gate) * text_part
        wide = self.wide(x)
        return {
            "image": self.norm(image),
            "text": self.norm(text) + text,
            "middle": wide[..., CHANNELS : 2 * CHANNELS] - x,
            "first": self.wide(image)[..., :70] * 2,
            "every_other": self.wide(text)[..., CHANNELS::2].relu(),
        }


class ProductParts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = Parts()
        self.parts_bf16 = Parts().bfloat16()

    def forward(self, x: Tensor, image: Tensor, text: Tensor, gate: Tensor) -> dict[str, Tensor]:
        narrow = self.parts_bf16(*(value.bfloat16() for value in (x, image, text, gate)))
        return self.parts(x, image, text, gate) | {f"{name}_bf16": value for name, value in narrow.items()}


def models() -> list[TestModel]:
    inputs = (
        randn(2, TEXT + IMAGE, CHANNELS, seed=1),
        randn(2, IMAGE, CHANNELS, seed=2),
        randn(2, TEXT, CHANNELS, seed=3),
        randn(2, 1, CHANNELS, seed=4),
    )
    return [TestModel("product_parts", "rows and columns of linear layers", ProductParts, {"": Call(inputs)})]
