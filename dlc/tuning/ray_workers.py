"""
Calls as tasks on a Ray cluster, in the place of processes of this machine (`workers.Workers`).

    with RayWorkers(limits, "auto", "static") as workers:
        workers.start(key, call)
        key, answer = workers.next_answer()

A task runs its call in a process of its own there, with the same limits, so that a candidate that
crashes or hangs is known by that. A worker that is lost loses nothing: its task goes to another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, Generic, Self

from dlc.diagnostics import UsageError, with_hint
from dlc.tuning.interrupts import check
from dlc.tuning.workers import LOOK_SECONDS, Died, Key, Limits, isolated_call

RESOURCES: dict[str, dict[str, Any]] = {
    "gpu": {"num_gpus": 1},
    "static": {"resources": {"nvcc": 1}},
    "host": {"num_cpus": 1},
}
"""What a task of an objective asks of a node; `ray start --resources='{"nvcc": 4}'` offers it."""
TIMES = 3
"""How often a task is begun again whose worker was lost."""


class RayWorkers(Generic[Key]):
    """See the module's text. UsageError without Ray, or where no cluster answers."""

    def __init__(self, limits: Limits, address: str, objective: str) -> None:
        try:
            self._ray: Any = import_module("ray")
        except ImportError:
            error = UsageError("--ray needs Ray")
            raise with_hint(error, "pip install 'dlc[ray]'") from None
        self.limits = replace(limits, start="forkserver")  # a worker of Ray's has threads
        self.address = address
        self.running: dict[Any, Key] = {}
        """By Ray's references to their answers."""
        given = RESOURCES[objective]
        self._task = self._ray.remote(max_retries=TIMES, **given)(isolated_call)

    def __enter__(self) -> Self:
        if not self._ray.is_initialized():
            try:
                self._ray.init(address=self.address, log_to_driver=False)
            except ConnectionError as error:
                raise UsageError(f"no Ray cluster at {self.address}: {error}") from None
        return self

    def __exit__(self, *exception: object) -> None:
        for reference in self.running:
            self._ray.cancel(reference, force=True)
        self.running.clear()

    def start(self, key: Key, call: Callable[[], Any]) -> None:
        self.running[self._task.remote(call, self.limits)] = key

    def next_answer(self) -> tuple[Key, Any]:
        """The key and the answer of the call that is done next; `Died` in the place of one."""
        ready: list[Any] = []
        while not ready:
            check()
            ready, _ = self._ray.wait(list(self.running), num_returns=1, timeout=LOOK_SECONDS)
        (done,) = ready
        key = self.running.pop(done)
        try:
            return key, self._ray.get(done)
        except self._ray.exceptions.RayError as error:
            return key, Died(f"lost by Ray: {str(error).splitlines()[0]}")
