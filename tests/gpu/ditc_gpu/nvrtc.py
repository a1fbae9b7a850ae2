# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ to cubin through NVRTC by ctypes: no GPU, no nvcc.

    cubin, log = compile(source, arch="sm_90a", include=[folder], name="k.cu")

The log holds ptxas's resource lines (registers, stack, spills) and its warnings."""

import ctypes
import os


def library():
    for path in (os.environ.get("DITC_NVRTC"), "/usr/local/cuda/lib64/libnvrtc.so.13", "libnvrtc.so.13"):
        if path:
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
    raise OSError("no libnvrtc.so.13; set DITC_NVRTC")


def compile(source, arch="sm_90a", include=(), name="kernel.cu", extra=()):
    nvrtc = library()
    program = ctypes.c_void_p()
    check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None))
    options = [f"--gpu-architecture={arch}", "--std=c++20", "--ptxas-options=-v", *extra]
    options += [f"--include-path={folder}" for folder in include]
    array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = nvrtc.nvrtcCompileProgram(program, len(options), array)
    log = fetch(nvrtc, program, "ProgramLog").rstrip(b"\0").decode()
    if status != 0:
        raise RuntimeError(f"{name}: {log}")
    return fetch(nvrtc, program, "CUBIN"), log


def fetch(nvrtc, program, what):
    size = ctypes.c_size_t()
    check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def check(nvrtc, status):
    if status != 0:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(nvrtc.nvrtcGetErrorString(status).decode())
