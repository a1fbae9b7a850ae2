# SPDX-License-Identifier: Apache-2.0
"""Recipes of models of sound. Height and width are 1; frames are those of the latent, whose number is the length of the sound.
Configurations are those of the released checkpoints."""

from __future__ import annotations

from exporter.recipe import Config, Draw, Inputs, Recipe, Size

# ---- Stable Audio Open -----------------------------------------------------------------------------


def _stable_audio_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    """One token of time and length goes in front; rotary tables are of half a head, for it as well."""
    from diffusers.models.embeddings import get_1d_rotary_pos_embed

    tables = get_1d_rotary_pos_embed(
        config["attention_head_dim"] // 2, size.frames + 1, use_real=True, repeat_interleave_real=False
    )
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], size.frames),
        "timestep": draw.sigmas(size.batch),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["cross_attention_input_dim"]),
        "global_hidden_states": draw.normal(size.batch, 1, config["global_states_input_dim"]),
        "rotary_embedding": tables,
    }


_STABLE_AUDIO = Recipe(
    name="stable-audio-open-1.0",
    class_name="StableAudioDiTModel",
    config={
        "sample_size": 1024,
        "in_channels": 64,
        "num_layers": 24,
        "attention_head_dim": 64,
        "num_attention_heads": 24,
        "num_key_value_attention_heads": 12,
        "out_channels": 64,
        "cross_attention_dim": 768,
        "time_proj_dim": 256,
        "global_states_input_dim": 1536,
        "cross_attention_input_dim": 768,
    },
    tiny={
        "sample_size": 40,
        "in_channels": 8,
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "num_key_value_attention_heads": 2,
        "out_channels": 8,
        "cross_attention_dim": 32,
        "time_proj_dim": 32,
        "global_states_input_dim": 48,
        "cross_attention_input_dim": 24,
    },
    size=Size(1, 1, text=130, frames=1024, batch=2),  # with and without text, 47 seconds
    tiny_size=Size(1, 1, text=13, frames=41, batch=2),
    make_inputs=_stable_audio_inputs,
    kept_fp32=frozenset({"timestep", "rotary_embedding"}),
    symbols=(
        "hidden_states.0=batch",
        "timestep.0=batch",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "global_hidden_states.0=batch",
    ),
    ranges=("batch=1..16", "text=2..512"),
)

# ---- ACE-Step --------------------------------------------------------------------------------------


def _ace_step_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    """What is to be kept and where, beside the latent; text, lyrics and timbre are one sequence."""
    latent = config["audio_acoustic_hidden_dim"]
    times = draw.sigmas(size.batch)
    return {
        "hidden_states": draw.normal(size.batch, size.frames, latent),
        "timestep": times,
        "timestep_r": times.clone(),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["hidden_size"]),
        "context_latents": draw.normal(size.batch, size.frames, config["in_channels"] - latent),
    }


_ACE_STEP = Recipe(
    name="ace-step-1.5-turbo",
    class_name="AceStepTransformer1DModel",
    config={
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "in_channels": 192,
        "audio_acoustic_hidden_dim": 64,
        "patch_size": 2,
        "rope_theta": 1e6,
        "rms_norm_eps": 1e-6,
        "sliding_window": 128,
        "is_turbo": True,
    },
    tiny={
        "hidden_size": 64,
        "intermediate_size": 80,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "in_channels": 24,
        "audio_acoustic_hidden_dim": 8,
        "sliding_window": 8,
    },
    size=Size(1, 1, text=1024, frames=3000),  # two minutes
    tiny_size=Size(1, 1, text=13, frames=41, batch=2),
    make_inputs=_ace_step_inputs,
    symbols=(
        "hidden_states.0=batch",
        "timestep.0=batch",
        "timestep_r.0=batch",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "context_latents.0=batch",
    ),
    ranges=("batch=1..8", "text=2..2048"),
)

RECIPES: tuple[Recipe, ...] = (_STABLE_AUDIO, _ACE_STEP)
