# SPDX-License-Identifier: Apache-2.0
"""Normalisations: layer, RMS, group, batch and instance norm, and the hand-written ones of real models."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randn

Results = dict[str, Tensor]


class HandWrittenRMSNorm(nn.Module):
    """RMS norm as diffusers writes it: statistics in f32, then cast to the weight's type, then the weight."""

    def __init__(self, size: int, eps: float = 1e-6, weighted: bool = True, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(1 + 0.2 * torch.randn(size).to(dtype)) if weighted else None

    def forward(self, x: Tensor) -> Tensor:
        kept = x.dtype
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        if self.weight is None:
            return x.to(kept)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            x = x.to(self.weight.dtype)
        return x * self.weight


class CastLastRMSNorm(HandWrittenRMSNorm):
    """RMS norm that stays in f32 until the weight is in."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(dim=-1, keepdim=True) + self.eps)
        return (self.weight.float() * y).type_as(x)


class FP32LayerNorm(nn.LayerNorm):
    """Layer norm that computes in f32 whatever the input is."""

    def forward(self, x: Tensor) -> Tensor:
        weight = None if self.weight is None else self.weight.float()
        bias = None if self.bias is None else self.bias.float()
        return F.layer_norm(x.float(), self.normalized_shape, weight, bias, self.eps).to(x.dtype)


def randomise(module: nn.Module) -> nn.Module:
    """Weights, biases and running statistics that are not 0 and 1."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(1 + 0.3 * torch.randn(parameter.shape))
        for name, buffer in module.named_buffers():
            if buffer.is_floating_point():
                buffer.copy_(torch.rand(buffer.shape) + 0.5 if "var" in name else torch.randn(buffer.shape))
    return module


class Norms(nn.Module):
    """Tokens (2, 5, 16), images (2, 8, 4, 6)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = randomise(nn.LayerNorm(16))
        self.layer_no_bias = randomise(nn.LayerNorm(16, eps=1e-6, bias=False))
        self.layer_two = randomise(nn.LayerNorm((5, 16)))
        self.rms = randomise(nn.RMSNorm(16, eps=1e-6))
        self.rms_no_eps = randomise(nn.RMSNorm(16))
        self.group = randomise(nn.GroupNorm(4, 8, eps=1e-6))
        self.batch = randomise(nn.BatchNorm2d(8))
        self.instance = randomise(nn.InstanceNorm2d(8, affine=True))
        self.written = HandWrittenRMSNorm(16)
        self.unweighted = HandWrittenRMSNorm(16, weighted=False)
        self.brain = HandWrittenRMSNorm(16, dtype=torch.bfloat16)
        self.per_head = HandWrittenRMSNorm(8)
        self.cast_last = CastLastRMSNorm(16)
        self.fp32_layer = randomise(FP32LayerNorm(16)).to(torch.bfloat16)
        self.table = nn.Parameter(torch.randn(1, 6, 16) / 4)

    def forward(self, tokens: Tensor, image: Tensor, emb: Tensor) -> Results:
        return (
            self.modules_on(tokens, image)
            | self.functions_on(tokens, image)
            | self.written_on(tokens, image)
            | self.modulated(tokens, emb)
        )

    def modules_on(self, tokens: Tensor, image: Tensor) -> Results:
        """torch.nn modules."""
        return {
            "layer": self.layer(tokens),
            "layer_no_bias": self.layer_no_bias(tokens),
            "layer_two_dims": self.layer_two(tokens),
            "rms": self.rms(tokens),
            "rms_no_eps": self.rms_no_eps(tokens),
            "group": self.group(image),
            "group_tokens": self.group(tokens.mT[:, :8]),
            "batch": self.batch(image),
            "instance": self.instance(image),
        }

    def functions_on(self, tokens: Tensor, image: Tensor) -> Results:
        """torch.nn.functional."""
        brain, half = tokens.bfloat16(), tokens.half()
        return {
            "layer_plain": F.layer_norm(tokens, (16,), eps=1e-6),
            "rms_plain": F.rms_norm(tokens, (16,), eps=1e-5),
            "rms_bf16": F.rms_norm(brain, (16,)),
            "layer_bf16": F.layer_norm(brain, (16,)),
            "layer_f16": F.layer_norm(half, (16,), eps=1e-6),
            "layer_f64": F.layer_norm(tokens.double(), (16,)),
            "group_plain": F.group_norm(image, 2),
            "instance_plain": F.instance_norm(image),
            "normalize": F.normalize(tokens, dim=-1),
            "normalize_1": F.normalize(image, p=1.0, dim=1),
            "local_response": F.local_response_norm(image, 3),
            "cosine": F.cosine_similarity(tokens[0], tokens[1], dim=-1),
            "native_layer": torch.native_layer_norm(tokens, (16,), self.layer.weight, self.layer.bias, 1e-5)[0],
            "layer_large_mean": F.layer_norm(tokens + 1000.0, (16,)),
        }

    def written_on(self, tokens: Tensor, image: Tensor) -> Results:
        """Norms spelt out in arithmetic."""
        mean, variance = tokens.mean(-1, keepdim=True), tokens.var(-1, keepdim=True, unbiased=False)
        channels = image.movedim(1, -1)
        channels = channels * torch.rsqrt(channels.pow(2).mean(-1, keepdim=True) + 1e-5)
        heads = tokens.view(2, 5, 2, 8).transpose(1, 2)
        return {
            "written_rms": self.written(tokens),
            "written_rms_bf16": self.brain(tokens.bfloat16()),
            "written_rms_f32_in": self.brain(tokens),
            "written_rms_plain": self.unweighted(tokens),
            "written_rms_heads": self.per_head(heads),
            "written_rms_cast_last": self.cast_last(tokens.bfloat16()),
            "written_fp32_layer": self.fp32_layer(tokens.bfloat16()),
            "written_layer": (tokens - mean) / torch.sqrt(variance + 1e-6),
            "written_channels": (channels * 1.5 + 0.25).movedim(-1, 1),
            "written_l2": tokens / tokens.norm(dim=-1, keepdim=True),
            "written_rms_div": tokens / torch.sqrt(torch.mean(tokens * tokens, dim=-1, keepdim=True) + 1e-6),
        }

    def modulated(self, tokens: Tensor, emb: Tensor) -> Results:
        """Adaptive norms: shift and scale come from an embedding (2, 96)."""
        plain = F.layer_norm(tokens, (16,), eps=1e-6)
        shift, scale, gate, shift2, scale2, gate2 = emb.chunk(6, dim=1)
        rows = (self.table + emb.view(2, 6, 16)).unbind(1)
        per_token = emb.view(2, 1, 6, 16).expand(2, 5, 6, 16)
        return {
            "ada_zero": plain * (1 + scale[:, None]) + shift[:, None],
            "ada_second": plain * (1 + scale2.unsqueeze(1)) + shift2.unsqueeze(1),
            "ada_gate": tokens + gate.unsqueeze(1) * plain,
            "ada_table": plain * (1 + rows[1][:, None]) + rows[0][:, None],
            "ada_tokens": plain * (1 + per_token[:, :, 1]) + per_token[:, :, 0],
            "tanh_gate": tokens + torch.tanh(gate2)[:, None] * self.written(plain),
            "ada_rms": self.written(tokens) * (1 + scale[:, None, :]),
        }


class NormsSample(Norms):
    """A few of each kind: taken apart, all of them would make a large file."""

    def forward(self, tokens: Tensor, image: Tensor, emb: Tensor) -> Results:
        shift, scale, gate = emb[:, :48].chunk(3, dim=1)
        plain = F.layer_norm(tokens, (16,), eps=1e-6)
        return {
            "layer": self.layer(tokens),
            "rms": self.rms(tokens),
            "rms_no_eps": self.rms_no_eps(tokens),
            "group": self.group(image),
            "batch": self.batch(image),
            "rms_bf16": F.rms_norm(tokens.bfloat16(), (16,)),
            "layer_f16": F.layer_norm(tokens.half(), (16,)),
            "written_rms_bf16": self.brain(tokens.bfloat16()),
            "written_fp32_layer": self.fp32_layer(tokens.bfloat16()),
            "ada_zero": tokens + gate[:, None] * (plain * (1 + scale[:, None]) + shift[:, None]),
        }


def models() -> list[TestModel]:
    inputs = (randn(2, 5, 16, seed=1), randn(2, 8, 4, 6, seed=2), randn(2, 96, seed=3))
    return [
        TestModel("ops_norm", "norms of every kind, modules and hand-written", Norms, {"": Call(inputs)}),
        TestModel(
            "ops_norm_core", "a sample of ops_norm, also in core ATen", NormsSample, {"": Call(inputs)}, core=True
        ),
    ]
