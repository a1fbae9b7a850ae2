# SPDX-License-Identifier: Apache-2.0
"""Masks of all queries by all keys that are made of masks of tokens, larger than what attention gives."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as sdpa

from exporter.folder import Call
from test_models.case import TestModel, randn

IMAGE, TEXT, CHANNELS = 64, 16, 16


class Joint(nn.Module):
    """One attention of image and text, whose hidden tokens see nothing and are not seen; a projection for each."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Linear(CHANNELS, CHANNELS)
        self.text = nn.Linear(CHANNELS, CHANNELS)

    def forward(self, q: Tensor, k: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        shown = pad(text, (IMAGE, 0), value=True)
        keys = shown.view(-1, 1, 1, IMAGE + TEXT).repeat(1, 1, IMAGE + TEXT, 1)
        attended = sdpa(q, k, k, attn_mask=keys & keys.transpose(2, 3)).transpose(1, 2).flatten(2)
        image, text = attended.split([IMAGE, TEXT], dim=1)
        return self.image(image) * 0.5, text + self.text(text)


class TokenMasks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.joint = Joint()
        self.joint_bf16 = Joint().bfloat16()

    def forward(self, q: Tensor, k: Tensor, text: Tensor, queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
        """q and k (2, 1, 80, 16), text (2, 16); queries (2, 80) and keys (2, 80) are cut to be of different lengths."""
        image, behind = self.joint(q, k, text)
        image_bf16, behind_bf16 = self.joint_bf16(q.bfloat16(), k.bfloat16(), text)
        few = queries[:, :72]
        outer = few[:, None, :, None] & keys[:, None, None, :]
        numbers = few.float()[:, :, None] * keys.float()[:, None, :]
        square = queries[:, :, None] & keys[:, None, :] & queries[:, None, :]
        return {
            "image": image,
            "text": behind,
            "image_bf16": image_bf16,
            "text_bf16": behind_bf16,
            "cross": sdpa(q[:, :, :72], k, k, attn_mask=outer),
            "numbers": sdpa(q[:, :, :72], k, k, attn_mask=numbers[:, None].bool()),
            "infinite": sdpa(q[:, :, :72], k, k, attn_mask=torch.where(outer, 0.0, float("-inf"))),
            "three": sdpa(q, k, k, attn_mask=square[:, None]),
            "queries": sdpa(q, k, k, attn_mask=queries[:, None, :, None].expand(2, 1, 80, 80)),
            "causal": sdpa(q, k, k, attn_mask=square[:, None] & torch.ones(80, 80, dtype=torch.bool).tril()),
            "finite": sdpa(q[:, :, :72], k, k, attn_mask=(1 - numbers[:, None]) * -1e4),
        }


def models() -> list[TestModel]:
    places = torch.arange(80)
    keys = torch.stack([places % 3 != 1, places < 50])
    text = torch.stack([places[:TEXT] < 5, places[:TEXT] % 2 == 0])
    inputs = (randn(2, 1, 80, 16, seed=1), randn(2, 1, 80, 16, seed=2), text, keys.flip(1), keys)
    return [TestModel("token_masks", "masks of queries and of keys in one", TokenMasks, {"": Call(inputs)})]
