# SPDX-License-Identifier: Apache-2.0
"""The part of the CUDA driver API that loads a cubin and launches a kernel, by ctypes.

torch owns the context and the memory; kernels of ditc run on torch's current stream, so that events, graphs and the
caching allocator see them like any other work.
"""
import ctypes
import functools

import torch

FUNCTION_MAX_DYNAMIC_SHARED = 8
FUNCTION_PREFERRED_CARVE_OUT = 9
LAUNCH_CLUSTER_DIMENSION = 4
LAUNCH_PROGRAMMATIC_SERIALIZATION = 6


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint32 * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)), ("attribute_count", ctypes.c_uint32)]


@functools.cache
def library():
    torch.zeros(1, device="cuda")  # makes torch's context current on this thread
    return ctypes.CDLL("libcuda.so.1")


def check(status, what):
    if status != 0:
        text = ctypes.c_char_p()
        library().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value.decode() if text.value else status}")


class Kernel:
    """One function of a cubin, with the launch shape that does not depend on the problem."""

    def __init__(self, image, name, threads, shared_bytes, cluster=1):
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(library().cuModuleLoadData(ctypes.byref(self.module), image), f"loading {name}")
        check(library().cuModuleGetFunction(ctypes.byref(self.function), self.module, name.encode()), name)
        check(library().cuFuncSetAttribute(self.function, FUNCTION_MAX_DYNAMIC_SHARED, ctypes.c_int(shared_bytes)),
              f"{shared_bytes} bytes of shared memory for {name}")
        self.name, self.threads, self.shared_bytes, self.cluster = name, threads, shared_bytes, cluster

    def prefer_carve_out(self, percent):
        """A property of this function; the GPU's settings stay as they are."""
        check(library().cuFuncSetAttribute(self.function, FUNCTION_PREFERRED_CARVE_OUT, ctypes.c_int(percent)), f"carve-out of {percent} %")

    def _attributes(self, dependent):
        cluster = LaunchAttribute(id=LAUNCH_CLUSTER_DIMENSION)
        cluster.value[:3] = [self.cluster, 1, 1]
        serialization = LaunchAttribute(id=LAUNCH_PROGRAMMATIC_SERIALIZATION)
        serialization.value[0] = 1
        return [cluster] * (self.cluster > 1) + [serialization] * dependent

    def bind(self, blocks, *arguments, dependent=False):
        """A function that launches with these arguments (bytes of the parameters' structs) on the current stream.
        `dependent`: by programmatic dependent launch, so that the kernel sets up while the one before it ends."""
        attributes = self._attributes(dependent)
        attribute_array = (LaunchAttribute * max(1, len(attributes)))(*attributes)
        buffers = [ctypes.create_string_buffer(bytes(a), len(a)) for a in arguments]
        pointers = (ctypes.c_void_p * len(buffers))(*[ctypes.addressof(b) for b in buffers])
        config = LaunchConfig(shared_bytes=self.shared_bytes, attributes=attribute_array,
                              attribute_count=len(attributes))
        config.grid[:] = [blocks, 1, 1]
        config.block[:] = [self.threads, 1, 1]
        launch = library().cuLaunchKernelEx

        def call():
            assert buffers
            config.stream = torch.cuda.current_stream().cuda_stream
            check(launch(ctypes.byref(config), self.function, pointers, None), f"launching {self.name}")

        return call
