# SPDX-License-Identifier: Apache-2.0
"""Recipes of video models. Configurations are those of the released checkpoints."""

from __future__ import annotations

from dataclasses import replace

import torch

from exporter.recipe import Config, Draw, Inputs, Recipe, Size, token_count

_TINY_VIDEO = Size(80, 112, text=11, frames=9, batch=2)  # 3 latent frames of 10 x 14


# ---- Wan 2.1 and 2.2 -------------------------------------------------------------------------------

_WAN_5B_CHANNELS = 48  # its autoencoder halves the picture once more, and its pipeline gives each token a time


def _wan_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    timestep = draw.integers(0, 1000, size.batch)
    latent = (size.latent_frames(4), *size.grid(8))
    if config["in_channels"] == _WAN_5B_CHANNELS:
        frames, height, width = latent = (latent[0], *size.grid(16))
        of_frame = height * width // 4  # tokens; a first frame that is given is at time 0
        clean = torch.arange(frames * of_frame) < of_frame
        timestep = timestep[:, None].float() * ~clean
    inputs = {
        "hidden_states": draw.normal(size.batch, config["in_channels"], *latent),
        "timestep": timestep,
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["text_dim"]),
    }
    if config.get("image_dim"):
        inputs["encoder_hidden_states_image"] = draw.normal(size.batch, 257, config["image_dim"])
    if config.get("vace_layers"):
        inputs["control_hidden_states"] = draw.normal(size.batch, config["vace_in_channels"], *latent)
        inputs["control_hidden_states_scale"] = 0.5 ** (torch.arange(len(config["vace_layers"])) % 3)
    return inputs


def _wan(name: str, heads: int, ffn: int, layers: int, image: bool = False) -> Recipe:
    """3-D rotary embeddings written into strided halves, norms over all heads, float32 modulation.

    With an image its code takes the last 512 tokens for text, whatever their number."""
    extra = {"in_channels": 36, "image_dim": 1280, "added_kv_proj_dim": heads * 128} if image else {}
    tiny_extra = {"image_dim": 20, "added_kv_proj_dim": 48} if image else {}
    symbols = (
        "hidden_states.0=batch",
        "hidden_states.2=frames",
        "hidden_states.3=2*height",
        "hidden_states.4=2*width",
        "timestep.0=batch",
        "encoder_hidden_states.0=batch",
    )
    own = ("encoder_hidden_states_image.0=batch",) if image else ("encoder_hidden_states.1=text",)
    ranges = ("batch=1..8", "frames=2..32", "height=2..32", "width=2..32") + (() if image else ("text=2..512",))
    return Recipe(
        name=name,
        class_name="WanTransformer3DModel",
        config={
            "patch_size": (1, 2, 2),
            "num_attention_heads": heads,
            "attention_head_dim": 128,
            "in_channels": 16,
            "out_channels": 16,
            "text_dim": 4096,
            "freq_dim": 256,
            "ffn_dim": ffn,
            "num_layers": layers,
            "cross_attn_norm": True,
            "qk_norm": "rms_norm_across_heads",
            "eps": 1e-6,
            "rope_max_seq_len": 1024,
        }
        | extra,
        tiny={
            "num_attention_heads": 2,
            "attention_head_dim": 24,
            "text_dim": 20,
            "freq_dim": 32,
            "ffn_dim": 80,
            "num_layers": 2,
            "rope_max_seq_len": 64,
        }
        | tiny_extra,
        size=Size(480, 832, text=512, frames=81),
        tiny_size=replace(_TINY_VIDEO, text=512 if image else 11),
        make_inputs=_wan_inputs,
        symbols=symbols + own,
        ranges=ranges,
    )


def _wan_5b(name: str) -> Recipe:
    """A time for each token: modulation, too, is one of each token."""
    channels = {"in_channels": _WAN_5B_CHANNELS, "out_channels": _WAN_5B_CHANNELS}
    wan = _wan(name, 24, 14336, 30)
    free = ("batch", "text")  # the number of tokens is not one symbol times a number
    return replace(
        wan,
        config=wan.config | channels,
        size=Size(704, 1280, text=512, frames=121),
        tiny_size=Size(160, 224, text=11, frames=9, batch=2),
        kept_fp32=frozenset({"timestep"}),
        symbols=tuple(symbol for symbol in wan.symbols if symbol.endswith(free)),
        ranges=tuple(bounds for bounds in wan.ranges if bounds.startswith(free)),
    )


def _wan_vace(name: str, heads: int, ffn: int, layers: int, every: int) -> Recipe:
    """A second row of blocks for the video that controls; each adds to the block `every` further on."""
    wan = _wan(name, heads, ffn, layers)
    control = tuple(f"control_hidden_states.{symbol.split('.')[1]}" for symbol in wan.symbols[:4])
    return replace(
        wan,
        class_name="WanVACETransformer3DModel",
        config=wan.config | {"vace_layers": tuple(range(0, layers, every)), "vace_in_channels": 96},
        tiny=wan.tiny | {"num_layers": 3, "vace_layers": (0, 2), "vace_in_channels": 24},
        symbols=wan.symbols + control,
    )


