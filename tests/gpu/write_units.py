# SPDX-License-Identifier: Apache-2.0
"""write_units.py BUNDLE: writes the translation units of a bundle's kernels (needs no GPU and no torch)."""
import os
import sys
import types

# The variants name torch's types; where torch is not installed, names are all that is needed.
try:
    import torch  # noqa: F401
except ImportError:
    stub = types.ModuleType("torch")
    for name in ("bfloat16", "float16", "float32", "float8_e4m3fn", "uint8"):
        setattr(stub, name, name)
    stub.dtype, stub.Tensor = object, object
    stub.nn = types.ModuleType("torch.nn")
    stub.nn.functional = types.ModuleType("torch.nn.functional")
    sys.modules.update({"torch": stub, "torch.nn": stub.nn, "torch.nn.functional": stub.nn.functional})

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ditc_gpu import gemm_cases  # noqa: E402

bundle = sys.argv[1]
os.makedirs(bundle, exist_ok=True)
for variant in gemm_cases.variants():
    with open(os.path.join(bundle, variant.name + ".cu"), "w") as file:
        file.write(variant.unit())
