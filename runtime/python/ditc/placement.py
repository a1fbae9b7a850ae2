# SPDX-License-Identifier: Apache-2.0
"""GPUs: on which stream a call runs, tensors where kernels can read them, and memory that outlives its use."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterable

ALIGNMENT = 16  # of tensors on a GPU, as ditc.h says


class GpuFramework:
    """torch or cupy on GPU number ``index``: what the package needs to know about streams and memory."""

    def __init__(self, kind: str, index: int):
        self.kind, self.index = kind, index
        self.module = sys.modules[kind]
        self._raw_stream = getattr(self.module._C, "_cuda_getCurrentRawStream", None) if kind == "torch" else None
        self._is_capturing = getattr(self.module._C, "_cuda_isCurrentStreamCapturing", None) if kind == "torch" else None
        self._last_stream: tuple[int, Any] = (-1, None)

    def scope(self, stream: int | None) -> contextlib.AbstractContextManager[Any]:
        """Makes the CUDA stream at this address the current one; None leaves the caller's."""
        if stream is None:
            return contextlib.nullcontext()
        if self.kind == "torch":
            return self.module.cuda.stream(self.module.cuda.ExternalStream(stream, device=self.index))
        return self.module.cuda.ExternalStream(stream, self.index)

    def current_stream(self) -> int:
        """Address of the current stream; 0 is the default stream."""
        if self._raw_stream is not None:
            return self._raw_stream(self.index)
        if self.kind == "torch":
            return self.module.cuda.current_stream(self.index).cuda_stream
        return self.module.cuda.get_current_stream().ptr

    def pool(self, current: int) -> Any:
        """What tensors that are made now have in common with those of another moment, if this is equal then: ``current``,
        the current stream, and torch's inference mode. None where they cannot be made ahead: while a graph is recorded
        they lie in memory of its own."""
        if self._is_capturing is None or self._is_capturing():
            return None
        return current, self.module.is_inference_mode_enabled()

    def place(self, value: Any) -> Any:
        """``value``, or a copy of it on the GPU that is dense and aligned. Other things are left to be refused."""
        if self.kind == "torch" and isinstance(value, self.module.Tensor):
            if value.device.type == "cpu":
                value = value.to(f"cuda:{self.index}")
            return densify(value)
        if self.kind == "cupy":
            value = self.module.ascontiguousarray(value)
            return value if value.data.ptr % ALIGNMENT == 0 else value.copy()
        return value

    def record(self, values: Iterable[Any]) -> None:
        """Tells torch's allocator that the current stream reads these tensors, whichever stream they came from.

        cupy has no such call: there, memory must come from the current stream, as everywhere in cupy.
        """
        if self.kind == "torch":
            tensors = [value for value in values if isinstance(value, self.module.Tensor)]
            self.record_all(self.current_stream(), tensors)

    def record_all(self, current: int, tensors: Iterable[Any]) -> None:
        """The same for tensors of torch; ``current`` is the address of the current stream, whose object is costly to make."""
        address, stream = self._last_stream
        if current != address:
            stream = self.module.cuda.current_stream(self.index)
            self._last_stream = (current, stream)
        for tensor in tensors:
            tensor.record_stream(stream)


def densify(value: Any) -> Any:
    """A torch tensor of a GPU as the runtime takes it: itself, or a dense, aligned copy."""
    if value.device.type != "cuda" or (value.is_contiguous() and value.data_ptr() % ALIGNMENT == 0):
        return value
    copy = value.detach().contiguous()
    return copy if copy.data_ptr() % ALIGNMENT == 0 else copy.clone()


def settle(values: Iterable[Any]) -> list[Any]:
    """Weights before the runtime reads them on a stream of its own: densified, and all work on them done."""
    torch = sys.modules.get("torch")
    settled, devices = [], set()
    for value in values:
        if torch is not None and isinstance(value, torch.Tensor) and value.device.type == "cuda":
            value = densify(value)
            devices.add(value.device)
        elif hasattr(value, "block_until_ready"):  # jax
            value.block_until_ready()
        settled.append(value)
    for device in devices:
        torch.cuda.synchronize(device)
    return settled
