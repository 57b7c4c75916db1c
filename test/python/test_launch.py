"""Launching: programs end to end on a GPU that is none, what it is asked, what goes wrong."""

from __future__ import annotations

import re
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_gpu import DRIVERS, FakeGpu, InPlace, fake_backend
from forked import forked_python
from harness import parse
from stub_driver import needs_bindings, run_with_driver
from test_executor import ZEROED
from test_mutants import ending_in_one
from test_nvcc import needs_nvcc
from xdsl.dialects.builtin import f32

import dlc
from dlc.analysis.kernel.tensor_maps import TensorMap
from dlc.backend import BackendError, LaunchError
from dlc.backend.cuda.run import bindings, open_driver, torch_device
from dlc.backend.cuda.run.driver import DriverError, LaunchShape
from dlc.backend.cuda.run.gpu_backend import Arguments
from dlc.backend.cuda.run.nvcc import find_nvcc
from dlc.backend.executor import Executor, get_backend
from dlc.compile_options import CompileOptions
from dlc.compiler import CompiledProgram, Variant
from dlc.dialects.kernel_func import FuncOp
from dlc.stages import Stages

Make = Callable[..., tuple[FakeGpu, Any]]


@contextmanager
def backends(driver: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes GPUs that are none, with a backend that launches on them through `driver`."""
    with ExitStack() as stack:

        def make(gpu: FakeGpu | None = None, **options: Any) -> tuple[FakeGpu, Any]:
            gpu = gpu or FakeGpu()
            stack.enter_context(InPlace(gpu))
            return gpu, fake_backend(gpu, driver, folder, monkeypatch, **options)

        yield make


@pytest.fixture(params=DRIVERS)
def make(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    with backends(request.param, tmp_path, monkeypatch) as make:
        yield make


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Where both drivers do the same."""
    with backends("cuda-bindings", tmp_path, monkeypatch) as make:
        yield make


def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Three kernels, each reading what the one before wrote."""
    return torch.log_softmax(torch.relu(x @ w) + 1, -1) @ w


@cache
def chain_on_host(overlap: bool = False) -> Variant:
    f = dlc.compile(chain, (X, W), target="sm_90", backend="host", overlap=overlap)
    f.ir("kernel")
    return f.variants[0]


def compile_chain(backend: Any, overlap: bool = False) -> dlc.CompiledProgram:
    """As `dlc.compile` does, without lowering it anew."""
    program = CompiledProgram(chain, "sm_90", backend, CompileOptions(overlap=overlap))
    compiled = chain_on_host(overlap)
    stages = Stages(compiled.program.module, kernels=compiled.module("kernel"))
    program.variants.append(Variant(compiled.program, backend, stages))
    return program


X, W = torch.randn(5, 37), torch.randn(37, 37)
CHAIN = chain(X.double(), W.double()).float()


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("newest_first", [True, False], ids=["newest", "oldest"])
@pytest.mark.parametrize("where", ["default", "side"])
def test_programs_run_in_the_order_of_torchs_stream(make: Make, where: str, newest_first: bool):
    gpu, backend = make(FakeGpu(newest_first))
    f = compile_chain(backend)
    stream = {"default": 0, "side": gpu.new_stream()}[where]
    x, result = torch.zeros_like(X), torch.zeros_like(CHAIN)
    f(x, W)  # compiled and loaded
    gpu.synchronize()
    with backend._torch.stream(stream):
        x.copy_(X)
        y = f(x, W)
        result.copy_(y)
        x.zero_()
        gpu.synchronize()
    close(result, CHAIN)
    assert gpu.contexts == 0


@pytest.mark.parametrize("newest_first", [True, False], ids=["newest", "oldest"])
def test_the_fake_tells_what_is_not_ordered(
    make: Make, newest_first: bool, monkeypatch: pytest.MonkeyPatch
):
    gpu, backend = make(FakeGpu(newest_first))
    f = compile_chain(backend)
    f(X, W)
    gpu.synchronize()
    monkeypatch.setattr(backend._torch, "current_stream", lambda: 0)
    x, result = torch.zeros_like(X), torch.zeros_like(CHAIN)
    with backend._torch.stream(gpu.new_stream()):
        x.copy_(X)
        result.copy_(f(x, W))
        gpu.synchronize()
    assert not torch.allclose(result, CHAIN, rtol=1e-4, atol=1e-5)


def test_pycuda_launches_on_the_default_stream(make: Make):
    """It can launch on no other, where cuda-bindings takes its place."""
    gpu, backend = make()
    f = compile_chain(backend)
    f(X, W)
    usual = gpu.calls.count("cuLaunchKernelEx")
    assert gpu.calls.count("cuLaunchKernel") == len(f.kernels)
    assert usual == (0 if backend.driver.name == "pycuda" else len(f.kernels))
    with backend._torch.stream(gpu.new_stream()):
        f(X, W)
    assert gpu.calls.count("cuLaunchKernelEx") == usual + len(f.kernels)


def test_a_launch_says_what_it_has_beside_sizes(make: Make, tmp_path: Path):
    gpu, backend = make()
    (tmp_path / "k.cubin").write_text('extern "C" __global__ void k(float* x) {}')
    shape = LaunchShape("k", 4, 32, 0, (8,), cluster=2, overlaps=True)
    backend.driver.push()
    backend.driver.load(str(tmp_path / "k.cubin"), shape)(0, bytes(8))
    backend.driver.pop()
    cluster, overlap = gpu.attributes
    assert (cluster.id, vars(cluster.value.clusterDim)) == (
        "CLUSTER_DIMENSION", {"x": 2, "y": 1, "z": 1},
    )  # fmt: skip
    assert overlap.id == "PROGRAMMATIC_STREAM_SERIALIZATION"
    assert overlap.value.programmaticStreamSerializationAllowed == 1


@pytest.mark.parametrize(("version", "takes"), [(13000, True), (12020, True), (13000, False)])
def test_kernels_that_wait_for_others_may_begin_early(
    make: Make, caplog: pytest.LogCaptureFixture, version: int, takes: bool
):
    """Where the driver does not take that, they begin in their turn, which is said."""
    gpu, backend = make(FakeGpu(version=version, takes_overlaps=takes))
    f = compile_chain(backend, overlap=True)
    assert f.ir("cuda").count("grid_wait();") == len(f.kernels)
    y = f(X, W)
    gpu.synchronize()
    close(y, CHAIN)
    assert gpu.calls.count("cuLaunchKernelEx") == len(f.kernels) * (1 if takes else 2)
    overlapped = [a.id for a in gpu.attributes] == ["PROGRAMMATIC_STREAM_SERIALIZATION"]
    assert overlapped == (takes and version >= 12030)
    told = [r for r in caplog.records if "when the kernel ahead" in r.getMessage()]
    assert len(told) == (0 if overlapped else len(f.kernels))


def test_tensor_maps_come_first_and_are_made_once(make: Make):
    """A product whose rings the tensor memory accelerator fills, with its schedule forced."""
    gpu, backend = make()
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    schedules = {"matmul": TMA}
    f = dlc.compile(lambda x, w: x @ w, (x, w), "sm_90", backend, schedules=schedules)
    assert "tensor_map" in f.ir("cuda")
    for _ in range(3):
        y = f(x, w)
        gpu.synchronize()
        close(y, (x.double() @ w.double()).float())
    assert gpu.calls.count("cuTensorMapEncodeTiled") == 2
    other = x.neg()
    y = f(other, w)
    gpu.synchronize()
    close(y, (other.double() @ w.double()).float())
    assert gpu.calls.count("cuTensorMapEncodeTiled") == 4


def test_tensor_maps_of_a_size_are_made_for_each_call_and_graph(make: Make):
    """One kernel, which is told the size beside them."""
    gpu, backend = make()
    x, w = torch.randn(96, 64), torch.randn(64, 64)
    shapes = {0: torch.export.Dim("s", max=4096)}, None
    schedules = {"matmul": TMA.replace("tile,double", "tile{axes=ri,rj strip=1,4},double")}
    f = dlc.compile(
        torch.matmul, (x[:64], w), "sm_90", backend, schedules=schedules, dynamic_shapes=shapes
    )
    for turn, rows in enumerate((64, 50, 96), 1):
        y = f(x[:rows], w)
        gpu.synchronize()
        close(y, (x[:rows].double() @ w.double()).float())
        assert gpu.calls.count("cuTensorMapEncodeTiled") == 2 * turn
    graph = f.graph(x[:50], w)
    close(graph(x[40:90], w), (x[40:90].double() @ w.double()).float())
    assert len({func.source for variant in f.variants for func in variant.executor.funcs}) == 1


TMA = (
    "tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=32,32 thread=8,8},"
    "stage-inputs{budget=8192},register-tile{extents=4,4},permute-register-tile,"
    "double-buffer{depth=3},tma-copy,pad-smem,pipeline-k-outer,mark-unroll{limit=8}"
)


SHARED = """
kernel.func @reverse(%x: memref<16384xf32>) -> (%y: memref<16384xf32>) grid 1 block 256 {
  %t = kernel.thread_id
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %s = kernel.alloc_shared : memref<16384xf32, #kernel.shared>
  scf.for %i = %c0 to %c64 step %c1 {
    %a = kernel.load %x[%i * 256 + %t] : memref<16384xf32>
    kernel.store %a, %s[%i * 256 + %t] : memref<16384xf32, #kernel.shared>
  }
  kernel.barrier
  scf.for %j = %c0 to %c64 step %c1 {
    %b = kernel.load %s[-%j * 256 - %t + 16383] : memref<16384xf32, #kernel.shared>
    kernel.store %b, %y[%j * 256 + %t] : memref<16384xf32>
  }
}
func.func @main(%x: tensor<16384xf32>) -> tensor<16384xf32> {
  %y = kernel.launch @reverse(%x) : (tensor<16384xf32>) -> (tensor<16384xf32>)
  func.return %y : tensor<16384xf32>
}
"""


def test_more_than_48_kib_of_shared_memory_is_asked_for(make: Make):
    gpu, backend = make()
    x = torch.randn(16384)
    (y,) = Executor(parse(SHARED), backend)([x])
    gpu.synchronize()
    assert torch.equal(y, x.flip(0))
    assert {kernel.opted_in for kernel in gpu.kernels} == {65536}


def test_a_grid_that_no_launch_can_have_is_refused(new: Make):
    _, backend = new()
    module = parse(SHARED)
    func = next(op for op in module.walk() if isinstance(op, FuncOp))
    func.set_launch_shape(2**31, func.block_size)  # as sizes may have it
    executor = Executor(module, backend)
    with pytest.raises(LaunchError, match="reverse has 2147483648 blocks, and a launch at most"):
        executor([torch.randn(16384)])


def test_atomics_start_from_zeros(make: Make):
    gpu, backend = make()
    y, z = Executor(parse(ZEROED), backend)([torch.tensor([1.0, 2, 3, 4])])
    gpu.synchronize()
    assert y.tolist() == [[0, 6], [0, 14]]
    assert z.tolist() == [0, 0, 0]


def test_equal_kernels_are_compiled_and_told_of(make: Make):
    told: list[tuple[int, int]] = []
    _, backend = make(on_compiled=lambda done, of: told.append((done, of)))
    compile_chain(backend)(X, W)
    assert told
    assert told[-1][0] == told[-1][1]


# Graphs


@pytest.mark.parametrize("newest_first", [True, False], ids=["newest", "oldest"])
def test_a_graph_computes_on_what_it_is_called_with(make: Make, newest_first: bool):
    gpu, backend = make(FakeGpu(newest_first))
    f = compile_chain(backend)
    graph = f.graph(torch.zeros_like(X), W)
    launches = gpu.calls.count("cuLaunchKernel")
    y = graph(X, W)
    close(y, CHAIN)
    z = graph(2 * X, W)
    assert z is y
    close(y, chain(2 * X, W))
    graph.inputs["x"].copy_(X)
    graph.replay()
    close(y, CHAIN)
    assert gpu.calls.count("cuLaunchKernel") == launches, "replays launch nothing"
    with pytest.raises(BackendError, match="captured for a call with other shapes"):
        graph(X[:4], W)


def test_graphs_on_request_follow_the_module(make: Make):
    _, backend = make()
    module = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.ReLU()).eval()
    x = torch.randn(3, 6)
    with torch.no_grad():
        f = dlc.compile(module, (x,), backend=backend, graph=True)
        close(f(x), module(x))
        captured = f.graph(x)
        module[0].weight.mul_(2)
        close(f(x), module(x))
        close(captured(x), module(x))
        module[0].weight = torch.nn.Parameter(torch.randn(7, 6))
        close(f(x), module(x))
        with pytest.raises(BackendError, match="has moved since its graph was captured"):
            captured(x)
        close(f(torch.ones(4, 6)), module(torch.ones(4, 6)))
    assert len(f.variants) == 2


def test_a_graph_writes_what_the_program_writes(make: Make):
    gpu, backend = make()

    def step(state: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        state.mul_(0.5).add_(x)
        return state * 2

    state, x = torch.ones(5), torch.randn(3, 5)[1].expand(5)
    f = dlc.compile(step, (state, x), backend=backend, graph=True)
    for count in range(3):
        y = f(state, x)
        gpu.synchronize()
        exact = torch.full((5,), 0.5 ** (count + 1)) + x * sum(0.5**i for i in range(count + 1))
        close(state, exact)
        close(y, 2 * exact)


def test_expanded_inputs_of_a_graph_keep_their_strides(make: Make):
    _, backend = make()
    x = torch.randn(7, 1).expand(7, 9)
    f = dlc.compile(lambda x: x + 1, (x,), backend=backend)
    graph = f.graph(x)
    assert graph.inputs["x"].stride() == (1, 0)
    other = torch.randn(7, 1).expand(7, 9)
    close(graph(other), other + 1)


def test_a_users_own_capture_takes_our_launches(make: Make):
    gpu, backend = make()
    f = compile_chain(backend)
    x = X.clone()
    with pytest.raises(BackendError, match="call the program once before"):
        backend._torch.capture(lambda: f(x, W))
    gpu.streams = {s: type(q)() for s, q in gpu.streams.items()}
    f(x, W)
    gpu.synchronize()
    replay, y = backend._torch.capture(lambda: f(x, W))
    x.mul_(3)
    replay()
    close(y, chain(3 * X, W))


def test_what_a_graph_refuses(new: Make):
    _, synced = new(sync=True)
    f = compile_chain(synced)
    with pytest.raises(BackendError, match="take sync or a graph"):
        f.graph(X, W)
    with pytest.raises(BackendError, match="the backend 'host' has no CUDA graphs"):
        dlc.compile(chain, (X, W), backend="host", graph=True)
    _, backend = new()
    g = compile_chain(backend)
    backend.device = torch.device("meta")
    with pytest.raises(BackendError, match="reads tensors on meta, and 'x' is on cpu"):
        g.graph(X, W)


def test_threads_launch_one_program_at_a_time(make: Make):
    gpu, backend = make()
    f = compile_chain(backend)
    f(X, W)
    gpu.synchronize()
    results: list[torch.Tensor] = []

    def work() -> None:
        with InPlace(gpu):  # is of one thread
            results.append(f(X, W))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gpu.synchronize()
    assert len(results) == 8
    for y in results:
        close(y, CHAIN)


# What goes wrong


def names(program: dlc.CompiledProgram) -> list[str]:
    return [kernel.name for kernel in program.kernels]


def test_sync_names_the_kernel_that_fails(make: Make):
    gpu, backend = make(sync=True)
    f = compile_chain(backend)
    first, second, *_ = names(f)
    f(X, W)
    gpu.broken = second
    with pytest.raises(LaunchError) as caught:
        f(X, W)
    said = str(caught.value)
    assert said.startswith(f"{second}: it fails while it runs: ")
    assert "an illegal memory access was encountered" in said
    assert f"grid {f.kernels[1].grid}, block {f.kernels[1].block}, " in said
    assert f"{f.kernels[1].shared_bytes} bytes of shared memory, arguments " in said
    assert ": memref<" in said
    assert " at 0x" in said
    assert first not in said.split(" (grid")[0]
    assert gpu.contexts == 0


def test_without_sync_the_next_launch_says_how_to_find_it(make: Make):
    gpu, backend = make()
    f = compile_chain(backend)
    f(X, W)
    gpu.broken = names(f)[-1]
    f(X, W)
    gpu.synchronize()
    with pytest.raises(LaunchError, match=r"an earlier kernel may have caused: run again with --s"):
        f(X, W)
    assert gpu.contexts == 0


def test_what_fails_after_the_last_launch_is_not_lost(new: Make):
    gpu, backend = new()
    f = compile_chain(backend)
    f(X, W)
    gpu.refuse["cuCtxPopCurrent"] = 700
    with pytest.raises(LaunchError, match="a kernel failed on cpu"):
        f(X, W)
    gpu.refuse.clear()
    f(X, W)  # the lock is free


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("cuLaunchKernel", 701, "wants more registers or threads than the GPU has"),
        ("cuLaunchKernel", 2, "no memory on the GPU to launch it.*make room"),
        ("cuModuleLoad", 209, r"compiled by nvcc for sm_90 \(.*update the driver, put an nvcc"),
        ("cuModuleLoad", 2, "no memory on the GPU to load"),
        ("cuFuncSetAttribute", 1, "cannot be loaded for sm_90"),
        ("cuMemsetD8Async", 700, "a kernel failed on cpu .* run again with --sync"),
        ("cuMemsetD8Async", 1, "the CUDA driver refuses a call on cpu: cuMemsetD8Async: "),
        ("cuCtxPushCurrent", 700, "a kernel failed on cpu .* run again with --sync"),
    ],
)
def test_what_the_driver_refuses(make: Make, call: str, code: int, message: str):
    gpu, backend = make()
    gpu.refuse[call] = code
    executor = Executor(parse(ZEROED if "Memset" in call else SHARED), backend)
    x = torch.randn(4 if "Memset" in call else 16384)
    with pytest.raises(BackendError, match=message) as caught:
        executor([x])
    assert "\n" not in str(caught.value)
    assert gpu.contexts == 0
    gpu.refuse.clear()
    executor([x])  # the backend can go on


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), "not enough memory on cpu .*'host'"),
        (torch.AcceleratorError("illegal\nhint"), r"a kernel failed on cpu \(illegal\): run again"),
    ],
    ids=["memory", "device"],
)
def test_what_torch_raises_is_said_in_a_sentence(
    new: Make, error: RuntimeError, message: str, monkeypatch: pytest.MonkeyPatch
):
    gpu, backend = new()
    f = compile_chain(backend)
    f(X, W)
    gpu.synchronize()

    def allocate(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(torch, "empty_strided", allocate)
    with pytest.raises(LaunchError, match=message):
        f(X, W)
    assert gpu.contexts == 0


def test_a_gpu_that_is_too_old_is_refused(new: Make):
    with pytest.raises(BackendError, match=r"need a GPU of .* 7.5 or newer, and Fake GPU has 7.0"):
        new(FakeGpu(capability=(7, 0)))


def test_a_schedule_for_a_newer_gpu_is_refused(new: Make):
    _, backend = new(FakeGpu(capability=(8, 6)))
    f = compile_chain(backend)
    with pytest.raises(BackendError, match=r"scheduled for sm_90, .* than Fake GPU \(sm_86\)"):
        f(X, W)
    g = dlc.compile(chain, (X, W), target="sm_80", backend=backend)
    g(X, W)


def test_too_much_shared_memory_is_refused(new: Make):
    _, backend = new(FakeGpu(shared_limit=60000))
    with pytest.raises(LaunchError, match=r"reverse wants 65536 bytes .*, and Fake GPU has 60000"):
        Executor(parse(SHARED), backend)([torch.randn(16384)])


def test_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(BackendError, match=r"^the backend 'cuda' needs .*take the backend 'host'$"):
        get_backend("cuda")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    with pytest.raises(BackendError, match="torch finds none: check nvidia-smi"):
        torch_device.CudaDevice()

    def old() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old.\nUpdate")

    monkeypatch.setattr(torch.cuda, "init", old)
    with pytest.raises(BackendError, match="driver on your system is too old"):
        torch_device.CudaDevice()


def test_there_is_no_wheel_and_no_driver(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named '{name}'")

    def unloaded() -> None:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    monkeypatch.setattr(bindings.importlib, "import_module", missing)
    with pytest.raises(BackendError, match=r"'cuda\.bindings.driver'\): .* pip install 'dlc\[gpu"):
        bindings.load_bindings()
    module = SimpleNamespace(cuDriverGetVersion=unloaded)
    monkeypatch.setattr(bindings.importlib, "import_module", lambda name: module)
    with pytest.raises(BackendError, match=r"dlopen libcuda.so.1\); install the driver, or take"):
        bindings.load_bindings()


def test_compiling_loads_no_driver():
    script = """
import sys, torch, dlc
dlc.compile(torch.relu, (torch.randn(4),), target="sm_90", backend="host").ir("cuda")
assert "dlc.backend.cuda.run.bindings" not in sys.modules
"""
    subprocess.run([*forked_python(), "-c", script], check=True)


def test_which_driver_is_taken(monkeypatch: pytest.MonkeyPatch):
    made: list[str] = []

    def pycuda(device: int) -> str:
        made.append("pycuda")
        raise ImportError("libcurand.so.10")

    def plain(device: int) -> str:
        raise DriverError("cuInit", 100, "no CUDA-capable device is detected")

    monkeypatch.setattr(open_driver, "PyCudaDriver", pycuda)
    monkeypatch.setattr(open_driver, "BindingsDriver", lambda device: f"cuda-bindings {device}")
    monkeypatch.setattr(open_driver.importlib.util, "find_spec", lambda name: object())
    open_driver.open_driver.cache_clear()
    with pytest.warns(UserWarning, match=r"PyCUDA cannot be imported \(libcurand.so.10\)"):
        assert open_driver.open_driver(3) == "cuda-bindings 3"
    assert made == ["pycuda"]
    monkeypatch.setattr(open_driver.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(open_driver, "BindingsDriver", plain)
    with pytest.raises(BackendError, match=r"no CUDA-capable device .*; take the backend 'host'"):
        open_driver.open_driver(4)


# The true cuda-bindings


LAUNCH = """
struct config {
  unsigned grid[3], block[3], shared;
  void *stream;
  struct { int id, pad, value[16]; } *attributes;
  unsigned count;
};
u64 last[16];
result cuFuncSetAttribute(void *function, int attribute, int value) {
  return attribute != 8 || value != 50000;
}
result cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 97 ? 232448 : 0;
  return 0;
}
result cuMemsetD8Async(u64 address, unsigned char value, size_t size, void *stream) {
  last[0] = address, last[1] = value, last[2] = size, last[3] = (u64)stream;
  return 0;
}
result cuStreamSynchronize(void *stream) { return stream == (void *)7 ? 700 : 0; }
result cuLaunchKernelEx(struct config *config, void *function, void **parameters, void **extra) {
  if (extra) return 1;
  memset(last, 0, sizeof last);
  for (int i = 0; i < (config->count ? 2 : 3); ++i) last[i] = *(u64 *)parameters[i];
  last[5] = (u64)config->stream;
  last[6] = config->grid[0], last[7] = config->grid[1] * config->grid[2];
  last[8] = config->block[0], last[9] = config->block[1] * config->block[2];
  last[10] = config->shared;
  last[11] = config->count;
  if (config->count) {
    last[12] = config->attributes[0].id, last[13] = config->attributes[1].id;
    memcpy(&last[14], config->attributes[0].value, 8);
  }
  return config->stream == (void *)7 ? 701 : 0;
}
"""
LAUNCH_ALL = """
import ctypes, json, struct
from dlc.backend.cuda.run.bindings_driver import BindingsDriver
from dlc.backend.cuda.run.driver import DriverError, LaunchShape
def last():
    return list((ctypes.c_uint64 * 16).in_dll(ctypes.CDLL("libcuda.so.1"), "last"))
