"""
The device of `far_device.cpp` in this process: PyTorch for CPUs then has tensors on `cuda`, which
NumPy cannot read and which do not mix with those of the CPU, and no `torch.cuda` beside.

It is a plug-in of pytest, since PyTorch must not be there yet: `pytest -p far_device.load`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path

_torch = importlib.util.find_spec("torch")
assert _torch is not None
assert _torch.origin is not None
ctypes.CDLL(str(Path(_torch.origin).parent / "lib" / "libtorch_cpu.so"), mode=ctypes.RTLD_GLOBAL)
LIBRARY = ctypes.CDLL(os.environ["FAR_DEVICE"])

import torch  # noqa: E402

LIBRARY.far_device_start()
cuda, core = vars(torch.cuda), vars(torch._C)
cuda["_lazy_init"] = lambda: None
cuda["_initialized"] = True
cuda["default_generators"] = (torch._C.Generator("cuda"),)
core["_cuda_getDevice"] = lambda: 0
