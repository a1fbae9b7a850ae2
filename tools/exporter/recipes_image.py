# SPDX-License-Identifier: Apache-2.0
"""Recipes of image models that take latents as images and let text and image tokens attend to each other, since Z-Image.
Configurations are those of the released checkpoints."""

from __future__ import annotations

from types import MethodType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from exporter.recipe import TINY_IMAGE, Config, Draw, Inputs, Recipe, Size

# ---- Z-Image ---------------------------------------------------------------------------------------


def _make_tables(model: nn.Module) -> None:
    """Makes the rotary tables that Z-Image makes in its first call: they would be the export's, not numbers."""
    embedder = model.rope_embedder
    embedder.freqs_cis = embedder.precompute_freqs_cis(embedder.axes_dims, embedder.axes_lens, theta=embedder.theta)


def _z_image_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(8)
    return {
        "x": [draw.normal(config["in_channels"], 1, height, width) for _ in range(size.batch)],
        "t": 1 - draw.sigmas(size.batch),
        "cap_feats": [draw.normal(size.text, config["cap_feat_dim"]) for _ in range(size.batch)],
    }


_Z_IMAGE = Recipe(
    name="z-image-turbo",
    class_name="ZImageTransformer2DModel",
    config={
        "all_patch_size": (2,),
        "all_f_patch_size": (1,),
        "in_channels": 16,
        "dim": 3840,
        "n_layers": 30,
        "n_refiner_layers": 2,
        "n_heads": 30,
        "n_kv_heads": 30,
        "norm_eps": 1e-5,
        "qk_norm": True,
        "cap_feat_dim": 2560,
        "rope_theta": 256.0,
        "t_scale": 1000.0,
        "axes_dims": (32, 48, 48),
        "axes_lens": (1536, 512, 512),
    },
    tiny={
        "dim": 64,
        "n_layers": 2,
        "n_refiner_layers": 1,
        "n_heads": 2,
        "n_kv_heads": 2,
        "cap_feat_dim": 24,
        "axes_dims": (8, 12, 12),
        "axes_lens": (96, 32, 32),
    },
    size=Size(1024, 1024, text=512),
    tiny_size=TINY_IMAGE,
    make_inputs=_z_image_inputs,
    kept_fp32=frozenset({"t"}),
    prepare=_make_tables,
)


# ---- AuraFlow --------------------------------------------------------------------------------------


def _aura_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(8)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "timestep": draw.sigmas(size.batch),
    }


_AURA_FLOW = Recipe(
    name="auraflow-v0.3",
    class_name="AuraFlowTransformer2DModel",
    config={
        "sample_size": 64,
        "patch_size": 2,
        "in_channels": 4,
        "num_mmdit_layers": 4,
        "num_single_dit_layers": 32,
        "attention_head_dim": 256,
        "num_attention_heads": 12,
        "joint_attention_dim": 2048,
        "caption_projection_dim": 3072,
        "out_channels": 4,
        "pos_embed_max_size": 9216,
    },
    tiny={
        "sample_size": 16,
        "num_mmdit_layers": 1,
        "num_single_dit_layers": 2,
        "attention_head_dim": 32,
        "num_attention_heads": 2,
        "joint_attention_dim": 24,
        "caption_projection_dim": 64,
        "pos_embed_max_size": 144,
    },
    size=Size(1024, 1024, text=256, batch=2),
    tiny_size=TINY_IMAGE,
    make_inputs=_aura_inputs,
    kept_fp32=frozenset({"timestep"}),
    symbols=(
        "hidden_states.0=batch",
        "hidden_states.2=2*height",
        "hidden_states.3=2*width",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "timestep.0=batch",
    ),
    ranges=("batch=1..16", "height=2..96", "width=2..96", "text=2..512"),
)

# ---- CogView4 --------------------------------------------------------------------------------------


def _cogview4_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(8)
    pixels = torch.tensor([[size.height, size.width]] * size.batch).float()
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["text_embed_dim"]),
        "timestep": draw.integers(0, 1000, size.batch),
        "original_size": pixels,
        "target_size": pixels.clone(),
        "crop_coords": torch.zeros(size.batch, 2),
    }


_COGVIEW4 = Recipe(
    name="cogview4-6b",
    class_name="CogView4Transformer2DModel",
    config={
        "patch_size": 2,
        "in_channels": 16,
        "out_channels": 16,
        "num_layers": 28,
        "attention_head_dim": 128,
        "num_attention_heads": 32,
        "text_embed_dim": 4096,
        "time_embed_dim": 512,
        "condition_dim": 256,
        "pos_embed_max_size": 128,
        "sample_size": 128,
        "rope_axes_dim": (256, 256),
    },
    tiny={
        "num_layers": 2,
        "attention_head_dim": 32,
        "num_attention_heads": 2,
        "text_embed_dim": 24,
        "time_embed_dim": 48,
        "condition_dim": 16,
        "pos_embed_max_size": 16,
        "sample_size": 16,
        "rope_axes_dim": (16, 16),
    },
    size=Size(1024, 1024, text=256),
    tiny_size=TINY_IMAGE,
    make_inputs=_cogview4_inputs,
    symbols=(
        "hidden_states.0=batch",
        "hidden_states.2=2*height",
        "hidden_states.3=2*width",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "timestep.0=batch",
        "original_size.0=batch",
        "target_size.0=batch",
        "crop_coords.0=batch",
    ),
    ranges=("batch=1..16", "height=2..128", "width=2..128", "text=2..1024"),
)

