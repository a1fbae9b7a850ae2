# SPDX-License-Identifier: Apache-2.0
"""Operations that shrink a dimension, scan along it, or order it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randint, randn

Results = dict[str, Tensor]


def pairs(name: str, values_and_indices: tuple[Tensor, Tensor]) -> Results:
    """Operations with two results."""
    return {f"{name}_values": values_and_indices[0], f"{name}_indices": values_and_indices[1]}


def sums(x: Tensor) -> Results:
    """Sums, means, products and norms of x (2, 3, 4, 5)."""
    return {
        "sum": x.sum(),
        "sum_dim": x.sum(1),
        "sum_keep": x.sum(dim=-1, keepdim=True),
        "sum_dims": x.sum((0, 2)),
        "sum_dtype": x.sum(1, dtype=torch.float64),
        "sum_bf16": x.bfloat16().sum(-1),
        "sum_f16": x.half().sum((1, 2)),
        "mean": x.mean(),
        "mean_dim": x.mean(2),
        "mean_keep": x.mean((-2, -1), keepdim=True),
        "mean_dtype": x.bfloat16().mean(-1, dtype=torch.float32),
        "mean_bf16": x.bfloat16().mean(-1),
        "nansum": x.masked_fill(x > 1, float("nan")).nansum(-1),
        "nanmean": x.masked_fill(x > 1, float("nan")).nanmean(1, keepdim=True),
        "prod": x.prod(),
        "prod_dim": x.prod(dim=1),
        "prod_keep": x.prod(-1, keepdim=True),
        "norm": x.norm(dim=-1),
        "norm_all": torch.linalg.vector_norm(x),
        "norm_1": torch.linalg.vector_norm(x, 1, dim=(1, 2)),
        "norm_inf": torch.linalg.vector_norm(x, float("inf"), dim=-1),
        "norm_minus_inf": torch.linalg.vector_norm(x, -float("inf"), dim=-1),
        "norm_0": torch.linalg.vector_norm(x, 0, dim=-1),
        "norm_3": torch.linalg.vector_norm(x, 3.0, dim=1, keepdim=True),
        "norm_p": x.norm(p=1.0, dim=-1),
        "dist": torch.dist(x[0], x[1]),
        "trace": torch.trace(x[0, 0]),
        "sum_empty": x[:, :0].sum(1),
        "sum_0d": x[0, 0, 0, 0].sum(),
    }


def statistics(x: Tensor) -> Results:
    """Variances, softmax and its relatives."""
    std, mean_of_std = torch.std_mean(x, dim=-1)
    variance, mean = torch.var_mean(x, dim=(-2, -1), correction=0, keepdim=True)
    return {
        "var": x.var(),
        "var_dim": x.var(1),
        "var_biased": x.var(-1, unbiased=False),
        "var_correction": x.var((1, 2), correction=0, keepdim=True),
        "std": x.std(dim=-1),
        "std_keep": x.std((2, 3), correction=0, keepdim=True),
        "var_mean_var": variance,
        "var_mean_mean": mean,
        "std_mean_std": std,
        "std_mean_mean": mean_of_std,
        "logsumexp": torch.logsumexp(x, -1),
        "logsumexp_dims": torch.logsumexp(x, (1, 2), keepdim=True),
        "softmax": x.softmax(-1),
        "softmax_dim": F.softmax(x * 30, dim=1),
        "softmax_dtype": x.bfloat16().softmax(-1, dtype=torch.float32),
        "softmax_bf16": x.bfloat16().softmax(-1),
        "softmax_f16": x.half().softmax(-1),
        "softmax_masked": x.masked_fill(x > 0, float("-inf")).softmax(2),
        "log_softmax": x.log_softmax(-1),
        "log_softmax_dim": F.log_softmax(x, dim=2),
        "softmin": F.softmin(x, dim=-1),
    }


def extremes(x: Tensor, i: Tensor) -> Results:
    """Largest and smallest, where they are, any and all. No two elements of x are equal."""
    positive = x > 0
    return (
        {
            "amax": x.amax(-1),
            "amax_dims": x.amax((1, 3), keepdim=True),
            "amin": x.amin(1),
            "amin_all": x.amin(),
            "max": x.max(),
            "min": x.min(),
            "argmax": x.argmax(),
            "argmax_dim": x.argmax(-1),
            "argmin_keep": x.argmin(1, keepdim=True),
            "any": positive.any(),
            "any_dim": positive.any(-1),
            "any_dims": positive.any((1, 2), keepdim=True),
            "all": positive.all(),
            "all_dim": (x > -1).all(2),
            "any_int": i.any(-1),
            "count_nonzero": torch.count_nonzero(positive, dim=-1),
            "int_sum": i.sum(-1),
            "int_prod": i.prod(0),
            "int_max": i.amax(0),
            "int_mean": i.float().mean(-1),
            "bool_sum": positive.sum(-1),
            "bool_any_all": positive.any(-1).all(),
            "int32_sum": i.int().sum(),
            "uint8_sum": i.to(torch.uint8).sum(0),
            "bool_max": positive.amax(-1),
            "aminmax": torch.aminmax(x, dim=-1)[1],
        }
        | pairs("max_dim", x.max(1))
        | pairs("min_dim", x.min(-1, keepdim=True))
        | pairs("int_max_dim", (i + torch.arange(6)).max(-1))
    )


def scans_and_orders(x: Tensor, i: Tensor) -> Results:
    """Scans, sorts and selections."""
    return {
        "cumsum": x.cumsum(-1),
        "cumsum_dim": x.cumsum(1),
        "cumsum_int": i.cumsum(-1),
        "cumsum_bool": (x > 0).cumsum(-1),
        "cumprod": x.cumprod(2),
        "cumsum_dtype": x.bfloat16().cumsum(-1, dtype=torch.float32),
        "argsort": x.argsort(-1),
        "argsort_down": x.argsort(dim=1, descending=True),
        "argsort_stable": torch.argsort(i, dim=-1, stable=True),
        "msort": torch.msort(x),
        "rank": x.argsort(-1).argsort(-1),
        "diff": torch.diff(x, dim=-1),
        "logcumsumexp": torch.logcumsumexp(x, -1),
        "logcumsumexp_apart": torch.logcumsumexp(torch.stack([x, x + 200, x - 50]), 0),
    } | (
        pairs("sort", x.sort(-1))
        | pairs("sort_down", x.sort(1, descending=True))
        | pairs("sort_stable", torch.sort(i, stable=True, dim=-1))
        | pairs("topk", x.topk(2))
        | pairs("topk_smallest", x.topk(2, dim=1, largest=False))
        | pairs("cummax", torch.cummax(x, -1))
        | pairs("kthvalue", x.kthvalue(2, -1))
    )


def quantiles(x: Tensor, i: Tensor) -> Results:
    """Along a dimension and of all elements, between elements and on them; NaN goes through."""
    broken = torch.where(i[:, :1] > 1, torch.nan, x[0, :, :, 0])
    return {
        "quantile": torch.quantile(x, 0.95),
        "quantile_dim": torch.quantile(x, 0.3, dim=1, keepdim=True),
        "quantile_lower": torch.quantile(x, 0.4, dim=-1, interpolation="lower"),
        "quantile_nearest": torch.quantile(x, 0.4, dim=-1, interpolation="nearest"),
        "quantile_midpoint": torch.quantile(x, 0.4, dim=-1, interpolation="midpoint"),
        "quantile_list": torch.quantile(x, torch.tensor([0.0, 0.5, 1.0]), dim=2),
        "quantile_nan": torch.quantile(broken, 0.5, dim=-1),
        "median": x.median(),
        "median_int": i.median(),
    } | pairs("median_dim", x.median(-1)) | pairs("median_nan", torch.where(x > 0.5, torch.nan, x).median(-1))


class Reductions(nn.Module):
    """f32 mostly; integers and booleans where they differ."""

    def forward(self, x: Tensor, i: Tensor) -> Results:
        return sums(x) | statistics(x) | extremes(x, i) | scans_and_orders(x, i) | quantiles(x, i)


def models() -> list[TestModel]:
    inputs = (randn(2, 3, 4, 5, seed=1), randint(0, 4, 3, 6, seed=2))
    return [TestModel("ops_reduce", "sums, statistics, extremes, scans, sorts", Reductions, {"": Call(inputs)})]
