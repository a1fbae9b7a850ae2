# SPDX-License-Identifier: Apache-2.0
"""Recipes of image models that take latents packed into tokens with position ids, since FLUX.2.
Configurations are those of the released checkpoints."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import pad

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

# ---- FLUX.2 ----------------------------------------------------------------------------------------


def flux2_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    """Also FLUX.3's."""
    grid = size.grid(16)
    inputs = {
        "hidden_states": draw.normal(size.batch, token_count(grid), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "timestep": draw.sigmas(size.batch),
        "img_ids": pad(position_ids(*grid), (0, 1)).long(),  # time, row, column, token of text
        "txt_ids": pad(torch.arange(size.text)[:, None], (3, 0)),
    }
    return inputs | ({"guidance": torch.full((size.batch,), 4.0)} if config.get("guidance_embeds") else {})


def _flux2(name: str, heads: int, layers: tuple[int, int], text_width: int, guidance: bool) -> Recipe:
    """One modulation for all blocks; one-stream blocks have a single product before attention and one behind it."""
    return Recipe(
        name=name,
        class_name="Flux2Transformer2DModel",
        config={
            "patch_size": 1,
            "in_channels": 128,
            "num_layers": layers[0],
            "num_single_layers": layers[1],
            "attention_head_dim": 128,
            "num_attention_heads": heads,
            "joint_attention_dim": text_width,
            "timestep_guidance_channels": 256,
            "mlp_ratio": 3.0,
            "axes_dims_rope": (32, 32, 32, 32),
            "rope_theta": 2000,
            "eps": 1e-6,
            "guidance_embeds": guidance,
        },
        tiny={
            "in_channels": 16,
            "num_layers": 1,
            "num_single_layers": 2,
            "attention_head_dim": 32,
            "num_attention_heads": 2,
            "joint_attention_dim": 24,
            "timestep_guidance_channels": 32,
            "axes_dims_rope": (8, 8, 8, 8),
        },
        size=Size(1024, 1024, text=512),
        tiny_size=TINY_IMAGE,
        make_inputs=flux2_inputs,
        kept_fp32=frozenset({"timestep", "guidance"}),
        symbols=PACKED_SYMBOLS + (("guidance.0=batch",) if guidance else ()),
        ranges=PACKED_RANGES,
    )


# ---- LongCat-Image and Ovis-Image ------------------------------------------------------------------


def _placed_inputs(config: Config, size: Size, draw: Draw, kind: int, start: int) -> Inputs:
    """As FLUX.1's, but text tokens have positions; image tokens are of `kind` and have theirs from `start` on."""
    grid = size.grid(16)
    return {
        "hidden_states": draw.normal(size.batch, token_count(grid), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "timestep": draw.sigmas(size.batch),
        "img_ids": position_ids(*grid) + torch.tensor([kind, start, start]),
        "txt_ids": pad(torch.arange(size.text)[:, None].expand(-1, 2), (1, 0)).float(),
    }


def _longcat_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    return _placed_inputs(config, size, draw, kind=1, start=512)


def _ovis_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    return _placed_inputs(config, size, draw, kind=0, start=0)


def _placed(
    name: str,
    class_name: str,
    layers: tuple[int, int],
    text: int,
    text_width: int,
    make_inputs: Callable[[Config, Size, Draw], Inputs],
) -> Recipe:
    """FLUX.1's blocks without pooled text."""
    return Recipe(
        name=name,
        class_name=class_name,
        config={
            "patch_size": 1,
            "in_channels": 64,
            "num_layers": layers[0],
            "num_single_layers": layers[1],
            "attention_head_dim": 128,
            "num_attention_heads": 24,
            "joint_attention_dim": text_width,
            "axes_dims_rope": (16, 56, 56),
        },
        tiny={
            "in_channels": 16,
            "num_layers": 1,
            "num_single_layers": 2,
            "attention_head_dim": 32,
            "num_attention_heads": 2,
            "joint_attention_dim": 24,
            "axes_dims_rope": (8, 12, 12),
        },
        size=Size(1024, 1024, text=text),
        tiny_size=TINY_IMAGE,
        make_inputs=make_inputs,
        kept_fp32=frozenset({"timestep", "img_ids", "txt_ids"}),
        symbols=PACKED_SYMBOLS,
        ranges=PACKED_RANGES,
    )


# ---- FIBO ------------------------------------------------------------------------------------------


def _fibo_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    grid = size.grid(16)
    layers = config["num_layers"] + config["num_single_layers"]
    mask = pad(draw.text_mask(size.batch, size.text), (0, token_count(grid)), value=1)
    return {
        "hidden_states": draw.normal(size.batch, token_count(grid), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "text_encoder_layers": [
            draw.normal(size.batch, size.text, config["text_encoder_dim"]) for _ in range(layers)
        ],
        "timestep": draw.sigmas(size.batch) * 1000,
        "img_ids": position_ids(*grid),
        "txt_ids": torch.zeros(size.text, 3),
        "joint_attention_kwargs": {"attention_mask": mask.bool()[:, None, None]},
    }


_FIBO = Recipe(
    name="bria-fibo",
    class_name="BriaFiboTransformer2DModel",
    config={
        "patch_size": 1,
        "in_channels": 48,
        "num_layers": 8,
        "num_single_layers": 38,
        "attention_head_dim": 128,
        "num_attention_heads": 24,
        "joint_attention_dim": 4096,
        "text_encoder_dim": 2048,
        "axes_dims_rope": (16, 56, 56),
        "rope_theta": 10000,
        "time_theta": 10000,
    },
    tiny={
        "in_channels": 16,
        "num_layers": 1,
        "num_single_layers": 2,
        "attention_head_dim": 32,
        "num_attention_heads": 2,
        "joint_attention_dim": 24,
        "text_encoder_dim": 20,
        "axes_dims_rope": (8, 12, 12),
    },
    size=Size(1024, 1024, text=1024, batch=2),
    tiny_size=TINY_IMAGE,
    make_inputs=_fibo_inputs,
    kept_fp32=frozenset({"timestep", "img_ids", "txt_ids"}),
)

# ---- Krea 2 ----------------------------------------------------------------------------------------


def _krea2_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    grid = size.grid(16)
    layers = config["num_text_layers"]
    return {
        "hidden_states": draw.normal(size.batch, token_count(grid), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, layers, config["text_hidden_dim"]),
        "timestep": draw.sigmas(size.batch),
        "position_ids": pad(position_ids(*grid), (0, 0, size.text, 0)),
        "encoder_attention_mask": draw.text_mask(size.batch, size.text).bool(),
    }


_KREA2 = Recipe(
    name="krea-2",
    class_name="Krea2Transformer2DModel",
    config={
        "in_channels": 64,
        "num_layers": 28,
        "attention_head_dim": 128,
        "num_attention_heads": 48,
        "num_key_value_heads": 12,
        "intermediate_size": 16384,
        "timestep_embed_dim": 256,
        "text_hidden_dim": 2560,
        "num_text_layers": 12,
        "text_num_attention_heads": 20,
        "text_num_key_value_heads": 20,
        "text_intermediate_size": 6912,
        "num_layerwise_text_blocks": 2,
        "num_refiner_text_blocks": 2,
        "axes_dims_rope": (32, 48, 48),
        "rope_theta": 1000.0,
        "norm_eps": 1e-5,
    },
    tiny={
        "in_channels": 16,
        "num_layers": 2,
        "attention_head_dim": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 80,
        "timestep_embed_dim": 32,
        "text_hidden_dim": 24,
        "num_text_layers": 3,
        "text_num_attention_heads": 2,
        "text_num_key_value_heads": 2,
        "text_intermediate_size": 40,
        "num_layerwise_text_blocks": 1,
        "num_refiner_text_blocks": 1,
        "axes_dims_rope": (8, 12, 12),
    },
    size=Size(1024, 1024, text=512),
    tiny_size=TINY_IMAGE,
    make_inputs=_krea2_inputs,
    kept_fp32=frozenset({"timestep", "position_ids"}),
    symbols=(
        "hidden_states.0=batch",
        "encoder_hidden_states.0=batch",
        "timestep.0=batch",
        "encoder_attention_mask.0=batch",
    ),
    ranges=("batch=1..16",),
)

RECIPES: tuple[Recipe, ...] = (
    _flux2("flux.2-dev", 48, (8, 48), 15360, guidance=True),
    _flux2("flux.2-klein-4b", 24, (5, 20), 7680, guidance=False),
    _placed("longcat-image", "LongCatImageTransformer2DModel", (10, 20), 512, 3584, _longcat_inputs),
    _placed("ovis-image-7b", "OvisImageTransformer2DModel", (6, 27), 256, 2048, _ovis_inputs),
    _FIBO,
    _KREA2,
)
