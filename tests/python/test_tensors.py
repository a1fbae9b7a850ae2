# SPDX-License-Identifier: Apache-2.0
"""Memory of other libraries is read where it lies: buffers, DLPack, torch; names of nested tensors; safetensors."""

import array
import ctypes
import gc
import sys
import unittest
import weakref

from ditc import abi, dlpack, safetensors, structure, tensors
from support import HAS_NUMPY, HAS_TORCH, ditc, needs_numpy, needs_torch

if HAS_NUMPY:
    import numpy
if HAS_TORCH:
    import torch

VERSIONED_NUMPY = HAS_NUMPY and tuple(int(part) for part in numpy.__version__.split(".")[:2]) >= (2, 1)


class OnlyDlpack:
    """A tensor of which only the protocol is known; without versions when ``old``."""

    def __init__(self, value, old=False):
        self.value, self.old = value, old

    def __dlpack_device__(self):
        return self.value.__dlpack_device__()

    def __dlpack__(self, **keywords):
        if self.old and "max_version" in keywords:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.value.__dlpack__(**keywords)


def name_of(view):
    return abi.DTYPES[view.dtype]


class Structure(unittest.TestCase):
    def test_flatten_names_leaves_by_path(self):
        self.assertEqual(structure.flatten({"a": {"b": 1, "c": [2, (3,)]}, "d": None, "e": {}, "f": []}),
                         {"a.b": 1, "a.c.0": 2, "a.c.1.0": 3, "d": None})

    def test_unflatten_gives_back_what_was_returned(self):
        self.assertEqual(structure.unflatten({"output": 1}), 1)
        self.assertEqual(structure.unflatten({"output.0": 1}), (1,))
        self.assertEqual(structure.unflatten({"sample": 1}), {"sample": 1})
        self.assertEqual(structure.unflatten({"a.1": 2, "a.0": 1, "b.c": 3}), {"a": (1, 2), "b": {"c": 3}})
        self.assertEqual(structure.unflatten({"a.1": 2, "a.3": 1}), {"a": {1: 2, 3: 1}})
        self.assertEqual(structure.unflatten({"output.0.0": 1, "output.1": None}), ((1,), None))
        self.assertEqual(structure.assembler(["output.1"], ["output.0"])([2]), (None, 2))


class Buffers(unittest.TestCase):
    def test_array(self):
        values = array.array("f", [1, 2, 3])
        view = tensors.view(values, "x")
        self.assertEqual((name_of(view), view.shape, view.strides, view.readonly), ("f32", (3,), (1,), False))
        self.assertEqual(view.data, values.buffer_info()[0])

    def test_types_and_steps(self):
        two = memoryview(bytes(24)).cast("q", (3, 1))
        view = tensors.view(two, "x")
        self.assertEqual((name_of(view), view.shape, view.readonly), ("i64", (3, 1), True))
        every_second = tensors.view(memoryview(array.array("h", range(6)))[::2], "x")
        self.assertEqual((name_of(every_second), every_second.shape, every_second.strides), ("i16", (3,), (2,)))

    def test_what_is_no_tensor_is_named(self):
        for value in (3, None, "text", object()):
            with self.assertRaisesRegex(ditc.Error, "input 'x' is .*; expected a tensor"):
                tensors.view(value, "input 'x'")

    def test_a_buffer_is_held_as_long_as_its_view(self):
        values = bytearray(8)
        view = tensors.view(values, "x")
        with self.assertRaises(BufferError):
            values.append(1)
        del view
        values.append(1)

    def test_tensor(self):
        tensor = ditc.Tensor(array.array("H", [0x3f80, 0xc000, 0x3f00, 0]), "bf16", (2, 2))
        self.assertEqual(tensor.tolist(), [[1.0, -2.0], [0.5, 0.0]])
        view = tensors.view(tensor, "x")
        self.assertEqual((name_of(view), view.shape, view.strides), ("bf16", (2, 2), None))
        with self.assertRaisesRegex(ditc.Error, r"f32 \[3\] takes 12 bytes, got 8"):
            ditc.Tensor(bytes(8), "f32", (3,))
        with self.assertRaisesRegex(ditc.Error, "'float' is no type"):
            ditc.Tensor(bytes(8), "float", (2,))


