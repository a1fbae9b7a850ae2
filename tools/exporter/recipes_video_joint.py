# SPDX-License-Identifier: Apache-2.0
"""Recipes of video models whose text and video attend in one sequence. Configurations are those of the released
checkpoints."""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from exporter.recipe import Config, Draw, Inputs, Recipe, Size

_TINY_VIDEO = Size(80, 112, text=11, frames=9, batch=2)  # 3 latent frames of 10 x 14


# ---- HunyuanVideo ----------------------------------------------------------------------------------


def _hunyuan_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    latent = (size.latent_frames(4), *size.grid(8))
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], *latent),
        "timestep": draw.integers(0, 1000, size.batch),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["text_embed_dim"]),
        "encoder_attention_mask": draw.text_mask(size.batch, size.text),
        "pooled_projections": draw.normal(size.batch, config["pooled_projection_dim"]),
        "guidance": torch.full((size.batch,), 6000.0),
    }


_HUNYUAN = Recipe(
    name="hunyuanvideo",
    class_name="HunyuanVideoTransformer3DModel",
    config={
        "in_channels": 16,
        "out_channels": 16,
        "num_attention_heads": 24,
        "attention_head_dim": 128,
        "num_layers": 20,
        "num_single_layers": 40,
        "num_refiner_layers": 2,
        "mlp_ratio": 4.0,
        "patch_size": 2,
        "patch_size_t": 1,
        "qk_norm": "rms_norm",
        "guidance_embeds": True,
        "text_embed_dim": 4096,
        "pooled_projection_dim": 768,
        "rope_theta": 256.0,
        "rope_axes_dim": (16, 56, 56),
    },
    tiny={
        "num_attention_heads": 2,
        "attention_head_dim": 32,
        "num_layers": 1,
        "num_single_layers": 2,
        "num_refiner_layers": 1,
        "mlp_ratio": 2.0,
        "text_embed_dim": 24,
        "pooled_projection_dim": 20,
        "rope_axes_dim": (8, 12, 12),
    },
    size=Size(720, 1280, text=256, frames=129),
    tiny_size=_TINY_VIDEO,
    make_inputs=_hunyuan_inputs,
    kept_fp32=frozenset({"guidance"}),
    symbols=(
        "hidden_states.0=batch",
        "hidden_states.2=frames",
        "hidden_states.3=2*height",
        "hidden_states.4=2*width",
        "timestep.0=batch",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "encoder_attention_mask.0=batch",
        "encoder_attention_mask.1=text",
        "pooled_projections.0=batch",
        "guidance.0=batch",
    ),
    ranges=("batch=1..4", "frames=2..40", "height=2..64", "width=2..64", "text=2..512"),
)


# ---- HunyuanVideo 1.5 ------------------------------------------------------------------------------

_GLYPH_TOKENS = 256  # of the text in quotes, from ByT5


def _hunyuan15_forward(
    self: Any,
    hidden_states: Tensor,
    timestep: Tensor,
    encoder_hidden_states: Tensor,
    encoder_attention_mask: Tensor,
    encoder_hidden_states_2: Tensor,
    encoder_attention_mask_2: Tensor,
    return_dict: bool = False,
) -> tuple[Tensor]:
    """The model from text to video, with text as it comes: diffusers' code sorts it by its masks and puts 729 tokens
    of no image behind it. Text has no positions, and what is masked has no effect, so the result is the same."""
    _, _, frames, height, width = hidden_states.shape
    rotary = self.rope(hidden_states)
    time = self.time_embed(timestep)
    text = self.context_embedder(encoder_hidden_states, timestep, encoder_attention_mask)
    glyphs = self.context_embedder_2(encoder_hidden_states_2)
    kinds = self.cond_type_embed.weight
    text = torch.cat([glyphs + kinds[1], text + kinds[0]], dim=1)
    mask = torch.cat([encoder_attention_mask_2, encoder_attention_mask], dim=1)
    video = self.x_embedder(hidden_states)
    for block in self.transformer_blocks:
        video, text = block(video, text, time, mask, rotary)
    video = self.proj_out(self.norm_out(video, time))  # patches are single pixels of the latent video
    return (video.transpose(1, 2).unflatten(2, (frames, height, width)),)


