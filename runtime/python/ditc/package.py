# SPDX-License-Identifier: Apache-2.0
"""An open package: what it says about itself, its weights, and which bucket takes which shapes. Shared by contexts."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import weakref
import zipfile
from typing import Any, Mapping, NamedTuple

from . import abi
from .dlpack import View
from .errors import USAGE, Error
from .library import library
from .placement import settle
from .tensors import structs, view


class TensorInfo(NamedTuple):
    """Type ("bf16") and sizes of an input, output or weight. Of a model, a size that buckets bind is a symbol."""

    dtype: str
    shape: tuple[Any, ...]


class Bucket(NamedTuple):
    """The sizes that one bucket was compiled for, by name."""

    name: str
    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]


def bucket_name(bucket: Any) -> bytes | None:
    """For the library. Raises Error when it is neither None nor a name."""
    if bucket is None:
        return None
    if not isinstance(bucket, str) or not bucket:
        raise Error(f"bucket is {bucket!r}; expected None or the name of a bucket", USAGE)
    return bucket.encode()


def read_manifest(path: str) -> dict[str, Any]:
    """manifest.json of a package. Raises Error when the file is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read("manifest.json"))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise Error(f"cannot read package '{path}': {error}; give a .dita file that `ditc compile` wrote") from None


def device_name(device: Any, manifest: Mapping[str, Any]) -> str:
    """ "host" or "cuda:N" of a name, a torch.device, or None: the first GPU when the package has code for one."""
    if device is None:
        names = [target.get("name") for target in manifest.get("targets", [])]
        return "host" if not names or "host" in names else "cuda:0"
    text = str(device)
    return {"cpu": "host", "cuda": "cuda:0"}.get(text, text)


