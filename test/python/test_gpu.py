"""
What only a GPU can show: every family of kernels on the backend `cuda`, streams, graphs, errors.

Without a GPU all of it is skipped; see `on_device`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import loop_cases
import pytest
import torch
from harness import apply, lowered, parse, scheduled
from on_device import (
    DEVICE,
    NO_GPU,
    TARGET,
    USABLE,
    any_backend,
    marks,
    on_gpu,
    run_case,
    whole_context,
    with_clusters,
)
from test_executor import CHAIN, ZEROED
from test_launch import SHARED, TMA
from test_tma import scheduled as with_tma

import dlc
from dlc import dynamo
from dlc.backend import BackendError
from dlc.backend.cuda.run.bindings_driver import BindingsDriver
from dlc.backend.cuda.run.driver import Driver
from dlc.backend.cuda.run.gpu_backend import CudaBackend
from dlc.backend.cuda.run.open_driver import open_driver
from dlc.backend.executor import Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.judge.accuracy import compare

__all__ = ["any_backend", "whole_context"]
pytestmark = marks


def driver(name: str) -> Driver:
    if name == "cuda-bindings":
        return BindingsDriver(torch.cuda.current_device())
    pytest.importorskip("pycuda.driver", reason="PyCUDA is not installed", exc_type=ImportError)
    return open_driver(torch.cuda.current_device())


@pytest.fixture(scope="module", params=["cuda-bindings", "pycuda"])
def backend(request: pytest.FixtureRequest) -> Any:
    if not USABLE:
        if request.param == "pycuda":
            pytest.skip(NO_GPU)
        return HostBackend()
    return CudaBackend(driver=driver(request.param))


def check(f: Callable[..., torch.Tensor], *args: torch.Tensor, backend: Any) -> None:
    """A program's result and another call's, by dlc's rule of accuracy."""
    args = tuple(a.to(DEVICE) for a in args)
    program = dlc.compile(f, args, backend=backend)
    exact = f(*(a.double() if a.is_floating_point() else a for a in args))
    eager = f(*args)
    longest = program.variants[0].longest_reduction
    for _ in range(2):
        result = program(*args)
        assert result.stride() == eager.stride()
        judged = compare(result.cpu(), exact.cpu(), eager.cpu(), longest)
        assert judged.ok, f"{judged}"


N = torch.randn
PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "pointwise": (lambda x, y: torch.nn.functional.silu(x) * y, (N(1, 33, 5632), N(1, 33, 5632))),
    "scalar": (lambda x: x * 2, (N(()),)),
    "nothing": (lambda x: x + 1, (N(0, 3),)),
    "broadcast": (lambda x, y: x + y, (N(7, 1, 13), N(5, 1))),
    "strided": (lambda x: x[:, 1:].t() + 1, (N(67, 131),)),
    "rms-norm": (lambda x: torch.nn.functional.rms_norm(x, (2048,)), (N(1, 32, 2048),)),
    "softmax": (lambda x: torch.softmax(x, -1), (N(28, 128, 128),)),
    "long-row": (lambda x: torch.softmax(x, -1), (N(3, 151669),)),
    "columns": (lambda x: x.sum(0), (N(1000, 77),)),
    "total": (lambda x: x.sum(), (N(151669),)),
    "argmax": (lambda x: x.argmax(-1), (N(33, 1001),)),
    "gather": (lambda t, i: t[i], (N(97, 64), torch.randint(97, (41,)))),
    "cat": (lambda x, y: torch.cat((x, y, x), 1), (N(9, 31), N(9, 1))),
    "matmul": (lambda x, w: x @ w, (N(128, 512), N(512, 384))),
    "split": (lambda x, w: x @ w, (N(32, 5632), N(5632, 256))),
    "ragged": (lambda x, w: torch.relu(x @ w + 1), (N(101, 211), N(211, 97))),
    "linear": (torch.nn.functional.linear, (N(37, 256), N(515, 256), N(515))),
    "attention": (
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        ),
        (N(1, 8, 130, 64), N(1, 2, 130, 64), N(1, 2, 130, 64)),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_right(name: str, any_backend: Any):
    function, arguments = PROGRAMS[name]
    check(function, *arguments, backend=any_backend)


@pytest.mark.parametrize("case", loop_cases.SMALL, ids=lambda case: case.name)
def test_kernels_of_every_family_are_right(case: loop_cases.Case, backend: Any):
    run_case(case, lowered(scheduled(case, None, TARGET), round_trip=False), backend)


