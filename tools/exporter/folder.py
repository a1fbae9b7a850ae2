# SPDX-License-Identifier: Apache-2.0
"""Writes a model with its golden outputs into a folder, and checks that the file runs as the model did.

model.pt2                   the program with its weights
model_core.pt2              the same in core ATen, where asked for
inputs.safetensors          inputs by name; inputs_<bucket> when the sizes are symbolic
outputs.safetensors         what eager PyTorch computes for them, in each output's own type
notes.json                  where it comes from, names, shapes, operations
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from torch.utils import _pytree as pytree

from exporter import naming, program


@dataclass
class Call:
    """The arguments of one call."""

    args: tuple = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def fresh(self) -> Call:
        """A copy, because a model may write into its inputs."""
        return copy.deepcopy(self)

    def run(self, model: nn.Module) -> naming.Leaves:
        """Calls `model` with a copy of the arguments and names the results."""
        call = self.fresh()
        with torch.no_grad():
            return naming.name_outputs(model(*call.args, **call.kwargs))

    def cast_floats(self, dtype: torch.dtype, keep: frozenset[str] = frozenset()) -> Call:
        """The same call with floating point tensors in `dtype`, except the keyword arguments in `keep`."""

        def cast(value: Any) -> Any:
            is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
            return value.to(dtype) if is_float else value

        kwargs = {key: value if key in keep else pytree.tree_map(cast, value) for key, value in self.kwargs.items()}
        return Call(pytree.tree_map(cast, self.args), kwargs)


def tensors(leaves: naming.Leaves) -> dict[str, torch.Tensor]:
    """Only the tensors, each on a storage of its own, as safetensors wants them."""
    return {
        name: leaf.detach().clone(memory_format=torch.contiguous_format)
        for name, leaf in leaves.items()
        if isinstance(leaf, torch.Tensor)
    }


def describe(leaves: naming.Leaves) -> list[dict[str, Any]]:
    """Name, type and shape of tensors, values of everything else, in the order of the call."""
    rows = []
    for name, leaf in leaves.items():
        if isinstance(leaf, torch.Tensor):
            rows.append({"name": name, "dtype": str(leaf.dtype).removeprefix("torch."), "shape": list(leaf.shape)})
        else:
            rows.append({"name": name, "constant": leaf})
    return rows


def save_tensors(leaves: naming.Leaves, path: Path, numbers: bool = False) -> None:
    """Writes the tensors among `leaves` as safetensors; with `numbers` also those of Python, as 0-dim tensors."""
    extra = {
        name: torch.tensor(leaf) for name, leaf in leaves.items() if numbers and isinstance(leaf, (bool, int, float))
    }
    save_file(tensors(leaves) | extra, path)
    path.chmod(0o644)


def write_notes(notes: dict[str, Any], path: Path) -> None:
    """JSON with one line per list or table of scalars, so that shapes stay readable."""

    def dump(value: Any, indent: str) -> str:
        flat = json.dumps(value)
        inner = list(value.values()) if isinstance(value, dict) else value
        nested = isinstance(inner, list) and any(isinstance(item, (dict, list)) for item in inner)
        if not isinstance(value, (dict, list)) or (not nested and len(flat) <= 100):
            return flat
        deeper = indent + "  "
        if isinstance(value, dict):
            rows = [f"{json.dumps(key)}: {dump(item, deeper)}" for key, item in value.items()]
            return "{\n" + deeper + (",\n" + deeper).join(rows) + "\n" + indent + "}"
        rows = [json.dumps(item) if len(json.dumps(item)) <= 100 else dump(item, deeper) for item in value]
        return "[\n" + deeper + (",\n" + deeper).join(rows) + "\n" + indent + "]"

    path.write_text(dump(notes, "") + "\n")


def check_reload(path: Path, call: Call, expected: naming.Leaves, loose: bool = False) -> None:
    """Raises AssertionError, naming the output, when the saved file does not compute `expected`.

    Eager modules may take other paths than their graphs, so a few roundings are allowed (torch's defaults
    for each type); `loose` allows those of a decomposed program."""
    got = call.run(program.load_module(path))
    wrong = set(got) ^ set(expected)
    assert not wrong, f"{path}: outputs differ by name: {sorted(wrong)}"
    for name, value in tensors(expected).items():
        low = value.dtype in (torch.float16, torch.bfloat16)
        tolerance = (3e-2 if low else 2e-4) if loose else None
        torch.testing.assert_close(
            got[name],
            value,
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
            msg=lambda text, name=name: f"{path}: output '{name}' after reload: {text}",
        )
