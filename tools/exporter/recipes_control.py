# SPDX-License-Identifier: Apache-2.0
"""Recipes of what is put beside an image model: ControlNets, models that take their results, images as context.
Configurations are those of the released checkpoints; a model itself is that of its own recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from exporter import recipes_cross, recipes_image, recipes_joint
from exporter.recipe import Config, Draw, Inputs, Recipe, Size, position_ids, token_count

Maker = Callable[[Config, Size, Draw], Inputs]

_OF = {recipe.name: recipe for file in (recipes_joint, recipes_cross, recipes_image) for recipe in file.RECIPES}
_FLUX, _SD3, _SANA = _OF["flux.1-dev"], _OF["sd3-medium"], _OF["sana-0.6b-1024"]
_SCALE = frozenset({"conditioning_scale"})  # of a ControlNet's results: an input, since users choose it


def _width(config: Config) -> int:
    """Columns of the tokens between blocks."""
    return config["num_attention_heads"] * config["attention_head_dim"]


# ---- ControlNets: a few blocks of the model, and what each of them adds to blocks of the model -----


def _control_inputs(model_inputs: Maker, condition: Callable[[Config, Inputs], tuple[int, ...]]) -> Maker:
    """The model's inputs, a condition of a shape that these decide, and the scale of the results."""

    def make(config: Config, size: Size, draw: Draw) -> Inputs:
        inputs = model_inputs(config, size, draw)
        return inputs | {
            "controlnet_cond": draw.normal(*condition(config, inputs)),
            "conditioning_scale": torch.tensor(0.75),
        }

    return make


def _like_latents(config: Config, inputs: Inputs) -> tuple[int, ...]:
    return tuple(inputs["hidden_states"].shape)


def _flux_union_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    inputs = _control_inputs(_FLUX.make_inputs, _like_latents)(config, size, draw)
    if config.get("num_mode") is None:
        return inputs
    return inputs | {"controlnet_mode": draw.integers(0, config["num_mode"], size.batch, 1)}


def _flux_controlnet(name: str, layers: tuple[int, int], modes: int | None) -> Recipe:
    """Blocks of FLUX.1. `modes`: kinds of conditions (canny, depth, pose), one token of text tells which."""
    return replace(
        _FLUX,
        name=name,
        class_name="FluxControlNetModel",
        config=_FLUX.config | {"num_layers": layers[0], "num_single_layers": layers[1], "num_mode": modes},
        tiny=_FLUX.tiny | {"num_layers": 2, "num_single_layers": min(2, layers[1])},
        make_inputs=_flux_union_inputs,
        kept_fp32=_FLUX.kept_fp32 | _SCALE,
        symbols=_FLUX.symbols
        + ("controlnet_cond.0=batch", "controlnet_cond.1=tokens")
        + (("controlnet_mode.0=batch",) if modes else ()),
    )


_SD3_CONTROLNET = replace(
    _SD3,
    name="sd3-controlnet-canny",
    class_name="SD3ControlNetModel",
    config=_SD3.config | {"num_layers": 6},
    tiny=_SD3.tiny | {"num_layers": 2},
    make_inputs=_control_inputs(_SD3.make_inputs, _like_latents),
    kept_fp32=_SD3.kept_fp32 | _SCALE,
    symbols=(*_SD3.symbols, "controlnet_cond.0=batch", "controlnet_cond.2=2*height", "controlnet_cond.3=2*width"),
)

_QWEN = _OF["qwen-image"]
_QWEN_CONTROLNET = replace(
    _QWEN,
    name="qwen-image-controlnet-union",
    class_name="QwenImageControlNetModel",
    config=_QWEN.config | {"num_layers": 5},
    make_inputs=_control_inputs(_QWEN.make_inputs, _like_latents),
    kept_fp32=_QWEN.kept_fp32 | _SCALE,
    symbols=(*_QWEN.symbols, "controlnet_cond.0=batch"),
)

_SANA_CONTROLNET = replace(
    _SANA,
    name="sana-0.6b-controlnet",
    class_name="SanaControlNetModel",
    config=_SANA.config | {"num_layers": 7},
    make_inputs=_control_inputs(_SANA.make_inputs, _like_latents),
    kept_fp32=_SANA.kept_fp32 | _SCALE,
    symbols=(*_SANA.symbols, "controlnet_cond.0=batch", "controlnet_cond.2=height", "controlnet_cond.3=width"),
)


# ---- Models that add what a ControlNet gave ---------------------------------------------------------


def _tokens(config: Config, latents: Tensor) -> int:
    """Image tokens of packed latents, or of an image of latents."""
    return latents.shape[1] if latents.dim() == 3 else latents[0, 0].numel() // config["patch_size"] ** 2


