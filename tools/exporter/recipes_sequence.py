# SPDX-License-Identifier: Apache-2.0
"""Recipes of image models whose tokens are one sequence, or become one: FLUX.3 and Ideogram 4. Configurations are the classes'
own defaults."""

from __future__ import annotations

import torch

from exporter.recipe import (
    PACKED_RANGES,
    PACKED_SYMBOLS,
    TINY_IMAGE,
    Config,
    Draw,
    Inputs,
    Recipe,
    Size,
    position_ids,
    token_count,
)
from exporter.recipes_packed import flux2_inputs

# ---- FLUX.3 ----------------------------------------------------------------------------------------

_FLUX3 = Recipe(
    name="flux.3",
    class_name="Flux3Transformer2DModel",
    config={
        "in_channels": 128,
        "cond_in_channels": 128,
        "num_layers": 5,
        "num_single_layers": 28,
        "attention_head_dim": 128,
        "num_attention_heads": 24,
        "joint_attention_dim": 20480,
        "timestep_channels": 256,
        "mlp_ratio": 3.0,
        "axes_dims_rope": (32, 32, 32, 32),
        "rope_theta": 10000,
        "eps": 1e-6,
        "flow_map": False,
    },
    tiny={
        "in_channels": 16,
        "cond_in_channels": 16,
        "num_layers": 1,
        "num_single_layers": 2,
        "attention_head_dim": 32,
        "num_attention_heads": 2,
        "joint_attention_dim": 24,
        "timestep_channels": 32,
        "axes_dims_rope": (8, 8, 8, 8),
    },
    size=Size(1024, 1024, text=512),
    tiny_size=TINY_IMAGE,
    make_inputs=flux2_inputs,
    kept_fp32=frozenset({"timestep"}),
    symbols=PACKED_SYMBOLS,
    ranges=PACKED_RANGES,
)

# ---- Ideogram 4 ------------------------------------------------------------------------------------

_TEXT, _IMAGE, _PADDING = 3, 2, -1  # roles of tokens
_IMAGE_POSITIONS = 65536  # where those of images begin


def _ideogram_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    """Text in front of the image in one sequence; what a sample's text is short of is padding, a segment of its own."""
    grid = size.grid(16)
    image = token_count(grid)
    lengths = draw.text_mask(size.batch, size.text)
    text_roles = torch.where(lengths == 1, _TEXT, _PADDING)
    roles = torch.cat([text_roles, torch.full((size.batch, image), _IMAGE)], dim=1)
    places = torch.cat([torch.arange(size.text)[:, None].expand(-1, 3), position_ids(*grid).long() + _IMAGE_POSITIONS])
    return {
        "hidden_states": draw.normal(size.batch, size.text + image, config["in_channels"]),
        "timestep": draw.sigmas(size.batch),
        "encoder_hidden_states": draw.normal(size.batch, size.text + image, config["llm_features_dim"]),
        "position_ids": places.expand(size.batch, -1, -1).contiguous(),
        "segment_ids": (roles != _PADDING).long(),
        "indicator": roles,
    }


_IDEOGRAM4 = Recipe(
    name="ideogram-4",
    class_name="Ideogram4Transformer2DModel",
    config={
        "in_channels": 128,
        "num_layers": 34,
        "attention_head_dim": 256,
        "num_attention_heads": 18,
        "intermediate_size": 12288,
        "adaln_dim": 512,
        "llm_features_dim": 53248,
        "rope_theta": 5_000_000,
        "mrope_section": (24, 20, 20),
        "norm_eps": 1e-5,
    },
    tiny={
        "in_channels": 16,
        "num_layers": 2,
        "attention_head_dim": 32,
        "num_attention_heads": 2,
        "intermediate_size": 96,
        "adaln_dim": 24,
        "llm_features_dim": 40,
        "mrope_section": (6, 5, 5),
    },
    size=Size(1024, 1024, text=256),
    tiny_size=TINY_IMAGE,
    make_inputs=_ideogram_inputs,
)

RECIPES: tuple[Recipe, ...] = (_FLUX3, _IDEOGRAM4)
