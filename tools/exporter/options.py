# SPDX-License-Identifier: Apache-2.0
"""The command line of export_diffusers.py: options, and the job that they describe."""

from __future__ import annotations

import argparse
import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from exporter import build
from exporter.errors import UsageError
from exporter.job import Job
from exporter.recipe import Recipe, Size
from exporter.recipes import recipe_for_class, recipe_named

HELP = """Exports a diffusion transformer of diffusers to model.pt2, for ditc to compile.

Beside model.pt2 it writes inputs.safetensors, outputs.safetensors (float32 of the same, rounded, weights),
outputs_bf16.safetensors (eager PyTorch in that type) and notes.json.
"""

EXAMPLES = """examples:
  a model that you have                       --from checkpoints/FLUX.1-dev --size 1024 -o flux
  its graph alone, no weights, in seconds     --recipe flux.1-dev@1024 --graph-only -o flux-graph
  a tiny one with random weights, for tests   --recipe flux.1-dev --tiny -o flux-tiny
  any height and width in one file            --recipe pixart-sigma-1024 --tiny --symbolic -o pixart
  sizes that you choose                       --recipe wan2.1-t2v-1.3b --graph-only -o wan \\
                                                --dynamic hidden_states.3=2*height --range height=4..64
  another class                               --class AuraFlowTransformer2DModel --config config.json \\
                                                --inputs inputs.safetensors --constant return_dict=false \\
                                                --random-weights 0

recipes: --list.  More: docs/export.md."""


def parser() -> argparse.ArgumentParser:
    """All options, in the groups of docs/export.md."""
    root = argparse.ArgumentParser(
        description=HELP, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root.add_argument("--list", action="store_true", help="show the recipes and stop")

    what = root.add_argument_group("which model (one of the first three)")
    what.add_argument("--recipe", metavar="NAME[@SIZE]", help="a released model; its configuration is built in")
    what.add_argument(
        "--from",
        dest="checkpoint",
        type=Path,
        metavar="FOLDER",
        help="a checkpoint in diffusers' layout: a transformer's folder, or a pipeline's",
    )
    what.add_argument(
        "--class", dest="class_name", metavar="CLASS", help="a transformer class of diffusers, with --config"
    )
    what.add_argument(
        "--config", type=Path, metavar="FILE", help="config.json of the model; with --recipe it replaces entries"
    )
    what.add_argument(
        "--tiny", action="store_true", help="the recipe's small variant: same graph, a few hundred thousand weights"
    )

    weights = root.add_argument_group("weights (not with --from; --tiny implies --random-weights 0)")
    weights.add_argument(
        "--graph-only", action="store_true", help="no weights: the file has their names, types and sizes"
    )
    weights.add_argument(
        "--random-weights", type=int, metavar="SEED", help="random weights in which every layer matters"
    )
    weights.add_argument(
        "--dtype", choices=build.DTYPES, default="bf16", help="type of weights and inputs (default: %(default)s)"
    )

    sizes = root.add_argument_group("sizes")
    sizes.add_argument("--size", metavar="HxW[xF]", help="pixels (and frames): 1024, 768x1360, 480x832x81")
    sizes.add_argument("--text", type=int, metavar="N", help="text tokens")
    sizes.add_argument(
        "--batch", type=int, metavar="N", help="samples; guidance by two passes in one call counts double"
    )
    sizes.add_argument(
        "--symbolic", action="store_true", help="give names to all sizes that the recipe knows to be free"
    )
    sizes.add_argument(
        "--dynamic",
        action="append",
        default=[],
        metavar="INPUT.AXIS=SYMBOL",
        help="name one size; `2*SYMBOL` for a multiple; the same name twice means the same size",
    )
    sizes.add_argument(
        "--range", action="append", default=[], dest="ranges", metavar="SYMBOL=MIN..MAX", help="bounds of a named size"
    )
    sizes.add_argument(
        "--deferred-checks",
        action="store_true",
        help="what torch cannot prove of the sizes is checked when the model runs, instead of being an error now",
    )
    sizes.add_argument(
        "--bucket",
        action="append",
        default=[],
        metavar="NAME=SIZE[,text=N][,batch=N]",
        help="golden inputs and outputs at another size too (inputs_NAME.safetensors)",
    )

    inputs = root.add_argument_group("inputs of classes without a recipe")
    inputs.add_argument(
        "--inputs", type=Path, metavar="FILE", help="safetensors; names are keyword arguments, a dot enters a dict"
    )
    inputs.add_argument(
        "--constant", action="append", default=[], metavar="NAME=JSON", help="an argument that is not a tensor"
    )

    output = root.add_argument_group("output")
    output.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="folder to write (default: the recipe's name)"
    )
    output.add_argument(
        "--core", action="store_true", help="write model_core.pt2 too, in core ATen (to test importers)"
    )
    output.add_argument("--no-golden", action="store_true", help="do not run the model: no outputs, less memory")
    output.add_argument(
        "--keep-traces", action="store_true", help="keep source lines of nodes (a larger file, with your paths in it)"
    )
    return root


