# SPDX-License-Identifier: Apache-2.0
"""Real diffusion transformers, tiny, with random weights: diffusers' own code through the exporter's recipes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exporter.job import Job
from exporter.recipe import Recipe, Size
from exporter.recipes import recipe_named


@dataclass
class RecipeModel:
    """One folder of tests/models that the exporter writes. The bucket "" is the call that is exported."""

    name: str
    description: str
    recipe: str
    sizes: dict[str, Size]
    dtype: str = "f32"
    symbolic: bool = False
    core: bool = False
    config: dict[str, Any] = field(default_factory=dict)  # what changes in the tiny configuration
    parent: str = "models"

    def write(self, folder: Path) -> None:
        """Exports, with golden outputs."""
        recipe: Recipe = recipe_named(self.recipe)
        config = recipe.configuration(tiny=True) | self.config
        calls = {
            bucket: recipe.inputs(config, size, seed=1 + index)
            for index, (bucket, size) in enumerate(self.sizes.items())
        }
        Job(
            class_name=recipe.class_name,
            config=config,
            folder=folder,
            dtype=self.dtype,
            calls=calls,
            recipe=recipe,
            recipe_name=f"{self.recipe} (tiny)",
            axes=list(recipe.symbols) if self.symbolic else [],
            ranges=list(recipe.ranges) if self.symbolic else [],
            core=self.core,
            comments={"name": self.name, "description": self.description},
        ).run()


def models() -> list[RecipeModel]:
    return [
        RecipeModel(
            "dit",
            "DiT: adaptive norms, class labels; the batch is symbolic",
            "dit-xl-2-256",
            {"": Size(128, 128, batch=2), "batch4": Size(128, 128, batch=4)},
            symbolic=True,
            core=True,
            config={"num_layers": 1, "attention_head_dim": 12},
        ),
        RecipeModel(
            "pixart",
            "PixArt: cross attention to masked text; height, width, text and batch are symbolic",
            "pixart-sigma-1024",
            {
                "": Size(144, 176, text=13, batch=2),
                "square": Size(128, 128, text=13, batch=2),
                "tall": Size(208, 112, text=19, batch=2),
            },
            symbolic=True,
            config={"attention_head_dim": 12, "cross_attention_dim": 24},
        ),
        RecipeModel(
            "flux_bf16",
            "FLUX.1 in bf16: two streams, then one; rotary embeddings in float64",
            "flux.1-dev",
            {"": Size(80, 112, text=9, batch=2)},
            dtype="bf16",
            config={"num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16, "axes_dims_rope": (4, 6, 6)},
        ),
    ]