class Package:
    """Owns a ditc_package. Contexts keep it; it may be used from several threads."""

    def __init__(self, path: str, device: Any, weight_files: list[str], settings: Mapping[str, int]):
        """``settings`` are fields of ditc_options."""
        self.path = os.fspath(path)
        self.manifest = read_manifest(self.path)
        self.device = device_name(device, self.manifest)
        self.on_gpu = self.device.startswith("cuda")
        self.device_index = int(self.device[5:]) if self.device[5:].isdigit() else 0
        self.library = library()
        files = (ctypes.c_char_p * len(weight_files))(*(os.fsencode(file) for file in weight_files))
        options = abi.Options(
            size=ctypes.sizeof(abi.Options),
            device=self.device.encode(),
            weight_files=files,
            weight_file_count=len(files),
            **settings,
        )
        handle = abi.PACKAGE()
        self.library.open(os.fsencode(self.path), ctypes.byref(options), ctypes.byref(handle))
        self.handle = handle
        # At exit the process frees everything, in an order in which drivers do not vanish under a destructor.
        weakref.finalize(self, self.library.close, handle).atexit = False

        self.inputs = {
            port["name"]: TensorInfo(port["dtype"], tuple(port["shape"])) for port in self.manifest["inputs"]
        }
        self.outputs = {
            port["name"]: TensorInfo(port["dtype"], tuple(port["shape"])) for port in self.manifest["outputs"]
        }
        self.nones: list[str] = self.manifest.get("none_outputs", [])
        self.constants: dict[str, Any] = self.manifest.get("constant_inputs", {})
        self.pinned = frozenset(self.manifest.get("pinned", []))
        self.buckets = self._read_buckets()
        self.weights = dict(self._info(self.library.weight_info, i) for i in range(self.library.weight_count(handle)))
        self.borrowed: dict[str, View] = {}  # replaced, never changed: a run keeps those that it began with
        self._lock = threading.Lock()
        self.pads = False
        self._chosen: dict[Any, Bucket] = {}

    def _info(self, function: Any, *arguments: Any) -> tuple[str, TensorInfo]:
        info = abi.TensorInfo()
        function(self.handle, *arguments, ctypes.byref(info))
        return info.name.decode(), TensorInfo(
            abi.DTYPES[info.dtype], tuple(info.shape[: info.ndim]) if info.ndim else ()
        )

    def _read_buckets(self) -> dict[str, Bucket]:
        buckets = {}
        for i in range(self.library.bucket_count(self.handle)):
            name = self.library.bucket_name(self.handle, i)
            ports = [
                dict(self._info(function, name, k) for k in range(count(self.handle)))
                for function, count in (
                    (self.library.input_info, self.library.input_count),
                    (self.library.output_info, self.library.output_count),
                )
            ]
            buckets[name.decode()] = Bucket(name.decode(), *ports)
        return buckets

    def choose_bucket(self, views: Mapping[str, View], name: str | None = None) -> Bucket:
        """The bucket that takes inputs of these shapes, or the one called so, with outputs of the sizes that they get:
        when inputs are padded, those are smaller than the bucket's. Raises Error with what each bucket expects."""
        if name is not None and not self.pads:
            return self.buckets.get(name) or Bucket(name, {}, {})
        key = (name, *((port, held.dtype, held.shape) for port, held in views.items()))
        chosen = self._chosen.get(key)
        if chosen is None:
            inputs = structs(dict(views))
            if name is None:
                out = ctypes.c_char_p()
                self.library.choose_bucket(self.handle, inputs, len(views), ctypes.byref(out))
                name = (out.value or b"").decode()
            chosen = self.buckets.get(name) or Bucket(name, {}, {})
            if self.pads:
                chosen = chosen._replace(outputs=self._output_sizes(chosen, inputs, len(views)))
            self._chosen[key] = chosen
        return chosen

    def _output_sizes(self, bucket: Bucket, inputs: Any, count: int) -> dict[str, TensorInfo]:
        sizes = {}
        for index, (name, info) in enumerate(bucket.outputs.items()):
            shape = (ctypes.c_int64 * max(len(info.shape), 1))()
            self.library.output_shape(self.handle, bucket.name.encode(), inputs, count, index, shape)
            sizes[name] = TensorInfo(info.dtype, tuple(shape[: len(info.shape)]))
        return sizes

    def misfit(self, views: Mapping[str, View]) -> str | None:
        """Why no bucket takes these inputs as they are, for people; None when one does."""
        for name, info in self.inputs.items():
            if name not in views:
                return f"input '{name}' is missing"
            if abi.DTYPES[views[name].dtype] != info.dtype:
                return f"input '{name}' is {abi.DTYPES[views[name].dtype]}, the package takes {info.dtype}"
        for bucket in self.buckets.values():
            if all(views[name].shape == info.shape for name, info in bucket.inputs.items()):
                return None
        shapes = ", ".join(f"'{name}' {list(views[name].shape)}" for name in self.inputs)
        return f"no bucket takes {shapes}; the package has {', '.join(self.buckets)}"

    def missing_weights(self) -> list[str]:
        """Names of weights that must be set before a run."""
        return [name for name in self.weights if self.library.weight_is_missing(self.handle, name.encode()) == 1]

    def set_policy(self, name: str) -> None:
        """ "error" or "nearest". Raises Error when the package was not compiled for it."""
        self.library.set_bucket_policy(self.handle, abi.POLICIES[name], None, None)
        self.pads = name == "nearest"
        self._chosen.clear()

    def set_weights(self, tensors: Mapping[str, Any], borrow: bool) -> None:
        """All or none. Raises Error: a name, type or shape that the package has not. See ditc_set_weights."""
        views = _weight_views(tensors)
        with self._lock:
            self.library.set_weights(self.handle, structs(views), len(views), int(borrow))
            kept = {name: held for name, held in self.borrowed.items() if name not in views}
            self.borrowed = {**kept, **views} if borrow else kept

    def update_weights(self, tensors: Mapping[str, Any]) -> None:
        """See ditc_update_weights. Borrowed memory stays held: the update may be taken back."""
        views = _weight_views(tensors)
        with self._lock:
            self.library.update_weights(self.handle, structs(views), len(views))

    def weights_of(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Those of ``tensors`` that the package knows. Raises Error when one without bytes is not among them."""
        absent = [name for name in self.missing_weights() if name not in tensors]
        if absent:
            raise Error(
                f"'{self.path}' needs weights that are not among the {len(tensors)} given: {', '.join(absent[:8])}"
                f"{' ...' if len(absent) > 8 else ''}; give tensors of these names",
                USAGE,
            )
        return {name: tensor for name, tensor in tensors.items() if name in self.weights}


def _weight_views(tensors: Mapping[str, Any]) -> dict[str, View]:
    if not isinstance(tensors, Mapping):
        raise Error(f"weights are a {type(tensors).__name__}; expected a mapping from names to tensors", USAGE)
    return {name: view(tensor, f"weight '{name}'") for name, tensor in zip(tensors, settle(tensors.values()))}
