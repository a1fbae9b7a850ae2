# SPDX-License-Identifier: Apache-2.0
"""kernel_text.py and rowwise_cases.py without a GPU; with torch their code is held against formulas on the CPU."""
import importlib.util
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "ditc_gpu"))
import kernel_text  # noqa: E402
import rowwise_cases  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch
    import torch.nn.functional as F


def evaluated(text):
    """(random inputs in fp32, results) of a kernel of bf16 and fp32 tensors."""
    kernel, scope = kernel_text.Kernel(text), {"torch": torch}
    exec(kernel.torch_code(), scope)
    inputs = [torch.randn(a.span).to(getattr(torch, kernel_text.TORCH[a.element])).as_strided(a.shape, a.strides) for a in kernel.inputs]
    return [value.float() for value in inputs], scope["kernel"](*inputs)


class KernelText(unittest.TestCase):
    def test_arguments(self):
        dense, strided, repeated = (kernel_text.Argument(f"memref<2x3x4xbf16{layout}>") for layout in
                                    ("", ", strided<[40, 8, 2], offset: 1>", ", strided<[0, 4, 1]>"))
        self.assertEqual(([12, 4, 1], 24, 48), (dense.strides, dense.span, dense.traffic))
        self.assertEqual((63, 48), (strided.span, strided.traffic))
        self.assertEqual(24, repeated.traffic)

    def test_unknown_operations_are_named(self):
        name, text = rowwise_cases.modulated(1, 4, 8, "ln")
        for known, unknown in (("dit.norm", "dit.sort"), ("arith.mulf", "arith.xori")):
            with self.assertRaisesRegex(kernel_text.Unsupported, unknown):
                kernel_text.Kernel(text.replace(known, unknown)).torch_code()

    def test_all_cases_have_code_under_their_name(self):
        for name, text in rowwise_cases.cases().items():
            kernel = kernel_text.Kernel(text)
            self.assertEqual(name, kernel.name)
            compile(kernel.torch_code(), name, "exec")

    @unittest.skipUnless(HAS_TORCH, "torch is not installed")
    def test_numbers(self):
        close = lambda result, expected: self.assertLess(float((result - expected).norm() / expected.norm()), 3e-3)
        (x, gate, a, scale, shift), (y, z) = evaluated(rowwise_cases.modulated(2, 7, 64, "residual")[1])
        close(y, x + gate * a)
        close(z, F.layer_norm(x + gate * a, (64,), eps=1e-6) * (1 + scale) + shift)
        (x,), (y,) = evaluated(rowwise_cases.activation("swiglu", 5, 16)[1])
        close(y, F.silu(x[:, :16]) * x[:, 16:])
        (x,), (y,) = evaluated(rowwise_cases.activation("gelu", 5, 16)[1])
        close(y, F.gelu(x, approximate="tanh"))
        (x, s), (y,) = evaluated(rowwise_cases.scaled("to", 5, 16)[1])
        self.assertTrue(torch.equal(y.float(), (x * s).to(torch.float8_e4m3fn).float()))
        (x, s), (y,) = evaluated(rowwise_cases.scaled("from", 5, 16)[1])
        close(y, x * s)
        for interleaved in (True, False):
            (x, weight, cos, sin), (result,) = evaluated(rowwise_cases.rotary("rope", 1, 5, 3, 8, "head", interleaved)[1])
            n = F.rms_norm(x, (8,), weight, eps=1e-6)
            first, second = (n[..., 0::2], n[..., 1::2]) if interleaved else (n[..., :4], n[..., 4:])
            pair = first * cos - second * sin, first * sin + second * cos
            expected = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
            close(result, expected.permute(0, 2, 1, 3))


if __name__ == "__main__":
    unittest.main()