def refused(call, *arguments):
    try:
        call(*arguments)
    except DriverError as error:
        return str(error), error.code
found = {"device": refused(BindingsDriver, 1)}
driver = BindingsDriver(0)
found["limit"] = driver.shared_limit()
driver.push()
plain = driver.load("k.cubin", LaunchShape("k", 5, 64, 50000, (8, 8, 8)))
shape = LaunchShape("k", 6, 64, 0, (8, 8), cluster=2, overlaps=True)
clustered = driver.load("k.cubin", shape)
plain(0x5000, struct.pack("3Q", 11, 12, 13))
found["plain"] = last()[:12]
clustered(0, struct.pack("2Q", 14, 15))
found["clustered"] = last()
driver.zero(3, 4096, 100)
found["zero"] = last()[:4]
found["refused"] = refused(plain, 7, bytes(24)), refused(driver.synchronize, 7)
driver.synchronize(0)
driver.pop()
print(json.dumps(found))
"""


@needs_bindings
def test_the_driver_gets_what_a_launch_says(tmp_path: Path):
    found = run_with_driver(LAUNCH, LAUNCH_ALL, tmp_path)
    assert found["device"] == ["cuDeviceGet: what it says (CUDA error 101)", 101]
    assert found["limit"] == 232448
    assert found["plain"] == [11, 12, 13, 0, 0, 0x5000, 5, 1, 64, 1, 50000, 0]
    arguments, config, attributes = (
        found["clustered"][a:b] for a, b in ((0, 2), (5, 11), (11, 15))
    )
    assert (arguments, config) == ([14, 15], [0, 6, 1, 64, 1, 0])
    assert attributes == [2, 4, 6, 2 | 1 << 32]  # clusters of 2 x 1, programmatic serialization
    assert found["zero"] == [4096, 0, 100, 3]
    assert found["refused"] == [
        ["cuLaunchKernelEx: what it says (CUDA error 701)", 701],
        ["cuStreamSynchronize: what it says (CUDA error 700)", 700],
    ]


# Parameters as nvcc lays them out


PARAMETERS = """
struct alignas(128) tensor_map { unsigned long long words[16]; };
extern "C" __global__ void k(
    const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b, const float* x,
    const int* y, float* z) {
  z[0] = x[0] + y[0] + a.words[1] + b.words[2];
}
"""


@needs_nvcc
def test_parameters_lie_where_nvcc_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`.param` declarations of the PTX give sizes and alignments, which give the offsets."""
    source, ptx = tmp_path / "k.cu", tmp_path / "k.ptx"
    source.write_text(PARAMETERS)
    nvcc = [str(find_nvcc()), "-ptx", "-arch=sm_90", "-o", str(ptx), str(source)]
    subprocess.run(nvcc, check=True, capture_output=True)
    declared = re.findall(
        r"\.param (?:\.align (\d+) )?\.(?:b8 k_param_\d+\[(\d+)\]|u64 (?:\.ptr .*)?k_param)",
        ptx.read_text(),
    )
    offsets, end = [], 0
    for alignment, size in declared:
        step, length = int(alignment or 8), int(size or 8)
        offsets.append((end + step - 1) // step * step)
        end = offsets[-1] + length
    map = TensorMap(f32, (32, 32), (4, 128), (32, 8), 0, 0)
    arguments = Arguments(3, [(0, map), (1, map)], lambda map, address: bytes([address]) * 128)
    assert offsets == [0, 128, 256, 264, 272]
    assert arguments.parameters == (128, 128, 8, 8, 8)
    assert end == sum(arguments.parameters)
    packed = arguments.pack([7, 8, 9])
    assert packed == bytes([7]) * 128 + bytes([8]) * 128 + struct.pack("<3Q", 7, 8, 9)


# Blocks that are counted


@cache
def split_sum_on_host() -> Variant:
    f = dlc.compile(split_sum, (LONG,), target="sm_90", backend="host")
    f = f.with_schedule({"sum": ending_in_one(f.kernels[0].schedule)})
    assert "combine=last" in f.kernels[0].schedule
    f.ir("kernel")
    return f.variants[0]


def split_sum(x: torch.Tensor) -> torch.Tensor:
    """A sum that several blocks share, of which the last goes on."""
    return x.sum()


LONG = torch.randn(40_000)


@pytest.mark.parametrize("newest_first", [True, False], ids=["newest", "oldest"])
def test_counts_of_blocks_are_zeroed_once(make: Make, newest_first: bool):
    """For each stream and each graph, which may be replayed on any."""
    gpu, backend = make(FakeGpu(newest_first))
    program = CompiledProgram(split_sum, "sm_90", backend)
    compiled = split_sum_on_host()
    stages = Stages(compiled.program.module, kernels=compiled.module("kernel"))
    program.variants.append(Variant(compiled.program, backend, stages))

    def zeroed() -> int:
        return sum(call.startswith("cuMemsetD8") for call in gpu.calls)

    sums = [program(LONG * n) for n in range(3)]
    assert zeroed() == 1
    with backend._torch.stream(gpu.new_stream()):
        sums += [program(LONG * n) for n in (3, 4)]
    assert zeroed() == 2
    gpu.synchronize()
    for n, found in enumerate(sums):
        close(found, LONG.sum() * n)
    graph = program.graph(LONG)
    assert zeroed() == 3
    for n in (1, 2):
        found = graph(LONG * n)
        kept = [tensor for tensor in gpu.alive if tensor.dtype == torch.uint8]
        assert len(kept) == 1, "what a replay counts in outlives it"
        gpu.synchronize()
        close(found, LONG.sum() * n)
    assert zeroed() == 3
    backend._torch.capture(lambda: program(LONG))
    assert zeroed() == 4, "a graph that torch captures zeroes its own"