@with_clusters
@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("swizzled", [False, True], ids=["plain", "swizzled"])
def test_rings_that_tma_fills_are_right(swizzled: bool, depth: int, backend: Any):
    case = loop_cases.gemm(100, 72, 136)
    more = ("split-inner-for-swizzle," if swizzled else "") + "pipeline-k-outer"
    run_case(case, lowered(with_tma(case, depth, 4, more), round_trip=False), backend)


@on_gpu
@with_clusters
def test_tensor_maps_follow_their_tensors(any_backend: Any):
    assert "tma-copy" in TMA
    x, w = N(64, 64, device=DEVICE), N(64, 64, device=DEVICE)
    schedules = {"matmul": TMA}
    f = dlc.compile(lambda x, w: x @ w, (x, w), "sm_90", any_backend, schedules=schedules)
    for other in (x, x.neg(), x.mul(3)):
        exact = (other.double() @ w.double()).float()
        torch.testing.assert_close(f(other, w), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_rings_that_cp_async_fills_are_right(depth: int, backend: Any):
    schedule = (
        "tileify,chunk-matmul-k{bk=8 vector=4},blockify-launch{block=32,32 thread=8,8},"
        "stage-inputs{budget=24576},register-tile{extents=4,4},double-buffer{depth="
        f"{depth}}},async-copy,pad-smem,pipeline-k-outer,mark-unroll{{limit=16}}"
    )
    case = loop_cases.gemm(97, 100, 131)
    module = scheduled(case, schedule, TARGET)
    apply(module, ",".join(s.split("{")[0] for s in schedule.split(",") if s[0].isalpha()))
    run_case(case, lowered(module, round_trip=False), backend)


def test_atomics_start_from_zeros(backend: Any):
    y, z = Executor(parse(ZEROED), backend)([torch.tensor([1.0, 2, 3, 4])])
    assert y.tolist() == [[0, 6], [0, 14]]
    assert z.tolist() == [0, 0, 0]


def test_64_kib_of_shared_memory(backend: Any):
    x = N(16384)
    (y,) = Executor(parse(SHARED), backend)([x])
    assert torch.equal(y, x.flip(0))


def test_a_model_by_torch_compile():
    nn = torch.nn
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 64))
    model, x = model.eval().to(DEVICE), N(2, 9, 64, device=DEVICE)
    with torch.no_grad():
        y = torch.compile(model, backend=dynamo.backend)(x)
        torch.testing.assert_close(y, model(x), rtol=1e-4, atol=1e-4)


def test_the_command_says_ok():
    text = "torch.nn.RMSNorm(256)(torch.randn(4,256)) @ torch.randn(256,64)"
    backend = "cuda" if USABLE else "host"
    command = [sys.executable, "-m", "dlc.cli.dlc_cli", "run", "--sync", "--backend", backend]
    done = subprocess.run([*command, "-c", text], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "OK" in done.stdout


# Streams and graphs


def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(x @ w) + 1, -1) @ w


def busy() -> None:
    """Keeps the current stream from its next work for some milliseconds."""
    torch.cuda._sleep(20_000_000)


@on_gpu
@pytest.mark.parametrize("where", ["default", "side"])
def test_launches_are_ordered_with_torchs_stream(where: str, backend: Any):
    x, w = N(100, 256, device=DEVICE), N(256, 256, device=DEVICE)
    f = dlc.compile(chain, (x, w), backend=backend)
    f(x, w)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream() if where == "side" else torch.cuda.default_stream()
    expected = [chain(i * x, w) for i in range(1, 6)]
    torch.cuda.synchronize()
    found: list[torch.Tensor] = []
    with torch.cuda.stream(stream):
        given = torch.zeros_like(x)
        for i in range(1, 6):
            busy()
            given.copy_(i * x)
            found.append(f(given, w).clone())
            given.zero_()
    torch.cuda.synchronize()
    for result, right in zip(found, expected, strict=True):
        torch.testing.assert_close(result, right, rtol=1e-3, atol=1e-3)


