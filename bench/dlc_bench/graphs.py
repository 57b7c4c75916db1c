"""Timing on a GPU: every contender in CUDA graphs, between events of the stream they run on."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any

import torch

from dlc.backend import BackendError
from dlc.backend.cuda.run.bindings import call, load_bindings
from dlc.backend.cuda.run.driver import DriverError
from dlc_bench.device import ROTATED_CACHES, Rates
from dlc_bench.subject import Call, Subject, results_of
from dlc_bench.timer import Times, Waiting, poison

GRAPH_SECONDS = 1e-3
"""What a graph should take at least, so that its start is a small part of it."""
LEAST_CALL_SECONDS = 3e-6
MOST_CALLS = 320
"""Calls in a graph whose tensors stay in the cache."""
MOST_SETS = 2048
"""Sets of tensors in a graph that comes back to each after the cache has seen others."""
DELAY_CYCLES = 1_000_000
"""Clocks for which the GPU waits at the start of a round, so that graphs are queued in time."""
CAPTURE_RUNS = 2
"""Calls before a capture: what is set up at a first call cannot be captured."""
_WORK_NODES = (0, 1, 2)
"""Kernels, copies and fills, of CUgraphNodeType."""


class Graph:
    """Calls captured one after the other, on a set of tensors each."""

    def __init__(
        self, call: Call, sets: Sequence[Sequence[torch.Tensor]], stream: torch.cuda.Stream
    ) -> None:
        self.calls = len(sets)
        self._graph: Any = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.stream(stream), _no_collection():
            self._graph.capture_begin(capture_error_mode="thread_local")
            try:
                for number, tensors in enumerate(sets):
                    output = call(tensors)
                    if number == 0:
                        self.results = results_of(output)
                    del output
            finally:
                self._graph.capture_end()
            self.nodes = count_work_nodes(self._graph.raw_cuda_graph())
            self._graph.instantiate()

    def replay(self) -> None:
        """On the current stream."""
        self._graph.replay()


@contextmanager
def _no_collection() -> Iterator[None]:
    """An older graph that is collected while another is captured would spoil that."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def count_work_nodes(graph: int) -> int | None:
    """Kernels, copies and fills in a CUgraph; None where the driver does not say."""
    try:
        cuda = load_bindings()
        _, count = call(cuda, "cuGraphGetNodes", graph)
        nodes, _ = call(cuda, "cuGraphGetNodes", graph, count)
        kinds = [call(cuda, "cuGraphNodeGetType", node) for node in nodes]
    except (BackendError, DriverError):
        return None
    return sum(kind in _WORK_NODES for kind in kinds)


class GraphStaged:
    """A call in two graphs: on one set of tensors, and on sets that push each other out of L2."""

    def __init__(self, warm: Graph, cold: Graph | None, subject: Subject) -> None:
        self.warm, self.cold, self.subject = warm, cold, subject

    @property
    def launches(self) -> int | None:
        return None if self.warm.nodes is None else round(self.warm.nodes / self.warm.calls)

    def poisoned_runs(self, expected: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
        mine = {t.untyped_storage().data_ptr() for t in self.subject.tensors}
        for graph in filter(None, (self.warm, self.cold)):
            for result, right in zip(graph.results, expected, strict=True):
                if result.untyped_storage().data_ptr() not in mine:
                    poison(result, right)
            self.subject.restore()
            graph.replay()
            torch.cuda.synchronize()
            yield graph.results


class GraphTimer:
    """
    Times replays of CUDA graphs. A graph has many calls, so that neither the CPU nor the start of
    the graph is in the figure; the sets of tensors of the cold one are together larger than L2.
    """

    method = "CUDA graphs, events"

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.stream = torch.cuda.Stream()
        self._sets: tuple[Subject, list[list[torch.Tensor]]] | None = None

    def stage(self, call: Call, subject: Subject) -> GraphStaged:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(CAPTURE_RUNS):
                call(subject.tensors)
        torch.cuda.synchronize()
        least = max(self.rates.floor(subject.work, cold=False), LEAST_CALL_SECONDS)
        calls = min(MOST_CALLS, ceil(GRAPH_SECONDS / least))
        warm = Graph(call, [subject.tensors] * calls, self.stream)
        sets = self.sets(subject)
        cold = Graph(call, sets, self.stream) if sets else None
        torch.cuda.synchronize()
        return GraphStaged(warm, cold, subject)

    def sets(self, subject: Subject) -> list[list[torch.Tensor]]:
        """Sets of tensors larger than L2 together; none where that takes too many."""
        if self._sets is None or self._sets[0] is not subject:
            count = set_count(subject.rotated_bytes, self.rates.cache_bytes)
            self._sets = subject, subject.copies(count) if count else []
        return self._sets[1]

    def round(self, staged: Sequence[GraphStaged], waiting: Waiting) -> list[Times]:
        graphs = [g for one in staged for g in (one.warm, one.cold) if g is not None]
        marks = {g: (_event(), _event()) for g in graphs}
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(DELAY_CYCLES)
            for graph in graphs:
                begin, end = marks[graph]
                begin.record()
                graph.replay()
                end.record()

        def seconds(graph: Graph) -> float:
            begin, end = marks[graph]
            end.synchronize()
            return begin.elapsed_time(end) / 1e3 / graph.calls

        times: list[Times] = []
        for number, one in enumerate(staged):
            waiting(number)
            times.append(Times(seconds(one.warm), None if one.cold is None else seconds(one.cold)))
        return times


def set_count(set_bytes: int, cache_bytes: int) -> int:
    """How many sets of tensors push each other out of a cache; 0 where they are too many."""
    if not set_bytes:
        return 0
    count = ceil(ROTATED_CACHES * cache_bytes / set_bytes)
    return count if count <= MOST_SETS else 0


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def check_alive() -> None:
    """BackendError if an earlier kernel has broken the context, which nothing can mend."""
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise BackendError(f"the GPU's context is broken: {error}") from error
