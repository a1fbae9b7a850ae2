# SPDX-License-Identifier: Apache-2.0
"""Operations that read or write at places that a tensor names."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randint, randn

Results = dict[str, Tensor]


def reads(x: Tensor, i: Tensor, rows: Tensor, order: Tensor) -> Results:
    """x (3, 4, 5), i (2, 3) of [0, 3), rows (4) of [-3, 3), order (3, 4, 2) of [0, 5)."""
    return {
        "index": x[i],
        "index_negative": x[rows],
        "index_two": x[rows, torch.arange(4)],
        "index_middle": x[:, rows],
        "index_last": x[..., rows],
        "index_split": x[i, :, i],
        "index_outer": x[rows[:, None], torch.tensor([1, 3])],
        "index_none": x[:, None, rows],
        "index_one": x[i[:1, 0]],
        "index_number": x[i[1, 0]],
        "index_number_negative": x[:, rows[0] - 4],
        "index_int32": x[i.int()],
        "index_list": x[[2, 0]],
        "index_after_slice": x[1:, rows.abs()[:2], ::2],
        "index_constant": x[torch.tensor([0, 2, 2])],
        "index_all": x[i[:, 0], i[:, 1], i[:, 2]],
        "index_select": x.index_select(0, i[0]),
        "index_select_last": torch.index_select(x, -1, torch.tensor([4, 0, 4])),
        "gather": x.gather(2, order),
        "gather_small": x.gather(0, i[None, :, :]),
        "take": torch.take(x, i * 7),
        "take_along_dim": torch.take_along_dim(x, x.argsort(-1), dim=-1),
        "take_along_broadcast": torch.take_along_dim(x, order[:1], dim=2),
        "embedding": F.embedding(i, x[0, :, :3]),
        "embedding_padding": F.embedding(i, x[0], padding_idx=0),
        "unravel": x.flatten()[i * 5 + 1],
        "int_table": (torch.arange(12) * 3)[i],
        "bool_table": (x[:, 0, 0] > 0)[i],
    }


def writes(x: Tensor, i: Tensor, order: Tensor) -> Results:
    """Writes that make a new tensor. Places are unique wherever the result would depend on the order."""
    zeros, places = torch.zeros_like(x), order.argsort(-1)
    return {
        "scatter": zeros.scatter(2, places, x[..., :2]),
        "scatter_value": x.scatter(1, places.transpose(1, 2)[:, :1], -1.0),
        "scatter_add": zeros.scatter_add(2, order, x[..., :2]),
        "scatter_reduce_sum": x.scatter_reduce(2, order, x[..., :2], "sum"),
        "scatter_reduce_amax": x.scatter_reduce(2, order, x[..., :2], "amax", include_self=False),
        "scatter_reduce_mean": x.scatter_reduce(2, order, x[..., :2], "mean"),
        "index_put": x.index_put((torch.tensor([0, 2]),), x[1]),
        "index_put_two": x.index_put((torch.tensor([0, 2]), torch.tensor([3, 1])), torch.tensor(9.0)),
        "index_put_add": zeros.index_put((i[0], i[1]), torch.ones(3, 5), accumulate=True),
        "index_add": x.index_add(1, i[0], x[:, :3]),
        "index_add_alpha": x.index_add(0, torch.tensor([1, 1]), x[:2], alpha=-2.0),
        "index_copy": x.index_copy(2, torch.tensor([4, 0]), x[..., 1:3]),
        "index_fill": x.index_fill(1, torch.tensor([0, 3]), 0.5),
        "index_add_number": x[0, 0, 0].index_add(0, torch.tensor([0]), x[0, 0, 1]),
        "select_scatter": x.select_scatter(x[0], 0, 2),
        "slice_scatter": x.slice_scatter(x[:, :2], 1, 1, 4, 2),
        "diagonal_scatter": torch.diagonal_scatter(x[0], torch.ones(4)),
        "put": torch.put(x, torch.tensor([3, 59]), torch.tensor([1.0, 2.0])),
        "one_hot_scatter": torch.zeros(3, 6).scatter(1, i[0][:, None], 1.0),
    }


def choices(x: Tensor, y: Tensor, mask: Tensor, edges: Tensor) -> Results:
    """Choosing by a mask, and finding places in a sorted table."""
    return {
        "where": torch.where(mask, x, y),
        "where_scalar": torch.where(mask, x, 0.0),
        "where_scalar_first": torch.where(mask, -1.0, x),
        "where_scalars": torch.where(mask, 1, 0),
        "where_broadcast": torch.where(mask[:1, :, None, 0], x, y),
        "where_types": torch.where(mask, x.half(), y),
        "where_int": torch.where(mask, torch.tensor(3), torch.arange(5)),
        "where_method": x.where(x > y, y),
        "masked_fill": x.masked_fill(mask, float("-inf")),
        "masked_fill_tensor": x.masked_fill(mask, torch.tensor(2.0)),
        "masked_fill_broadcast": x.masked_fill(mask[:, :1], 0.25),
        "mask_times": x * mask,
        "mask_bias": (1 - mask.to(x.dtype)) * -10000.0,
        "mask_invert": x.masked_fill(~mask, 1e-4),
        "bucketize": torch.bucketize(x, edges),
        "bucketize_right": torch.bucketize(x, edges, right=True),
        "searchsorted": torch.searchsorted(edges, x),
        "histogram_free": (x[..., None] > edges).sum(-1),
        "isin": torch.isin(torch.arange(6), torch.tensor([1, 4])),
        "bucketize_int32": torch.bucketize(x, edges, out_int32=True),
    }


class Indexing(nn.Module):
    """Learned tables too."""

    def __init__(self) -> None:
        super().__init__()
        self.labels = nn.Embedding(3, 4)
        self.table = nn.Parameter(torch.randn(9, 9, 2))

    def forward(
        self, x: Tensor, y: Tensor, i: Tensor, rows: Tensor, order: Tensor, mask: Tensor, edges: Tensor
    ) -> Results:
        grid = torch.arange(3)
        relative = (grid[:, None] - grid[None]) + 4
        tables = {
            "labels": self.labels(i),
            "relative": self.table[relative, relative.t()],
            "crop": self.table[3:6, 2:7].reshape(1, -1, 2),
        }
        return reads(x, i, rows, order) | writes(x, i, order) | choices(x, y, mask, edges) | tables


class MaskedRows(nn.Module):
    """Reads by a mask whose rows are written back by the same mask: their number does not matter."""

    def forward(self, x: Tensor, y: Tensor, rows: Tensor, places: Tensor) -> Results:
        scaled = x.clone()
        scaled[rows] *= 0.25
        places_of = x.clone()
        places_of[places] = torch.nn.functional.silu(y[places] * 2 + x[places]).to(x.dtype)
        first = x.clone()
        first[rows] = y[rows] - y[0]
        fallback = torch.zeros_like(x).index_put((rows,), x[rows].half().float().clamp(-1, 1))
        broadcast = x.clone()
        broadcast[rows] = x[rows] * y[0, :, :1] + y[:1]
        return {"scaled": scaled, "places": places_of, "first": first, "fallback": fallback, "broadcast": broadcast}


def models() -> list[TestModel]:
    masked = (randn(3, 4, 5, seed=1), randn(3, 4, 5, seed=2), torch.tensor([True, False, True]))
    chosen = randint(0, 2, 3, 4, seed=6).bool()
    inputs = (
        randn(3, 4, 5, seed=1),
        randn(4, 5, seed=2),
        randint(0, 3, 2, 3, seed=3),
        randint(-3, 3, 4, seed=4),
        randint(0, 5, 3, 4, 2, seed=5),
        randint(0, 2, 3, 4, 5, seed=6).bool(),
        torch.tensor([-1.0, -0.2, 0.3, 1.1]),
    )
    return [
        TestModel("ops_index", "indexing, gathers, scatters, masks, buckets", Indexing, {"": Call(inputs)}),
        TestModel("masked_rows", "rows read and written back by one mask", MaskedRows, {"": Call((*masked, chosen))}),
    ]
