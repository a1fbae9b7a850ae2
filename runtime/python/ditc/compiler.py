# SPDX-License-Identifier: Apache-2.0
"""Calls the compiler, the program `ditc`: export, compile, inspect, report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

from .errors import USAGE, Error


def find_compiler() -> str:
    """The program: DITC_BINARY, else beside this package, else on PATH. Raises Error when it is nowhere."""
    chosen = os.environ.get("DITC_BINARY")
    beside = Path(__file__).resolve().parent / "bin" / "ditc"
    found = chosen or (str(beside) if beside.exists() else shutil.which("ditc"))
    if not found or not os.access(found, os.X_OK):
        raise Error(
            f"cannot find the compiler ({chosen or 'ditc on PATH'}); build it, or set DITC_BINARY to the program `ditc`"
        )
    return found


def call_compiler(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """`ditc ARGUMENTS`, whatever its exit status. Raises Error when it cannot be run."""
    command = [find_compiler(), *(os.fspath(argument) for argument in arguments)]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Error(f"cannot run '{command[0]}': {error}") from None


def failure(done: subprocess.CompletedProcess[str]) -> Error:
    text = done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
    return Error(text.removeprefix("ditc: error: "), done.returncode if done.returncode in (1, 2, 3) else 3)


def run_compiler(*arguments: Any) -> str:
    """Standard output of `ditc ARGUMENTS`. Raises Error with its message and exit status."""
    done = call_compiler(*arguments)
    if done.returncode:
        raise failure(done)
    return done.stdout


def bucket_options(buckets: Mapping[str, Mapping[str, int]] | Iterable[str] | None) -> list[str]:
    """``{"small": {"hidden_states.0": 1}}`` as options of `ditc compile`."""
    if buckets is None:
        return []
    if isinstance(buckets, str):
        buckets = [buckets]
    if isinstance(buckets, Mapping):
        buckets = [
            f"{name}:{','.join(f'{size}={value}' for size, value in sizes.items())}" for name, sizes in buckets.items()
        ]
    return [text for bucket in buckets for text in ("--bucket", bucket)]


def export(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any, path: str) -> None:
    """torch.export of a module in inference mode, with weights. Errors are torch's."""
    import torch

    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            program = torch.export.export(
                module, tuple(args), dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
            )
        torch.export.save(program, path)
    finally:
        module.train(was_training)


def compile(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    output: str | os.PathLike[str],
    buckets: Mapping[str, Mapping[str, int]] | str | Iterable[str] | None = None,
    dynamic_shapes: Any = None,
    weights: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    targets: str | Iterable[str] = (),
    numerics: str | None = None,
    quantize: str | None = None,
    quantize_attention: str | None = None,
    options: Sequence[str] = (),
) -> str:
    """Compiles a module or an export into the package ``output``, and returns that path.

    model: a torch module, which is exported with the example ``args`` and ``kwargs`` (tensors by argument name;
    ``return_dict=False`` for diffusers), a path of a .pt2, or several static exports as {bucket: path}.
    buckets: sizes of a symbolic export, {"small": {"hidden_states.0": 1}} by input and dimension or by symbol, or texts
    as `ditc compile --bucket` takes them. dynamic_shapes: of torch.export.
    weights: safetensors files in place of the export's weights. targets: what to compile for ("host", ...).
    numerics: "fast" or "eager". quantize: "fp8", quantize_attention: "int8" (docs/quantization.md).
    options: further options of `ditc compile`, as texts.

    Raises ditc.Error with the compiler's message; what torch.export raises.
    """
    targets = [targets] if isinstance(targets, str) else targets
    weights = [weights] if isinstance(weights, (str, os.PathLike)) else weights
    further = [text for target in targets for text in ("--target", target)]
    further += [text for file in weights for text in ("--weights", os.fspath(file))]
    further += ["--numerics", numerics] if numerics else []
    further += ["--quantize", quantize] if quantize else []
    further += ["--quantize-attention", quantize_attention] if quantize_attention else []
    further += [*bucket_options(buckets), *options, "-q", "-o", os.fspath(output)]
    if isinstance(model, (str, os.PathLike)):
        run_compiler("compile", model, *further)
    elif isinstance(model, Mapping):
        run_compiler("compile", *(f"{name}={os.fspath(path)}" for name, path in model.items()), *further)
    elif hasattr(model, "named_parameters"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.pt2")
            export(model, args, kwargs or {}, dynamic_shapes, path)
            run_compiler("compile", path, *further)
    else:
        raise Error(
            f"model is of type {type(model).__name__}; expected a torch module, a path of a .pt2, or a dict of paths",
            USAGE,
        )
    return os.fspath(output)


def inspect(model: str | os.PathLike[str]) -> dict[str, Any]:
    """What a .pt2 is: inputs, outputs, symbolic sizes, ops, and what is not supported. Raises ditc.Error."""
    done = call_compiler("inspect", model, "--json")
    found = json.loads(done.stdout) if done.returncode in (0, 1) else {"error": done.stderr}
    if "error" in found:  # status 1 without it: a model that is not supported
        raise failure(done)
    return found


def report(package: str | os.PathLike[str], bucket: str | None = None, gpu: str | None = None) -> dict[str, Any]:
    """What the compiler did: report.json as in docs/report.md, with roofline times of ``gpu``. Raises ditc.Error."""
    options = (["--bucket", bucket] if bucket else []) + (["--gpu", gpu] if gpu else [])
    return json.loads(run_compiler("report", package, "--json", *options))
