# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations: arithmetic, comparisons, logic, casts; each type that a graph may hold."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randint, randn

Results = dict[str, Tensor]


def unary(x: Tensor) -> Results:
    """Functions of one argument. `p` is positive, `u` lies in (-1, 1)."""
    p = x.abs() + 0.25
    u = torch.tanh(x) * 0.9
    return {
        "abs": x.abs(),
        "neg": -x,
        "sign": torch.sign(x),
        "square": torch.square(x),
        "reciprocal": torch.reciprocal(p),
        "sqrt": torch.sqrt(p),
        "rsqrt": torch.rsqrt(p),
        "exp": torch.exp(x),
        "exp2": torch.exp2(x),
        "expm1": torch.expm1(x),
        "log": torch.log(p),
        "log1p": torch.log1p(p),
        "log2": torch.log2(p),
        "log10": torch.log10(p),
        "sin": torch.sin(x),
        "cos": torch.cos(x),
        "tan": torch.tan(u),
        "tanh": torch.tanh(x),
        "asin": torch.asin(u),
        "acos": torch.acos(u),
        "atan": torch.atan(x),
        "sinh": torch.sinh(x),
        "cosh": torch.cosh(x),
        "asinh": torch.asinh(x),
        "acosh": torch.acosh(p + 1),
        "atanh": torch.atanh(u),
        "erf": torch.erf(x),
        "erfc": torch.erfc(x),
        "ndtr": torch.special.ndtr(x),
        "sigmoid": torch.sigmoid(x),
        "floor": torch.floor(x),
        "ceil": torch.ceil(x),
        "trunc": torch.trunc(x),
        "frac": torch.frac(x),
        "round": torch.round(x * 2) + torch.round(torch.floor(x) + 0.5),  # halves go to even
        "round_decimals": torch.round(x, decimals=1),
    }


def activations(x: Tensor) -> Results:
    """Activation functions, as torch.nn.functional spells them."""
    return {
        "relu": F.relu(x),
        "relu6": F.relu6(x * 4),
        "leaky_relu": F.leaky_relu(x, 0.2),
        "elu": F.elu(x),
        "gelu": F.gelu(x),
        "gelu_tanh": F.gelu(x, approximate="tanh"),
        "gelu_quick": x * torch.sigmoid(1.702 * x),
        "silu": F.silu(x),
        "mish": F.mish(x),
        "softplus": F.softplus(x),
        "softplus_beta": F.softplus(x, beta=2.0),
        "logsigmoid": F.logsigmoid(x),
        "hardtanh": F.hardtanh(x, -0.5, 0.75),
        "hardsigmoid": F.hardsigmoid(x),
        "hardswish": F.hardswish(x),
        "softsign": F.softsign(x),
        "tanhshrink": F.tanhshrink(x),
        "glu": F.glu(x, dim=-1),
        "selu": F.selu(x),
        "celu": F.celu(x, alpha=0.5),
        "threshold": F.threshold(x, 0.1, -7.0),
        "prelu": F.prelu(x, torch.full((1,), 0.3)),
        "rrelu": F.rrelu(x, 0.1, 0.4),
        "dropouts": F.alpha_dropout(F.feature_alpha_dropout(F.dropout1d(x, training=False), training=False), training=False),
    }


