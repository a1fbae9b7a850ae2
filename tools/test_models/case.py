# SPDX-License-Identifier: Apache-2.0
"""A test model: a module, the calls that it is tested with, and how to write it into a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from exporter import naming, program
from exporter.folder import Call, check_reload, describe, save_tensors, write_notes


@dataclass
class TestModel:
    """One folder of tests/models. The first call is the one that is exported."""

    name: str
    description: str
    module: Callable[[], nn.Module]
    calls: dict[str, Call]  # bucket name -> arguments; the name "" is for models with one bucket
    dynamic_shapes: Any = None
    core: bool = False  # also write model_core.pt2
    deferred_checks: bool = False  # see exporter.program.export_program
    strict: bool = False  # traced by TorchDynamo
    seed: int = 0
    parent: str = "models"

    def write(self, folder: Path) -> None:
        """Exports, saves, checks that the file computes what the module does, and notes what is in it."""
        folder.mkdir(parents=True)
        model = seeded(self.module, self.seed)
        first = next(iter(self.calls.values())).fresh()
        exported = program.export_program(
            model,
            first.args,
            first.kwargs,
            self.dynamic_shapes,
            deferred_checks=self.deferred_checks,
            strict=self.strict,
        )
        program.save_program(exported, folder / "model.pt2")
        notes = {
            "name": self.name,
            "description": self.description,
            "class": type(model).__name__,
            "torch": torch.__version__,
        }
        notes |= self._write_calls(model, folder)
        if self.dynamic_shapes:
            notes["symbols"] = program.symbol_ranges(exported)
            notes["symbolic_shapes"] = program.symbolic_shapes(exported)
        notes["ops"] = program.count_operations(exported)
        if self.core:
            notes["core_ops"] = self._write_core(exported, model, folder)
        write_notes(notes, folder / "notes.json")

    def _write_calls(self, model: nn.Module, folder: Path) -> dict[str, Any]:
        """Writes inputs and golden outputs of every call. Returns their description."""
        notes: dict[str, Any] = {}
        for bucket, call in self.calls.items():
            suffix = f"_{bucket}" if bucket else ""
            inputs, outputs = naming.name_inputs(model.forward, call.args, call.kwargs), call.run(model)
            check_reload(folder / "model.pt2", call, outputs)
            save_tensors(inputs, folder / f"inputs{suffix}.safetensors")
            save_tensors(outputs, folder / f"outputs{suffix}.safetensors", numbers=True)
            tables = {"inputs": describe(inputs), "outputs": describe(outputs)}
            if bucket:
                notes.setdefault("buckets", {})[bucket] = tables
            else:
                notes |= tables
        return notes

    def _write_core(self, exported: torch.export.ExportedProgram, model: nn.Module, folder: Path) -> dict[str, int]:
        """Writes the core ATen form. Returns its operations."""
        core = program.core_program(exported)
        program.save_program(core, folder / "model_core.pt2")
        for call in self.calls.values():
            check_reload(folder / "model_core.pt2", call, call.run(model), loose=True)
        return program.count_operations(core)


def seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Calls `make` with torch's generator at `seed`, and leaves the generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def randn(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normally distributed numbers that depend on `seed` alone."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def randint(low: int, high: int, *shape: int, seed: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Integers of [low, high) that depend on `seed` alone."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