class Safetensors(unittest.TestCase):
    def test_round_trip(self):
        held = {"a": array.array("f", [1, 2]), "b.c": ditc.Tensor(bytes([0x80, 0x3f]), "bf16", ()), "empty": ditc.Tensor(b"", "i64", (0, 3))}
        back = safetensors.loads(safetensors.dumps(held))
        self.assertEqual({name: (tensor.dtype, tensor.shape, tensor.tolist()) for name, tensor in back.items()},
                         {"a": ("f32", (2,), [1.0, 2.0]), "b.c": ("bf16", (), 1.0), "empty": ("i64", (0, 3), [])})

    def test_strides_of_nothing_do_not_matter(self):
        nothing = ditc.Tensor(b"", "i8", (0, 3))
        for strides in (None, (0, 1), (0, 0)):
            self.assertTrue(safetensors._is_dense(nothing.shape, strides))

    def test_damage_is_an_error(self):
        good = safetensors.dumps({"a": array.array("f", [1, 2])})
        for data in (b"", b"short", good[:-1], good[:20], good.replace(b'"F32"', b'"F33"'), good.replace(b"[0, 8]", b"[0, 9]")):
            with self.assertRaisesRegex(ditc.Error, "the body is no safetensors file"):
                safetensors.loads(data, "the body")


@needs_numpy
class Numpy(unittest.TestCase):
    def test_dlpack_old_and_new(self):
        values = numpy.arange(12, dtype="float32").reshape(3, 4)[:, ::2]
        for old in (True, False):
            view = tensors.view(OnlyDlpack(values, old), "x")
            self.assertEqual((name_of(view), view.shape, view.strides), ("f32", (3, 2), (4, 2)))
            self.assertEqual(view.data, values.__array_interface__["data"][0])

    def test_all_types(self):
        for name, numpy_name in tensors._NUMPY_NAMES.items():
            self.assertEqual(name_of(tensors.view(numpy.zeros(2, numpy_name), "x")), name)
            self.assertEqual(name_of(dlpack.from_buffer(numpy.zeros(2, numpy_name))), name)
        with self.assertRaisesRegex(ditc.Error, "x: .*convert the tensor before the call"):
            tensors.view(numpy.zeros(2, "datetime64[s]"), "x")

    def test_read_only_arrays_are_read(self):
        values = numpy.ones(3)
        values.flags.writeable = False
        view = tensors.view(values, "x")
        self.assertEqual((name_of(view), view.readonly), ("f64", True))

    def test_the_array_lives_as_long_as_its_view(self):
        class Watched(numpy.ndarray):
            pass

        values = numpy.ones(3).view(Watched)
        alive = weakref.ref(values)
        view = tensors.view(values, "x")
        del values
        gc.collect()
        self.assertIsNotNone(alive())
        self.assertEqual(ctypes.c_double.from_address(view.data).value, 1.0)
        del view
        gc.collect()
        self.assertIsNone(alive())

    def test_a_capsule_is_freed_once(self):
        values = numpy.ones(3)
        before = sys.getrefcount(values)
        for _ in range(100):
            tensors.view(values, "x")
        self.assertEqual(sys.getrefcount(values), before)

    def test_numpy_reads_tensor_without_a_copy(self):
        tensor = ditc.Tensor.empty("f32", (2, 3))
        numpy.asarray(tensor)[1, 2] = 5
        self.assertEqual(tensor.tolist()[1], [0.0, 0.0, 5.0])


@needs_torch
class Torch(unittest.TestCase):
    def test_torch_tensors_and_their_dlpack_are_the_same_memory(self):
        for name, torch_name in tensors._TORCH_NAMES.items():
            if not hasattr(torch, torch_name):
                continue
            value = torch.zeros(6, dtype=getattr(torch, torch_name)).reshape(2, 3).T
            view = tensors.view(value, "x")
            self.assertEqual((name_of(view), view.shape, view.strides, view.data), (name, (3, 2), (1, 3), value.data_ptr()))
            other = tensors.view(OnlyDlpack(value), "x")
            self.assertEqual(other[:6], view[:6], name)

    def test_parameters_are_taken_and_their_memory_is_held(self):
        parameter = torch.nn.Parameter(torch.full((3,), 2.0))
        view = tensors.view(parameter, "x")
        parameter.data = torch.zeros(5)
        gc.collect()
        self.assertEqual(list((ctypes.c_float * 3).from_address(view.data)), [2.0, 2.0, 2.0])

    def test_lazy_and_foreign_tensors_are_refused(self):
        lazy = torch.zeros(2, dtype=torch.complex64).conj()
        for value, text in ((lazy, "no plain memory"), (torch.zeros(2, 2).to_sparse(), "no plain memory"),
                            (torch.zeros(2, device="meta"), "on device 'meta'")):
            with self.assertRaisesRegex(ditc.Error, f"input 'x' is .*{text}"):
                tensors.view(value, "input 'x'")

    def test_new_tensors_are_of_the_framework(self):
        made = tensors.empty("torch", abi.DTYPE_VALUES["bf16"], (2, 3), abi.HOST, 0)
        self.assertEqual((made.dtype, tuple(made.shape)), (torch.bfloat16, (2, 3)))


if __name__ == "__main__":
    unittest.main()