def binary(x: Tensor, y: Tensor) -> Results:
    """Functions of two tensors of different shapes; scalars on either side."""
    p = x.abs() + 0.25
    return {
        "add": x + y,
        "add_alpha": torch.add(x, y, alpha=-0.5),
        "add_scalar": x + 1.5,
        "sub": x - y,
        "sub_alpha": torch.sub(x, y, alpha=2),
        "rsub_scalar": 1.0 - x,
        "rsub_alpha": torch.rsub(x, y, alpha=3),
        "mul": x * y,
        "mul_scalar": x * 3,
        "div": x / (y.abs() + 0.5),
        "div_scalar": x / 3.0,
        "rdiv_scalar": 1.0 / p,
        "div_floor": torch.div(x * 4, y.abs() + 0.5, rounding_mode="floor"),
        "div_trunc": torch.div(x * 4, y.abs() + 0.5, rounding_mode="trunc"),
        "floor_divide": (x * 4) // (y.abs() + 0.5),
        "remainder": torch.remainder(x * 4, y.abs() + 0.5),
        "remainder_scalar": x % -0.75,
        "fmod": torch.fmod(x * 4, y.abs() + 0.5),
        "fmod_scalar": torch.fmod(x, 0.75),
        "pow_tensor": torch.pow(p, y),
        "pow_scalar": p**-1.5,
        "pow_2": x**2,
        "pow_3": x**3,
        "pow_half": p**0.5,
        "pow_base": torch.pow(10000.0, x),
        "maximum": torch.maximum(x, y),
        "minimum": torch.minimum(x, y),
        "fmax": torch.fmax(x, y),
        "fmin": torch.fmin(x, y),
        "max_other": torch.max(x, y),
        "min_other": torch.min(x, y),
        "atan2": torch.atan2(x, y),
        "hypot": torch.hypot(x, y),
        "copysign": torch.copysign(p, y),
        "clamp": torch.clamp(x, -0.5, 0.5),
        "clamp_min": x.clamp(min=0.1),
        "clamp_max": x.clamp(max=0.1),
        "clamp_tensor": torch.clamp(x, -y.abs(), y.abs()),
        "clip": x.clip(-65504, 65504),
        "clamp_min_tensor": x.clamp(min=y),
        "lerp": torch.lerp(x, y, 0.3),
        "lerp_tensor": torch.lerp(x, y, torch.sigmoid(x)),
        "addcmul": torch.addcmul(x, y, p, value=0.5),
        "addcdiv": torch.addcdiv(x, y, p, value=-2.0),
        "xlogy": torch.xlogy(p, p + 1),
        "logaddexp": torch.logaddexp(x, y),
        "mul_0d": x * torch.tensor(0.5),
        "dist2": torch.subtract(x, y).multiply(torch.negative(x)).true_divide(p),
    }


def comparisons(x: Tensor, y: Tensor, i: Tensor) -> Results:
    """Everything that makes booleans."""
    a, b = x > 0, y > 0
    return {
        "eq": i == i.flip(0),
        "eq_scalar": i == 2,
        "ne": i != i.flip(0),
        "ne_scalar": i != 2,
        "lt": x < y,
        "lt_scalar": x < 0.1,
        "le": x <= y,
        "le_scalar": i <= 2,
        "gt": x > y,
        "gt_scalar": x > 0.1,
        "ge": x >= y,
        "ge_scalar": i >= 2,
        "logical_and": torch.logical_and(a, b),
        "logical_or": torch.logical_or(a, b),
        "logical_xor": torch.logical_xor(a, b),
        "logical_not": torch.logical_not(a),
        "logical_not_int": torch.logical_not(i),
        "bool_and": a & b,
        "bool_or": a | b,
        "bool_xor": a ^ b,
        "bool_not": ~a,
        "bool_mul": a * b,
        "bool_to_float": a.float() - b.to(torch.float32),
        "bool_plus_int": a + i[0, 0, 0],
        "int_to_bool": i.bool(),
        "isclose": torch.isclose(x, x + 1e-9),
        "ge_0d": x >= torch.tensor(0.25),
    }


