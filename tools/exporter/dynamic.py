# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes: from `hidden_states.2=2*height` and `height=4..64` to what torch.export wants."""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor
from torch.export import Dim
from torch.utils import _pytree as pytree

from exporter.errors import UsageError

_AXIS = re.compile(r"(?P<input>[A-Za-z_][\w.]*)\.(?P<axis>\d+)=(?:(?P<factor>\d+)\*)?(?P<symbol>[A-Za-z_]\w*)")
_RANGE = re.compile(r"(?P<symbol>[A-Za-z_]\w*)=(?P<low>\d+)?\.\.(?P<high>\w+)?")


def parse_ranges(texts: list[str], config: dict[str, Any]) -> dict[str, tuple[int | None, int | None]]:
    """`tokens=4..4096`; either end may be left out, the upper one may name an entry of the configuration."""
    ranges: dict[str, tuple[int | None, int | None]] = {}
    for text in texts:
        match = _RANGE.fullmatch(text)
        high = match and match["high"]
        if high and not high.isdigit():
            high = config.get(high)
        if not match or (match["high"] and high is None):
            raise UsageError(f"--range {text}: write SYMBOL=MIN..MAX, for example tokens=4..4096")
        ranges[match["symbol"]] = (int(match["low"]) if match["low"] else None, int(high) if high else None)
    return ranges


def dynamic_shapes(axes: list[str], ranges: dict[str, tuple[int | None, int | None]], kwargs: dict[str, Any]) -> Any:
    """The argument `dynamic_shapes` of torch.export for a call with `kwargs`: None when nothing is symbolic."""
    named: dict[str, dict[int, Any]] = {}
    symbols: dict[str, Any] = {}
    for text in axes:
        match = _AXIS.fullmatch(text)
        if not match:
            raise UsageError(
                f"--dynamic {text}: write INPUT.AXIS=SYMBOL or INPUT.AXIS=2*SYMBOL, for example hidden_states.1=tokens"
            )
        name = match["symbol"]
        if name not in symbols:
            low, high = ranges.get(name, (None, None))
            symbols[name] = Dim(
                name, **{key: bound for key, bound in (("min", low), ("max", high)) if bound is not None}
            )
        factor = int(match["factor"] or 1)
        named.setdefault(match["input"], {})[int(match["axis"])] = (
            symbols[name] if factor == 1 else factor * symbols[name]
        )
    unused = sorted(set(ranges) - set(symbols))
    if unused:
        raise UsageError(f"--range names {', '.join(unused)}, which no --dynamic has")
    return _place(named, kwargs) if named else None


def _place(named: dict[str, dict[int, Any]], kwargs: dict[str, Any]) -> Any:
    """Puts the symbolic axes at their places in the tree of arguments."""
    left = dict(named)

    def axes_of(path: tuple, leaf: Any) -> Any:
        name = ".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)
        axes = left.pop(name, None)
        if axes is None:
            return None
        if not isinstance(leaf, Tensor):
            raise UsageError(f"--dynamic {name}: not a tensor in this call")
        if max(axes) >= leaf.dim():
            raise UsageError(f"--dynamic {name}.{max(axes)}: the tensor has shape {list(leaf.shape)}")
        for axis in axes:
            if leaf.shape[axis] < 2:
                raise UsageError(
                    f"--dynamic {name}.{axis}: the example has size {leaf.shape[axis]} there, which torch.export keeps "
                    "as a constant; export with 2 or more (--batch 2), the file works for 1 too"
                )
        return axes

    shapes = pytree.tree_map_with_path(axes_of, kwargs)
    if left:
        raise UsageError(f"--dynamic: no input is called {', '.join(left)}; there are {', '.join(kwargs)}")
    return shapes
