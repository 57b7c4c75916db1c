"""Runs cases, each in a process of its own: a crash, a hang or a flood of memory is a failure."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from dlc.cli.status_line import STATUS
from fuzzing.cases import KINDS, WHERE, Answer

SECONDS = 120
"""What a case may take, shrinking included."""
BYTES = 8 << 30
_GPUS = os.environ.get("CUDA_VISIBLE_DEVICES")
_FORK = multiprocessing.get_context("fork")


@dataclass
class Tally:
    """What has been found so far."""

    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    """In how many programs each overload was."""
    failures: dict[str, Answer] = field(default_factory=dict)
    begin: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        done = ", ".join(f"{n} {kind}" for kind, n in sorted(self.done.items()))
        spent = time.monotonic() - self.begin
        return (
            f"{done or 'nothing yet'} in {spent:.0f} s, {sum(self.refused.values())} refused, "
            f"{len(self.failures)} failed"
        )


def run(cases: Iterator[str], jobs: int, folder: Path, seconds: float = float("inf")) -> Tally:
    """Runs cases such as `programs:17`; the text of one that fails goes to a file in `folder`."""
    torch.set_num_threads(1)
    _import_all()
    tally = Tally()
    running: dict[Connection, tuple[str, BaseProcess, float]] = {}
    try:
        while True:
            while len(running) < jobs and time.monotonic() - tally.begin < seconds:
                if (case := next(cases, None)) is None:
                    break
                mine, theirs = _FORK.Pipe(duplex=False)
                process = _FORK.Process(target=_child, args=(case, theirs), daemon=True)
                process.start()
                theirs.close()
                running[mine] = case, process, time.monotonic()
            if not running:
                return tally
            _collect(running, tally, folder)
    finally:
        for _, process, _ in running.values():
            process.kill()


def _import_all() -> None:
    """All that the processes need. Where a process has seen a GPU, its forks cannot use it."""
    backend, WHERE.backend = WHERE.backend, ""
    if backend == "cuda":
        os.environ |= {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "CUDA_VISIBLE_DEVICES": ""}
    answer_to("programs:0")
    WHERE.backend = backend


def _collect(
    running: dict[Connection, tuple[str, BaseProcess, float]], tally: Tally, folder: Path
) -> None:
    ready = set(wait(list(running), timeout=1))
    for connection, (case, process, begin) in list(running.items()):
        if connection in ready:
            answer = _received(connection, process)
        elif time.monotonic() - begin > SECONDS:
            process.kill()
            answer = Answer(f"no answer in {SECONDS} s")
        else:
            continue
        process.join()
        del running[connection]
        _note(case, answer, tally, folder)


def _received(connection: Connection, process: BaseProcess) -> Answer:
    try:
        return connection.recv()
    except EOFError:
        process.join()
        return Answer(f"its process ended with exit code {process.exitcode}")


def _note(case: str, answer: Answer, tally: Tally, folder: Path) -> None:
    kind = case.split(":")[0]
    tally.done[kind] += 1
    tally.operators.update(answer.operators)
    if answer.refused:
        tally.refused[answer.refused] += 1
    if answer.failure:
        tally.failures[case] = answer
        folder.mkdir(exist_ok=True)
        file = folder / f"{case.replace(':', '-')}.txt"
        file.write_text(f"{case}: {answer.failure}\n\n{answer.case}")
        STATUS.clear()
        print(f"{case}: {answer.failure.splitlines()[0]}\n    {file}")
    STATUS.show(str(tally))


def _child(case: str, connection: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # PyTorch warns of what random programs do
    if WHERE.backend != "cuda":
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    elif _GPUS is None:  # no limit, since CUDA takes many addresses
        del os.environ["CUDA_VISIBLE_DEVICES"]
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = _GPUS
    try:
        answer = answer_to(case)
    except BaseException:
        answer = Answer(traceback.format_exc().strip().splitlines()[-1], traceback.format_exc())
    connection.send(answer)


def answer_to(case: str) -> Answer:
    """Runs one case in this process."""
    return KINDS[case.split(":")[0]](random.Random(case))
