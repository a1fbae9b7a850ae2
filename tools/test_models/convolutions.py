# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pooling and resizing."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randn

Results = dict[str, Tensor]


class Convolutions(nn.Module):
    """Sequences (2, 4, 9), images (2, 4, 6, 8), videos (1, 2, 3, 4, 6)."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv1d(4, 6, 3, padding=1)
        self.causal = nn.Conv1d(4, 4, 3, groups=4, bias=False)
        self.patch = nn.Conv2d(4, 8, 2, stride=2)
        self.plain = nn.Conv2d(4, 3, 3)
        self.depthwise = nn.Conv2d(4, 8, 3, padding=1, groups=4)
        self.point = nn.Conv2d(4, 6, 1, bias=False)
        self.dilated = nn.Conv2d(4, 2, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(2, 1), groups=2)
        self.same = nn.Conv2d(4, 2, (3, 4), padding="same")
        self.valid = nn.Conv2d(4, 2, 3, padding="valid")
        self.reflect = nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect")
        self.video_patch = nn.Conv3d(2, 6, (1, 2, 2), stride=(1, 2, 2))
        self.video = nn.Conv3d(2, 4, 3, padding=1, groups=2)
        self.up = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)
        self.brain = nn.Conv2d(4, 4, 3, padding=1, dtype=torch.bfloat16)

    def forward(self, sequence: Tensor, image: Tensor, video: Tensor) -> Results:
        return (
            self.convolve(sequence, image, video)
            | pools(sequence, image, video)
            | nearest(sequence, image, video)
            | interpolate(sequence, image, video)
        )

    def convolve(self, sequence: Tensor, image: Tensor, video: Tensor) -> Results:
        """Strides, groups, dilation, each way to say the padding."""
        mixed = self.depthwise(self.patch(image).view(2, 2, 4, 3, 4)[:, 0]).chunk(2, dim=1)
        return {
            "conv1d": self.one(sequence),
            "conv1d_causal": self.causal(F.pad(sequence, (2, 0))),
            "patchify": self.patch(image).flatten(2).transpose(1, 2),
            "conv2d": self.plain(image),
            "depthwise": self.depthwise(image),
            "point": self.point(image),
            "dilated": self.dilated(image),
            "same": self.same(image),
            "valid": self.valid(image),
            "reflect": self.reflect(image),
            "unbatched": self.plain(image[0]),
            "video_patchify": self.video_patch(video).flatten(2).transpose(1, 2),
            "conv3d": self.video(video),
            "transposed": self.up(image),
            "conv_bf16": self.brain(image.bfloat16()),
            "glu_mbconv": mixed[0] * F.silu(mixed[1]),
            "tokens": self.point(image.flatten(2).mT.reshape(2, 6, 8, 4).permute(0, 3, 1, 2)),
            "functional": F.conv2d(image, self.point.weight, stride=2),
            "one_by_one": self.patch(image[:, :, :2, :2]),
            "channels_last": self.plain(image.to(memory_format=torch.channels_last)),
        }


def pools(sequence: Tensor, image: Tensor, video: Tensor) -> Results:
    """Windows that average or take the largest."""
    values, indices = F.max_pool2d(image, 2, return_indices=True)
    return {
        "avg_pool1d": F.avg_pool1d(sequence, 3, 2),
        "avg_pool2d": F.avg_pool2d(image, 2),
        "avg_pool2d_pad": F.avg_pool2d(image, 3, 2, 1),
        "avg_pool2d_inside": F.avg_pool2d(image, 3, 1, 1, count_include_pad=False),
        "avg_pool2d_ceil": F.avg_pool2d(image, (3, 3), 2, ceil_mode=True),
        "avg_pool3d": F.avg_pool3d(video, (1, 2, 2)),
        "adaptive1d": F.adaptive_avg_pool1d(sequence, 4),
        "adaptive2d": F.adaptive_avg_pool2d(image, (2, 3)),
        "adaptive_one": F.adaptive_avg_pool2d(image, 1),
        "adaptive_none": F.adaptive_avg_pool2d(image, (None, 4)),
        "adaptive3d": F.adaptive_avg_pool3d(video, 2),
        "max_pool1d": F.max_pool1d(sequence, 3, 2),
        "max_pool2d": F.max_pool2d(image, 2),
        "max_pool2d_pad": F.max_pool2d(image, 3, 2, 1, dilation=1),
        "max_pool2d_ceil": F.max_pool2d(image, 3, 2, ceil_mode=True),
        "max_pool2d_dilated": F.max_pool2d(image, 2, 1, dilation=2),
        "max_pool2d_values": values,
        "max_pool2d_indices": indices,
        "max_pool3d": F.max_pool3d(video, (1, 2, 2)),
        "adaptive_max": F.adaptive_max_pool2d(image, 2),
    }


def nearest(sequence: Tensor, image: Tensor, video: Tensor) -> Results:
    """Nearest neighbours, by factor and by size."""
    return {
        "nearest": F.interpolate(image, scale_factor=2),
        "nearest_size": F.interpolate(image, size=(5, 11)),
        "nearest_down": F.interpolate(image, scale_factor=0.5),
        "nearest_odd": F.interpolate(image, scale_factor=(1.7, 1.3)),
        "nearest_recomputed": F.interpolate(image, scale_factor=1.7, recompute_scale_factor=True),
        "exact": F.interpolate(image, size=(4, 5), mode="nearest-exact"),
        "exact_scale": F.interpolate(image, scale_factor=1.5, mode="nearest-exact"),
        "nearest1d": F.interpolate(sequence, size=13),
        "exact1d": F.interpolate(sequence, size=5, mode="nearest-exact"),
        "nearest3d": F.interpolate(video, scale_factor=(1, 2, 2)),
        "nearest3d_size": F.interpolate(video, size=(5, 3, 4)),
        "exact3d": F.interpolate(video, size=(2, 6, 9), mode="nearest-exact"),
        "nearest_bf16": F.interpolate(image.bfloat16(), scale_factor=2),
    }


def interpolate(sequence: Tensor, image: Tensor, video: Tensor) -> Results:
    """Linear and cubic, with corners aligned or not."""
    return {
        "linear1d": F.interpolate(sequence, size=13, mode="linear"),
        "linear1d_corners": F.interpolate(sequence, size=4, mode="linear", align_corners=True),
        "bilinear": F.interpolate(image, scale_factor=2, mode="bilinear"),
        "bilinear_size": F.interpolate(image, size=(9, 5), mode="bilinear"),
        "bilinear_corners": F.interpolate(image, size=(9, 5), mode="bilinear", align_corners=True),
        "bilinear_odd": F.interpolate(image, scale_factor=1.3, mode="bilinear"),
        "bilinear_antialias": F.interpolate(image, size=(3, 5), mode="bilinear", antialias=True),
        "bicubic": F.interpolate(image, size=(9, 11), mode="bicubic"),
        "bicubic_scale": F.interpolate(image, scale_factor=0.7, mode="bicubic"),
        "bicubic_corners": F.interpolate(image, size=(9, 11), mode="bicubic", align_corners=True),
        "bicubic_antialias": F.interpolate(image, size=(3, 5), mode="bicubic", antialias=True),
        "trilinear": F.interpolate(video, size=(5, 6, 5), mode="trilinear"),
        "trilinear_corners": F.interpolate(video, scale_factor=(1, 1.5, 1.5), mode="trilinear", align_corners=True),
    }


def models() -> list[TestModel]:
    inputs = (randn(2, 4, 9, seed=1), randn(2, 4, 6, 8, seed=2), randn(1, 2, 3, 4, 6, seed=3))
    return [TestModel("ops_conv", "convolutions, pooling, resizing", Convolutions, {"": Call(inputs)})]