def _with_samples(model: Recipe, name: str, samples: dict[str, tuple[str, int]], tiny: Config | None = None) -> Recipe:
    """`model` with lists of tensors, which it adds behind its blocks.

    `samples`: argument -> number of blocks in the configuration, and of tensors; a tensor is added more than once."""

    def make(config: Config, size: Size, draw: Draw) -> Inputs:
        inputs = model.make_inputs(config, size, draw)
        shape = (size.batch, _tokens(config, inputs["hidden_states"]), _width(config))
        counts = {key: min(count, (config[blocks] + 1) // 2) for key, (blocks, count) in samples.items()}
        return inputs | {key: [draw.normal(*shape) for _ in range(count)] for key, count in counts.items()}

    return replace(model, name=name, tiny=model.tiny | (tiny or {}), make_inputs=make, symbols=(), ranges=())


def _z_image_control_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    """As the ControlNet gives it: block -> tensor, for image and text tokens together, each padded."""
    inputs = _Z_IMAGE.make_inputs(config, size, draw)
    image, text = (count + -count % 32 for count in (token_count(size.grid(16)), size.text))
    shape = (size.batch, image + text, config["dim"])
    return inputs | {"controlnet_block_samples": {block: draw.normal(*shape) for block in range(0, config["n_layers"], 5)}}


_Z_IMAGE = _OF["z-image-turbo"]
_Z_IMAGE_CONTROL = replace(_Z_IMAGE, name="z-image-turbo-control", make_inputs=_z_image_control_inputs)


# ---- Images as context: more tokens, more channels, an adapter ---------------------------------------


def _kontext_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    """The result, then the image that is edited, whose ids have a 1 in front; its sides are swapped."""
    inputs = _FLUX.make_inputs(config, size, draw)
    height, width = size.grid(16)
    image = draw.normal(size.batch, token_count((width, height)), config["in_channels"])
    ids = position_ids(width, height) + torch.tensor([1, 0, 0])
    return inputs | {
        "hidden_states": torch.cat([inputs["hidden_states"], image], dim=1),
        "img_ids": torch.cat([inputs["img_ids"], ids]),
    }


def _flux_channels(name: str, channels: int) -> Recipe:
    """`channels`: the latent with, in each token, those of images and masks."""
    return replace(
        _FLUX,
        name=name,
        config=_FLUX.config | {"in_channels": channels, "out_channels": 64},
        tiny=_FLUX.tiny | {"in_channels": channels // 4, "out_channels": 16},
    )


def _ip_adapter_inputs(config: Config, size: Size, draw: Draw) -> Inputs:
    embeds = draw.normal(size.batch, 1, config["pooled_projection_dim"])  # of CLIP's large image encoder
    return _FLUX.make_inputs(config, size, draw) | {"joint_attention_kwargs": {"ip_adapter_image_embeds": [embeds]}}


def _add_ip_adapter(model: nn.Module) -> None:
    """What `load_ip_adapter` puts into FLUX.1: an image as 16 tokens, which two-stream blocks attend to."""
    from diffusers.models.embeddings import ImageProjection, MultiIPAdapterImageProjection
    from diffusers.models.transformers.transformer_flux import FluxIPAdapterAttnProcessor

    flux: Any = model
    width, text = flux.inner_dim, flux.config.joint_attention_dim
    project = ImageProjection(flux.config.pooled_projection_dim, text, num_image_text_embeds=_IP_TOKENS)
    flux.encoder_hid_proj = _like_weights(MultiIPAdapterImageProjection([project]), flux.proj_out.weight)
    for block in flux.transformer_blocks:
        processor = FluxIPAdapterAttnProcessor(width, text, num_tokens=(_IP_TOKENS,), scale=_IP_SCALE)
        block.attn.set_processor(_like_weights(processor, flux.proj_out.weight))


_IP_TOKENS = 16
_IP_SCALE = 0.75


def _like_weights(module: nn.Module, weight: Tensor) -> nn.Module:
    """`module` in the type of `weight`, and without numbers when that has none."""
    generator = torch.Generator().manual_seed(0)
    for owner in module.modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            noise = torch.randn(parameter.shape, generator=generator) / max(1, parameter[0].numel()) ** 0.5
            value = weight.new_empty(parameter.shape)
            filled = value if type(value) is not Tensor else noise.to(weight.dtype)
            setattr(owner, name, nn.Parameter(filled, requires_grad=False))
    return module.eval()


_FLUX_IP_ADAPTER = replace(
    _FLUX,
    name="flux.1-dev-ip-adapter",
    make_inputs=_ip_adapter_inputs,
    prepare=_add_ip_adapter,
    symbols=(*_FLUX.symbols, "joint_attention_kwargs.ip_adapter_image_embeds.0.0=batch"),
)

_DOUBLE = {"controlnet_block_samples": ("num_layers", 5)}
_BOTH = _DOUBLE | {"controlnet_single_block_samples": ("num_single_layers", 10)}

RECIPES: tuple[Recipe, ...] = (
    _flux_controlnet("flux.1-controlnet-union", (5, 10), modes=10),
    _flux_controlnet("flux.1-controlnet-union-pro-2.0", (6, 0), modes=None),
    _with_samples(_FLUX, "flux.1-dev-control", _BOTH, tiny={"num_layers": 3, "num_single_layers": 3}),
    _SD3_CONTROLNET,
    _with_samples(_SD3, "sd3-medium-control", {"block_controlnet_hidden_states": ("num_layers", 6)}),
    _QWEN_CONTROLNET,
    _with_samples(_QWEN, "qwen-image-control", _DOUBLE),
    _SANA_CONTROLNET,
    _with_samples(_SANA, "sana-0.6b-control", {"controlnet_block_samples": ("num_layers", 7)}),
    _Z_IMAGE_CONTROL,
    replace(_FLUX, name="flux.1-kontext-dev", make_inputs=_kontext_inputs),
    _flux_channels("flux.1-fill-dev", 384),
    _flux_channels("flux.1-canny-dev", 128),
    _FLUX_IP_ADAPTER,
)
