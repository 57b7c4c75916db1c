"""Measuring: work and floors, checks before times, rounds in turn, graphs on a pretended GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from stub_driver import needs_bindings, run_with_driver

from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc_bench import graphs
from dlc_bench.contender import Contender, dlc, eager, torch_compile
from dlc_bench.device import Device, Rates, find_device
from dlc_bench.environment import environment, forbid_tf32
from dlc_bench.measure import Plan, Result, Spread, measure
from dlc_bench.program import program_subject
from dlc_bench.subject import Subject, copy
from dlc_bench.table import results_table
from dlc_bench.timer import Times, poison
from dlc_bench.work import Work, work_of

QUICK = Plan(warm_up_seconds=0, seconds=0, least_rounds=3, most_rounds=3)
SLOW_RATES = Rates(1.0, 1.0, 1.0, 0)
HOST = find_device("host")


def subject(n: int = 64) -> Subject:
    x = torch.randn(n)
    size = 4.0 * n
    return Subject(
        lambda t: torch.sin(t[0]), [x], lambda: [torch.sin(x.double())], Work(n, size, size)
    )


def fake(name: str, call: Callable[..., Any]) -> Contender:
    return Contender(name, lambda subject, report: call)


def measured(*contenders: Contender, on: Subject | None = None) -> dict[str, Result]:
    return measure(on or subject(), contenders, HOST, QUICK)


# What must be done


def work(text: str) -> Work:
    module, args = capture_text(text)
    program = import_program(module, args)
    return work_of(program.module, program.bind(args))


@pytest.mark.parametrize(
    ("text", "flops", "read", "written"),
    [
        ("torch.randn(8, 16) @ torch.randn(16, 4)", 2 * 8 * 16 * 4, 4 * (128 + 64), 4 * 32),
        ("nn.Linear(16, 4)(torch.randn(8, 16))", 2 * 8 * 16 * 4, 4 * (128 + 64 + 4), 4 * 32),
        ("x = torch.randn(4, 8); torch.softmax(x, -1)", 64, 128, 128),
        ("x = torch.randn(100, 8); x[:3] + 1", 24, 0, 96),  # most of x is never read
        ("F.embedding(torch.randint(0, 9, (4,)), torch.randn(9, 8))", 32, 0, 128),
    ],
)
def test_work(text: str, flops: float, read: float, written: float) -> None:
    found = work(text)
    assert (found.read, found.written) == (read, written)
    assert found.flops == flops


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("F.avg_pool2d(nn.Conv2d(3, 4, 3)(torch.randn(1, 3, 10, 10)) * 2, 2)", 0),
        ("F.avg_pool2d(nn.Conv2d(3, 4, 3)(torch.randn(1, 3, 10, 10)).relu(), 2)", 1),
        ("y = torch.randn(8, 16) @ torch.randn(16, 4); y.sum() + y.max()", 1),
    ],
)
def test_no_floor_has_operations_that_sums_save(text: str, share: int) -> None:
    found = work(text)
    assert found.flops - found.avoidable == share * found.flops


def test_what_a_causal_mask_leaves() -> None:
    q = "q = torch.randn(1, 2, 5, 8); F.scaled_dot_product_attention(q, q, q, is_causal={})"
    assert work(q.format(True)).flops == 2 * 2 * 15 * 16
    assert work(q.format(False)).flops == 2 * 2 * 25 * 16


def test_floors() -> None:
    rates = Rates(flops=100, bandwidth=10, cache_bandwidth=1000, cache_bytes=50)
    assert rates.roofline(Work(100, 30, 20)) == 5
    assert rates.floor(Work(100, 40, 20), cold=True) == 3  # a fourth of it may be in the cache
    assert rates.floor(Work(0, 500, 20), cold=True) == 45  # as much as the cache holds
    assert rates.floor(Work(100, 30, 20), cold=False) == 1  # all of it may be there
    assert rates.floor(Work(100, 80, 20), cold=False) == 5  # what does not fit
    assert rates.floor(Work(0, 30, 20), cold=False) == 0.05
    assert rates.floor(Work(100, 30, 20, avoidable=100), cold=False) == 0.05


def test_what_lies_in_one_place_may_stay_in_the_cache() -> None:
    tensors = [torch.zeros(100), torch.zeros(7)]
    given = Subject(lambda t: t, tensors, list, Work(1, 428, 4), fixed=frozenset({0}))
    assert given.rotated_work == Work(1, 28, 4)


# Checked, then timed


def test_contenders_are_timed_side_by_side() -> None:
    found = measured(dlc(backend="host"), eager())
    for result in found.values():
        assert result.error is None
        assert result.rounds == 3
        assert result.accuracy is not None
        assert result.accuracy.ok
        assert result.warm is not None
        assert 0 < result.warm.p20 <= result.warm.median <= result.warm.p80
    assert found["dlc"].launches == 1
    text = results_table(found, subject().work, HOST)
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["dlc", "eager"]


def kept(call: Callable[..., Any]) -> Callable[..., Any]:
    """Computes once, and returns that ever after: an impossible speed."""
    found: list[Any] = []

    def again(tensors: Sequence[torch.Tensor]) -> Any:
        if not found:
            found.append(call(tensors))
        return found[0]

    return again


def test_bad_contenders_are_told_and_the_others_timed() -> None:
    n = 512
    a, b = torch.randn(n, n), torch.randn(n, n)
    product = Subject(
        lambda t: t[0] @ t[1], [a, b], lambda: [a.double() @ b.double()], Work(2.0 * n**3, 1.0, 1.0)
    )

    def failing(tensors: Sequence[torch.Tensor]) -> None:
        raise ValueError("not today")

    found = measured(
        fake("off", lambda t: t[0] @ t[1] * 1.001),
        fake("unwritten", lambda t: torch.empty(n, n)),
        fake("two", lambda t: [t[0] @ t[1]] * 2),
        fake("failing", failing),
        fake("impossible", kept(lambda t: t[0] @ t[1])),
        eager(),
        on=product,
    )
    errors = {name: result.error or "" for name, result in found.items()}
    assert errors["off"].startswith("wrong results: error 1.0")
    assert errors["unwritten"].startswith("wrong results")
    assert errors["two"] == "ValueError: expected 1 results, found 2"
    assert errors["failing"] == "ValueError: not today"
    assert errors["impossible"].startswith("rejected, an error of the harness: ")
    assert errors["eager"] == ""
    assert [name for name, r in found.items() if r.warm] == ["impossible", "eager"]


def test_programs_that_write_to_their_inputs() -> None:
    text = "class M(nn.Module):\n  def forward(self, x):\n    x.add_(1)\n    return x * 2\n"
    module, args = capture_text(f"{text}M()(torch.randn(32))")
    program = import_program(module, args)
    mine = program_subject(program, program.module, program.bind(args))
    before = mine.tensors[0].clone()
    found = measured(eager(), fake("twice", mine.call), on=mine)
    assert [r.error for r in found.values()] == [None, None]
    assert not torch.equal(mine.tensors[0], before)
    mine.restore()
    assert torch.equal(mine.tensors[0], before)


def test_a_program_with_parameters_runs_on_other_tensors() -> None:
    module, args = capture_text("nn.Linear(8, 4)(torch.randn(3, 8))")
    program = import_program(module, args)
    mine = program_subject(program, program.module, program.bind(args))
    [first, other] = mine.copies(2)
    assert first is mine.tensors
    for tensor in other:
        tensor.zero_()
    assert not mine.call(other).any()
    assert torch.equal(mine.call(mine.tensors), module(*args))


class Ticking:
    """A timer that takes no time, and notes the order of its rounds."""

    method = "none"

    def __init__(self) -> None:
        self.orders: list[list[str]] = []

    def stage(self, call: Any, subject: Subject) -> Any:
        class Staged:
            launches = None
            name = call

            def poisoned_runs(self, expected: object) -> Iterator[object]:
                return iter(())

        return Staged()

    def round(self, staged: Sequence[Any], waiting: Callable[[int], None]) -> list[Times]:
        self.orders.append([one.name for one in staged])
        for number in range(len(staged)):
            waiting(number)
        return [Times(float(len(self.orders)), 2.0) for _ in staged]


def test_every_round_is_begun_by_another() -> None:
    timer, steps = Ticking(), []
    nothing_known = Subject(lambda t: None, [], list, Work(0, 0, 0))
    found = measure(
        nothing_known, [fake(n, n) for n in "abc"], HOST, QUICK,
        lambda *step: steps.append(step[:2]), timer=timer,
    )  # fmt: skip
    assert timer.orders == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    assert [who for who, what in steps if what == "timing"] == list("abcbcacab")
    assert found["a"].warm == Spread(2.0, 1.4, 2.6)
    assert found["a"].best == Spread(2.0, 2.0, 2.0)


def test_what_is_checked_of_torch_compile_is_what_is_timed() -> None:
    """The state that fills memory is not one in which it compiles a second time."""
    counted: list[object] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        counted.append(graph)
        return graph.forward

    compiler = torch.compile
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            torch, "compile", lambda f, mode, **given: compiler(f, backend=backend, **given)
        )
        result = measured(torch_compile())["torch.compile"]
    assert result.error is None
    assert result.accuracy is not None
    assert len(counted) == 1


def test_poison_differs_everywhere() -> None:
    for tensor in (
        torch.tensor([1.0, torch.nan, torch.inf]),
        torch.tensor([True, False]),
        torch.tensor([2**31 - 1, 0], dtype=torch.int32),
    ):
        poisoned = tensor.clone()
        poison(poisoned, tensor)
        same = (poisoned == tensor) | (poisoned.isnan() & tensor.isnan())
        assert not same.any()


def test_copies_lie_as_the_original() -> None:
    tensor = torch.randn(9, 8).t()[1:, ::2]
    assert copy(tensor).stride() == tensor.stride()
    assert copy(tensor).data_ptr() % 16 == tensor.data_ptr() % 16
    assert torch.equal(copy(tensor), tensor)
    assert copy(torch.randn(0, 3)).shape == (0, 3)


def test_the_environment_is_json() -> None:
    import json

    forbid_tf32()
    found = environment(HOST)
    assert json.loads(json.dumps(found)) == found
    assert not found["tf32"]
    assert found["sources"] == environment(HOST)["sources"]


# A GPU that is pretended: what is captured is kept and called again


class PretendedGraph:
    current: PretendedGraph | None = None

    def __init__(self, keep_graph: bool = False) -> None:
        self.work: list[Callable[[], None]] = []

    def capture_begin(self, capture_error_mode: str) -> None:
        PretendedGraph.current = self

    def capture_end(self) -> None:
        PretendedGraph.current = None

    def raw_cuda_graph(self) -> int:
        return 0

    def instantiate(self) -> None:
        pass

    def replay(self) -> None:
        for launch in self.work:
            launch()


class PretendedEvent:
    def __init__(self, enable_timing: bool) -> None:
        pass

    def record(self) -> None: ...

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: PretendedEvent) -> float:
        return 1.0


class PretendedStream:
    def wait_stream(self, stream: object) -> None: ...


@contextmanager
def pretended_stream(stream: object) -> Iterator[None]:
    yield


@pytest.fixture
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    for name, value in {
        "CUDAGraph": PretendedGraph, "Event": PretendedEvent, "Stream": PretendedStream,
        "stream": pretended_stream, "current_stream": lambda: None, "synchronize": lambda: None,
        "_sleep": lambda cycles: None,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(graphs, "count_work_nodes", lambda graph: 640)
    rates = Rates(1e15, 1e15, 1e15, 1000)
    return Device("pretended", "cuda", torch.device("cpu"), rates, rates)


def captured(compute: Callable[[Sequence[torch.Tensor]], torch.Tensor]) -> Contender:
    """A contender whose work can be replayed."""

    def call(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        result = compute(tensors)
        if (graph := PretendedGraph.current) is not None:
            graph.work.append(lambda: result.copy_(compute(tensors)))
        return result

    return fake("captured", call)


def test_graphs(pretended_gpu: Device) -> None:
    mine = subject(100)  # 400 bytes: ten sets are four caches of 1000 bytes
    seen: set[int] = set()

    def compute(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        seen.add(tensors[0].data_ptr())
        return torch.sin(tensors[0])

    result = measure(mine, [captured(compute)], pretended_gpu, QUICK)["captured"]
    assert len(seen) == 10
    assert result.error is None
    assert result.launches == 2  # 640 nodes in a graph of 320 calls
    assert result.warm == Spread.of([1e-3 / graphs.MOST_CALLS])
    assert result.cold == Spread.of([1e-3 / 10])


def test_a_graph_that_writes_nothing_is_wrong(pretended_gpu: Device) -> None:
    idle = fake("idle", lambda tensors: torch.sin(tensors[0]))  # what it did is not captured
    result = measure(subject(), [idle], pretended_gpu, QUICK)["idle"]
    assert (result.error or "").startswith("wrong results")


def test_how_many_sets_leave_a_cache() -> None:
    assert graphs.set_count(100, 1000) == 40
    assert graphs.set_count(10**6, 1000) == 1
    assert graphs.set_count(1, 10**6) == 0
    assert graphs.set_count(0, 10**6) == 0


DRIVER = """
result cuDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
    case 13: *value = 1980000; return 0;
    case 16: *value = 132; return 0;
    case 36: *value = 2619000; return 0;
    case 37: *value = 5120; return 0;
    case 38: *value = 52428800; return 0;
  }
  return 1;
}
result cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
  if (nodes == NULL) { *count = 4; return graph != (void *)0x123456789abcULL; }
  for (size_t i = 0; i < *count; ++i) nodes[i] = (void *)(0x7000000000000ULL + i);
  return 0;
}
result cuGraphNodeGetType(void *node, int *type) {
  static const int types[] = {0, 6, 2, 0};
  *type = types[(size_t)node - 0x7000000000000ULL];
  return 0;
}
"""
ASKED = """
import json
from dlc_bench.device import _gpu_rates
from dlc_bench.graphs import count_work_nodes
rates, other = _gpu_rates(0), _gpu_rates(1)
nodes = count_work_nodes(0x123456789ABC), count_work_nodes(1)
print(json.dumps([rates.flops, rates.bandwidth, rates.cache_bytes, other.bandwidth, *nodes]))
"""


@needs_bindings
def test_what_the_driver_is_asked(tmp_path: Path) -> None:
    flops, bandwidth, cache_bytes, other, *nodes = run_with_driver(DRIVER, ASKED, tmp_path)
    assert flops == pytest.approx(66.9e12, rel=1e-3)
    assert bandwidth == pytest.approx(3.352e12, rel=1e-3)
    assert cache_bytes == 50 << 20
    assert other == 3.35e12  # the driver says nothing: the target's
    assert nodes == [3, None]  # two kernels and a fill; no graph
