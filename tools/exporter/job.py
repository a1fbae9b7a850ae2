# SPDX-License-Identifier: Apache-2.0
"""One export from beginning to end: the model, its inputs, the program, golden outputs, notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from exporter import build, dynamic, naming, program
from exporter.folder import Call, check_reload, describe, save_tensors, tensors, write_notes
from exporter.recipe import Recipe


@dataclass
class Job:
    """Everything that decides what is written."""

    class_name: str
    config: dict[str, Any]
    folder: Path
    dtype: str  # f32, bf16, f16
    calls: dict[str, dict[str, Any]]  # bucket -> keyword arguments in f32; "" is the one that is exported
    recipe: Recipe | None = None
    recipe_name: str = ""  # for the notes: with its size
    checkpoint: Path | None = None
    graph_only: bool = False
    seed: int = 0
    axes: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    core: bool = False
    golden: bool = True
    keep_traces: bool = False
    deferred_checks: bool = False
    comments: dict[str, Any] = field(default_factory=dict)  # what else notes.json shall say

    def run(self) -> dict[str, Any]:
        """Writes the folder. Returns what it wrote into notes.json."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for pattern in ("inputs*.safetensors", "outputs*.safetensors", "model*.pt2"):
            for stale in self.folder.glob(pattern):  # of an earlier export with other options
                stale.unlink()
        torch_dtype = build.DTYPES[self.dtype]
        model, mode = self._model(torch_dtype)
        if self.recipe and self.recipe.prepare:
            self.recipe.prepare(model)
        kept = self.recipe.kept_fp32 if self.recipe else frozenset()
        calls = {bucket: Call((), kwargs).cast_floats(torch_dtype, kept) for bucket, kwargs in self.calls.items()}

        first = calls[""].fresh().kwargs
        shapes = dynamic.dynamic_shapes(self.axes, dynamic.parse_ranges(self.ranges, self.config), first)
        arguments = build.fake(first, mode) if mode else first
        exported = program.export_program(model, (), arguments, shapes, self.keep_traces, self.deferred_checks)
        program.save_program(exported, self.folder / "model.pt2")
        notes = self._notes(model, exported)
        for bucket, call in calls.items():
            rows = self._write_call(model, bucket, call)
            notes.update(rows if not bucket else {"buckets": notes.get("buckets", {}) | {bucket: rows}})
        if self.core:
            core = program.core_program(exported)
            program.save_program(core, self.folder / "model_core.pt2")
            if self.golden:
                check_reload(self.folder / "model_core.pt2", calls[""], calls[""].run(model), loose=True)
            notes["core_ops"] = program.count_operations(core)
        write_notes(notes, self.folder / "notes.json")
        return notes

    def _model(self, dtype: torch.dtype) -> tuple[nn.Module, Any]:
        """The model, and the mode for its inputs when it has no weights."""
        if self.graph_only:
            return build.weightless_model(self.class_name, self.config, dtype)
        if self.checkpoint:
            return build.checkpoint_model(self.class_name, self.checkpoint, dtype), None
        return build.random_model(self.class_name, self.config, dtype, self.seed), None

    def _notes(self, model: nn.Module, exported: torch.export.ExportedProgram) -> dict[str, Any]:
        """Where the model comes from and what is in the graph."""
        import diffusers

        weights = "none" if self.graph_only else "checkpoint" if self.checkpoint else f"random, seed {self.seed}"
        notes = self.comments | {
            "recipe": self.recipe_name,
            "class": self.class_name,
            "config": _plain(self.config),
            "dtype": self.dtype,
            "weights": weights,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "torch": torch.__version__,
            "diffusers": diffusers.__version__,
        }
        if self.axes:
            notes |= {
                "dynamic": self.axes,
                "symbols": program.symbol_ranges(exported),
                "symbolic_shapes": program.symbolic_shapes(exported),
            }
        return notes | {"ops": program.count_operations(exported)}

    def _write_call(self, model: nn.Module, bucket: str, call: Call) -> dict[str, Any]:
        """Writes inputs and golden outputs of one bucket. Returns their description."""
        suffix = f"_{bucket}" if bucket else ""
        inputs = naming.name_inputs(model.forward, call.args, call.kwargs)
        rows: dict[str, Any] = {"inputs": describe(inputs)}
        save_tensors(inputs, self.folder / f"inputs{suffix}.safetensors")
        if self.graph_only or not self.golden:
            return rows
        eager = call.run(model)
        check_reload(self.folder / "model.pt2", call, eager)
        reference = eager
        if self.dtype != "f32":
            save_tensors(eager, self.folder / f"outputs{suffix}_{self.dtype}.safetensors")
            reference = call.cast_floats(torch.float32).run(build.float32_twin(model))
            rows["eager_error"] = {name: _relative_error(eager[name], value) for name, value in tensors(reference).items()}
        save_tensors(reference, self.folder / f"outputs{suffix}.safetensors")
        return rows | {"outputs": describe(eager)}


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    """Without diffusers' private entries."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in config.items()
        if not key.startswith("_")
    }


def _relative_error(value: torch.Tensor, reference: torch.Tensor) -> float:
    """L2 error of a low-precision run, relative to float32."""
    return round(((value.float() - reference).norm() / reference.norm()).item(), 6)
