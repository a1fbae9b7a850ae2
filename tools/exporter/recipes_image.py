# SPDX-License-Identifier: Apache-2.0
"""Recipes of image models in which text and image tokens attend to each other, since Z-Image and FLUX.2.
Configurations are those of the released checkpoints."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from exporter.recipe import Draw, Inputs, Recipe, Size, position_ids, token_count

Config = dict[str, Any]
_TINY_IMAGE = Size(144, 176, text=13, batch=2)  # a grid of 9 x 11: odd, not square


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
    tiny_size=_TINY_IMAGE,
    make_inputs=_z_image_inputs,
    kept_fp32=frozenset({"t"}),
    prepare=_make_tables,
)


# ---- FLUX.2 ----------------------------------------------------------------------------------------


def _flux2_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    grid = size.grid(16)
    inputs = {
        "hidden_states": draw.normal(size.batch, token_count(grid), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "timestep": draw.sigmas(size.batch),
        "img_ids": pad(position_ids(*grid), (0, 1)).long(),  # time, row, column, token of text
        "txt_ids": pad(torch.arange(size.text)[:, None], (3, 0)),
    }
    return inputs | ({"guidance": torch.full((size.batch,), 4.0)} if config["guidance_embeds"] else {})


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
        tiny_size=_TINY_IMAGE,
        make_inputs=_flux2_inputs,
        kept_fp32=frozenset({"timestep", "guidance"}),
        symbols=(
            "hidden_states.0=batch",
            "hidden_states.1=tokens",
            "encoder_hidden_states.0=batch",
            "encoder_hidden_states.1=text",
            "timestep.0=batch",
            "img_ids.0=tokens",
            "txt_ids.0=text",
        )
        + (("guidance.0=batch",) if guidance else ()),
        ranges=("batch=1..16", "tokens=4..16384", "text=2..512"),
    )


RECIPES: tuple[Recipe, ...] = (
    _Z_IMAGE,
    _flux2("flux.2-dev", 48, (8, 48), 15360, guidance=True),
    _flux2("flux.2-klein-4b", 24, (5, 20), 7680, guidance=False),
)
