"""The objective `gpu` on a GPU that is none: what is judged, how it is timed, what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import loop_cases
import pytest
import torch
from fake_gpu import FakeGpu, InPlace, fake_backend
from tuning_cases import subject

from dlc.backend import BackendError
from dlc.backend.cuda.run import gpu_backend
from dlc.tuning import objectives, tuner
from dlc.tuning.candidate_program import Subject
from dlc.tuning.objectives import Failure, Score, objective
from dlc.tuning.tuner import Budget, tune_kernel
from dlc.tuning.workers import Died, Limits, isolated_call
from dlc_bench import graphs
from dlc_bench.device import Device, Rates

NODE_SECONDS = 1e-9
"""What a launch takes here, times the length of its CUDA text."""


class Clock:
    """What stands where torch.cuda stands, above a GPU that is none: graphs, events, a clock."""

    def __init__(self, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gpu, self.now = gpu, 0.0
        clock = self

        class Graph:
            def __init__(self, keep_graph: bool) -> None:
                self.nodes: list[Any] = []

            def capture_begin(self, capture_error_mode: str) -> None:
                gpu.synchronize()
                self.stream, self.before = gpu.new_stream(), gpu.current
                gpu.current = gpu.capturing = self.stream

            def capture_end(self) -> None:
                gpu.capturing, gpu.current = 0, self.before
                self.nodes, self.held = list(gpu.streams[self.stream]), list(gpu.alive)
                gpu.streams[self.stream].clear()

            def raw_cuda_graph(self) -> int:
                return 0

            def instantiate(self) -> None:
                pass

            def replay(self) -> None:
                gpu.synchronize()
                gpu.streams[self.stream].extend(self.nodes)
                gpu.synchronize()
                clock.now += len(self.nodes) * NODE_SECONDS * len(gpu.modules[-1])

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                self.at = 0.0

            def record(self) -> None:
                self.at = clock.now

            def synchronize(self) -> None:
                gpu.synchronize()

            def elapsed_time(self, end: Event) -> float:
                return 1e3 * (end.at - self.at)

        class Stream:
            def wait_stream(self, stream: object) -> None:
                gpu.synchronize()

        for name, value in {
            "CUDAGraph": Graph, "Event": Event, "Stream": Stream, "stream": self.stream,
            "current_stream": lambda: None, "synchronize": self.synchronize,
            "_sleep": lambda cycles: None,
        }.items():  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, value)

    @contextmanager
    def stream(self, stream: object) -> Iterator[None]:
        yield

    def synchronize(self) -> None:
        self.gpu.synchronize()
        if self.gpu.sticky:
            raise RuntimeError("an illegal memory access was encountered")


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """The GPU on which the objective measures."""
    made, rates = FakeGpu(), Rates(1e15, 1e15, 1e15, 1000)
    Clock(made, monkeypatch)
    backend = fake_backend(made, "cuda-bindings", tmp_path, monkeypatch)
    measure, compile_all = objectives.measure, gpu_backend.compile_cubins

    def measured(*arguments: Any, **options: Any) -> Any:
        with InPlace(made):
            return measure(*arguments, **options)

    monkeypatch.setattr(objectives, "measure", measured)
    monkeypatch.setattr(objectives, "get_backend", {"cuda": backend}.__getitem__)
    monkeypatch.setattr(
        objectives, "compile_cubin", lambda text, arch: compile_all([text], arch)[0]
    )
    where = torch.device("cpu")
    found = Device("none", "cuda", where, rates, rates)
    monkeypatch.setattr(objectives, "find_device", lambda backend: found)
    monkeypatch.setattr(graphs, "count_work_nodes", lambda graph: None)
    monkeypatch.setattr(graphs, "MOST_CALLS", 3)
    return made


GPU = objective("gpu", elsewhere=True)
DEFAULT = "tileify,blockify-launch{block=256 thread=256}"


def silu() -> Subject:
    return subject(loop_cases.silu_mul(7, 96))


def text_length(gpu: FakeGpu) -> int:
    return len(gpu.modules[-1])


def test_a_candidate_is_timed_in_graphs(gpu: FakeGpu) -> None:
    of = silu()
    found = GPU.score(of, DEFAULT, of.results(DEFAULT))
    assert found.seconds == pytest.approx(NODE_SECONDS * text_length(gpu))
    assert "cuLaunchKernel" in gpu.calls


def test_wrong_results_are_not_timed(gpu: FakeGpu) -> None:
    of = silu()
    with pytest.raises(Failure, match="wrong results"):
        GPU.score(of, DEFAULT, [t + 1 for t in of.results(DEFAULT)])


def test_a_kernel_that_breaks_the_context_ends_its_process(gpu: FakeGpu) -> None:
    of = silu()
    gpu.broken = "silu_mul"
    expected = of.results(DEFAULT)
    with pytest.raises(BackendError, match="illegal memory access"):
        GPU.score(of, DEFAULT, expected)


def test_several_are_timed_side_by_side(gpu: FakeGpu) -> None:
    of = silu()
    assert GPU.side_by_side is not None
    other = "tileify,blockify-launch{block=32 thread=32}"
    good, bad, also = GPU.side_by_side(
        of, [DEFAULT, "tileify,async-kopy", other], of.results(DEFAULT)
    )
    assert isinstance(good, Score)
    assert isinstance(bad, Failure)
    assert isinstance(also, Score)


class Queue:
    """Calls in this process, in the order in which they come."""

    at_once: list[list[bool]]
    """Of each call that ran beside one that began, whether it compiles."""

    def __class_getitem__(cls, key: object) -> type[Self]:
        return cls

    def __init__(self, limits: Limits) -> None:
        self.running: list[tuple[Any, Any]] = []

    def start(self, key: Any, call: Any) -> None:
        self.running.append((key, call))
        self.at_once.append([call.func is objectives.compiled for _, call in self.running])

    def next_answer(self) -> tuple[Any, Any]:
        key, call = self.running.pop(0)
        return key, call()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


def test_candidates_are_compiled_at_once_and_measured_alone(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    Queue.at_once = []
    monkeypatch.setattr(tuner, "Workers", Queue)
    tuning = tune_kernel(silu(), GPU, Budget(candidates=8), jobs=3)
    assert len(tuning.trials) == 8
    assert all(trial.score for trial in tuning.trials), [t.refusal for t in tuning.trials]
    assert tuning.best.again
    assert max(compiles.count(False) for compiles in Queue.at_once) == 1
    assert max(compiles.count(True) for compiles in Queue.at_once) > 1


def test_what_does_not_compile_is_refused(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(text: str, arch: str) -> None:
        raise BackendError("nvcc refuses it")

    of = silu()
    monkeypatch.setattr(objectives, "compile_cubin", fails)
    answer = isolated_call(lambda: GPU.prepare and GPU.prepare(of, DEFAULT), Limits(bytes=None))
    assert isinstance(answer, Died)
    assert "nvcc refuses it" in str(answer)
    with pytest.raises(Died, match=r"cannot be judged: .*nvcc refuses it"):
        tune_kernel(of, GPU, Budget(candidates=2), limits=Limits(bytes=None))
