"""
Models that NNSmith draws, 10 to 20 operators each, on the host backend against PyTorch in fp64.

NNSmith (Liu et al., ASPLOS 2023) is a fuzzer of others: `pip install -e '.[smith]'` has it. A model
is right if each of its results is as near to fp64 as dlc's rule wants it, or, where it enlarges
rounding errors, as `dlc/judge/conditioning.py` knows it. This makes the table, in some hours:

    PYTHONPATH=test/python python test/python/smith.py results.jsonl > docs/nnsmith.md

What stands in the file is not judged again, so that a run that was ended goes on; a line that is
deleted is. A seed does not draw the same model each time, as z3 answers otherwise: one that is
wrong is kept beside the file, as its graph (for NNSmith's `SymbolNet`), weights and inputs.
"""

# pyright: reportMissingImports=false
# NNSmith is an extra.

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import multiprocessing
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from itertools import count, islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from verdicts import ENLARGED, REFUSED, RIGHT, WRONG, Verdict, reason

import dlc
from dlc.diagnostics import OpError
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.judge.conditioning import Expected
from dlc.judge.reference import evaluate, without_onednn
from dlc.judge.validation import Known

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have pygraphviz
    from nnsmith.graph_gen import model_gen
    from nnsmith.logging import DTEST_LOG
    from nnsmith.materialize.torch import TorchModelCPU
    from nnsmith.materialize.torch.input_gen import SamplingSearch
    from nnsmith.materialize.torch.symbolnet import SymbolNet
    from nnsmith.narrow_spec import infer_topset_from_scratch
    from nnsmith.util import set_seed

MODELS = 500
FEWEST, MOST = 10, 20
"""Operators of a model."""
TRIES = 8
"""So often are weights and inputs drawn until no number on the way is NaN or infinite; then with
such."""
SECONDS = 600
"""That long may the drawing of a model take, and then what becomes of it."""
NO_MODEL = "no model"
"""
NNSmith gives up or does not end, or PyTorch refuses what it gives: a division of integers by 0.
"""
KINDS = (RIGHT, ENLARGED, REFUSED, WRONG)


class Net(torch.nn.Module):
    """A model of NNSmith as PyTorch exports it: without what finds inputs for it."""

    def __init__(self, symbolic: SymbolNet) -> None:
        super().__init__()
        self.layers = symbolic.mlist
        self.steps = [(f, given, names) for f, given, names, _ in symbolic.instructions]
        self.inputs, self.outputs = list(symbolic.input_map), list(symbolic.output_map)

    def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = dict(zip(self.inputs, args, strict=True))
        for function, given, names in self.steps:
            found = function(*(values[name] for name in given))
            results = found if isinstance(found, list) else [found]
            values.update(zip(names, results, strict=True))
        return tuple(values[name] for name in self.outputs)


@dataclass(frozen=True)
class Drawn:
    """A model, its inputs, and its operators by name."""

    net: Net
    args: tuple[torch.Tensor, ...]
    operators: list[str]
    kept: dict[str, Any]
    """What is kept of it where it is wrong."""


@dataclass(frozen=True)
class Judged:
    """What becomes of the model of a seed."""

    seed: int
    kind: str
    why: str
    operators: list[str]


@cache
def operators() -> list[Any]:
    """What NNSmith has for PyTorch, with the dtypes that PyTorch takes, in a fixed order."""
    DTEST_LOG.setLevel(logging.ERROR)  # it tells what PyTorch does not take
    TorchModelCPU.add_seed_setter()
    found = infer_topset_from_scratch(TorchModelCPU, None)
    chosen = [op for op in TorchModelCPU.operators() if op.name() in found]
    for op in chosen:
        op.in_dtypes = sorted(found[op.name()].in_dtypes, key=str)
        op.out_dtypes = sorted(found[op.name()].out_dtypes, key=str)
    return chosen


def drawn(seed: int) -> Drawn:
    """The model of a seed; NNSmith's and PyTorch's own errors as raised."""
    size = FEWEST + seed % (MOST - FEWEST + 1)
    method = "concolic" if seed % 2 else "symbolic-cinit"
    draft = model_gen(operators(), method, size, seed=seed, timeout_ms=SECONDS * 1000)
    graph = draft.make_concrete()
    set_seed(seed)
    symbolic = SymbolNet(graph).to(torch.device("cpu"))
    symbolic.eval()
    _, inputs = SamplingSearch(symbolic).search(max_sample=TRIES)
    inputs = inputs or symbolic.get_random_inps()
    names = [inst.iexpr.op.name() for inst in graph.insts]
    operations = [name for name in names if name not in ("core.Input", "core.Constant")]
    net = Net(symbolic).eval().requires_grad_(False)
    args = tuple(inputs[name] for name in net.inputs)
    kept = {"graph": graph, "weights": symbolic.state_dict(), "args": args}
    return Drawn(net, args, operations, kept)


