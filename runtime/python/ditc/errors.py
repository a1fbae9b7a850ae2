# SPDX-License-Identifier: Apache-2.0
"""The one exception that this package raises for what goes wrong with packages, tensors and the compiler."""

from __future__ import annotations

INPUT = 1
USAGE = 2
INTERNAL = 3


class Error(RuntimeError):
    """What failed, what was expected and what to do next, in the words of the library or of the compiler.

    ``status`` is 1 when the input or the environment is at fault, 2 when the call is wrong, 3 for a fault of ditc.
    """

    def __init__(self, text: str, status: int = INPUT):
        super().__init__(text)
        self.status = status
