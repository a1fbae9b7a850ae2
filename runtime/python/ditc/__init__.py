# SPDX-License-Identifier: Apache-2.0
"""ditc: runs compiled diffusion transformers (.dita packages), and calls the compiler.

    import ditc
    model = ditc.load("dit.dita")
    noise = model(hidden_states=latents, timestep=t)

Tensors of torch, numpy, cupy, jax and everything with DLPack or the buffer protocol are used where they lie.
"""

from . import safetensors
from .compiler import compile, inspect, report
from .context import Context
from .errors import Error
from .library import library as _library
from .model import Model, load
from .package import Bucket, TensorInfo
from .tensors import Tensor
from .wrapping import Wrapped, wrap

__version__ = "0.1.0"

__all__ = [
    "Bucket",
    "Context",
    "Error",
    "Model",
    "Tensor",
    "TensorInfo",
    "Wrapped",
    "compile",
    "inspect",
    "load",
    "report",
    "runtime_version",
    "safetensors",
    "wrap",
]


def runtime_version() -> str:
    """Version of the libditrt.so that is loaded."""
    return _library().version().decode()
