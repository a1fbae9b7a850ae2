# SPDX-License-Identifier: Apache-2.0
"""Complex numbers as rotary embeddings use them. Inputs and outputs are real."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from exporter.folder import Call
from test_models.case import TestModel, randint, randn

Results = dict[str, Tensor]


class Complex(nn.Module):
    """Tables are complex buffers, one in the state dict and one plain attribute (a lifted constant)."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(12.0), 1.0 / 100.0 ** (torch.arange(4.0) / 4))
        self.register_buffer("table", torch.polar(torch.ones_like(angles), angles))
        self.register_buffer(
            "doubles", torch.polar(torch.ones_like(angles), angles).to(torch.complex128), persistent=False
        )
        self.attribute = torch.complex(angles.cos(), -angles.sin())

    def forward(self, q: Tensor, angles: Tensor, positions: Tensor) -> Results:
        return self.rotations(q) | self.parts(q, angles) | self.tables(q, positions)

    def rotations(self, q: Tensor) -> Results:
        """q (2, 3 tokens, 2 heads, 8): pairs of elements become complex numbers."""
        z = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        turned = z * self.table[:3, None]
        split = torch.view_as_complex(q.unflatten(-1, (2, 4)).movedim(-2, -1).contiguous())
        return {
            "rope": torch.view_as_real(turned).flatten(3).type_as(q),
            "rope_attribute": torch.view_as_real(z * self.attribute[4:7, None]).flatten(3),
            "rope_f64": torch.view_as_real(z.to(torch.complex128) * self.doubles[1:4, None]).flatten(3).float(),
            "rope_bf16": torch.view_as_real(
                torch.view_as_complex(q.bfloat16().float().unflatten(-1, (4, 2))) * self.table[:3, None]
            )
            .flatten(3)
            .bfloat16(),
            "half_split": torch.view_as_real(split * self.table[:3, None]).movedim(-1, -2).flatten(-2),
        }

    def parts(self, q: Tensor, angles: Tensor) -> Results:
        """Arithmetic and parts of complex numbers."""
        z = torch.view_as_complex(q.unflatten(-1, (4, 2)).contiguous())
        unit = torch.polar(torch.ones_like(angles), angles)
        cartesian = torch.complex(angles.cos(), angles.sin())
        product = z[0, :, 0] * unit
        return {
            "real": z.real,
            "imag": z.imag,
            "view_real": torch.view_as_real(z),
            "real_fn": torch.real(product),
            "imag_fn": torch.imag(product),
            "abs": z.abs(),
            "angle": torch.angle(z),
            "conj": torch.view_as_real(z.conj().resolve_conj()),
            "conj_times": torch.view_as_real(z * z.conj()),
            "polar_length": torch.view_as_real(torch.polar(angles.abs() + 0.5, angles)),
            "complex": torch.view_as_real(cartesian),
            "add": torch.view_as_real(z + z.flip(0)),
            "sub": torch.view_as_real(z - unit[:, None]),
            "neg": torch.view_as_real(-z),
            "times_real": torch.view_as_real(z * 0.5),
            "times_real_tensor": torch.view_as_real(product * angles),
            "plus_real": torch.view_as_real(z + 1.0),
            "div": torch.view_as_real(product / cartesian),
            "square": torch.view_as_real(z * z),
            "times_i": torch.view_as_real(z * 1j),
            "sum": torch.view_as_real(z.sum(dim=1)),
            "exp": torch.view_as_real(torch.exp(1j * angles)),
        }

    def tables(self, q: Tensor, positions: Tensor) -> Results:
        """Complex tensors moved around before they are used."""
        table = self.table
        picked = table[positions]
        gathered = torch.gather(table, 0, positions[:, None].expand(-1, 4))
        joined = torch.cat([table[2:4], table[-2:]], dim=0)
        grid = torch.cat([table[:2, None, :2].expand(2, 3, 2), table[None, :3, 2:].expand(2, 3, 2)], dim=-1).reshape(
            6, 4
        )
        out = {
            "index": picked,
            "gather": gathered,
            "index_select": table.index_select(0, positions),
            "cat": joined,
            "grid": grid,
            "stack": torch.stack([table[0], table[5]]),
            "slice": table[1::3, 1:3],
            "negative": table[-(5 - 5 // 2) :],
            "transpose": table[:3].t(),
            "split": table.split([1, 3], dim=1)[1][:2],
            "repeat": table[:1].repeat(2, 1),
            "repeat_interleave": table[:2].repeat_interleave(2, dim=0),
            "pad": torch.cat([table[:1], torch.zeros(2, 4, dtype=table.dtype)]),
            "where": torch.where(positions[:, None] > 3, picked, gathered * 2),
        }
        return {name: torch.view_as_real(value.contiguous()) for name, value in out.items()}


class Sequences(nn.Module):
    """Tables of sequences of different lengths in one tensor, as models with packed batches have them."""

    def forward(self, q: Tensor, angles: Tensor) -> Tensor:
        table = torch.polar(torch.ones_like(angles), angles)
        tables = torch.nn.utils.rnn.pad_sequence([table[:2], table, table[1:2]], batch_first=True)
        turned = torch.view_as_complex(q.unflatten(-1, (4, 2))) * tables[:, :, None]
        return torch.view_as_real(turned).flatten(3)


def models() -> list[TestModel]:
    inputs = (randn(2, 3, 2, 8, seed=1), randn(3, 4, seed=2), randint(0, 12, 5, seed=3))
    packed = (randn(3, 3, 2, 8, seed=4), randn(3, 4, seed=5))
    return [
        TestModel("ops_complex", "complex tables and rotations", Complex, {"": Call(inputs)}),
        TestModel("complex_sequences", "complex tables of several lengths", Sequences, {"": Call(packed)}),
    ]
