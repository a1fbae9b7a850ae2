# SPDX-License-Identifier: Apache-2.0
"""Operations that ask how elements are distributed: quantiles, modes, histograms, distances; and sums that skip NaN."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randint, randn

Results = dict[str, Tensor]


def among_numbers(x: Tensor) -> Results:
    """Of x (3, 5), whose last line has only NaN."""
    results = {
        f"nanquantile_{mode}": torch.nanquantile(x, 0.37, dim=1, interpolation=mode)
        for mode in ("linear", "lower", "higher", "midpoint", "nearest")
    }
    return results | {
        "nanquantile_list": torch.nanquantile(x, torch.tensor([0.1, 0.5, 1.0]), dim=0, keepdim=True),
        "nanquantile_all": torch.nanquantile(x, 0.61),
        "nanquantile_f64": torch.nanquantile(x.double(), 0.3, dim=1),
        "nanmedian": x.nanmedian(),
        "nanmedian_values": x.nanmedian(0)[0],
        "nanmedian_indices": x.nanmedian(0, keepdim=True)[1],
        "nanmedian_bf16": x.bfloat16().nanmedian(1)[0],
        "nanmean": x.nanmean(),
        "nanmean_dim": x.nanmean(1, keepdim=True),
        "nanmean_bf16": x.bfloat16().nanmean(0),
    }


def counts(y: Tensor, i: Tensor) -> Results:
    """Of y (4, 6) and integers i (3, 9)."""
    return {
        "mode_values": i.mode(1)[0],
        "mode_indices": i.mode(0, keepdim=True)[1],
        "mode_float": i.float().mode()[0],
        "nanmedian_integers": i.nanmedian(1)[0],
        "histc": torch.histc(y, 5, -1, 1),
        "histc_range": torch.histc(y, 4),
        "histc_point": torch.histc(torch.full_like(y, 2.0), 4),
        "searchsorted_lines": torch.searchsorted(y.sort().values, y.flip(0)),
        "searchsorted_sorter": torch.searchsorted(y, y + 0.1, sorter=y.argsort(), right=True),
    }


def lengths(y: Tensor) -> Results:
    """Of y (4, 6)."""
    large = torch.cat([y * 200, y.new_full((1, 6), float("-inf"))])
    return {
        "logcumsumexp": y.logcumsumexp(1),
        "logcumsumexp_large": large.logcumsumexp(0),
        "logcumsumexp_bf16": y.bfloat16().logcumsumexp(-1),
        "logcumsumexp_0d": y[0, 0].logcumsumexp(0),
        "renorm": torch.renorm(y, 2, 0, 1.5),
        "renorm_1": torch.renorm(y.view(2, 2, 6), 1, 1, 6.0),
        "pdist": F.pdist(y),
        "pdist_inf": F.pdist(y, float("inf")),
    }


class Distributions(nn.Module):
    def forward(self, x: Tensor, y: Tensor, i: Tensor) -> Results:
        return among_numbers(x) | counts(y, i) | lengths(y)


def models() -> list[TestModel]:
    x = randn(3, 5, seed=1)
    x[0, 2] = x[1, 0] = float("nan")
    x[2] = float("nan")
    inputs = (x, randn(4, 6, seed=2), randint(0, 4, 3, 9, seed=3))
    return [
        TestModel(
            "ops_distributions",
            "quantiles and means of what is a number, modes, histograms, running log-sums, distances",
            Distributions,
            {"": Call(inputs)},
        )
    ]
