# SPDX-License-Identifier: Apache-2.0
"""The peer of `ditc compile --quantize fp8`: linear layers by torch._scaled_mm, with a scale for each row of the input and each
output channel, made anew in every call as quantising libraries do."""
import contextlib

import torch

LARGEST = 448.0
FEW_ROWS, SMALL_WEIGHT = 16, 1 << 20


def quantise(x):
    """e4m3 numbers and the fp32 by which rows were divided."""
    scale = x.abs().amax(-1, keepdim=True).float().clamp(min=1e-12) / LARGEST
    return (x.float() / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scale


class Fp8Linear(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        numbers, scale = quantise(linear.weight)
        self.register_buffer("numbers", numbers)
        self.register_buffer("scale", scale.t().contiguous())
        self.bias = linear.bias
        self.weight = linear.weight  # modules ask for its type

    def forward(self, x):
        numbers, scale = quantise(x.reshape(-1, x.shape[-1]))
        y = torch._scaled_mm(numbers, self.numbers.t(), scale, self.scale, bias=self.bias, out_dtype=x.dtype, use_fast_accum=True)
        return y.reshape(*x.shape[:-1], -1)


def worthwhile(module, inputs):
    """Names of the linear layers that see more than a few rows, and whose weights are large."""
    names, hooks = [], []

    def watch(name):
        def hook(layer, arguments):
            x = arguments[0]
            if x.numel() // x.shape[-1] > FEW_ROWS and layer.weight.numel() >= SMALL_WEIGHT and all(size % 16 == 0 for size in layer.weight.shape):
                names.append(name)
        return hook

    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.Linear):
            hooks.append(layer.register_forward_pre_hook(watch(name)))
    module(**inputs)
    for hook in hooks:
        hook.remove()
    return names


@contextlib.contextmanager
def quantised(module, inputs):
    """The module with those layers replaced; afterwards it is as it was."""
    kept = {name: module.get_submodule(name) for name in worthwhile(module, inputs)}

    def place(name, layer):
        owner, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(owner), leaf, layer)

    for name, layer in kept.items():
        place(name, Fp8Linear(layer))
    try:
        yield module
    finally:
        for name, layer in kept.items():
            place(name, layer)
