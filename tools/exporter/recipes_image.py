# SPDX-License-Identifier: Apache-2.0
"""Recipes of image models in which text and image tokens attend to each other, since Z-Image and FLUX.2.
Configurations are those of the released checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
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
    tiny_size=_TINY_IMAGE,
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
    tiny_size=_TINY_IMAGE,
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

# ---- LongCat-Image and Ovis-Image ------------------------------------------------------------------


def _placed_inputs(config: Config, size: Size, draw: Draw, kind: int, start: int) -> Inputs:
    """As FLUX.1's, but text tokens have positions; image tokens are of `kind` and have theirs from `start` on."""
    grid = size.grid(16)
    return {
        "hidden_states": draw.normal(size.batch, token_count(grid), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "timestep": draw.sigmas(size.batch),
        "img_ids": position_ids(*grid) + torch.tensor([kind, start, start]),
        "txt_ids": pad(torch.arange(size.text)[:, None].expand(-1, 2), (1, 0)).float(),
    }


def _longcat_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    return _placed_inputs(config, size, draw, kind=1, start=512)


def _ovis_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    return _placed_inputs(config, size, draw, kind=0, start=0)


def _placed(
    name: str,
    class_name: str,
    layers: tuple[int, int],
    text: int,
    text_width: int,
    make_inputs: Callable[[Config, Size, Draw], Inputs],
) -> Recipe:
    """FLUX.1's blocks without pooled text."""
    return Recipe(
        name=name,
        class_name=class_name,
        config={
            "patch_size": 1,
            "in_channels": 64,
            "num_layers": layers[0],
            "num_single_layers": layers[1],
            "attention_head_dim": 128,
            "num_attention_heads": 24,
            "joint_attention_dim": text_width,
            "axes_dims_rope": (16, 56, 56),
        },
        tiny={
            "in_channels": 16,
            "num_layers": 1,
            "num_single_layers": 2,
            "attention_head_dim": 32,
            "num_attention_heads": 2,
            "joint_attention_dim": 24,
            "axes_dims_rope": (8, 12, 12),
        },
        size=Size(1024, 1024, text=text),
        tiny_size=_TINY_IMAGE,
        make_inputs=make_inputs,
        kept_fp32=frozenset({"timestep", "img_ids", "txt_ids"}),
        symbols=(
            "hidden_states.0=batch",
            "hidden_states.1=tokens",
            "encoder_hidden_states.0=batch",
            "encoder_hidden_states.1=text",
            "timestep.0=batch",
            "img_ids.0=tokens",
            "txt_ids.0=text",
        ),
        ranges=("batch=1..16", "tokens=4..16384", "text=2..512"),
    )


# ---- FIBO ------------------------------------------------------------------------------------------


def _fibo_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    grid = size.grid(16)
    layers = config["num_layers"] + config["num_single_layers"]
    mask = pad(draw.text_mask(size.batch, size.text), (0, token_count(grid)), value=1)
    return {
        "hidden_states": draw.normal(size.batch, token_count(grid), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, config["joint_attention_dim"]),
        "text_encoder_layers": [
            draw.normal(size.batch, size.text, config["text_encoder_dim"]) for _ in range(layers)
        ],
        "timestep": draw.sigmas(size.batch) * 1000,
        "img_ids": position_ids(*grid),
        "txt_ids": torch.zeros(size.text, 3),
        "joint_attention_kwargs": {"attention_mask": mask.bool()[:, None, None]},
    }


_FIBO = Recipe(
    name="bria-fibo",
    class_name="BriaFiboTransformer2DModel",
    config={
        "patch_size": 1,
        "in_channels": 48,
        "num_layers": 8,
        "num_single_layers": 38,
        "attention_head_dim": 128,
        "num_attention_heads": 24,
        "joint_attention_dim": 4096,
        "text_encoder_dim": 2048,
        "axes_dims_rope": (16, 56, 56),
        "rope_theta": 10000,
        "time_theta": 10000,
    },
    tiny={
        "in_channels": 16,
        "num_layers": 1,
        "num_single_layers": 2,
        "attention_head_dim": 32,
        "num_attention_heads": 2,
        "joint_attention_dim": 24,
        "text_encoder_dim": 20,
        "axes_dims_rope": (8, 12, 12),
    },
    size=Size(1024, 1024, text=1024, batch=2),
    tiny_size=_TINY_IMAGE,
    make_inputs=_fibo_inputs,
    kept_fp32=frozenset({"timestep", "img_ids", "txt_ids"}),
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
    tiny_size=_TINY_IMAGE,
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

# ---- Krea 2 ----------------------------------------------------------------------------------------


def _krea2_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    grid = size.grid(16)
    layers = config["num_text_layers"]
    return {
        "hidden_states": draw.normal(size.batch, token_count(grid), config["in_channels"]),
        "encoder_hidden_states": draw.normal(size.batch, size.text, layers, config["text_hidden_dim"]),
        "timestep": draw.sigmas(size.batch),
        "position_ids": pad(position_ids(*grid), (0, 0, size.text, 0)),
        "encoder_attention_mask": draw.text_mask(size.batch, size.text).bool(),
    }


_KREA2 = Recipe(
    name="krea-2",
    class_name="Krea2Transformer2DModel",
    config={
        "in_channels": 64,
        "num_layers": 28,
        "attention_head_dim": 128,
        "num_attention_heads": 48,
        "num_key_value_heads": 12,
        "intermediate_size": 16384,
        "timestep_embed_dim": 256,
        "text_hidden_dim": 2560,
        "num_text_layers": 12,
        "text_num_attention_heads": 20,
        "text_num_key_value_heads": 20,
        "text_intermediate_size": 6912,
        "num_layerwise_text_blocks": 2,
        "num_refiner_text_blocks": 2,
        "axes_dims_rope": (32, 48, 48),
        "rope_theta": 1000.0,
        "norm_eps": 1e-5,
    },
    tiny={
        "in_channels": 16,
        "num_layers": 2,
        "attention_head_dim": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 80,
        "timestep_embed_dim": 32,
        "text_hidden_dim": 24,
        "num_text_layers": 3,
        "text_num_attention_heads": 2,
        "text_num_key_value_heads": 2,
        "text_intermediate_size": 40,
        "num_layerwise_text_blocks": 1,
        "num_refiner_text_blocks": 1,
        "axes_dims_rope": (8, 12, 12),
    },
    size=Size(1024, 1024, text=512),
    tiny_size=_TINY_IMAGE,
    make_inputs=_krea2_inputs,
    kept_fp32=frozenset({"timestep", "position_ids"}),
    symbols=(
        "hidden_states.0=batch",
        "encoder_hidden_states.0=batch",
        "timestep.0=batch",
        "encoder_attention_mask.0=batch",
    ),
    ranges=("batch=1..16",),
)

RECIPES: tuple[Recipe, ...] = (
    _Z_IMAGE,
    _flux2("flux.2-dev", 48, (8, 48), 15360, guidance=True),
    _flux2("flux.2-klein-4b", 24, (5, 20), 7680, guidance=False),
    _AURA_FLOW,
    _COGVIEW4,
    _HUNYUAN_IMAGE,
    _placed("longcat-image", "LongCatImageTransformer2DModel", (10, 20), 512, 3584, _longcat_inputs),
    _placed("ovis-image-7b", "OvisImageTransformer2DModel", (6, 27), 256, 2048, _ovis_inputs),
    _FIBO,
    _ERNIE,
    _KREA2,
)
