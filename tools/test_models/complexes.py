# SPDX-License-Identifier: Apache-2.0
"""Complex numbers as rotary embeddings use them. Inputs and outputs are real."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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


class Products(nn.Module):
    """Linear layers and products whose operands are complex, or one of them; padding by a number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.view_as_complex(randn(5, 4, 2, seed=8)))
        self.bias = nn.Parameter(torch.view_as_complex(randn(5, 2, seed=9)))

    def forward(self, q: Tensor, other: Tensor) -> Results:
        """q (2, 3, 8) has 4 complex numbers a row, other (4, 10) has 5."""
        z, w = (torch.view_as_complex(x.unflatten(-1, (-1, 2))) for x in (q, other))
        out = {
            "linear": F.linear(z, self.weight, self.bias),
            "linear_no_bias": F.linear(z, self.weight),
            "linear_vector": F.linear(z[0, 0], self.weight, self.bias),
            "addmm": torch.addmm(self.bias, z[0], w),
            "addmm_scaled": torch.addmm(z[0, :, :1], z[1], w, alpha=2, beta=0.5),
            "addmm_beta_0": torch.addmm(z[0, :, :1] * float("nan"), z[1], w, beta=0),
            "baddbmm": torch.baddbmm(self.bias, z, w.expand(2, 4, 5)),
            "mv": torch.mv(z[0], w[:, 0]),
            "dot": torch.dot(z[0, 0], w[:, 1]),
            "vdot": torch.vdot(z[0, 0], w[:, 1]),
            "outer": torch.outer(z[0, 0], w[0]),
            "pad": F.pad(z, (1, 2), value=1.5),
            "pad_sequence": nn.utils.rnn.pad_sequence([w[:2], w], padding_value=0.5, padding_side="left"),
        }
        return {name: torch.view_as_real(value) for name, value in out.items()}


def models() -> list[TestModel]:
    inputs = (randn(2, 3, 2, 8, seed=1), randn(3, 4, seed=2), randint(0, 12, 5, seed=3))
    packed = (randn(3, 3, 2, 8, seed=4), randn(3, 4, seed=5))
    products = (randn(2, 3, 8, seed=6), randn(4, 10, seed=7))
    return [
        TestModel("ops_complex_products", "products of complex tensors, padding", Products, {"": Call(products)}),
        TestModel("ops_complex", "complex tables and rotations", Complex, {"": Call(inputs)}),
        TestModel("complex_sequences", "complex tables of several lengths", Sequences, {"": Call(packed)}),
    ]
