# SPDX-License-Identifier: Apache-2.0
"""As much of torch as ditc looks at, with "GPU" tensors in memory of the host: the GPU's path through the package, without
torch and without a GPU."""

import ctypes
import types
from collections import namedtuple

import support  # noqa: F401  (finds ditc)
from ditc import tensors

Device = namedtuple("Device", "type index")
SIZES = {"float32": 4, "int64": 8}


class Tensor:
    def __init__(self, shape, dtype, device, shift=0):
        self.shape, self.dtype, self.device, self.layout = tuple(shape), dtype, device, "strided"
        self.count = 1
        for size in self.shape:
            self.count *= size
        self._memory = (ctypes.c_char * (self.count * SIZES[dtype] + 64))()
        self._start = -ctypes.addressof(self._memory) % 16 + shift
        self._version, self.recorded, self.is_strided = 0, [], False

    is_cuda = property(lambda self: self.device.type == "cuda")

    def data_ptr(self):
        return ctypes.addressof(self._memory) + self._start

    def is_contiguous(self):
        return not self.is_strided

    def is_neg(self):
        return False

    is_conj = is_neg

    def detach(self):
        return self

    def clone(self):
        copy = Tensor(self.shape, self.dtype, self.device)
        ctypes.memmove(copy.data_ptr(), self.data_ptr(), self.count * SIZES[self.dtype])
        return copy

    contiguous = clone

    def to(self, place):
        copy = self.clone()
        copy.device = Device(*place.split(":")[:1], int(place.split(":")[1]))
        return copy

    def record_stream(self, stream):
        self.recorded.append(stream.cuda_stream)

    def tolist(self):
        kind = {"float32": ctypes.c_float, "int64": ctypes.c_int64}[self.dtype]
        return list((kind * self.count).from_address(self.data_ptr()))


class Parameter(Tensor):
    pass


class Torch(types.ModuleType):
    """The module. ``stream`` is the address of the current stream, ``entered`` those that were made current; ``made``
    counts new tensors, which lie in another pool while it ``captures``."""

    strided, float32, int64 = "strided", "float32", "int64"
    Tensor, nn = Tensor, types.SimpleNamespace(Parameter=Parameter)

    def __init__(self):
        super().__init__("torch")
        self.stream, self.entered, self.made, self.captures, self.infers = 0, [], 0, False, False
        self._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: self.stream, _cuda_isCurrentStreamCapturing=lambda: self.captures)
        self.is_inference_mode_enabled = lambda: self.infers
        self.cuda = types.SimpleNamespace(current_stream=lambda index: types.SimpleNamespace(cuda_stream=self.stream), stream=self._Scope,
                                          ExternalStream=lambda address, device: (self, address), synchronize=lambda device: None)

    class _Scope:
        def __init__(self, stream):
            self.module, self.address = stream

        def __enter__(self):
            self.before, self.module.stream = self.module.stream, self.address
            self.module.entered.append(self.address)

        def __exit__(self, *reason):
            self.module.stream = self.before

    def empty_strided(self, shape, strides, dtype, device):
        self.made += 1
        return self.empty(shape, dtype, device)

    @staticmethod
    def empty(shape, dtype, device):
        return Tensor(shape, dtype, device if isinstance(device, Device) else Device("cuda", int(device.split(":")[1])))


def on(device, tensor, shift=0):
    """A ditc.Tensor as one of this torch; ``shift`` misaligns it."""
    made = Tensor(tensor.shape, {"f32": "float32", "i64": "int64"}[tensor.dtype], device, shift)
    ctypes.memmove(made.data_ptr(), bytes(tensor.data), len(tensor.data))
    return made


def forget():
    """What the package remembers of the torch of this process."""
    tensors._torch_types.cache_clear()