# ---- CogVideoX -------------------------------------------------------------------------------------


def _cogvideox_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(8)
    frames = size.latent_frames(4)
    inputs = {
        "hidden_states": draw.normal(size.batch, frames, config["in_channels"], height, width),
        "encoder_hidden_states": draw.normal(size.batch, config["max_text_seq_length"], config["text_embed_dim"]),
        "timestep": draw.integers(0, 1000, size.batch),
    }
    if config["use_rotary_positional_embeddings"]:
        inputs["image_rotary_emb"] = _cogvideox_rotary(config, frames, height // 2, width // 2)
    return inputs


def _cogvideox_rotary(config: Config, frames: int, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin (tokens, head size), as the pipeline makes them."""
    from diffusers.models.embeddings import get_3d_rotary_pos_embed

    corners = ((0, 0), (height, width))
    return get_3d_rotary_pos_embed(
        config["attention_head_dim"], corners, (height, width), frames, device=torch.device("cpu")
    )


def _cogvideox(name: str, heads: int, layers: int, rotary: bool) -> Recipe:
    """Text and video in one sequence; a 3-D position table (2B) or rotary embeddings given as inputs (5B)."""
    return Recipe(
        name=name,
        class_name="CogVideoXTransformer3DModel",
        config={
            "num_attention_heads": heads,
            "attention_head_dim": 64,
            "in_channels": 16,
            "out_channels": 16,
            "time_embed_dim": 512,
            "text_embed_dim": 4096,
            "num_layers": layers,
            "sample_width": 90,
            "sample_height": 60,
            "sample_frames": 49,
            "patch_size": 2,
            "temporal_compression_ratio": 4,
            "max_text_seq_length": 226,
            "use_rotary_positional_embeddings": rotary,
        },
        tiny={
            "num_attention_heads": 2,
            "attention_head_dim": 32,
            "time_embed_dim": 32,
            "text_embed_dim": 24,
            "num_layers": 2,
            "sample_width": 14,
            "sample_height": 10,
            "sample_frames": 9,
            "max_text_seq_length": 11,
        },
        size=Size(480, 720, text=226, frames=49),
        tiny_size=_TINY_VIDEO,
        make_inputs=_cogvideox_inputs,
        kept_fp32=frozenset({"image_rotary_emb"}),
        symbols=("hidden_states.0=batch", "encoder_hidden_states.0=batch", "timestep.0=batch"),
        ranges=("batch=1..8",),
    )


# ---- LTX-Video -------------------------------------------------------------------------------------


def _ltx_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    grid, frames = size.grid(32), size.latent_frames(8)
    return {
        "hidden_states": draw.normal(size.batch, token_count(grid, frames), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["caption_channels"]),
        "timestep": draw.sigmas(size.batch) * 1000,
        "encoder_attention_mask": draw.text_mask(size.batch, size.text),
        "num_frames": frames,
        "height": grid[0],
        "width": grid[1],
        "rope_interpolation_scale": (8 / 25, 32.0, 32.0),
    }


_LTX = Recipe(
    name="ltx-video",
    class_name="LTXVideoTransformer3DModel",
    config={
        "in_channels": 128,
        "out_channels": 128,
        "patch_size": 1,
        "patch_size_t": 1,
        "num_attention_heads": 32,
        "attention_head_dim": 64,
        "cross_attention_dim": 2048,
        "num_layers": 28,
        "qk_norm": "rms_norm_across_heads",
        "caption_channels": 4096,
    },
    tiny={
        "in_channels": 16,
        "out_channels": 16,
        "num_attention_heads": 2,
        "attention_head_dim": 32,
        "cross_attention_dim": 64,
        "num_layers": 2,
        "caption_channels": 24,
    },
    size=Size(512, 704, text=128, frames=161),
    tiny_size=Size(224, 288, text=11, frames=9, batch=2),
    make_inputs=_ltx_inputs,
    kept_fp32=frozenset({"timestep"}),
    symbols=(
        "hidden_states.0=batch",
        "encoder_hidden_states.0=batch",
        "encoder_hidden_states.1=text",
        "timestep.0=batch",
        "encoder_attention_mask.0=batch",
        "encoder_attention_mask.1=text",
    ),
    ranges=("batch=1..8", "text=2..512"),
)


RECIPES: tuple[Recipe, ...] = (
    _wan("wan2.1-t2v-1.3b", 12, 8960, 30),
    _wan("wan2.1-t2v-14b", 40, 13824, 40),
    _wan("wan2.1-i2v-14b", 40, 13824, 40, image=True),
    _wan_vace("wan2.1-vace-1.3b", 12, 8960, 30, every=2),
    _wan_vace("wan2.1-vace-14b", 40, 13824, 40, every=5),
    _wan("wan2.2-t2v-a14b", 40, 13824, 40),  # one of its two experts
    _wan_5b("wan2.2-ti2v-5b"),
    _cogvideox("cogvideox-2b", 30, 30, rotary=False),
    _cogvideox("cogvideox-5b", 48, 42, rotary=True),
    _LTX,
)
