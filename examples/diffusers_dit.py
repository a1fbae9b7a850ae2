#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A diffusers pipeline whose transformer is a compiled package: export, compile, wrap, compare with eager.

    examples/diffusers_dit.py --tiny                                          # random weights, seconds, no GPU
    examples/diffusers_dit.py --checkpoint DiT-XL-2-256 --device cuda:0       # a folder in diffusers' layout

Needs torch, diffusers, and the program `ditc` (on PATH, or named by DITC_BINARY).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import diffusers
import ditc
import torch


def tiny_pipeline() -> diffusers.DiTPipeline:
    """The same kinds of layers, narrow and few. diffusers initialises gates to zero, so all get random numbers."""
    torch.manual_seed(0)
    transformer = diffusers.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8,
                                                  num_layers=2, sample_size=8, num_embeds_ada_norm=1000)
    for parameter in transformer.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    vae = diffusers.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=4)
    return diffusers.DiTPipeline(transformer=transformer.eval(), vae=vae, scheduler=diffusers.DDIMScheduler())


def compile_transformer(transformer: torch.nn.Module, output: Path, target: str | None) -> None:
    """One package for one and for four images; guidance doubles the batch. Weights stay in the module."""
    size, channels = transformer.config.sample_size, transformer.config.in_channels
    example = {"hidden_states": torch.randn(4, channels, size, size, dtype=transformer.dtype, device=transformer.device),
               "timestep": torch.tensor([1, 2, 3, 4], device=transformer.device),
               "class_labels": torch.tensor([1, 2, 3, 4], device=transformer.device), "return_dict": False}
    batch = {0: torch.export.Dim("batch", min=1, max=64)}
    ditc.compile(transformer, kwargs=example, output=output, targets=[target] if target else [],
                 dynamic_shapes={"hidden_states": batch, "timestep": batch, "class_labels": batch, "return_dict": None},
                 buckets={"one": {"hidden_states.0": 2}, "four": {"hidden_states.0": 8}}, options=["--weights-in", "none"])


def timed(pipeline: diffusers.DiTPipeline, labels: list[int], steps: int):
    begin = time.perf_counter()
    images = pipeline(class_labels=labels, num_inference_steps=steps, generator=torch.manual_seed(0), output_type="np").images
    return images, time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--tiny", action="store_true", help="random weights")
    source.add_argument("--checkpoint", help="folder of a DiT pipeline")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--target", help="what to compile for (default: the compiler's)")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--package", type=Path, default=Path("dit.dita"), help="made unless it is there")
    options = parser.parse_args()

    pipeline = tiny_pipeline() if options.tiny else diffusers.DiTPipeline.from_pretrained(options.checkpoint, torch_dtype=torch.bfloat16)
    pipeline.to(options.device)
    pipeline.set_progress_bar_config(disable=True)
    if not options.package.exists():
        compile_transformer(pipeline.transformer, options.package, options.target)

    eager = pipeline.transformer
    wrapped = ditc.wrap(eager, options.package)
    for labels in ([207], [207, 360, 387, 974], [207, 360]):  # no bucket has the last size: it runs eagerly
        pipeline.transformer = eager
        expected, eager_seconds = timed(pipeline, labels, options.steps)
        pipeline.transformer = wrapped
        images, seconds = timed(pipeline, labels, options.steps)
        print(f"{len(labels)} images: largest difference {abs(images - expected).max():.2e}, "
              f"eager {eager_seconds:.3f} s, with the package {seconds:.3f} s")
    print(wrapped)


if __name__ == "__main__":
    main()