# ---- HunyuanImage 2.1 ------------------------------------------------------------------------------

_GLYPH_TOKENS = 128  # of ByT5, for quoted text


def _keep_text_in_place(model: nn.Module) -> None:
    """Makes HunyuanImage leave padding where it is: it moves it behind the text, by sizes that depend on data.

    Text has no positions there, and attention skips padding wherever it is."""
    model.forward = MethodType(_hunyuan_forward, model)


def _hunyuan_forward(model: Any, **arguments: Any) -> Any:
    """Both texts as one; functions that are bound to their modules, so that copies of the model have their own."""
    glyphs, mask = arguments.pop("encoder_hidden_states_2"), arguments.pop("encoder_attention_mask_2")
    tokens, refiner = glyphs.shape[1], model.context_embedder

    def embed(refiner: nn.Module, text: Tensor, timestep: Tensor, both: Tensor) -> Tensor:
        own = type(refiner).forward(refiner, text, timestep, both[:, tokens:])
        return torch.cat([model.context_embedder_2(glyphs), own], dim=1)

    arguments["encoder_attention_mask"] = torch.cat([mask, arguments["encoder_attention_mask"]], dim=1)
    with mock.patch.object(refiner, "forward", MethodType(embed, refiner)):
        return type(model).forward(model, **arguments)


def _hunyuan_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(32)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "timestep": draw.sigmas(size.batch) * 1000,
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["text_embed_dim"]),
        "encoder_attention_mask": draw.text_mask(size.batch, size.text),
        "encoder_hidden_states_2": draw.normal(size.batch, _GLYPH_TOKENS, config["text_embed_2_dim"]),
        "encoder_attention_mask_2": draw.text_mask(size.batch, _GLYPH_TOKENS),
    }


_HUNYUAN_IMAGE = Recipe(
    name="hunyuanimage-2.1",
    class_name="HunyuanImageTransformer2DModel",
    config={
        "in_channels": 64,
        "out_channels": 64,
        "num_attention_heads": 28,
        "attention_head_dim": 128,
        "num_layers": 20,
        "num_single_layers": 40,
        "num_refiner_layers": 2,
        "mlp_ratio": 4.0,
        "patch_size": (1, 1),
        "qk_norm": "rms_norm",
        "guidance_embeds": False,
        "text_embed_dim": 3584,
        "text_embed_2_dim": 1472,
        "rope_theta": 256.0,
        "rope_axes_dim": (64, 64),
    },
    tiny={
        "in_channels": 8,
        "out_channels": 8,
        "num_attention_heads": 2,
        "attention_head_dim": 32,
        "num_layers": 1,
        "num_single_layers": 2,
        "num_refiner_layers": 1,
        "text_embed_dim": 24,
        "text_embed_2_dim": 20,
        "rope_axes_dim": (16, 16),
    },
    size=Size(2048, 2048, text=1000),
    tiny_size=Size(288, 352, text=13, batch=2),  # a grid of 9 x 11
    make_inputs=_hunyuan_inputs,
    prepare=_keep_text_in_place,
)

# ---- ERNIE-Image -----------------------------------------------------------------------------------


def _ernie_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(16)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "timestep": draw.sigmas(size.batch) * 1000,
        "text_bth": draw.normal(size.batch, size.text, config["text_in_dim"]),
        "text_lens": draw.text_mask(size.batch, size.text).sum(dim=1),
    }


_ERNIE = Recipe(
    name="ernie-image",
    class_name="ErnieImageTransformer2DModel",
    config={
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_layers": 36,
        "ffn_hidden_size": 12288,
        "in_channels": 128,
        "out_channels": 128,
        "patch_size": 1,
        "text_in_dim": 3072,
        "rope_theta": 256,
        "rope_axes_dim": (32, 48, 48),
        "eps": 1e-6,
        "qk_layernorm": True,
    },
    tiny={
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_layers": 2,
        "ffn_hidden_size": 80,
        "in_channels": 16,
        "out_channels": 16,
        "text_in_dim": 24,
        "rope_axes_dim": (8, 12, 12),
    },
    size=Size(1024, 1024, text=256, batch=2),
    tiny_size=TINY_IMAGE,
    make_inputs=_ernie_inputs,
    symbols=(
        "hidden_states.0=batch",
        "hidden_states.2=height",
        "hidden_states.3=width",
        "timestep.0=batch",
        "text_bth.0=batch",
        "text_bth.1=text",
        "text_lens.0=batch",
    ),
    ranges=("batch=1..16", "height=2..128", "width=2..128", "text=2..1024"),
)

RECIPES: tuple[Recipe, ...] = (
    _Z_IMAGE,
    _AURA_FLOW,
    _COGVIEW4,
    _HUNYUAN_IMAGE,
    _ERNIE,
)
