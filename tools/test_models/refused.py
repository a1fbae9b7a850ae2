# SPDX-License-Identifier: Apache-2.0
"""Programs that ditc refuses: each has one thing that cannot be compiled for fixed sizes ahead of time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from exporter import program
from exporter.folder import write_notes
from test_models.case import randn, seeded


@torch.library.custom_op("ditc_test::scale", mutates_args=())
def _scale(x: Tensor, factor: float) -> Tensor:
    """An operation that is not PyTorch's."""
    return x * factor


@_scale.register_fake
def _(x: Tensor, factor: float) -> Tensor:
    return torch.empty_like(x)


class Block(nn.Module):
    """What surrounds the offending line, so that messages have a module to name."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.bad(self.proj(x))

    def bad(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class Random(Block):
    def bad(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x)


class Dropout(Block):
    def bad(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5, training=True)


class Nonzero(Block):
    def bad(self, x: Tensor) -> Tensor:
        return x[torch.nonzero(x[:, 0] > 0)[:, 0]]


class BooleanIndex(Block):
    def bad(self, x: Tensor) -> Tensor:
        return x[x[:, 0] > 0].sum(0)


class MaskedOrder(Block):
    """Rows by a mask are written back by it, but not row by row."""

    def bad(self, x: Tensor) -> Tensor:
        mask = x[:, 0] > 0
        rows = x[mask]
        written = x.clone()
        written[mask] = rows - rows.mean(0)
        return written


class Item(Block):
    def bad(self, x: Tensor) -> Tensor:
        return x * x.argmax().item()


class Custom(Block):
    def bad(self, x: Tensor) -> Tensor:
        return torch.ops.ditc_test.scale(x, 2.0)


class Condition(Block):
    def bad(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))


class DataLoop(Block):
    def bad(self, x: Tensor) -> Tensor:
        return torch.while_loop(lambda t: t.sum() < 10, lambda t: (t * 2,), (x.abs() + 1,))[0]


class Mapped(Block):
    def bad(self, x: Tensor) -> Tensor:
        return torch.vmap(torch.sin)(x)


class Factorised(Block):
    def bad(self, x: Tensor) -> Tensor:
        return torch.linalg.qr(x)[0]


class WritesInput(Block):
    def forward(self, x: Tensor) -> Tensor:
        x.add_(1.0)
        return self.proj(x)


class WritesBuffer(Block):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(4))

    def bad(self, x: Tensor) -> Tensor:
        self.steps.add_(1.0)
        return x + self.steps


class WideHead(Block):
    def bad(self, x: Tensor) -> Tensor:
        heads = x.reshape(1, 1, 12, 1).expand(1, 1, 12, 520)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads)


class SizeDependsOnData(Block):
    def bad(self, x: Tensor) -> Tensor:
        count = (x > 0).sum().item()
        torch._check(count >= 0)
        return torch.zeros(count, 4)


class Nested(nn.Module):
    """Calls `block` one level down."""

    def __init__(self, block: type[Block]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([block()])

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks[0](x)


@dataclass
class RefusedModel:
    """One folder of tests/errors/models; there is nothing to compare, so it has no inputs and outputs."""

    name: str
    description: str
    block: type[Block]
    parent: str = "errors/models"

    def write(self, folder: Path) -> None:
        """Exports, and notes why it is refused."""
        folder.mkdir(parents=True)
        model = seeded(lambda: Nested(self.block), 0)
        exported = program.export_program(model, (randn(3, 4, seed=1),), {})
        program.save_program(exported, folder / "model.pt2")
        write_notes(
            {
                "name": self.name,
                "description": self.description,
                "torch": torch.__version__,
                "module": "blocks.0",
                "ops": program.count_operations(exported),
            },
            folder / "notes.json",
        )


def models() -> list[RefusedModel]:
    return [
        RefusedModel("random", "random numbers in the graph", Random),
        RefusedModel("dropout", "dropout that is on", Dropout),
        RefusedModel("nonzero", "nonzero: the size of the result depends on data", Nonzero),
        RefusedModel("boolean_index", "indexing by a mask: the size of the result depends on data", BooleanIndex),
        RefusedModel("masked_order", "rows by a mask that are not computed one by one", MaskedOrder),
        RefusedModel("item", "a number read out of a tensor", Item),
        RefusedModel("data_size", "a tensor whose size is read out of a tensor", SizeDependsOnData),
        RefusedModel("custom_op", "an operation that is not PyTorch's", Custom),
        RefusedModel("cond", "control flow that depends on data", Condition),
        RefusedModel("while_loop", "a loop until data says so", DataLoop),
        RefusedModel("vmap", "torch.vmap that was not decomposed", Mapped),
        RefusedModel("unknown_op", "an operation of PyTorch that ditc does not know", Factorised),
        RefusedModel("writes_input", "a write into an input", WritesInput),
        RefusedModel("writes_buffer", "a write into a buffer", WritesBuffer),
        RefusedModel("wide_head", "attention with heads that are too wide for a GPU", WideHead),
    ]
