"""Candidates as tasks of a Ray cluster. Skipped where Ray is not installed (the extra `ray`)."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from typing import Any

import loop_cases
import pytest
from tuning_cases import subject

from dlc.diagnostics import UsageError
from dlc.tuning.objectives import objective
from dlc.tuning.ray_workers import RayWorkers
from dlc.tuning.tuner import Budget, tune_kernel
from dlc.tuning.workers import Died, Limits


def test_without_ray_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="--ray needs Ray"):
        RayWorkers[int](Limits(), "auto", "host")


@pytest.fixture(scope="module")
def cluster() -> Any:
    """A local cluster of a head that runs nothing and two workers."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [found.add_node(num_cpus=1) for _ in range(2)]
    yield found, nodes
    ray.shutdown()
    found.shutdown()


def test_a_worker_that_is_lost_loses_nothing(cluster: Any) -> None:
    """Calls that take a second each; one of two nodes goes away in the middle."""
    found, nodes = cluster
    answers: dict[int, Any] = {}
    with RayWorkers[int](Limits(), found.address, "host") as workers:
        for number in range(6):
            workers.start(number, partial(time.sleep, 1))
        for count in range(6):
            key, answer = workers.next_answer()
            answers[key] = answer
            if count == 0:
                found.remove_node(nodes.pop(), allow_graceful=False)
    assert answers == dict.fromkeys(range(6))


def test_a_candidate_that_crashes_is_told(cluster: Any) -> None:
    with RayWorkers[str](Limits(), cluster[0].address, "host") as workers:
        workers.start("bad", partial(os.abort))
        key, answer = workers.next_answer()
    assert (key, isinstance(answer, Died)) == ("bad", True)
    assert str(answer) == f"crashed with {signal.SIGABRT.name}"


def test_kernels_are_tuned_on_the_cluster(cluster: Any) -> None:
    of = subject(loop_cases.silu_mul(7, 96))
    budget, judge = Budget(candidates=3), objective("host")
    tuning = tune_kernel(of, judge, budget, jobs=2, ray=cluster[0].address)
    assert len(tuning.trials) == 3
    assert tuning.default.score is not None
    assert tuning.best.seconds <= tuning.default.seconds