def job_of(options: argparse.Namespace) -> Job:
    """Checks the options and fills in what they leave open."""
    recipe, recipe_name, config, class_name = _model(options)
    if options.tiny and not options.recipe:
        raise UsageError("--tiny needs --recipe")
    if not (options.checkpoint or options.tiny or options.graph_only or options.random_weights is not None):
        raise UsageError(
            "which weights? --graph-only for none, --random-weights SEED, --tiny, or --from FOLDER for real ones"
        )
    if options.checkpoint and (options.graph_only or options.random_weights is not None):
        raise UsageError("--from brings its weights; leave --graph-only and --random-weights out")
    if options.graph_only and options.core:
        raise UsageError("--core needs weights; take --tiny for a test")
    if options.symbolic and not (recipe and recipe.symbols):
        raise UsageError("--symbolic: no free sizes are known for this model; name them with --dynamic")
    folder = options.output or Path(recipe_name.replace("@", "-") or class_name)
    return Job(
        class_name=class_name,
        config=config,
        folder=folder,
        dtype=options.dtype,
        calls=_calls(options, recipe, config),
        recipe=recipe,
        recipe_name=recipe_name,
        checkpoint=options.checkpoint,
        graph_only=options.graph_only,
        seed=options.random_weights or 0,
        axes=(list(recipe.symbols) if options.symbolic else []) + options.dynamic,
        ranges=(list(recipe.ranges) if options.symbolic else []) + options.ranges,
        core=options.core,
        golden=not options.no_golden,
        keep_traces=options.keep_traces,
        deferred_checks=options.deferred_checks,
    )


def _model(options: argparse.Namespace) -> tuple[Recipe | None, str, dict[str, Any], str]:
    """Recipe, its name for the notes, configuration and class of the model."""
    if sum(bool(given) for given in (options.recipe, options.checkpoint, options.class_name)) != 1:
        raise UsageError("say which model: one of --recipe, --from, --class (--list shows recipes)")
    changes = _read_json(options.config) if options.config else {}
    if options.recipe:
        name, _, extent = options.recipe.partition("@")
        recipe = recipe_named(name)
        options.size = options.size or extent or None
        return recipe, options.recipe, recipe.configuration(options.tiny) | changes, recipe.class_name
    if options.checkpoint:
        options.checkpoint = build.checkpoint_folder(options.checkpoint)
        changes = _read_json(options.checkpoint / "config.json")
    elif not options.config:
        raise UsageError("--class needs --config FILE")
    class_name = options.class_name or changes.get("_class_name")
    if not class_name:
        raise UsageError("config.json does not name its class; give --class")
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(build.model_class(class_name).__init__).parameters.items()
        if parameter.default is not parameter.empty
    }
    return recipe_for_class(class_name), "", defaults | changes, class_name


def _calls(options: argparse.Namespace, recipe: Recipe | None, config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Keyword arguments of each bucket."""
    if options.inputs:
        return {"": _given_inputs(options)}
    if recipe is None:
        raise UsageError("no recipe knows the inputs of this class: give --inputs FILE and --constant")
    default = recipe.tiny_size if options.tiny else recipe.size
    if options.symbolic and default.batch == 1:
        default = replace(default, batch=2)  # torch.export keeps a size of 1 as a constant
    size = _sized(default, options.size, options.text, options.batch)
    calls = {"": recipe.inputs(config, size, seed=1)}
    for position, text in enumerate(options.bucket):
        name, _, rest = text.partition("=")
        extent, *others = rest.split(",")
        numbers = dict(other.split("=") for other in others if other.count("=") == 1)
        if not rest or set(numbers) - {"text", "batch"} or len(numbers) != len(others):
            raise UsageError(f"--bucket {text}: write NAME=SIZE[,text=N][,batch=N], for example wide=768x1360,text=256")
        bucket = _sized(size, extent, int(numbers.get("text", 0)), int(numbers.get("batch", 0)))
        calls[name] = recipe.inputs(config, bucket, seed=2 + position)
    return calls


def _sized(size: Size, extent: str | None, text: int | None, batch: int | None) -> Size:
    """`size` with what was asked for."""
    size = size.with_extent(extent) if extent else size
    return replace(size, text=text or size.text, batch=batch or size.batch)


def _given_inputs(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments out of --inputs and --constant."""
    from safetensors.torch import load_file

    if not options.inputs.is_file():
        raise UsageError(f"{options.inputs}: no such file")
    kwargs: dict[str, Any] = {}
    leaves: dict[str, Any] = dict(load_file(options.inputs))
    for text in options.constant:
        name, _, value = text.partition("=")
        try:
            leaves[name] = json.loads(value)
        except json.JSONDecodeError as error:
            raise UsageError(f"--constant {text}: the value must be JSON, for example return_dict=false") from error
    for name, value in leaves.items():
        *parents, last = name.split(".")
        place = kwargs
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return kwargs


def _read_json(path: Path) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path}: not a JSON object")
    return value
