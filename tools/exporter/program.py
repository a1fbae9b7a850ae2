# SPDX-License-Identifier: Apache-2.0
"""Runs torch.export, slims the program down, saves it, and says what is in it."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._dynamo.exc import UserError
from torch.export import ExportedProgram

from exporter.errors import UsageError

#: Node metadata that a compiler does not read and that is most of the JSON: stack traces and histories of
#: nodes. `nn_module_stack` stays, it names the module of each node.
_UNREAD_METADATA = ("stack_trace", "from_node", "source_fn_stack", "torch_fn", "custom")


def export_program(
    model: nn.Module,
    args: tuple,
    kwargs: dict[str, Any],
    dynamic_shapes: Any = None,
    keep_traces: bool = False,
    deferred_checks: bool = False,
    strict: bool = False,
) -> ExportedProgram:
    """Exports `model` called with these arguments, un-decomposed. The result holds no example inputs.

    `deferred_checks`: what torch cannot prove of symbolic sizes becomes a check in the graph, not an error."""
    model.eval().requires_grad_(False)
    try:
        program = torch.export.export(
            model,
            args,
            kwargs,
            dynamic_shapes=dynamic_shapes,
            strict=strict,
            prefer_deferred_runtime_asserts_over_guards=deferred_checks,
        )
    except UserError as error:
        raise UsageError(_explain(str(error))) from error
    return slim(program, keep_traces)


def _explain(message: str) -> str:
    """What torch.export says about sizes, without its hints for developers of PyTorch."""
    lines = [line for line in message.splitlines() if line.strip() and "TORCH_LOGS" not in line]
    told = "\n".join(dict.fromkeys(line for line in lines if "draft_export" not in line and "mark_dynamic" not in line))
    fixed = "specialized" in message
    advice = (
        "a size marked as symbolic is a number for the model's code"
        if fixed
        else "narrow --range, or try --deferred-checks"
    )
    return f"torch.export refuses: {advice}\n{told}".rstrip()


def slim(program: ExportedProgram, keep_traces: bool = False) -> ExportedProgram:
    """Drops example inputs, and the metadata of nodes that nobody reads. Works in place.

    Also orders the symbols, which come out of a set: the same export twice shall give the same file."""
    program.example_inputs = None
    ranges = program.range_constraints
    ordered = sorted(ranges.items(), key=lambda item: str(item[0]))
    ranges.clear()
    ranges.update(ordered)
    if not keep_traces:
        for node in _nodes(program):
            for key in _UNREAD_METADATA:
                node.meta.pop(key, None)
    return program


def core_program(program: ExportedProgram) -> ExportedProgram:
    """The same program in core ATen (functional, composite operations taken apart)."""
    return slim(program.run_decompositions())


def save_program(program: ExportedProgram, path: Path) -> None:
    """Writes `path`; the folder inside the archive is called after the file's stem."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "no example inputs": wanted
        torch.export.save(program, path)


def load_module(path: Path) -> nn.Module:
    """Reads a file back as a module that can be called."""
    return torch.export.load(path).module()


def count_operations(program: ExportedProgram) -> dict[str, int]:
    """Target -> how often, over the whole program and its subgraphs, sorted by name."""
    counts: Counter[str] = Counter()
    for node in _nodes(program):
        if node.op == "call_function":
            counts[_target_name(node.target)] += 1
    counts.pop("_operator.getitem", None)  # not in the file: lists are results of their own there
    return dict(sorted(counts.items()))


def symbol_ranges(program: ExportedProgram) -> dict[str, list[int | None]]:
    """Symbolic sizes -> [smallest, largest]; None means no bound."""

    def bound(value: Any) -> int | None:
        return int(value) if value.is_finite and abs(value) < 2**62 else None

    return {str(symbol): [bound(span.lower), bound(span.upper)] for symbol, span in program.range_constraints.items()}


def symbolic_shapes(program: ExportedProgram) -> dict[str, list[str | int]]:
    """Placeholder -> shape, for the user inputs with a symbolic size."""
    wanted = set(program.graph_signature.user_inputs)
    shapes: dict[str, list[str | int]] = {}
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and node.name in wanted and isinstance(value, torch.Tensor):
            shape = [size if isinstance(size, int) else str(size) for size in value.shape]
            if any(isinstance(size, str) for size in shape):
                shapes[node.name] = shape
    return shapes


def _nodes(program: ExportedProgram):
    """All nodes, those of subgraphs (no_grad, autocast regions) too."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.nodes


def _target_name(target: Any) -> str:
    """The spelling that the file uses: torch.ops.aten.add.Tensor, torch.ops.higher_order.cond, _operator.mul."""
    if isinstance(target, torch._ops.OpOverload):
        return f"torch.ops.{target}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}"
    return f"{target.__module__}.{target.__name__}"