def special_values(s: Tensor) -> Results:
    """Infinities, NaN and signed zeros."""
    return {
        "isnan": torch.isnan(s),
        "isinf": torch.isinf(s),
        "isfinite": torch.isfinite(s),
        "signbit": torch.signbit(s),
        "nan_to_num": torch.nan_to_num(s),
        "nan_to_num_given": torch.nan_to_num(s, nan=-1.0, posinf=2.0, neginf=-2.0),
        "nan_maximum": torch.maximum(s, s.flip(0)),
        "nan_fmin": torch.fmin(s, s.flip(0)),
        "nan_clamp": s.clamp(-1, 1),
        "nan_relu": F.relu(s),
        "nan_sign": torch.sign(s),
        "nan_eq": s == s,
        "nan_lt": s < 1.0,
        "nan_sigmoid": torch.sigmoid(s),
        "nan_tanh": torch.tanh(s),
        "nan_gelu": F.gelu(s.clamp(-1e30, 1e30)),
        "nan_silu": F.silu(s.clamp(min=-1e30)),
        "nan_where": torch.where(torch.isnan(s), 0.0, s),
        "neg_zero": -s,
        "nan_exp": torch.exp(s),
        "nan_pow": s**2,
        "nan_round": torch.round(s),
    }


def integers(i: Tensor, j: Tensor) -> Results:
    """int64 arithmetic: division and remainder floor, shifts, true division makes floats."""
    return {
        "int_add": i + j,
        "int_sub": i - j,
        "int_mul": i * j,
        "int_neg": -i,
        "int_abs": (i - 3).abs(),
        "int_floordiv": (i - 3) // j,
        "int_mod": (i - 3) % j,
        "int_fmod": torch.fmod(i - 3, j),
        "int_mod_neg": i % -3,
        "int_trunc_div": torch.div(i - 3, j, rounding_mode="trunc"),
        "int_div": i / j,
        "int_pow": i**2,
        "int_plus_float": i + 0.5,
        "int_times_f32": i * torch.full((1,), 0.25),
        "int_maximum": torch.maximum(i, j),
        "int_clamp": i.clamp(1, 3),
        "int_sign": torch.sign(i - 3),
        "int_and": i & j,
        "int_or": i | j,
        "int_xor": i ^ j,
        "int_not": ~i,
        "int_shl": i << 2,
        "int_shr": (i - 3) >> 1,
        "int_sqrt": torch.sqrt(i + 1),
        "int_exp": torch.exp(i),
        "int_to_f32": i.float(),
        "int_32": i.to(torch.int32) * 3,
        "int_16": i.short() + 1,
        "int_8": i.to(torch.int8) - 4,
        "uint_8": i.to(torch.uint8) + 250,
        "int_mixed": i.to(torch.int32) + j,
        "int_rsub": 7 - i,
    }


def casts(x: Tensor) -> Results:
    """Conversions between types, with the rounding that each has."""
    big = x * 100
    return {
        "to_f16": x.half(),
        "to_bf16": x.bfloat16(),
        "to_f64": x.double(),
        "to_i64": big.long(),
        "to_i32": big.int(),
        "to_i8": x.to(torch.int8),
        "to_bool": (x * (x > 0)).bool(),
        "through_bf16": x.bfloat16().float() - x,
        "through_f16": x.half().float() - x,
        "f64_to_bf16": (x.double() / 3).to(torch.bfloat16),
        "type_as": x.type_as(x.double()),
        "to_other": x.to(x.half()),
        "float_bits": x.view(torch.int32),
        "sqrt_of_f64": x.double().abs().sqrt(),
        "f16_plus_f32": x.half() + x,
        "bf16_times_f16": x.bfloat16() * x.half(),
        "f16_plus_0d": x.half() + torch.tensor(0.1),
        "f64_plus_f32": x.double() + x,
    }


def low_precision(x: Tensor, y: Tensor) -> Results:
    """The arithmetic that models do most, in the type of `x`."""
    return {
        "add": x + y,
        "sub": x - y,
        "mul": x * y,
        "div": x / (y.abs() + 0.5),
        "pow": (x.abs() + 0.25) ** 1.5,
        "sqrt": x.abs().sqrt(),
        "rsqrt": torch.rsqrt(x.abs() + 0.25),
        "exp": torch.exp(x),
        "log": torch.log(x.abs() + 0.25),
        "sin": torch.sin(x),
        "cos": torch.cos(x),
        "tanh": torch.tanh(x),
        "sigmoid": torch.sigmoid(x),
        "erf": torch.erf(x),
        "gelu": F.gelu(x),
        "gelu_tanh": F.gelu(x, approximate="tanh"),
        "silu": F.silu(x),
        "maximum": torch.maximum(x, y),
        "clamp": x.clamp(-0.5, 0.5),
        "floor": torch.floor(x * 3),
        "lt": x < y,
        "add_scalar": x + 0.1,
        "modulate": x * (1 + y) + 0.3,
        "where": torch.where(x > y, x, y),
        "remainder": torch.remainder(x, 0.75),
    }


