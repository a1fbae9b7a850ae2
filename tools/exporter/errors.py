# SPDX-License-Identifier: Apache-2.0
"""Errors that are the user's to mend; the command line prints them without a trace."""


class UsageError(Exception):
    """Wrong options, sizes or files. The message says what to write instead."""
