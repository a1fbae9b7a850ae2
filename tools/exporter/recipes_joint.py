# SPDX-License-Identifier: Apache-2.0
"""Recipes of image models in which text and image tokens attend to each other.
Configurations are those of the released checkpoints."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

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

# ---- Stable Diffusion 3 ----------------------------------------------------------------------------


def _sd3_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(8)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "pooled_projections": draw.normal(size.batch, config["pooled_projection_dim"]),
        "timestep": draw.sigmas(size.batch) * 1000,
    }


def _sd3(name: str, layers: int, table: int, dual: tuple[int, ...] = (), qk_norm: str | None = "rms_norm") -> Recipe:
    """Two streams with joint attention; as many heads of 64 as layers; positions cropped from a learned table."""
    return Recipe(
        name=name,
        class_name="SD3Transformer2DModel",
        config={
            "sample_size": 128,
            "patch_size": 2,
            "in_channels": 16,
            "num_layers": layers,
            "attention_head_dim": 64,
            "num_attention_heads": layers,
            "joint_attention_dim": 4096,
            "caption_projection_dim": 64 * layers,
            "pooled_projection_dim": 2048,
            "out_channels": 16,
            "pos_embed_max_size": table,
            "dual_attention_layers": dual,
            "qk_norm": qk_norm,
        },
        tiny={
            "sample_size": 24,
            "num_layers": 3,
            "attention_head_dim": 16,
            "num_attention_heads": 2,
            "joint_attention_dim": 32,
            "caption_projection_dim": 32,
            "pooled_projection_dim": 24,
            "pos_embed_max_size": 24,
            "dual_attention_layers": dual[:1],
        },
        size=Size(1024, 1024, text=333, batch=2),
        tiny_size=TINY_IMAGE,
        make_inputs=_sd3_inputs,
        kept_fp32=frozenset({"timestep"}),
        symbols=(
            "hidden_states.0=batch",
            "hidden_states.2=2*height",
            "hidden_states.3=2*width",
            "encoder_hidden_states.0=batch",
            "encoder_hidden_states.1=text",
            "pooled_projections.0=batch",
            "timestep.0=batch",
        ),
        ranges=("batch=1..16", "height=2..pos_embed_max_size", "width=2..pos_embed_max_size", "text=2..1024"),
    )


# ---- FLUX.1 and Chroma -----------------------------------------------------------------------------

_FLUX_CONFIG = {
    "patch_size": 1,
    "in_channels": 64,
    "num_layers": 19,
    "num_single_layers": 38,
    "attention_head_dim": 128,
    "num_attention_heads": 24,
    "joint_attention_dim": 4096,
    "axes_dims_rope": (16, 56, 56),
}
_FLUX_TINY = {
    "in_channels": 16,
    "num_layers": 1,
    "num_single_layers": 2,
    "attention_head_dim": 32,
    "num_attention_heads": 2,
    "joint_attention_dim": 32,
    "axes_dims_rope": (8, 12, 12),
}
_FLUX_KEPT = frozenset({"timestep", "guidance", "img_ids", "txt_ids"})


def _flux_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    grid = size.grid(16)
    inputs = {
        "hidden_states": draw.normal(size.batch, token_count(grid), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "pooled_projections": draw.normal(size.batch, config["pooled_projection_dim"]),
        "timestep": draw.sigmas(size.batch),
        "img_ids": position_ids(*grid),
        "txt_ids": torch.zeros(size.text, 3),
    }
    return inputs | ({"guidance": torch.full((size.batch,), 4.0)} if config["guidance_embeds"] else {})


def _flux(name: str, guidance: bool, text: int) -> Recipe:
    """Two-stream, then one-stream blocks; rotary embeddings of ids, computed in float64 in the graph."""
    return Recipe(
        name=name,
        class_name="FluxTransformer2DModel",
        config=_FLUX_CONFIG | {"pooled_projection_dim": 768, "guidance_embeds": guidance},
        tiny=_FLUX_TINY | {"pooled_projection_dim": 24},
        size=Size(1024, 1024, text=text),
        tiny_size=TINY_IMAGE,
        make_inputs=_flux_inputs,
        kept_fp32=_FLUX_KEPT,
        symbols=PACKED_SYMBOLS + ("pooled_projections.0=batch",) + (("guidance.0=batch",) if guidance else ()),
        ranges=PACKED_RANGES,
    )


def _chroma_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    grid = size.grid(16)
    mask = torch.cat(
        [draw.text_mask(size.batch, size.text), torch.ones(size.batch, token_count(grid), dtype=torch.int64)], dim=1
    )
    return {
        "hidden_states": draw.normal(size.batch, token_count(grid), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "timestep": draw.sigmas(size.batch),
        "img_ids": position_ids(*grid),
        "txt_ids": torch.zeros(size.text, 3),
        "attention_mask": mask.bool(),
    }


_CHROMA = Recipe(
    name="chroma1-hd",
    class_name="ChromaTransformer2DModel",
    config=_FLUX_CONFIG | {"approximator_num_channels": 64, "approximator_hidden_dim": 5120, "approximator_layers": 5},
    tiny=_FLUX_TINY | {"approximator_num_channels": 16, "approximator_hidden_dim": 32, "approximator_layers": 2},
    size=Size(1024, 1024, text=512),
    tiny_size=TINY_IMAGE,
    make_inputs=_chroma_inputs,
    kept_fp32=_FLUX_KEPT,
)


# ---- Qwen-Image ------------------------------------------------------------------------------------


def _qwen_call(config: Config, size: Size, draw: Draw, grids: list[tuple[int, int]]) -> Inputs:
    tokens = sum(token_count(grid) for grid in grids)
    return {
        "hidden_states": draw.normal(size.batch, tokens, config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "encoder_hidden_states_mask": draw.text_mask(size.batch, size.text),
        "timestep": draw.sigmas(size.batch),
        "img_shapes": [[(1, *grid) for grid in grids]],
    }


def _qwen_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    return _qwen_call(config, size, draw, [size.grid(16)])


def _qwen_edit_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(16)
    return _qwen_call(config, size, draw, [(height, width), (width, height)])  # the result, what is edited


def _qwen(
    name: str, pixels: int, make_inputs: Callable[[Config, Size, Draw], Inputs], zero_cond_t: bool = False
) -> Recipe:
    """Two streams in all blocks; rotary tables of image shapes that are numbers of Python.

    `zero_cond_t`: the tokens of images that are edited are modulated as at time 0."""
    return Recipe(
        name=name,
        class_name="QwenImageTransformer2DModel",
        config={
            "patch_size": 2,
            "in_channels": 64,
            "out_channels": 16,
            "num_layers": 60,
            "attention_head_dim": 128,
            "num_attention_heads": 24,
            "joint_attention_dim": 3584,
            "axes_dims_rope": (16, 56, 56),
        }
        | ({"zero_cond_t": True} if zero_cond_t else {}),
        tiny={
            "in_channels": 16,
            "out_channels": 4,
            "num_layers": 2,
            "attention_head_dim": 32,
            "num_attention_heads": 2,
            "joint_attention_dim": 24,
            "axes_dims_rope": (8, 12, 12),
        },
        size=Size(pixels, pixels, text=512),
        tiny_size=TINY_IMAGE,
        make_inputs=make_inputs,
        kept_fp32=frozenset({"timestep"}),
        symbols=(
            "hidden_states.0=batch",
            "encoder_hidden_states.0=batch",
            "encoder_hidden_states_mask.0=batch",
            "timestep.0=batch",
        ),
        ranges=("batch=1..8",),
    )


# ---- Lumina 2 --------------------------------------------------------------------------------------


class _AllTokens:
    """Stands for a mask without padding: its sums are numbers of Python, so that no size depends on data."""

    def __init__(self, batch: int, tokens: int) -> None:
        self.shape = (batch, tokens)

    def sum(self, dim: int) -> _AllTokens:
        return self

    def tolist(self) -> list[int]:
        return [self.shape[1]] * self.shape[0]


def _count_all_tokens(model: nn.Module) -> None:
    """Makes Lumina 2 lay out its sequence as if no text token were padding (the mask stays an input)."""
    embedder = model.rope_embedder
    forward = embedder.forward
    embedder.forward = lambda hidden_states, mask: forward(hidden_states, _AllTokens(*map(int, mask.shape)))


def _lumina_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    height, width = size.grid(8)
    return {
        "hidden_states": draw.normal(size.batch, config["in_channels"], height, width),
        "timestep": draw.sigmas(size.batch),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["cap_feat_dim"]),
        "encoder_attention_mask": torch.ones(size.batch, size.text, dtype=torch.bool),
    }


_LUMINA2 = Recipe(
    name="lumina-image-2.0",
    class_name="Lumina2Transformer2DModel",
    config={
        "sample_size": 128,
        "patch_size": 2,
        "in_channels": 16,
        "hidden_size": 2304,
        "num_layers": 26,
        "num_refiner_layers": 2,
        "num_attention_heads": 24,
        "num_kv_heads": 8,
        "multiple_of": 256,
        "norm_eps": 1e-5,
        "axes_dim_rope": (32, 32, 32),
        "axes_lens": (300, 512, 512),
        "cap_feat_dim": 2304,
    },
    tiny={
        "sample_size": 16,
        "hidden_size": 64,
        "num_layers": 2,
        "num_refiner_layers": 1,
        "num_attention_heads": 4,
        "num_kv_heads": 2,
        "multiple_of": 16,
        "ffn_dim_multiplier": 0.25,
        "axes_dim_rope": (4, 6, 6),
        "axes_lens": (32, 32, 32),
        "cap_feat_dim": 24,
    },
    size=Size(1024, 1024, text=256),
    tiny_size=TINY_IMAGE,
    make_inputs=_lumina_inputs,
    kept_fp32=frozenset({"timestep"}),
    prepare=_count_all_tokens,
)

RECIPES: tuple[Recipe, ...] = (
    _sd3("sd3-medium", 24, table=192, qk_norm=None),
    _sd3("sd3.5-medium", 24, table=384, dual=tuple(range(13))),
    _sd3("sd3.5-large", 38, table=192),
    _flux("flux.1-dev", guidance=True, text=512),
    _flux("flux.1-schnell", guidance=False, text=256),
    _CHROMA,
    _qwen("qwen-image", 1328, _qwen_inputs),
    _qwen("qwen-image-edit", 1024, _qwen_edit_inputs),
    _qwen("qwen-image-edit-2511", 1024, _qwen_edit_inputs, zero_cond_t=True),
    _LUMINA2,
)
