# SPDX-License-Identifier: Apache-2.0
"""plan.programs read from text, and their kernels launched on torch tensors as the runtime would launch them."""
import ctypes
import json
import math
import os
import re

import torch

from . import driver, tensormap

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i1": torch.uint8, "i8": torch.int8, "u8": torch.uint8, "i32": torch.int32,
          "f8E4M3FN": torch.float8_e4m3fn}
PROMOTE_L2_256 = 3


class Type:
    def __init__(self, text):
        match = re.fullmatch(r"memref<((?:\d+x)*)(\w+)(?:, strided<\[([\d, ]*)\](?:, offset: (\d+))?>)?>", text)
        self.shape = [int(size) for size in match[1].split("x")[:-1]]
        self.element, self.offset = match[2], int(match[4] or 0)
        self.strides = ([int(s) for s in match[3].split(",") if s.strip()] if match[3] is not None
                        else [math.prod(self.shape[i + 1:]) for i in range(len(self.shape))])
        self.span = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides)) + 1


class Program:
    """Buffers {name: (space, Type)}, views {name: (source, Type)}, launches [(kernel, names)]."""

    MEMREF = r"memref<(?:[^<>]|<[^<>]*>)*>"

    def __init__(self, text):
        self.buffers, self.views, self.launches = {}, {}, []
        self.prepared = 0  # so many of the launches are not of a step
        for line in text.splitlines():
            if found := re.match(rf"\s*(%\w+) = plan\.buffer +(\w+).* : ({self.MEMREF})$", line):
                self.buffers[found[1]] = (found[2], Type(found[3]))
            elif found := re.match(rf"\s*(%\w+) = plan\.view (%\w+) : {self.MEMREF} -> ({self.MEMREF})$", line):
                self.views[found[1]] = (found[2], Type(found[3]))
            elif found := re.match(r"\s*plan\.launch @(\w+)\(([^)]*)\)", line):
                self.launches.append((found[1], [name.strip() for name in found[2].split(",")]))
            elif line.strip() == "plan.step {":
                self.prepared = len(self.launches)
        self.inputs = [name for name, (space, _) in self.buffers.items() if space == "input"]
        self.outputs = [name for name, (space, _) in self.buffers.items() if space == "output"]

    def root(self, name):
        while name in self.views:
            name = self.views[name][0]
        return name

    def type(self, name):
        return self.views[name][1] if name in self.views else self.buffers[name][1]

    def view(self, name, memory):
        """The tensor of a buffer or view; `memory` has the buffers as flat tensors."""
        kind = self.type(name)
        return memory[self.root(name)].as_strided(kind.shape, kind.strides, kind.offset)

    @property
    def scratch_bytes(self):
        """Device memory beyond inputs and outputs."""
        return sum(kind.span * DTYPES[kind.element].itemsize for space, kind in self.buffers.values() if space not in ("input", "output"))


def programs(path):
    """{name: Program} of a file."""
    with open(path) as file:
        text = file.read()
    parts = re.split(r"^\s*plan\.program @(\w+) ", text, flags=re.M)
    return {name: Program(body.split("plan.kernel")[0]) for name, body in zip(parts[1::2], parts[2::2])}


class Images:
    """The kernels of a folder that compile_kernels wrote."""

    def __init__(self, folder):
        with open(os.path.join(folder, "kernels.json")) as file:
            self.kernels = {kernel["name"]: kernel for kernel in json.load(file)["kernels"]}
        self.folder, self.loaded = folder, {}
        self.multiprocessors = 0  # above 0: persistent kernels get blocks as on a smaller GPU
        self.carve_out = None  # percent of a multiprocessor's memory that is shared memory, where it is not the driver's choice

    def bind(self, name, pointers):
        """A function that launches the kernel on these addresses."""
        image = self.kernels[name]
        if name not in self.loaded:
            with open(os.path.join(self.folder, image["image"]), "rb") as file:
                self.loaded[name] = driver.Kernel(file.read(), name, image["threads"], image["shared_bytes"], image["cluster"])
            if self.carve_out:
                self.loaded[name].prefer_carve_out(self.carve_out)
        return Launch(self.loaded[name], self.grid(image), [self.parameter(p, pointers) for p in image["parameters"]])

    def grid(self, image):
        """A persistent kernel gets no more blocks than run at once."""
        most = image["blocks_per_sm"] * (self.multiprocessors or torch.cuda.get_device_properties(0).multi_processor_count)
        return [min(image["grid"][0], most) if most else image["grid"][0], *image["grid"][1:]]

    @staticmethod
    def parameter(parameter, pointers):
        value = bytearray(bytes.fromhex(parameter.get("bytes", "")).ljust(parameter["size"], b"\0"))
        for patch in parameter["patches"]:
            if isinstance(patch, list):
                offset, argument, add = patch
                value[offset:offset + 8] = (pointers[argument] + add).to_bytes(8, "little")
            else:
                value[patch["offset"]:patch["offset"] + 128] = encode(pointers[patch["arg"]] + patch["add"], patch)
        return bytes(value)


def encode(pointer, patch):
    rank, room = len(patch["sizes"]), ctypes.create_string_buffer(128 + 64)
    address = (ctypes.addressof(room) + 63) & ~63
    code = tensormap.DTYPES[DTYPES[patch["dtype"]]]
    driver.check(driver.library().cuTensorMapEncodeTiled(
        ctypes.c_void_p(address), code, rank, ctypes.c_void_p(pointer), (ctypes.c_uint64 * rank)(*patch["sizes"]),
        (ctypes.c_uint64 * (rank - 1))(*patch["strides"]), (ctypes.c_uint32 * rank)(*patch["box"]), (ctypes.c_uint32 * rank)(*[1] * rank),
        0, patch["swizzle"], PROMOTE_L2_256, 0), f"tensor map {patch}")
    return ctypes.string_at(address, 128)


class Launch:
    """One launch with its arguments; parameters with tensor maps start on 64 bytes."""

    def __init__(self, kernel, grid, parameters):
        self.kernel, self.rooms = kernel, []
        addresses = []
        for value in parameters:
            room = ctypes.create_string_buffer(len(value) + 64)
            address = (ctypes.addressof(room) + 63) & ~63
            ctypes.memmove(address, value, len(value))
            self.rooms.append(room)
            addresses.append(address)
        self.pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        attributes = kernel._attributes(False)
        self.attributes = (driver.LaunchAttribute * max(1, len(attributes)))(*attributes)
        self.config = driver.LaunchConfig(shared_bytes=kernel.shared_bytes, attributes=self.attributes, attribute_count=len(attributes))
        self.config.grid[:] = grid
        self.config.block[:] = [kernel.threads, 1, 1]

    def __call__(self):
        self.config.stream = torch.cuda.current_stream().cuda_stream
        driver.check(driver.library().cuLaunchKernelEx(ctypes.byref(self.config), self.kernel.function, self.pointers, None),
                     f"launching {self.kernel.name}")


class Plan:
    """A program bound to memory."""

    def __init__(self, program, images, memory):
        self.launches = []
        for kernel, names in program.launches:
            pointers = [memory[program.root(n)].data_ptr() + program.type(n).offset * memory[program.root(n)].element_size() for n in names]
            self.launches.append(images.bind(kernel, pointers))
        self.memory = memory

    def __call__(self):
        for launch in self.launches:
            launch()
