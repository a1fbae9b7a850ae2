# SPDX-License-Identifier: Apache-2.0
"""Recipes of image models that take latents as images and more than a text: GLM-Image (tokens of an autoregressive prior), PRX
(text as keys and values alone), OmniGen (one sequence of words, time and image). Configurations of PRX and OmniGen are the classes'
defaults; GLM-Image has heads of 128 instead of the class's 40, which make the 7 billion parameters that it is said to have."""

from __future__ import annotations

import math
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from exporter.recipe import TINY_IMAGE, Config, Draw, Inputs, Recipe, Size, token_count

# ---- GLM-Image -------------------------------------------------------------------------------------


def _glm_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(8)
    tokens = token_count(size.grid(16))
    pixels = torch.tensor([[size.height, size.width]] * size.batch).float()
    drop = torch.zeros(size.batch, tokens, dtype=torch.bool)
    drop[1::2] = True  # of classifier-free guidance: samples without a prior
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["text_embed_dim"]),
        "prior_token_id": draw.integers(0, config["prior_vq_quantizer_codebook_size"], size.batch, tokens),
        "prior_token_drop": drop,
        "timestep": draw.integers(0, 1000, size.batch),
        "target_size": pixels,
        "crop_coords": torch.zeros(size.batch, 2),
    }


_GLM_IMAGE = Recipe(
    name="glm-image",
    class_name="GlmImageTransformer2DModel",
    config={
        "patch_size": 2,
        "in_channels": 16,
        "out_channels": 16,
        "num_layers": 30,
        "attention_head_dim": 128,
        "num_attention_heads": 32,
        "text_embed_dim": 1472,
        "time_embed_dim": 512,
        "condition_dim": 256,
        "prior_vq_quantizer_codebook_size": 16384,
    },
    tiny={
        "num_layers": 2,
        "attention_head_dim": 40,
        "num_attention_heads": 2,
        "text_embed_dim": 24,
        "time_embed_dim": 48,
        "condition_dim": 16,
        "prior_vq_quantizer_codebook_size": 64,
    },
    size=Size(1024, 1024, text=128, batch=2),
    tiny_size=TINY_IMAGE,
    make_inputs=_glm_inputs,
)

# ---- PRX -------------------------------------------------------------------------------------------


def _prx_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(8)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "timestep": draw.sigmas(size.batch),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["context_in_dim"]),
        "attention_mask": draw.text_mask(size.batch, size.text).bool(),
    }


_PRX = Recipe(
    name="prx-1.3b",
    class_name="PRXTransformer2DModel",
    config={
        "in_channels": 16,
        "patch_size": 2,
        "context_in_dim": 2304,
        "hidden_size": 1792,
        "mlp_ratio": 3.5,
        "num_heads": 28,
        "depth": 16,
        "axes_dim": [32, 32],
        "theta": 10000,
        "time_factor": 1000.0,
        "time_max_period": 10000,
    },
    tiny={"context_in_dim": 24, "hidden_size": 64, "num_heads": 2, "depth": 2, "axes_dim": [16, 16]},
    size=Size(1024, 1024, text=256, batch=2),
    tiny_size=TINY_IMAGE,
    make_inputs=_prx_inputs,
)

# ---- OmniGen ---------------------------------------------------------------------------------------


def _omnigen_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    """Words, padded on the left; the time's token; the image's, which see everything that is no padding. Words see those in
    front of them."""
    height, width = size.grid(8)
    image, words = token_count(size.grid(16)), size.text
    length = words + 1 + image
    rows = torch.arange(length)
    sees = (rows[None, :] <= rows[:, None]) | (rows[:, None] > words)
    mask = sees[None].repeat(size.batch, 1, 1)
    positions = torch.zeros(size.batch, length, dtype=torch.int64)
    for sample in range(size.batch):
        padding = sample * max(1, words // 4)
        mask[sample, :, :padding] = False
        mask[sample, :padding] = False
        positions[sample, padding:] = torch.arange(length - padding)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "timestep": draw.sigmas(size.batch),
        "input_ids": draw.integers(0, config["vocab_size"], size.batch, words),
        "input_img_latents": [],
        "input_image_sizes": {},
        "attention_mask": mask.long(),
        "position_ids": positions,
    }


def _choose_factors_by_length(model: nn.Module) -> None:
    """Makes OmniGen choose its rotary factors by the length of the sequence: it asks for the largest position, a number of
    data, which is the same for the longest sample."""
    model.rope.forward = MethodType(_omnigen_rope, model.rope)


def _omnigen_rope(rope: Any, hidden_states: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    """The first sample's angles, scaled as for contexts longer than those of the first training."""
    is_long = position_ids.shape[-1] > rope.original_max_position_embeddings
    factors = torch.tensor(rope.long_factor if is_long else rope.short_factor, device=hidden_states.device)
    steps = torch.arange(0, rope.dim, 2, device=hidden_states.device).float() / rope.dim
    angles = position_ids[0, :, None].float() / (factors * rope.base**steps)
    angles = torch.cat([angles, angles], dim=-1)
    scale = rope.max_position_embeddings / rope.original_max_position_embeddings
    factor = math.sqrt(1 + math.log(scale) / math.log(rope.original_max_position_embeddings)) if scale > 1 else 1.0
    return angles.cos() * factor, angles.sin() * factor


_OMNIGEN = Recipe(
    name="omnigen-v1",
    class_name="OmniGenTransformer2DModel",
    config={
        "in_channels": 4,
        "patch_size": 2,
        "hidden_size": 3072,
        "rms_norm_eps": 1e-5,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "intermediate_size": 8192,
        "num_layers": 32,
        "pad_token_id": 32000,
        "vocab_size": 32064,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_base": 10000,
        "rope_scaling": {"short_factor": [1.0] * 48, "long_factor": [1.0] * 48},  # the checkpoint's differ by channel
        "pos_embed_max_size": 192,
        "time_step_dim": 256,
    },
    tiny={
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "num_layers": 2,
        "pad_token_id": 0,
        "vocab_size": 50,
        "rope_scaling": {"short_factor": [1.0] * 16, "long_factor": [1.0] * 16},
        "pos_embed_max_size": 16,
        "time_step_dim": 32,
    },
    size=Size(1024, 1024, text=128, batch=2),
    tiny_size=TINY_IMAGE,
    make_inputs=_omnigen_inputs,
    prepare=_choose_factors_by_length,
)

RECIPES: tuple[Recipe, ...] = (_GLM_IMAGE, _PRX, _OMNIGEN)