def judged(model: Drawn) -> Verdict:
    """What becomes of a model that eager PyTorch runs."""
    with torch.no_grad(), without_onednn():
        eager = tree_leaves(model.net(*(t.clone() for t in model.args)))
    try:
        compiled = dlc.compile(model.net, model.args, backend="host")
    except (OpError, ImportFailure, UnsupportedError) as error:
        return Verdict(REFUSED, reason(str(error)))
    variant = compiled.variants[0]
    bound, torch_ir = variant.program.bind(model.args), variant.module("torch")
    wide = evaluate(torch_ir, bound, double=True)
    exact = tree_leaves(variant.program.unflatten(wide, bound))
    known = Known(exact, eager, variant.longest_reduction)
    said = known.complaint(tree_leaves(compiled(*model.args)))
    if said is None:
        return Verdict(RIGHT)
    still = Expected(torch_ir, bound).complaint(variant.compute(bound))
    return Verdict(WRONG, f"{said}; {still}") if still else Verdict(ENLARGED, said)


def answer(seed: int, folder: Path, on_drawn: Callable[[], object]) -> Judged:
    """What becomes of the model of a seed, in this process; one that is wrong goes to `folder`."""
    warnings.simplefilter("ignore")
    try:
        model = drawn(seed)
        with torch.no_grad():
            model.net(*(t.clone() for t in model.args))
    except Exception as error:
        return Judged(seed, NO_MODEL, f"{type(error).__name__}: {error}", [])
    on_drawn()
    try:
        verdict = judged(model)
    except Exception as error:
        verdict = Verdict(WRONG, f"{type(error).__name__}: {error}")
    if verdict.kind == WRONG:
        torch.save(model.kept, folder / f"{seed}.pt")
    return Judged(seed, verdict.kind, verdict.why, model.operators)


def apart(seeds: Iterable[int], folder: Path) -> list[Judged]:
    """The same for some seeds, each in a process of its own, which may crash or not end."""
    fork = multiprocessing.get_context("fork")
    running: list[tuple[int, Any, BaseProcess]] = []
    for seed in seeds:
        mine, theirs = fork.Pipe(duplex=False)
        process = fork.Process(target=_child, args=(seed, folder, theirs))
        process.start()
        theirs.close()
        running.append((seed, mine, process))
    return [_received(*one) for one in running]


def _received(seed: int, connection: Connection, process: BaseProcess) -> Judged:
    found, kind = None, NO_MODEL
    with contextlib.suppress(EOFError):
        while found is None and connection.poll(SECONDS):
            found = connection.recv()  # once without a verdict, when the model is drawn
            kind = WRONG
    process.kill()
    process.join()
    return found or Judged(seed, kind, "its process crashed, or did not end", [])


def _child(seed: int, folder: Path, connection: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    connection.send(answer(seed, folder, lambda: connection.send(None)))


def read(path: Path) -> dict[int, Judged]:
    lines = path.read_text("utf-8").splitlines() if path.exists() else ()
    found = [Judged(**json.loads(line)) for line in lines]
    return {model.seed: model for model in found}


def judge_all(path: Path, models: int, processes: int) -> None:
    """Judges models that the file has not until there are so many, and writes each to it."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    operators()
    known = read(path)
    seeds = (seed for seed in count() if seed not in known)
    with path.open("a", encoding="utf-8") as file:
        while (missing := models - sum(m.kind != NO_MODEL for m in known.values())) > 0:
            for model in apart(islice(seeds, min(processes, missing)), path.parent):
                known[model.seed] = model
                file.write(f"{json.dumps(asdict(model))}\n")
            file.flush()


def table(models: list[Judged]) -> Iterator[str]:
    """The table of what was judged."""
    counts = Counter(model.kind for model in models if model.kind != NO_MODEL)
    yield (
        "# Models of NNSmith\n\n"
        f"Made by `test/python/smith.py` with NNSmith {version('nnsmith')}, z3 "
        f"{version('z3-solver')} and PyTorch {'.'.join(torch.__version__.split('.')[:2])}:\n"
        f"{counts.total()} models of {FEWEST} to {MOST} operators, each compiled, run on the host "
        "and judged by\n`dlc/judge/accuracy.py`; where one enlarges rounding errors, or rounding "
        "decides an integer,\nby `dlc/judge/conditioning.py`, which knows how well each number "
        "can be known.\n\n"
        "| models | " + " | ".join(KINDS) + " |\n|" + "---|" * (len(KINDS) + 1) + "\n"
        f"| {counts.total()} | " + " | ".join(str(counts[kind]) for kind in KINDS) + " |\n"
    )
    for kind in (REFUSED, WRONG):
        found = [model for model in models if model.kind == kind]
        if found:
            yield f"\n## {kind.capitalize()}\n\n| why | seeds |\n|---|---|\n"
            for why in sorted({model.why for model in found}):
                seeds = ", ".join(str(model.seed) for model in found if model.why == why)
                yield f"| {why} | {seeds} |\n"
    had = Counter(name for model in models for name in set(model.operators))
    yield "\n## Operators\n\n| operator | models that have it |\n|---|---|\n"
    yield from (f"| `{name}` | {number} |\n" for name, number in sorted(had.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the file of verdicts, a line each")
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    judge_all(options.results, options.models, options.processes)
    sys.stdout.writelines(table(sorted(read(options.results).values(), key=lambda m: m.seed)))


if __name__ == "__main__":
    main()
