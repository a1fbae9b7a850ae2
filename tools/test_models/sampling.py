# SPDX-License-Identifier: Apache-2.0
"""Samples of images at places that are data, and Fourier transforms."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randn

Results = dict[str, Tensor]


class Sampling(nn.Module):
    """An image (2, 3, 5, 4) at places (2, 3, 2, 2) of which some are outside, a video (1, 2, 3, 4, 3) at (1, 2, 2, 1, 3)."""

    def forward(self, image: Tensor, grid: Tensor, video: Tensor, places: Tensor, theta: Tensor) -> Results:
        results = {}
        for mode, padding, corners in product(
            ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
        ):
            name = f"{mode}_{padding}" + ("_corners" if corners else "")
            results[name] = F.grid_sample(image, grid, mode, padding, corners)
            if mode != "bicubic":
                results[f"video_{name}"] = F.grid_sample(video, places, mode, padding, corners)
        return results | {
            "affine": F.affine_grid(theta, [2, 3, 3, 5], align_corners=False),
            "affine_corners": F.affine_grid(theta, [2, 3, 2, 5], align_corners=True),
        }


class Fourier(nn.Module):
    """Of tokens (2, 6, 5), as mixers, operators and filters of images use them."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.view_as_complex(randn(5, 4, 3, 2, seed=4)))

    def forward(self, x: Tensor) -> Results:
        z = torch.fft.rfft(x, dim=1)
        swapped = torch.fft.fftshift(torch.fft.fftn(x, dim=(-2, -1)), dim=(-2, -1))
        return {
            "fft": torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real,
            "fft2_ortho": torch.view_as_real(torch.fft.fft2(x, norm="ortho")),
            "rfft_padded": torch.fft.rfft(x, n=8).abs(),
            "rfft_cut": torch.fft.rfft(x, n=3, dim=1, norm="forward").imag,
            "rfft2": torch.view_as_real(torch.fft.rfft2(x, s=(4, 5))),
            "irfft2": torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho"), s=(6, 5), norm="ortho"),
            "irfft_odd": torch.fft.irfft(z, n=5, dim=1),
            "irfftn": torch.fft.irfftn(z, dim=(0, 1)),
            "filtered": torch.fft.ifftn(torch.fft.ifftshift(swapped * 0.5, dim=(-2, -1)), dim=(-2, -1)).real,
            "ifft": torch.view_as_real(torch.fft.ifft(z, dim=2, norm="forward")),
            "shift_all": torch.fft.fftshift(x),
            "einsum": torch.einsum("bmi,imo->bmo", z, self.mix).abs(),
            "matmul": torch.view_as_real(z.mT @ z),
            "hann": torch.hann_window(6)[:, None] * x,
            "hamming": torch.hamming_window(5, periodic=False) * x,
            "blackman": torch.blackman_window(5) * x,
            "bartlett": torch.bartlett_window(5, periodic=False) * x,
            "kaiser": torch.kaiser_window(5, True, 8.0) * x,
        }


class Spectra(nn.Module):
    """Of real signals (2, 40) and of half spectra (2, 5, 4): transforms of Hermitian tensors, short-time transforms."""

    def forward(self, x: Tensor, half: Tensor) -> Results:
        z = torch.view_as_complex(half.unflatten(-1, (2, 2)))
        window = torch.hann_window(6)
        return {
            "hfft": torch.fft.hfft(z, dim=1),
            "hfft_odd": torch.fft.hfft(z, n=7, dim=1, norm="forward"),
            "hfft2": torch.fft.hfft2(z, norm="ortho"),
            "hfftn": torch.fft.hfftn(z, s=(4, 6), dim=(0, 1)),
            "hfft_real": torch.fft.hfft(half),
            "ihfft": torch.view_as_real(torch.fft.ihfft(half, norm="ortho").resolve_conj()),
            "ihfft2": torch.view_as_real(torch.fft.ihfft2(half)),
            "ihfftn": torch.view_as_real(torch.fft.ihfftn(half, norm="forward")),
            "stft": torch.view_as_real(torch.stft(x, 8, 3, 6, window, return_complex=True)),
            "stft_normalized": torch.stft(x[0], 8, normalized=True, center=False, return_complex=True).abs(),
            "stft_complex": torch.view_as_real(torch.stft(torch.complex(x, -x), 8, 4, center=False, return_complex=True)),
        }


def models() -> list[TestModel]:
    inputs = (
        randn(2, 3, 5, 4, seed=1),
        randn(2, 3, 2, 2, seed=2),
        randn(1, 2, 3, 4, 3, seed=3),
        randn(1, 2, 2, 1, 3, seed=5),
        randn(2, 2, 3, seed=6),
    )
    return [
        TestModel("ops_sample", "samples at places that are data", Sampling, {"": Call(inputs)}),
        TestModel(
            "ops_fourier",
            "Fourier transforms, products of complex tensors",
            Fourier,
            {"": Call((randn(2, 6, 5, seed=7),))},
            core=True,
        ),
        TestModel(
            "ops_spectra",
            "Fourier transforms of Hermitian tensors and of frames",
            Spectra,
            {"": Call((randn(2, 40, seed=8), randn(2, 5, 4, seed=9)))},
            core=True,
        ),
    ]