def _take_text_alone(model: nn.Module) -> None:
    """Gives HunyuanVideo 1.5 a forward without sizes that depend on masks."""
    model.forward = MethodType(_hunyuan15_forward, model)


def _hunyuan15_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    latent = (size.latent_frames(4), *size.grid(16))
    glyphs = min(_GLYPH_TOKENS, size.text)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], *latent),
        "timestep": draw.sigmas(size.batch) * 1000,  # in the model's type, as its pipeline gives it
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["text_embed_dim"]),
        "encoder_attention_mask": draw.text_mask(size.batch, size.text),
        "encoder_hidden_states_2": draw.normal(size.batch, glyphs, config["text_embed_2_dim"]),
        "encoder_attention_mask_2": draw.text_mask(size.batch, glyphs),
    }


_HUNYUAN15 = Recipe(
    name="hunyuanvideo-1.5",
    class_name="HunyuanVideo15Transformer3DModel",
    config={
        "in_channels": 65,
        "out_channels": 32,
        "num_attention_heads": 16,
        "attention_head_dim": 128,
        "num_layers": 54,
        "num_refiner_layers": 2,
        "mlp_ratio": 4.0,
        "patch_size": 1,
        "patch_size_t": 1,
        "qk_norm": "rms_norm",
        "text_embed_dim": 3584,
        "text_embed_2_dim": 1472,
        "image_embed_dim": 1152,
        "rope_theta": 256.0,
        "rope_axes_dim": (16, 56, 56),
        "target_size": 640,
        "task_type": "t2v",
        "use_meanflow": False,
    },
    tiny={
        "in_channels": 9,
        "out_channels": 4,
        "num_attention_heads": 2,
        "attention_head_dim": 32,
        "num_layers": 2,
        "num_refiner_layers": 1,
        "mlp_ratio": 2.0,
        "text_embed_dim": 24,
        "text_embed_2_dim": 20,
        "image_embed_dim": 28,
        "rope_axes_dim": (8, 12, 12),
    },
    size=Size(480, 832, text=1000, frames=121),
    tiny_size=Size(160, 224, text=11, frames=9, batch=2),
    make_inputs=_hunyuan15_inputs,
    prepare=_take_text_alone,
    symbols=(
        "hidden_states.0=batch",
        "hidden_states.2=frames",
        "hidden_states.3=height",
        "hidden_states.4=width",
        "timestep.0=batch",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "encoder_attention_mask.0=batch",
        "encoder_attention_mask.1=text",
        "encoder_hidden_states_2.0=batch",
        "encoder_hidden_states_2.1=glyphs",
        "encoder_attention_mask_2.0=batch",
        "encoder_attention_mask_2.1=glyphs",
    ),
    ranges=("batch=1..4", "frames=2..40", "height=2..64", "width=2..64", "text=2..1000", "glyphs=2..256"),
)


# ---- Mochi 1 ---------------------------------------------------------------------------------------


def _mochi_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    frames = size.latent_frames(6)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], frames, *size.grid(8)),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["text_embed_dim"]),
        "timestep": draw.sigmas(size.batch) * 1000,  # in the model's type, as its pipeline gives it
        "encoder_attention_mask": draw.text_mask(size.batch, size.text).bool(),
    }


_MOCHI = Recipe(
    name="mochi-1",
    class_name="MochiTransformer3DModel",
    config={
        "patch_size": 2,
        "num_attention_heads": 24,
        "attention_head_dim": 128,
        "num_layers": 48,
        "pooled_projection_dim": 1536,
        "in_channels": 12,
        "out_channels": None,
        "qk_norm": "rms_norm",
        "text_embed_dim": 4096,
        "time_embed_dim": 256,
        "activation_fn": "swiglu",
        "max_sequence_length": 256,
    },
    tiny={
        "num_attention_heads": 2,
        "attention_head_dim": 32,
        "num_layers": 3,
        "pooled_projection_dim": 48,
        "text_embed_dim": 32,
        "time_embed_dim": 32,
        "max_sequence_length": 11,
    },
    size=Size(480, 848, text=256, frames=85),
    tiny_size=Size(80, 112, text=11, frames=13, batch=2),
    make_inputs=_mochi_inputs,
)


RECIPES: tuple[Recipe, ...] = (_HUNYUAN, _HUNYUAN15, _MOCHI)
