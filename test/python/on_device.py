"""
What tests on a GPU share: where they run, how results are judged, and that a kernel that hangs or
fails takes no more than the process that launched it.

Without a GPU such tests are skipped. DLC_REHEARSE=1 runs them on the host backend instead, to see
that the tests themselves hold.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import loop_cases
import numpy as np
import pytest
import torch
from harness import compare as compare_case
from torch.utils._pytree import tree_leaves

import dlc
from dlc.backend.cuda.run.gpu_backend import CudaBackend
from dlc.backend.executor import Executor, default_backend, default_target
from dlc.backend.host.host_backend import HostBackend
from dlc.backend.kernel_image import KernelImage
from dlc.dialects.kernel import FuncOp
from dlc.judge.accuracy import compare
from dlc.precision import Precision

REHEARSED = bool(os.environ.get("DLC_REHEARSE"))
USABLE = default_backend() == "cuda"
NO_GPU = "needs a GPU of compute capability 8.0 or newer that torch can use"
DEVICE = "cuda" if USABLE else "cpu"
TARGET = default_target()
SECONDS = 60
"""What a test may take."""

marks = [pytest.mark.gpu, pytest.mark.skipif(not USABLE and not REHEARSED, reason=NO_GPU)]
on_gpu = pytest.mark.skipif(not USABLE, reason=NO_GPU)
on_hopper = pytest.mark.skipif(
    USABLE and torch.cuda.get_device_capability() != (9, 0), reason="needs a GPU of sm_90"
)
"""Of what has instructions that no other chip has."""
with_clusters = pytest.mark.skipif(
    USABLE and torch.cuda.get_device_capability() < (9, 0),
    reason="needs a GPU with TMA and clusters (sm_90)",
)


@pytest.fixture(autouse=True)
def whole_context() -> Iterator[None]:
    """
    Eager computes in fp32, not TF32; the CUDA context is whole after each test. Where it is not, or
    where a test takes too long, a worker of pytest-xdist ends, and another one goes on.
    """
    worker = "PYTEST_XDIST_WORKER" in os.environ
    if worker and USABLE:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    yield
    torch.backends.cuda.matmul.allow_tf32 = before
    if not USABLE:
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        if worker:
            os._exit(1)
        raise
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def any_backend() -> Any:
    """Where both drivers do the same."""
    return CudaBackend() if USABLE else HostBackend()


def moved(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the device, which lies in memory as it does, also at odd addresses."""
    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    there = whole.to(DEVICE, copy=True)
    return there.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def precise(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def judge(
    found: Sequence[Any],
    exact: Sequence[Any],
    eager: Sequence[Any],
    longest: int,
    precision: Precision = "f32",
) -> None:
    """Tensors beside those in fp64 and those of eager PyTorch on the CPU, by dlc's rule."""
    assert len(found) == len(exact) == len(eager)
    for number, (own, reference, known) in enumerate(zip(found, exact, eager, strict=True)):
        if isinstance(own, torch.Tensor):
            judged = compare(own.cpu(), reference, known, longest, precision)
            assert judged.ok, f"result {number}: {judged}"


def check(
    f: Callable[..., Any],
    args: Sequence[torch.Tensor],
    backend: Any,
    precision: Precision = "f32",
    target: str = TARGET,
    **options: Any,
) -> dlc.CompiledProgram:
    """A program's results, those of another call, and what it leaves in its arguments."""
    with torch.no_grad():
        exact, eager = (
            [*tree_leaves(f(*given)), *given]
            for given in ([precise(a) for a in args], [a.clone() for a in args])
        )
        program = dlc.compile(
            f, tuple(map(moved, args)), target, backend, precision=precision, **options
        )
        for _ in range(2):
            given = [moved(a) for a in args]
            found = [*tree_leaves(program(*given)), *given]
            judge(found, exact, eager, program.variants[0].longest_reduction, precision)
    return program


def run_case(case: loop_cases.Case, module: Any, backend: Any) -> None:
    """Kernels in Kernel IR on the inputs of a case."""
    results = Executor(module, backend)([torch.from_numpy(array) for array in case.inputs])
    compare_case(case, [r.cpu().numpy() for r in results], backend.name)


def launched(func: FuncOp, inputs: Sequence[np.ndarray], out: np.ndarray, backend: Any) -> Any:
    """What one kernel writes, in arrays of such bits as memory has: of 16, 32 or 64 each."""
    image = KernelImage.of(func)
    backend.prepare([image])
    given = [torch.from_numpy(np.array(array)).to(DEVICE) for array in inputs]
    result = torch.from_numpy(np.full_like(out, 99)).to(DEVICE)
    with backend.running():
        backend.launch(image, [tensor.data_ptr() for tensor in (*given, result)])
    return result.cpu().numpy()
