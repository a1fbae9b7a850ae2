# SPDX-License-Identifier: Apache-2.0
"""Recipes of image models with one stream: text, if any, comes in by cross attention.
Configurations are those of the released checkpoints."""

from __future__ import annotations

from typing import Any

import torch

from exporter.recipe import TINY_IMAGE, Config, Draw, Inputs, Recipe, Size

# ---- DiT -------------------------------------------------------------------------------------------


def _dit_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(8)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "timestep": draw.integers(0, 1000, size.batch),
        "class_labels": draw.integers(0, config["num_embeds_ada_norm"], size.batch),
    }


def _dit(pixels: int) -> Recipe:
    """The class label and the time are all that conditions it. The graph is square: its forward takes a root."""
    return Recipe(
        name=f"dit-xl-2-{pixels}",
        class_name="DiTTransformer2DModel",
        config={
            "num_attention_heads": 16,
            "attention_head_dim": 72,
            "in_channels": 4,
            "out_channels": 8,
            "num_layers": 28,
            "attention_bias": True,
            "sample_size": pixels // 8,
            "patch_size": 2,
            "activation_fn": "gelu-approximate",
            "num_embeds_ada_norm": 1000,
            "norm_type": "ada_norm_zero",
            "norm_elementwise_affine": False,
            "norm_eps": 1e-5,
        },
        tiny={
            "num_attention_heads": 2,
            "attention_head_dim": 16,
            "num_layers": 2,
            "sample_size": 16,
            "num_embeds_ada_norm": 10,
        },
        size=Size(pixels, pixels, batch=2),
        tiny_size=Size(128, 128, batch=2),
        make_inputs=_dit_inputs,
        symbols=("hidden_states.0=batch", "timestep.0=batch", "class_labels.0=batch"),
        ranges=("batch=1..16",),
    )


# ---- PixArt ----------------------------------------------------------------------------------------


def _pixart_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(8)
    conditions: dict[str, Any] = {"resolution": None, "aspect_ratio": None}
    if config["use_additional_conditions"]:
        conditions = {
            "resolution": torch.tensor([[size.height, size.width]] * size.batch).float(),
            "aspect_ratio": torch.tensor([[size.height / size.width]] * size.batch),
        }
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["caption_channels"]),
        "timestep": draw.integers(0, 1000, size.batch),
        "added_cond_kwargs": conditions,
        "encoder_attention_mask": draw.text_mask(size.batch, size.text),
    }


def _pixart(name: str, text: int, conditions: bool) -> Recipe:
    """Cross attention to masked text; the position table is computed in the graph for other sizes."""
    symbols = [
        "hidden_states.0=batch",
        "hidden_states.2=2*height",
        "hidden_states.3=2*width",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "timestep.0=batch",
        "encoder_attention_mask.0=batch",
        "encoder_attention_mask.1=text",
    ]
    if conditions:
        symbols += ["added_cond_kwargs.resolution.0=batch", "added_cond_kwargs.aspect_ratio.0=batch"]
    return Recipe(
        name=name,
        class_name="PixArtTransformer2DModel",
        config={
            "num_attention_heads": 16,
            "attention_head_dim": 72,
            "in_channels": 4,
            "out_channels": 8,
            "num_layers": 28,
            "cross_attention_dim": 1152,
            "attention_bias": True,
            "sample_size": 128,
            "patch_size": 2,
            "activation_fn": "gelu-approximate",
            "num_embeds_ada_norm": 1000,
            "norm_type": "ada_norm_single",
            "norm_elementwise_affine": False,
            "norm_eps": 1e-6,
            "interpolation_scale": 2,
            "use_additional_conditions": conditions,
            "caption_channels": 4096,
        },
        tiny={
            "num_attention_heads": 2,
            "attention_head_dim": 18,
            "num_layers": 2,
            "cross_attention_dim": 36,
            "sample_size": 16,
            "interpolation_scale": 1,
            "caption_channels": 24,
        },
        size=Size(1024, 1024, text=text, batch=2),
        tiny_size=TINY_IMAGE,
        make_inputs=_pixart_inputs,
        symbols=tuple(symbols),
        ranges=("batch=1..16", "height=4..128", "width=4..128", "text=2..512"),
    )


# ---- Sana ------------------------------------------------------------------------------------------


def _sana_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(32)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["caption_channels"]),
        "timestep": draw.sigmas(size.batch) * 1000,
        "encoder_attention_mask": draw.text_mask(size.batch, size.text),
    }


def _sana(name: str, heads: int, cross_heads: int, cross_width: int, layers: int) -> Recipe:
    """Linear attention and convolutional feed-forward blocks on a latent of 1/32."""
    return Recipe(
        name=name,
        class_name="SanaTransformer2DModel",
        config={
            "in_channels": 32,
            "out_channels": 32,
            "num_attention_heads": heads,
            "attention_head_dim": 32,
            "num_layers": layers,
            "num_cross_attention_heads": cross_heads,
            "cross_attention_head_dim": cross_width,
            "cross_attention_dim": cross_heads * cross_width,
            "caption_channels": 2304,
            "mlp_ratio": 2.5,
            "sample_size": 32,
            "patch_size": 1,
        },
        tiny={
            "in_channels": 8,
            "out_channels": 8,
            "num_attention_heads": 7,
            "attention_head_dim": 8,
            "num_layers": 2,
            "num_cross_attention_heads": 2,
            "cross_attention_head_dim": 28,
            "cross_attention_dim": 56,
            "caption_channels": 24,
            "mlp_ratio": 1.5,
            "sample_size": 12,
        },
        size=Size(1024, 1024, text=300, batch=2),
        tiny_size=Size(288, 352, text=13, batch=2),
        make_inputs=_sana_inputs,
        kept_fp32=frozenset({"timestep"}),
        symbols=(
            "hidden_states.0=batch",
            "hidden_states.2=height",
            "hidden_states.3=width",
            "encoder_hidden_states.0=batch",
            "encoder_hidden_states.1=text",
            "timestep.0=batch",
            "encoder_attention_mask.0=batch",
            "encoder_attention_mask.1=text",
        ),
        ranges=("batch=1..16", "height=2..128", "width=2..128", "text=2..512"),
    )


RECIPES: tuple[Recipe, ...] = (
    _dit(256),
    _dit(512),
    _pixart("pixart-alpha-1024", 120, conditions=True),
    _pixart("pixart-sigma-1024", 300, conditions=False),
    _sana("sana-0.6b-1024", 36, 16, 72, 28),
    _sana("sana-1.6b-1024", 70, 20, 112, 20),
)
