# SPDX-License-Identifier: Apache-2.0
"""Recipes of newer video models that see text by cross attention. Configurations are those of the released
checkpoints."""

from __future__ import annotations

from dataclasses import replace

import torch

from exporter.recipe import Config, Draw, Inputs, Recipe, Size, token_count

_TINY_VIDEO = Size(80, 112, text=11, frames=9, batch=2)  # 3 latent frames of 10 x 14


# ---- Kandinsky 5 -----------------------------------------------------------------------------------


def _kandinsky5_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    frames, (height, width) = size.latent_frames(4), size.grid(16)
    channels = config["in_visual_dim"] * (2 if config["visual_cond"] else 1) + config["visual_cond"]
    return {
        "hidden_states": draw.normal(size.batch, frames, 2 * height, 2 * width, channels),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["in_text_dim"]),
        "timestep": draw.sigmas(size.batch) * 1000,  # in the model's type, as its pipeline gives it
        "pooled_projections": draw.normal(size.batch, config["in_text_dim2"]),
        "visual_rope_pos": [torch.arange(length) for length in (frames, height, width)],
        "text_rope_pos": torch.arange(size.text),
        "scale_factor": (1.0, 2.0, 2.0),
    }


_KANDINSKY5 = Recipe(
    name="kandinsky-5-lite-t2v",
    class_name="Kandinsky5Transformer3DModel",
    config={
        "in_visual_dim": 16,
        "in_text_dim": 3584,
        "in_text_dim2": 768,
        "time_dim": 512,
        "out_visual_dim": 16,
        "patch_size": (1, 2, 2),
        "model_dim": 1792,
        "ff_dim": 7168,
        "num_text_blocks": 2,
        "num_visual_blocks": 32,
        "axes_dims": (16, 24, 24),
        "visual_cond": True,
        "attention_type": "regular",
    },
    tiny={
        "in_visual_dim": 4,
        "in_text_dim": 24,
        "in_text_dim2": 20,
        "time_dim": 32,
        "out_visual_dim": 4,
        "model_dim": 64,
        "ff_dim": 144,
        "num_text_blocks": 1,
        "num_visual_blocks": 2,
        "axes_dims": (8, 12, 12),
    },
    size=Size(512, 768, text=512, frames=121),
    tiny_size=_TINY_VIDEO,
    make_inputs=_kandinsky5_inputs,
    symbols=(
        "hidden_states.0=batch",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "timestep.0=batch",
        "pooled_projections.0=batch",
        "text_rope_pos.0=text",
    ),
    ranges=("batch=1..8", "text=2..512"),
)


# ---- Cosmos Predict 2 ------------------------------------------------------------------------------


def _cosmos_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    frames, (height, width) = size.latent_frames(4), size.grid(8)
    given = torch.zeros(size.batch, 1, frames, 1, 1)  # the video continues its first latent frame
    given[:, :, 0] = 1
    times = draw.sigmas(size.batch).reshape(-1, 1, 1, 1, 1)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"] - 1, frames, height, width),
        "timestep": given * 1e-4 + (1 - given) * times,
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["text_embed_dim"]),
        "fps": 16,
        "condition_mask": given.expand(-1, -1, -1, height, width).contiguous(),
        "padding_mask": torch.zeros(1, 1, size.height, size.width),
    }


_COSMOS2 = Recipe(
    name="cosmos-predict2-2b",
    class_name="CosmosTransformer3DModel",
    config={
        "in_channels": 17,
        "out_channels": 16,
        "num_attention_heads": 16,
        "attention_head_dim": 128,
        "num_layers": 28,
        "mlp_ratio": 4.0,
        "text_embed_dim": 1024,
        "adaln_lora_dim": 256,
        "max_size": (128, 240, 240),
        "patch_size": (1, 2, 2),
        "rope_scale": (1.0, 3.0, 3.0),
        "concat_padding_mask": True,
        "extra_pos_embed_type": None,
    },
    tiny={
        "in_channels": 5,
        "out_channels": 4,
        "num_attention_heads": 2,
        "attention_head_dim": 32,
        "num_layers": 2,
        "text_embed_dim": 24,
        "adaln_lora_dim": 16,
    },
    size=Size(704, 1280, text=512, frames=93),
    tiny_size=_TINY_VIDEO,
    make_inputs=_cosmos_inputs,
    symbols=(
        "hidden_states.0=batch",
        "timestep.0=batch",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "condition_mask.0=batch",
    ),
    ranges=("batch=1..8", "text=2..512"),
)


# ---- LTX-2 -----------------------------------------------------------------------------------------


