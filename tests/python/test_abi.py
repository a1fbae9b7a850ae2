# SPDX-License-Identifier: Apache-2.0
"""The ctypes declarations are those of ditc.h, and the library has them."""

import ctypes
import re
import unittest

import support
from ditc import abi
from ditc.library import library

HEADER = (support.ROOT / "runtime" / "include" / "ditc.h").read_text()
CODE = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
STRUCTS = {"ditc_tensor": abi.Tensor, "ditc_tensor_info": abi.TensorInfo, "ditc_options": abi.Options,
           "ditc_memory_info": abi.MemoryInfo}
SCALARS = {"int": ctypes.c_int, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
           "size_t": ctypes.c_size_t, "ditc_dtype": ctypes.c_int, "ditc_device": ctypes.c_int, "ditc_status": abi.Status,
           "ditc_bucket_policy": ctypes.c_int, "ditc_fallback": "pointer"}


def ctype(declared: str):
    """The kind of a C type: scalars as themselves, pointers as one of three that ctypes passes alike."""
    pointers = declared.count("*")
    base = declared.replace("const", "").replace("*", "").split()
    if not pointers:
        return SCALARS.get(base[0]) if base else None
    return {("char", 1): ctypes.c_char_p}.get((base[0], pointers), "pointer")


def kind(declared):
    if declared is ctypes.c_void_p or (isinstance(declared, type) and issubclass(declared, ctypes._Pointer)):
        return "pointer"
    return declared


class Abi(unittest.TestCase):
    def test_structs_have_the_fields_of_the_header(self):
        for name, mirror in STRUCTS.items():
            body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (name, name), CODE, re.S).group(1)
            declared = [re.match(r"(.*?)(\w+)$", line.strip(), re.S).groups() for line in body.split(";") if line.strip()]
            self.assertEqual([(field, ctype(text)) for text, field in declared],
                             [(field, kind(held)) for field, held in mirror._fields_], name)

    def test_functions_are_those_of_the_header(self):
        declared = re.findall(r"DITC_API ([\w \*]*?)(ditc_\w+)\((.*?)\);", CODE, re.S)
        self.assertEqual([name for _, name, _ in declared], list(abi.FUNCTIONS))
        for result, name, arguments in declared:
            texts = [] if arguments.strip() == "void" else [re.sub(r"\w+$", "", text.strip()) for text in arguments.split(",")]
            expected_result, expected = abi.FUNCTIONS[name]
            self.assertEqual([ctype(text) for text in texts], [kind(held) for held in expected], name)
            self.assertEqual(None if result.strip() == "void" else ctype(result), kind(expected_result), name)

    def test_enumerations_have_the_values_of_the_header(self):
        values = {name: int(value) for name, value in re.findall(r"\b(DITC_\w+) = (\d+)", CODE)}
        self.assertEqual([values["DITC_HOST"], values["DITC_CUDA"]], [abi.HOST, abi.CUDA])
        self.assertEqual([values["DITC_BUCKET_EXACT"], values["DITC_BUCKET_NEAREST"]], [abi.POLICIES["error"], abi.POLICIES["nearest"]])

    def test_types_have_the_library_s_names_and_sizes(self):
        for value, name in enumerate(abi.DTYPES):
            self.assertEqual(library().dtype_name(value), name.encode())
            self.assertEqual(library().dtype_size(value), abi.DTYPE_SIZES[value], name)
        self.assertIsNone(library().dtype_name(len(abi.DTYPES)))

    def test_versions_agree(self):
        self.assertEqual(support.ditc.runtime_version(), support.ditc.__version__)


if __name__ == "__main__":
    unittest.main()
