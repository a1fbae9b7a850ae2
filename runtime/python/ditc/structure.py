# SPDX-License-Identifier: Apache-2.0
"""Names of nested tensors: ``{"a": {"b": t}, "c": [u]}`` is ``a.b``, ``c.0`` in a package, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Sequence


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Leaves by dotted name, in order. Mappings, lists and tuples are entered; empty ones have no leaves."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            leaves.update(flatten(value, name + "."))
        elif isinstance(value, (list, tuple)):
            leaves.update(flatten({str(i): item for i, item in enumerate(value)}, name + "."))
        else:
            leaves[name] = value
    return leaves


def unflatten(leaves: Mapping[str, Any]) -> Any:
    """The results of a call: the tensor itself when it is ``output``, else tuples and dicts by the parts of names.

    ``output.0``, ``output.1`` is a tuple of two; ``sample`` a dict with this key; ``output.0``, ``output.5`` one whose
    keys are 0 and 5 (a tensor for some blocks).
    """
    tree: dict[str, Any] = {}
    for name, value in leaves.items():
        *path, last = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return _tuples(tree["output"] if set(tree) == {"output"} else tree)


def assembler(names: Sequence[str], nones: Sequence[str] = ()) -> Callable[[Sequence[Any]], Any]:
    """A function from the values of these names, in order, to what `unflatten` makes of them and of None for ``nones``."""
    if nones:
        return lambda values: unflatten({**dict(zip(names, values)), **dict.fromkeys(nones)})
    if list(names) == ["output"]:
        return lambda values: values[0]
    if list(names) == [f"output.{i}" for i in range(len(names))]:
        return tuple
    return lambda values: unflatten(dict(zip(names, values)))


def _tuples(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    values = {int(key) if key.isdecimal() else key: _tuples(value) for key, value in node.items()}
    indices = range(len(values))
    return tuple(values[i] for i in indices) if set(values) == set(indices) else values