def _ltx2_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    grid, frames = size.grid(32), size.latent_frames(8)
    sounds = round(size.frames / 24 * 25)  # latent frames of sound: 25 a second
    timestep = draw.sigmas(size.batch) * 1000
    projects = config["use_prompt_embeddings"]  # 2.0 has its text projections in the model
    text, audio_text = ("caption_channels",) * 2 if projects else ("cross_attention_dim", "audio_cross_attention_dim")
    return ({} if projects else {"sigma": timestep.clone(), "use_cross_timestep": True}) | {
        "hidden_states": draw.normal(size.batch, token_count(grid, frames), config["in_channels"]),
        "audio_hidden_states": draw.normal(size.batch, sounds, config["audio_in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config[text]),
        "audio_encoder_hidden_states": draw.normal(size.batch, size.text, config[audio_text]),
        "timestep": timestep,
        "encoder_attention_mask": draw.text_mask(size.batch, size.text),
        "audio_encoder_attention_mask": draw.text_mask(size.batch, size.text),
        "num_frames": frames,
        "height": grid[0],
        "width": grid[1],
        "fps": 24.0,
        "audio_num_frames": sounds,
    }


_LTX2 = Recipe(
    name="ltx-2",
    class_name="LTX2VideoTransformer3DModel",
    config={
        "in_channels": 128,
        "out_channels": 128,
        "num_attention_heads": 32,
        "attention_head_dim": 128,
        "cross_attention_dim": 4096,
        "vae_scale_factors": (8, 32, 32),
        "audio_in_channels": 128,
        "audio_out_channels": 128,
        "audio_num_attention_heads": 32,
        "audio_attention_head_dim": 64,
        "audio_cross_attention_dim": 2048,
        "num_layers": 48,
        "qk_norm": "rms_norm_across_heads",
        "caption_channels": 3840,
        "rope_type": "split",
        "rope_double_precision": True,
        "use_prompt_embeddings": True,
    },
    tiny={
        "in_channels": 16,
        "out_channels": 16,
        "num_attention_heads": 2,
        "attention_head_dim": 32,
        "cross_attention_dim": 64,
        "audio_in_channels": 8,
        "audio_out_channels": 8,
        "audio_num_attention_heads": 2,
        "audio_attention_head_dim": 16,
        "audio_cross_attention_dim": 32,
        "num_layers": 2,
        "caption_channels": 24,
    },
    size=Size(512, 768, text=1024, frames=121),
    tiny_size=Size(224, 288, text=11, frames=9, batch=2),
    make_inputs=_ltx2_inputs,
    kept_fp32=frozenset({"timestep", "sigma"}),
    symbols=(
        "hidden_states.0=batch",
        "audio_hidden_states.0=batch",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "audio_encoder_hidden_states.0=batch",
        "audio_encoder_hidden_states.1=text",
        "timestep.0=batch",
        "encoder_attention_mask.0=batch",
        "encoder_attention_mask.1=text",
        "audio_encoder_attention_mask.0=batch",
        "audio_encoder_attention_mask.1=text",
    ),
    ranges=("batch=1..8", "text=2..1024"),
)

_GATED = ("gated_attn", "cross_attn_mod", "audio_gated_attn", "audio_cross_attn_mod", "perturbed_attn")
_LTX23 = replace(
    _LTX2,
    name="ltx-2.3",
    config=_LTX2.config | dict.fromkeys(_GATED, True) | {"use_prompt_embeddings": False},
    symbols=(*_LTX2.symbols, "sigma.0=batch"),
)


# ---- SANA-Video ------------------------------------------------------------------------------------


def _sana_video_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], size.latent_frames(4), *size.grid(8)),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["caption_channels"]),
        "timestep": draw.integers(0, 1000, size.batch),
        "encoder_attention_mask": draw.text_mask(size.batch, size.text),
    }


_SANA_VIDEO = Recipe(
    name="sana-video-2b-480p",
    class_name="SanaVideoTransformer3DModel",
    config={
        "in_channels": 16,
        "out_channels": 16,
        "num_attention_heads": 20,
        "attention_head_dim": 112,
        "num_layers": 20,
        "num_cross_attention_heads": 20,
        "cross_attention_head_dim": 112,
        "cross_attention_dim": 2240,
        "caption_channels": 2304,
        "mlp_ratio": 3.0,
        "attention_bias": False,
        "sample_size": 30,
        "patch_size": (1, 2, 2),
        "norm_elementwise_affine": False,
        "norm_eps": 1e-6,
        "qk_norm": "rms_norm_across_heads",
        "rope_max_seq_len": 1024,
    },
    tiny={
        "num_attention_heads": 2,
        "attention_head_dim": 24,
        "num_layers": 2,
        "num_cross_attention_heads": 2,
        "cross_attention_head_dim": 24,
        "cross_attention_dim": 48,
        "caption_channels": 20,
        "sample_size": 5,
        "rope_max_seq_len": 64,
    },
    size=Size(480, 832, text=300, frames=81),
    tiny_size=_TINY_VIDEO,
    make_inputs=_sana_video_inputs,
    symbols=(
        "hidden_states.0=batch",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "timestep.0=batch",
        "encoder_attention_mask.0=batch",
        "encoder_attention_mask.1=text",
    ),
    ranges=("batch=1..8", "text=2..300"),
)


RECIPES: tuple[Recipe, ...] = (_KANDINSKY5, _COSMOS2, _LTX2, _LTX23, _SANA_VIDEO)
