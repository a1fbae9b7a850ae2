# SPDX-License-Identifier: Apache-2.0
"""Makes the model that is exported: with random weights, from a checkpoint, or without weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree

from exporter.errors import UsageError

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def model_class(name: str) -> type[nn.Module]:
    """A transformer class of diffusers by its name."""
    import diffusers

    found = getattr(diffusers, name, None)
    if found is None or not hasattr(found, "from_config"):
        raise UsageError(f"diffusers {diffusers.__version__} has no model class '{name}'")
    return found


def random_model(class_name: str, config: dict[str, Any], dtype: torch.dtype, seed: int) -> nn.Module:
    """A model with random weights in which every layer matters (see `randomise`)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = randomise(_construct(class_name, config))
    return cast_weights(model, dtype).eval()


def checkpoint_folder(folder: Path) -> Path:
    """The folder of a transformer with its config.json: `folder`, or `transformer` in it for a pipeline."""
    for candidate in (folder, folder / "transformer"):
        if (candidate / "config.json").is_file():
            return candidate
    raise UsageError(f"{folder}: no config.json here; give the folder of a diffusers transformer or pipeline")


def checkpoint_model(class_name: str, folder: Path, dtype: torch.dtype) -> nn.Module:
    """The transformer of a checkpoint in diffusers' layout."""
    try:
        model = model_class(class_name).from_pretrained(str(folder), torch_dtype=dtype, local_files_only=True)
    except (OSError, ValueError, ImportError) as error:
        raise UsageError(f"{folder}: diffusers cannot load it: {error}") from error
    return model.eval()


def weightless_model(class_name: str, config: dict[str, Any], dtype: torch.dtype) -> tuple[nn.Module, FakeTensorMode]:
    """A model without what a checkpoint would bring: parameters and saved buffers take no memory.

    Tables that the constructor computes and does not save are real: nobody else could supply them.
    Arguments of the export must be made with `fake`, using the mode that is returned."""
    with _parameters_on_meta():
        model = cast_weights(_construct(class_name, config), dtype)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    for table, name, value in _saved_tensors(model):
        with mode:
            empty = torch.empty(value.shape, dtype=value.dtype, device="cpu")
        _replace(table, name, empty)
    return model.eval(), mode


def fake(tree: Any, mode: FakeTensorMode) -> Any:
    """The same arguments without their numbers."""
    return pytree.tree_map(lambda leaf: mode.from_tensor(leaf) if isinstance(leaf, Tensor) else leaf, tree)


def randomise(model: nn.Module) -> nn.Module:
    """Replaces what was initialised to a constant: gates and output layers at 0 would hide whole blocks.

    Norm weights become about 1, biases small, matrices and tables of the size that keeps a signal's size."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.numel() > 1 and (parameter != parameter.flatten()[0]).any():
                continue
            noise = torch.randn(parameter.shape)
            if parameter.numel() and parameter.flatten()[0] == 1:
                parameter.copy_(1 + 0.1 * noise)
            elif parameter.dim() <= 1:
                parameter.copy_(0.05 * noise)
            else:
                parameter.copy_(noise / max(1, parameter[0].numel()) ** 0.5)
    return model


def cast_weights(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Casts what a checkpoint brings as `from_pretrained` does: not what diffusers keeps in float32."""
    kept = getattr(model, "_keep_in_fp32_modules", None) or []
    paths = {id(value): path for path, value in model.state_dict(keep_vars=True).items()}
    places = _saved_tensors(model)
    while places:  # a float32 tensor goes when its narrow one has come: both sets of a large model are too many
        table, name, value = places.pop()
        is_kept = any(part in paths[id(value)].split(".") for part in kept)
        if value.dtype == torch.float32 and not is_kept:
            _replace(table, name, value.detach().to(dtype))
    return model


def float32_twin(model: nn.Module) -> nn.Module:
    """A copy that computes in float32 with the same, already rounded, weights."""
    twin = copy.deepcopy(model)
    for table, name, value in _tensors(twin):
        if value.dtype in (torch.bfloat16, torch.float16):
            _replace(table, name, value.detach().float())
    return twin.eval()


_Place = tuple[dict[str, Any], str, Tensor]  # a module's table of parameters or buffers, name, value


def _tensors(model: nn.Module) -> list[_Place]:
    """Where all parameters and buffers are."""
    tables = [table for module in model.modules() for table in (module._parameters, module._buffers)]
    return [(table, name, value) for table in tables for name, value in table.items() if value is not None]


def _saved_tensors(model: nn.Module) -> list[_Place]:
    """Where those are that a checkpoint holds."""
    saved = {id(value) for value in model.state_dict(keep_vars=True).values()}
    return [place for place in _tensors(model) if id(place[2]) in saved]


def _replace(table: dict[str, Any], name: str, value: Tensor) -> None:
    """Puts `value` at a place; a parameter stays one."""
    is_parameter = isinstance(table[name], nn.Parameter)
    table[name] = nn.Parameter(value, requires_grad=False) if is_parameter else value


def _construct(class_name: str, config: dict[str, Any]) -> nn.Module:
    """Calls the constructor; says which options it does not know."""
    try:
        return model_class(class_name)(**{key: value for key, value in config.items() if not key.startswith("_")})
    except TypeError as error:
        raise UsageError(f"{class_name} does not take this configuration: {error}") from error


@contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Inside, parameters get no memory; buffers do."""
    register = nn.Module.register_parameter

    def on_meta(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(module, name, None if parameter is None else nn.Parameter(parameter.to("meta"), requires_grad=False))

    with mock.patch.object(nn.Module, "register_parameter", on_meta):
        yield
