# SPDX-License-Identifier: Apache-2.0
"""Golden tensors and weights of packages as torch tensors on the GPU."""
import ctypes
import json
import math
import zipfile

import torch

TORCH = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
         "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "b1": torch.bool, "f8e4m3": torch.float8_e4m3fn}


def from_bytes(data, dtype, shape, device="cuda"):
    if math.prod(shape) == 0:
        return torch.empty(shape, dtype=TORCH[dtype], device=device)
    return torch.frombuffer(bytearray(data), dtype=TORCH[dtype]).reshape(shape).to(device)


def read(path, device="cuda"):
    """Tensors of a safetensors file by name."""
    from ditc import safetensors

    return {name: from_bytes(tensor.data, tensor.dtype, tensor.shape, device) for name, tensor in safetensors.load(str(path)).items()}


def inputs_of(model, path):
    """Inputs by the package's names; files have the names of the exported graph."""
    names = {name.replace(".", "_"): name for name in model.inputs}
    return {names.get(name, name): tensor for name, tensor in read(path).items()}


def weights_in(package):
    """Weights that the package embeds, by name."""
    with zipfile.ZipFile(package) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        return {name: from_bytes(archive.read(entry["entry"]), entry["dtype"], entry["shape"])
                for name, entry in manifest["weights"].items() if "entry" in entry}


def random_weights(model, seed=0):
    """Values of a sensible size for all weights of a model."""
    generator = torch.Generator("cuda").manual_seed(seed)
    found = {}
    for name, info in model.weights.items():
        if TORCH[info.dtype].is_floating_point:
            scale = 0.7 / math.sqrt(info.shape[-1]) if len(info.shape) > 1 else 0.1
            found[name] = (torch.randn(info.shape, generator=generator, device="cuda") * scale).to(TORCH[info.dtype])
        else:
            found[name] = torch.zeros(info.shape, dtype=TORCH[info.dtype], device="cuda")
    return found


def random_inputs(model, bucket, seed=0):
    """Inputs of one bucket; integers are small, as class labels and timesteps are."""
    generator = torch.Generator("cuda").manual_seed(seed)
    ports = model.buckets[bucket].inputs
    return {name: torch.randn(info.shape, generator=generator, device="cuda").to(TORCH[info.dtype]) if TORCH[info.dtype].is_floating_point
            else torch.randint(0, 2 if info.dtype == "b1" else 500, info.shape, generator=generator, device="cuda").to(TORCH[info.dtype])
            for name, info in ports.items()}


def write_safetensors(tensors, path):
    """One tensor after the other, so that files may be larger than memory has room for."""
    spelled = {dtype: name.upper().replace("B1", "BOOL") for name, dtype in TORCH.items()}
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": spelled[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            held = tensor.contiguous().cpu()
            file.write(ctypes.string_at(held.data_ptr(), held.numel() * held.element_size()))
