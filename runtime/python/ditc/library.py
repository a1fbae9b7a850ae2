# SPDX-License-Identifier: Apache-2.0
"""Finds libditrt.so and calls it: statuses become ditc.Error with the library's text."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

from . import abi
from .errors import INPUT, Error

SONAME = "libditrt.so.0"


class Library:
    """The functions of ditc.h as methods without the prefix: ``library.run(...)`` is ``ditc_run``.

    Those that return a ditc_status return nothing here and raise Error when it is not DITC_OK. ``repeat`` and
    ``repeat_on`` are ``run`` and ``run_on`` for arguments that are ctypes objects already, which nothing converts.
    """

    def __init__(self, handle: ctypes.CDLL, path: str):
        self.path = path
        for name, (result, arguments) in abi.FUNCTIONS.items():
            try:
                function = getattr(handle, name)
            except AttributeError:
                raise Error(
                    f"'{path}' has no function {name}; it is of another version than this Python package, "
                    "install both from the same build"
                ) from None
            function.argtypes = arguments
            function.restype = ctypes.c_int if result is abi.Status else result
            setattr(self, name[len("ditc_") :], self._checked(function) if result is abi.Status else function)

        self.repeat = self._checked(handle["ditc_run"])
        self.repeat_on = self._checked(handle["ditc_run_on"])

    def _checked(self, function: Any) -> Any:
        def call(*arguments: Any) -> None:
            status = function(*arguments)
            if status:
                raise Error(self.last_error().decode(errors="replace"), status)

        return call


def candidates() -> list[str]:
    """Where the library is looked for, in order: DITC_RUNTIME alone when it is set."""
    chosen = os.environ.get("DITC_RUNTIME")
    if chosen:
        return [str(Path(chosen) / SONAME) if os.path.isdir(chosen) else chosen]
    return [str(Path(__file__).resolve().parent / "lib" / SONAME), SONAME]


@functools.lru_cache(maxsize=None)
def library() -> Library:
    """The library of this process, loaded by the first call. Raises Error with all places when it is nowhere."""
    failures = []
    for path in candidates():
        try:
            return Library(ctypes.CDLL(path), path)
        except OSError as error:
            failures.append(f"{path} ({error})")
    raise Error(
        f"cannot load the ditc runtime: {'; '.join(failures)}; install the wheel, or set DITC_RUNTIME to "
        f"{SONAME} or its folder",
        INPUT,
    )