@on_gpu
def test_graphs_replay_on_new_inputs(backend: Any):
    x, w = N(100, 256, device=DEVICE), N(256, 256, device=DEVICE)
    f = dlc.compile(chain, (x, w), backend=backend)
    graph = f.graph(x, w)
    for i in range(1, 4):
        torch.testing.assert_close(graph(i * x, w), chain(i * x, w), rtol=1e-3, atol=1e-3)
    graph.inputs["x"].copy_(x.neg())
    graph.replay()
    torch.testing.assert_close(graph(x, w), chain(x, w), rtol=1e-3, atol=1e-3)
    with pytest.raises(BackendError, match="other shapes"):
        graph(x[:50], w)


@on_gpu
def test_graphs_on_request(any_backend: Any):
    module = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU()).eval().to(DEVICE)
    x = N(5, 64, device=DEVICE)
    with torch.no_grad():
        f = dlc.compile(module, (x,), backend=any_backend, graph=True)
        for scale in (1, 2, 3):
            module[0].weight.mul_(scale)
            torch.testing.assert_close(f(scale * x), module(scale * x), rtol=1e-4, atol=1e-4)


@on_gpu
def test_a_users_own_graph_takes_our_launches(backend: Any):
    x, w = N(100, 256, device=DEVICE), N(256, 256, device=DEVICE)
    f = dlc.compile(chain, (x, w), backend=backend)
    f(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = f(x, w) + 1
    for i in range(1, 4):
        x.copy_(N(100, 256, device=DEVICE) * i)
        graph.replay()
        torch.testing.assert_close(y, chain(x, w) + 1, rtol=1e-3, atol=1e-3)


@on_gpu
def test_a_first_call_within_a_capture_is_refused(backend: Any):
    x, w = N(10, 24, device=DEVICE), N(24, 24, device=DEVICE)
    f = dlc.compile(chain, (x, w), backend=backend)
    with pytest.raises(BackendError, match="call the program once before"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            f(x, w)
    torch.cuda.synchronize()
    torch.testing.assert_close(f(x, w), chain(x, w), rtol=1e-3, atol=1e-3)


# What goes wrong. A kernel that fails takes the context with it: in a process of its own.

WILD = """
import sys, torch
from harness import parse
from test_executor import CHAIN
from dlc.backend import LaunchError
from dlc.backend.cuda.run.gpu_backend import CudaBackend
from dlc.backend.kernel_image import KernelImage
from dlc.dialects.kernel import FuncOp

class Nowhere:
    def data_ptr(self): return 16

backend = CudaBackend(sync=sys.argv[1] == "sync")
func = KernelImage.of(next(op for op in parse(CHAIN).ops if isinstance(op, FuncOp)))
backend.prepare([func])
x = torch.zeros(4, device="cuda")

def launch(tensor):
    with backend.running():
        backend.launch(func, [tensor.data_ptr(), x.data_ptr()])

try:
    launch(Nowhere())
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        pass
    launch(x)
except LaunchError as error:
    print("SAID", error, flush=True)
"""


@on_gpu
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_kernel_that_fails_is_named_or_the_way_to_find_it_is(mode: str):
    done = subprocess.run(
        [sys.executable, "-c", WILD, mode], capture_output=True, text=True, timeout=300,
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )  # fmt: skip
    said = "twice: it fails while it runs" if mode == "sync" else "run again with --sync"
    assert "SAID" in done.stdout, done.stderr
    assert said in done.stdout
    assert "twice" in CHAIN


@on_gpu
def test_too_little_memory_is_a_sentence(any_backend: Any):
    x = torch.ones(1 << 24, device=DEVICE)
    f = dlc.compile(lambda x: x + 1, (x,), backend=any_backend)
    f(x)
    torch.cuda.empty_cache()
    allowed = torch.cuda.memory_reserved() + (1 << 28)
    torch.cuda.set_per_process_memory_fraction(allowed / torch.cuda.mem_get_info()[1])
    taken: list[torch.Tensor] = []

    def fill() -> None:
        for _ in range(64):
            taken.append(f(x))

    try:
        with pytest.raises(BackendError, match="there is not enough memory on cuda"):
            fill()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@on_gpu
def test_a_target_that_is_too_new_is_refused(any_backend: Any):
    if torch.cuda.get_device_capability() >= (12, 0):
        pytest.skip("no target is newer than this GPU")
    x = N(4, 4, device=DEVICE)
    with pytest.raises(BackendError, match="scheduled for sm_120, which is newer"):
        dlc.compile(lambda x: x + 1, (x,), target="sm_120", backend=any_backend)(x)