class Pointwise(nn.Module):
    """float32, and what mixes with it."""

    def forward(self, x: Tensor, y: Tensor, special: Tensor, i: Tensor, j: Tensor) -> Results:
        return (
            unary(x)
            | activations(x)
            | binary(x, y)
            | comparisons(x, y, i)
            | special_values(special)
            | integers(i, j)
            | casts(x)
        )


class PointwiseTypes(nn.Module):
    """The same arithmetic in float16, bfloat16 and float64."""

    def forward(
        self, half: Tensor, half2: Tensor, brain: Tensor, brain2: Tensor, double: Tensor, double2: Tensor
    ) -> Results:
        pairs = {"f16": (half, half2), "bf16": (brain, brain2), "f64": (double, double2)}
        return {
            f"{name}_{dtype}": value for dtype, pair in pairs.items() for name, value in low_precision(*pair).items()
        }


class Float8(nn.Module):
    """Weights, an input and roundings in float8_e4m3fn, which computes nothing but casts."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 8).to(torch.float8_e4m3fn), requires_grad=False)
        self.register_buffer("scale", torch.rand(16, 1) + 0.5)

    def forward(self, x: Tensor, special: Tensor, codes: Tensor) -> Results:
        small = x.to(torch.float8_e4m3fn)
        return {
            "linear": F.linear(x, self.weight.to(torch.float32) * self.scale),
            "linear_bf16": F.linear(x.to(torch.bfloat16), self.weight.to(torch.bfloat16)),
            "rounded": (small.to(torch.float32) - x) * 2,
            "transposed": small.t().to(torch.bfloat16),
            "codes": special.to(torch.float8_e4m3fn).view(torch.uint8),
            "numbers": codes.to(torch.float32),
            "small": small,
        }


def float8_edges() -> Tensor:
    """Small and large numbers, up to the last that rounds to 448. Behind it versions of torch differ: NaN or 448."""
    large = torch.tensor([float("nan"), -0.0, 0.0, 1.0, -1.5, 1e-40, 448.0, 449.0, 464.0, -464.0])
    return torch.cat([large, 2.0 ** torch.arange(-11, 0)])


def float8_codes() -> Tensor:
    return torch.arange(256, dtype=torch.int32).to(torch.uint8).view(torch.float8_e4m3fn)


def models() -> list[TestModel]:
    x, y = randn(2, 3, 4, seed=1), randn(3, 1, seed=2)
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, -1.5, 3e38, 1e-40])
    i, j = randint(0, 6, 2, 3, 4, seed=3), randint(1, 5, 3, 4, seed=4)
    types = [
        randn(*shape, seed=5, dtype=dtype)
        for dtype in (torch.float16, torch.bfloat16, torch.float64)
        for shape in ((2, 3, 4), (3, 1))
    ]
    return [
        TestModel(
            "ops_pointwise",
            "element-wise operations in f32, integers and booleans; casts",
            Pointwise,
            {"": Call((x, y, special, i, j))},
        ),
        TestModel(
            "ops_pointwise_types",
            "element-wise operations in f16, bf16 and f64",
            PointwiseTypes,
            {"": Call(tuple(types))},
        ),
        TestModel(
            "ops_float8",
            "casts to and from fp8, and fp8 weights",
            Float8,
            {"": Call((randn(3, 8, seed=6), float8_edges(), float8_codes()))},
        ),
    ]
