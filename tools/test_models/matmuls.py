# SPDX-License-Identifier: Apache-2.0
"""Matrix products in all spellings."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randn

Results = dict[str, Tensor]


def products(a: Tensor, b: Tensor, batch: Tensor) -> Results:
    """a (4, 6), b (6, 5), batch (3, 4, 6)."""
    batch2, vector, row = batch.mT[..., :5].contiguous(), b[:, 0], a[0]
    return {
        "mm": torch.mm(a, b),
        "mm_transposed": torch.mm(b.t(), a.t()),
        "bmm": torch.bmm(batch, batch.mT),
        "mv": torch.mv(a, vector),
        "dot": torch.dot(row, vector),
        "vdot": torch.vdot(row, vector),
        "inner": torch.inner(a, b.t()),
        "outer": torch.outer(row, vector),
        "ger": torch.ger(row, vector[:3]),
        "matmul_2d": a @ b,
        "matmul_vec_vec": row @ vector,
        "matmul_mat_vec": a @ vector,
        "matmul_vec_mat": row @ b,
        "matmul_batch_mat": batch @ b,
        "matmul_mat_batch": a.t() @ batch,
        "matmul_batch_vec": batch @ vector,
        "matmul_vec_batch": torch.matmul(a[:, 0], batch),
        "matmul_broadcast": batch[:, None] @ batch2[None, :2],
        "matmul_4d": batch[None] @ batch.mT[None],
        "matmul_expand": batch[:1] @ batch.mT,
        "addmm": torch.addmm(b[0], a, b),
        "addmm_scaled": torch.addmm(b[:4], a, b, beta=0.5, alpha=2.0),
        "addmv": torch.addmv(a[:, 1], a, vector),
        "addbmm": torch.addbmm(a[:, :4], batch, batch.mT),
        "baddbmm": torch.baddbmm(a[:, :4], batch, batch.mT),
        "baddbmm_scaled": torch.baddbmm(batch[..., :4], batch, batch.mT, beta=0.0, alpha=0.25),
        "addr": torch.addr(a, a[:, 0], row),
        "chain": torch.linalg.multi_dot([a, b, b.t()]),
        "tensordot": torch.tensordot(batch, b, dims=1),
        "kron": torch.kron(a[:2, :2], b[:2, :3]),
        "empty_k": a[:, :0] @ b[:0],
        "empty_k_dense": torch.relu(a[:, :0]) @ b[:0],
        "one": a[:1, :1] @ b[:1, :1],
        "strided": a[:, ::2] @ b[::2],
        "f64": a.double() @ b.double(),
        "bf16": a.bfloat16() @ b.bfloat16(),
        "f16": a.half() @ b.half(),
        "int": (a * 4).long() @ (b * 4).long(),
    }


def einsums(a: Tensor, b: Tensor, batch: Tensor) -> Results:
    """Contractions, transposes, sums and diagonals by einsum."""
    image = torch.cat([batch, batch], -1).reshape(3, 2, 2, 3, 2, 2)
    return {
        "ein_mm": torch.einsum("ik,kj->ij", a, b),
        "ein_batch": torch.einsum("bik,bjk->bij", batch, batch),
        "ein_outer": torch.einsum("i,j->ij", a[0], b[0]),
        "ein_ellipsis": torch.einsum("...k,kj->...j", batch, b),
        "ein_unpatchify": torch.einsum("nhwpqc->nchpwq", image),
        "ein_sum": torch.einsum("bik->bi", batch),
        "ein_dot": torch.einsum("ik,ik->", a, a),
        "ein_rows": torch.einsum("ik,ik->i", a, a),
        "ein_three": torch.einsum("bik,kj,ij->bi", batch, b, a[:, :5]),
        "ein_implicit": torch.einsum("ik,kj", a, b),
        "ein_diagonal": torch.einsum("ii->i", a[:, :4]),
        "ein_broadcast": torch.einsum("bik,ik->bik", batch, a),
        "ein_freqs": torch.einsum("n,d->nd", torch.arange(4.0), b[:, 0]),
        "ein_heads": torch.einsum("bihd,bjhd->bhij", *[batch.reshape(3, 4, 2, 3)] * 2),
    }


class Matmuls(nn.Module):
    """Linear layers of each shape of input, with and without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 8)
        self.no_bias = nn.Linear(6, 8, bias=False)
        self.narrow = nn.Linear(6, 3)
        self.up = nn.Linear(6, 16)
        self.down = nn.Linear(8, 6)
        self.linear_bf16 = nn.Linear(6, 8, dtype=torch.bfloat16)
        self.linear_f16 = nn.Linear(6, 8, dtype=torch.float16)
        self.two_inputs = nn.Bilinear(6, 6, 3)
        self.tied = self.linear.weight

    def forward(self, a: Tensor, b: Tensor, batch: Tensor) -> Results:
        return products(a, b, batch) | einsums(a, b, batch) | self.linears(a, batch)

    def linears(self, a: Tensor, batch: Tensor) -> Results:
        """Layers; several with one input; feed-forward blocks."""
        gate, value = self.up(batch).chunk(2, dim=-1)
        return {
            "linear": self.linear(batch),
            "linear_2d": self.linear(a),
            "linear_1d": self.linear(a[0]),
            "linear_4d": self.linear(batch.reshape(3, 2, 2, 6)),
            "linear_no_bias": self.no_bias(batch),
            "linear_narrow": self.narrow(batch),
            "linear_tied": F.linear(batch, self.tied),
            "linear_bf16": self.linear_bf16(batch.bfloat16()),
            "linear_f16": self.linear_f16(batch.half()),
            "linear_transposed": self.linear(batch.mT.reshape(3, 4, 6)),
            "linear_cast": F.linear(batch.bfloat16(), self.linear.weight.bfloat16()),
            "swiglu": self.down(F.silu(gate) * value),
            "geglu": self.down(value * F.gelu(gate)),
            "mlp": self.down(F.gelu(self.linear(batch), approximate="tanh")),
            "weight_first": self.linear.weight @ batch.mT,
            "bilinear": self.two_inputs(a, a),
            "empty": self.linear(a[:0]),
            "qkv": torch.cat([self.linear(a), self.no_bias(a), self.narrow(a)], -1),
        }


def models() -> list[TestModel]:
    inputs = (randn(4, 6, seed=1), randn(6, 5, seed=2), randn(3, 4, 6, seed=3))
    return [TestModel("ops_matmul", "matrix products, einsum, linear layers", Matmuls, {"": Call(inputs)})]
