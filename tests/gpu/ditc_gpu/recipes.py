# SPDX-License-Identifier: Apache-2.0
"""Full-size models of the exporter's recipes (tools/exporter): the module with random weights, and its inputs.

Notes are those that tools/export_diffusers.py wrote beside a graph; the exporter makes the same module here, on the GPU.
"""
import pathlib
import sys

import torch
from torch.utils import _pytree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))
from exporter import build, recipes  # noqa: E402


def module(notes):
    """The module with random weights in which every layer matters, in the type of the export."""
    recipe = recipes.recipe_named(notes["recipe"].partition("@")[0])
    with torch.device("cuda"):
        made = build.random_model(notes["class"], notes["config"], build.DTYPES[notes["dtype"]], 0).requires_grad_(False)
    if recipe.prepare:
        recipe.prepare(made)
    return made


def arguments(notes):
    """The call's keyword arguments. ValueError where the export was made with sizes that its recipe's name does not say."""
    name, _, extent = notes["recipe"].partition("@")
    recipe = recipes.recipe_named(name)
    size = recipe.size.with_extent(extent) if extent else recipe.size
    made = recipe.inputs(notes["config"], size, 0)
    cast = {key: _cast(value, build.DTYPES[notes["dtype"]], key in recipe.kept_fp32) for key, value in made.items()}
    shapes = [list(leaf.shape) for leaf in _pytree.tree_leaves(cast) if isinstance(leaf, torch.Tensor)]
    expected = [row["shape"] for row in notes["inputs"] if "shape" in row]
    if sorted(shapes) != sorted(expected):
        raise ValueError(f"{notes['recipe']} has inputs of {shapes}, its export of {expected}: export it at a size of --recipe NAME@SIZE")
    return cast


def _cast(tree, dtype, keep):
    def move(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.to("cuda", leaf.dtype if keep or not leaf.is_floating_point() else dtype)

    return _pytree.tree_map(move, tree)
