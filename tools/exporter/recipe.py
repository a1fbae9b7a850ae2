# SPDX-License-Identifier: Apache-2.0
"""What a recipe is: the constants of a released model, a tiny variant, and how to make its inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from exporter.errors import UsageError


@dataclass(frozen=True)
class Size:
    """What to generate, in pixels, frames, text tokens and samples."""

    height: int
    width: int
    text: int = 0
    frames: int = 1
    batch: int = 1

    def with_extent(self, text: str) -> Size:
        """Takes height, width and frames from `1024`, `768x1360` or `480x832x81`."""
        try:
            numbers = [int(part) for part in text.split("x")]
        except ValueError:
            numbers = []
        if len(numbers) not in (1, 2, 3) or min(numbers) < 1:
            raise UsageError(f"'{text}' is not a size: write 1024, 768x1360 (height x width) or 480x832x81 (x frames)")
        height, width = numbers[0], numbers[min(1, len(numbers) - 1)]
        return replace(self, height=height, width=width, frames=numbers[2] if len(numbers) == 3 else self.frames)

    def grid(self, pixels: int) -> tuple[int, int]:
        """Height and width in cells of `pixels` x `pixels`; they must divide."""
        if self.height % pixels or self.width % pixels:
            raise UsageError(f"{self.height}x{self.width} pixels: this model needs multiples of {pixels}")
        return self.height // pixels, self.width // pixels

    def latent_frames(self, factor: int) -> int:
        """Frames of the latent video: the first one alone, then one for `factor` frames."""
        if (self.frames - 1) % factor:
            raise UsageError(f"{self.frames} frames: this model needs a multiple of {factor}, plus 1")
        return (self.frames - 1) // factor + 1


@dataclass
class Draw:
    """Makes input tensors from a seed."""

    seed: int
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)

    def normal(self, *shape: int) -> Tensor:
        """Latents and embeddings."""
        return torch.randn(shape, generator=self.generator)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """int64 of [low, high)."""
        return torch.randint(low, high, shape, generator=self.generator)

    def sigmas(self, batch: int) -> Tensor:
        """Time as flow models take it when the pipeline divides by 1000. Powers of two: also times 1000 they are
        exact in bfloat16, so that a comparison with float32 measures the layers and not one rounded time."""
        return 0.5 ** (1 + torch.arange(batch) % 4)

    def text_mask(self, batch: int, tokens: int) -> Tensor:
        """int64, ones up to a length that differs per sample (the first sample is full)."""
        lengths = torch.tensor([tokens - sample * max(1, tokens // 4) for sample in range(batch)]).clamp(min=1)
        return (torch.arange(tokens)[None] < lengths[:, None]).long()


Config = dict[str, Any]
Inputs = dict[str, Any]

TINY_IMAGE = Size(144, 176, text=13, batch=2)  # a grid of 9 x 11: odd, not square

# Of models that take latents packed into tokens, with position ids.
PACKED_SYMBOLS = (
    "hidden_states.0=batch",
    "hidden_states.1=tokens",
    "encoder_hidden_states.0=batch",
    "encoder_hidden_states.1=text",
    "timestep.0=batch",
    "img_ids.0=tokens",
    "txt_ids.0=text",
)
PACKED_RANGES = ("batch=1..16", "tokens=4..16384", "text=2..512")


@dataclass(frozen=True)
class Recipe:
    """One released model."""

    name: str
    class_name: str  # in diffusers
    config: dict[str, Any]
    tiny: dict[str, Any]  # what the tiny variant changes in `config`
    size: Size
    tiny_size: Size
    make_inputs: Callable[[dict[str, Any], Size, Draw], Inputs]
    symbols: tuple[str, ...] = ()  # what --symbolic means, in the language of --dynamic
    ranges: tuple[str, ...] = ()  # ... and of --range
    kept_fp32: frozenset[str] = frozenset()  # inputs that stay float32 in a bf16 or f16 model
    prepare: Callable[[nn.Module], None] | None = None  # changes the model before it is exported

    def configuration(self, tiny: bool) -> dict[str, Any]:
        """Arguments of the model's constructor."""
        return self.config | (self.tiny if tiny else {})

    def inputs(self, config: dict[str, Any], size: Size, seed: int) -> Inputs:
        """Keyword arguments of the model's forward, `return_dict` last."""
        return self.make_inputs(config, size, Draw(seed)) | {"return_dict": False}


def position_ids(height: int, width: int, axes: int = 3) -> Tensor:
    """(height * width, axes): row and column of each image token in the last two axes."""
    rows = torch.arange(height).repeat_interleave(width)
    columns = torch.arange(width).repeat(height)
    ids = torch.zeros(height * width, axes)
    ids[:, -2], ids[:, -1] = rows, columns
    return ids


def token_count(grid: tuple[int, int], frames: int = 1) -> int:
    """Tokens of a grid of patches."""
    return math.prod(grid) * frames
