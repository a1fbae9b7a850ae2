# SPDX-License-Identifier: Apache-2.0
"""Names of a program's inputs and outputs, as the user wrote them.

A leaf of the arguments is called by its path: `hidden_states`, `added_cond_kwargs.text_embeds`, `states.0`.
A leaf of the result is called `output` (one tensor), `output.0` (tuple or list), or by its keys (dict) or fields
(dataclass, named tuple).
ditc gives the same names to the inputs and outputs of a package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch.utils import _pytree as pytree

Leaves = dict[str, Any]


def _text(key: Any) -> str:
    """One step of a pytree path: an index, a dict key or a field name."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def name_inputs(forward: Callable, args: tuple, kwargs: dict[str, Any]) -> Leaves:
    """Flattens the arguments of `forward` into name -> leaf. Positional ones are called by their parameter."""
    names = _positional_names(forward, len(args))
    leaves: Leaves = {}
    for path, leaf in pytree.tree_flatten_with_path((args, kwargs))[0]:
        kind, first, *rest = path
        head = names[first.idx] if kind.idx == 0 else first.key
        leaves[".".join([head, *map(_text, rest)])] = leaf
    return leaves


def _positional_names(forward: Callable, count: int) -> list[str]:
    """Names of `count` positional arguments; those that `*rest` takes are rest_0, rest_1, as torch.export calls them."""
    names: list[str] = []
    for parameter in inspect.signature(forward).parameters.values():
        if parameter.kind == inspect.Parameter.VAR_POSITIONAL:
            return names + [f"{parameter.name}_{i}" for i in range(count - len(names))]
        names.append(parameter.name)
    return names


def name_outputs(result: Any) -> Leaves:
    """Flattens what a model returned into name -> leaf."""
    leaves: Leaves = {}
    for path, leaf in pytree.tree_flatten_with_path(result)[0]:
        steps = [_text(key) for key in path]
        if not path or isinstance(path[0], pytree.SequenceKey):  # no names of its own
            steps.insert(0, "output")
        leaves[".".join(steps)] = leaf
    return leaves
