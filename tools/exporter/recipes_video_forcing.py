# SPDX-License-Identifier: Apache-2.0
"""Recipes of video models whose frames have times of their own (diffusion forcing): SkyReels V2. The configuration is that of the
released checkpoint."""

from __future__ import annotations

from exporter.recipe import Config, Draw, Inputs, Recipe, Size


def _skyreels_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    frames = size.latent_frames(4)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], frames, *size.grid(8)),
        "timestep": draw.integers(0, 1000, size.batch, frames),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["text_dim"]),
        "enable_diffusion_forcing": True,
    }


_SKYREELS = Recipe(
    name="skyreels-v2-df-14b",
    class_name="SkyReelsV2Transformer3DModel",
    config={
        "patch_size": (1, 2, 2),
        "num_attention_heads": 40,
        "attention_head_dim": 128,
        "in_channels": 16,
        "out_channels": 16,
        "text_dim": 4096,
        "freq_dim": 256,
        "ffn_dim": 13824,
        "num_layers": 40,
        "cross_attn_norm": True,
        "qk_norm": "rms_norm_across_heads",
        "eps": 1e-6,
        "rope_max_seq_len": 1024,
    },
    tiny={
        "num_attention_heads": 2,
        "attention_head_dim": 24,
        "in_channels": 4,
        "out_channels": 4,
        "text_dim": 20,
        "freq_dim": 32,
        "ffn_dim": 96,
        "num_layers": 2,
        "rope_max_seq_len": 32,
    },
    size=Size(544, 960, text=512, frames=97),
    tiny_size=Size(80, 112, text=13, frames=9, batch=2),
    make_inputs=_skyreels_inputs,
    symbols=("hidden_states.0=batch", "timestep.0=batch", "encoder_hidden_states.0=batch", "encoder_hidden_states.1=text"),
    ranges=("batch=1..8", "text=2..512"),
)

RECIPES: tuple[Recipe, ...] = (_SKYREELS,)
