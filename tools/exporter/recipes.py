# SPDX-License-Identifier: Apache-2.0
"""All recipes, and how to find one."""

from __future__ import annotations

from exporter import (
    recipes_audio,
    recipes_control,
    recipes_cross,
    recipes_image,
    recipes_joint,
    recipes_packed,
    recipes_prior,
    recipes_sequence,
    recipes_video,
    recipes_video_cross,
    recipes_video_forcing,
    recipes_video_joint,
)
from exporter.errors import UsageError
from exporter.recipe import Recipe

_FILES = (
    recipes_cross,
    recipes_joint,
    recipes_image,
    recipes_packed,
    recipes_sequence,
    recipes_prior,
    recipes_video,
    recipes_video_joint,
    recipes_video_cross,
    recipes_video_forcing,
    recipes_control,
    recipes_audio,
)
RECIPES: dict[str, Recipe] = {recipe.name: recipe for file in _FILES for recipe in file.RECIPES}


def recipe_named(name: str) -> Recipe:
    """The recipe called `name`; the message lists those that begin alike."""
    if name in RECIPES:
        return RECIPES[name]
    near = [other for other in RECIPES if other.split("-")[0][:4] == name.lower()[:4]] or list(RECIPES)
    raise UsageError(f"no recipe '{name}'; there are {', '.join(near)} (--list shows all)")


def recipe_for_class(class_name: str) -> Recipe | None:
    """A recipe whose inputs fit models of this class."""
    return next((recipe for recipe in RECIPES.values() if recipe.class_name == class_name), None)


def table() -> str:
    """What --list prints."""

    def size(recipe: Recipe) -> str:
        extent = f"{recipe.size.height}x{recipe.size.width}" + (
            f"x{recipe.size.frames}" if recipe.size.frames > 1 else ""
        )
        return f"{extent:<12} {recipe.size.text or '-':>4}"

    def symbols(recipe: Recipe) -> str:
        return " ".join(dict.fromkeys(text.split("=")[1].split("*")[-1] for text in recipe.symbols)) or "-"

    rows = [
        f"{recipe.name:<20} {size(recipe)}  {recipe.class_name:<32} {symbols(recipe)}" for recipe in RECIPES.values()
    ]
    return "\n".join(
        [f"{'recipe':<20} {'default size':<12} {'text':>4}  {'class in diffusers':<32} symbolic sizes (--symbolic)"]
        + rows
    )
