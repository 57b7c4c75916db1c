"""
PyTorch's own tests of its operators: every sample of every entry of its database.

An entry is right if all of its samples are: what a sample gives in Tensor IR, or on the host, has
eager's shapes and dtypes and is as near to fp64 as dlc's rule wants it. What eager refuses, and
entries for GPUs alone, are no samples. This makes the table, in some minutes for each dtype:

    PYTHONPATH=docs:test/python python test/python/op_db.py results.jsonl > docs/op_db.md

What stands in the file is not judged again but by more samples, so that a run that was ended goes
on; a line that is deleted is. `--dtypes`, `--samples` and `--host` choose what is judged before the
table is made.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import mpmath
import torch
from expected import rounded
from test_operators import interpreted
from test_special import FUNCTIONS
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from verdicts import LESS_ACCURATE, REFUSED, RIGHT, WRONG, Verdict, reason

import dlc
from dlc.diagnostics import OpError
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.judge.accuracy import Accuracy, compare
from dlc.judge.reference import widened

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ImportWarning)  # it would rather have hypothesis
    from torch.testing._internal.common_methods_invocations import op_db

# The import forbids other tests of this process to set PyTorch's flags; `torch.backends` itself is
# a wrapper that shows its module's values and does not set them.
torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True

DTYPES = ("float32", "float16", "bfloat16", "int32", "int64", "bool", "uint8")
UNINITIALISED = re.compile("(new_)?empty(_like|_permuted|_strided)?")
"""What they give has a shape and a dtype, and nothing else to compare."""
CHOOSING = ("argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk")
"""Which of equal elements their indices name is not specified."""
VECTORS = ("linalg.eigh", "linalg.svd", "svd")
"""Their vectors have any sign, and more than that where values are equal."""
BY_MPMATH = {f"special.bessel_{name}": FUNCTIONS[name][1] for name in ("j0", "j1", "y0", "y1")}
"""What has seven digits in eager's fp64."""
NO_SAMPLES = "no samples"


@dataclass(frozen=True)
class Sample:
    """A call: a function of its tensors."""

    function: Callable[..., Any]
    args: tuple[torch.Tensor, ...]
    results: list[Any]
    """What eager gives."""


@cache
def entries(dtype: torch.dtype) -> dict[str, Any]:
    """The entries for a dtype by name, with that of their variant."""
    return {
        ".".join(filter(None, (op.name, op.variant_test_name))): op
        for op in op_db
        if dtype in op.supported_dtypes("cpu")
    }


def samples(op: Any, dtype: torch.dtype) -> Iterator[Sample]:
    """The samples of an entry that eager takes, the same ones each time."""
    torch.manual_seed(0)
    for sample in op.sample_inputs("cpu", dtype):
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def function(
            *tensors: torch.Tensor, places: list[int] = places, leaves: list[Any] = leaves,
            spec: Any = spec,
        ) -> Any:  # fmt: skip
            given = dict(zip(places, tensors, strict=True))
            held = [given.get(n, leaf) for n, leaf in enumerate(leaves)]
            first, args, kwargs = tree_unflatten(held, spec)
            return op.op(first, *args, **kwargs)

        args = tuple(leaves[n].detach() for n in places)
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = tree_leaves(function(*(t.clone() for t in args)))
        except Exception:
            continue
        yield Sample(function, args, results)


def run(sample: Sample, host: bool) -> tuple[list[Any], int]:
    """What dlc gives, in Tensor IR or on the host, and the longest reduction."""
    args = [t.clone() for t in sample.args]
    if not host:
        found, longest = interpreted(sample.function, args)
        return tree_leaves(found[-1]), longest
    compiled = dlc.compile(sample.function, tuple(args), backend="host")
    return tree_leaves(compiled(*args)), compiled.variants[0].longest_reduction


def judged(name: str, sample: Sample, *, host: bool = False) -> Verdict:
    """What becomes of a sample of an entry."""
    try:
        found, longest = run(sample, host)
    except (OpError, ImportFailure, UnsupportedError, RuntimeError) as error:
        return Verdict(REFUSED, reason(str(error)))
    verdict = Verdict(RIGHT)
    for n, (ours, eager) in enumerate(zip(found, sample.results, strict=True)):
        if not isinstance(eager, torch.Tensor):
            if ours != eager:
                return Verdict(WRONG, f"{ours}, expected {eager}")
            continue
        ours = ours.view(torch.uint8) if eager.dtype is torch.uint8 else ours
        if ours.shape != eager.shape or ours.dtype != eager.dtype:
            return Verdict(WRONG, f"{ours.dtype} {list(ours.shape)}, expected {eager.dtype}")
        if not eager.numel() or UNINITIALISED.fullmatch(name):
            continue
        best = nearest(name, sample, n, ours, longest)
        if best.ok or is_drawn(sample):
            continue
        if name in VECTORS and same_product(name, sample, found, longest):
            continue
        if name in CHOOSING and same_choice(sample.args[0], ours, eager):
            continue
        if best.mismatches or best.error > 100 * best.bound:
            return Verdict(WRONG, str(best))
        verdict = Verdict(LESS_ACCURATE, f"{best.error:.1e}, the rule is {best.bound:.1e}")
    return verdict


def nearest(name: str, sample: Sample, n: int, ours: torch.Tensor, longest: int) -> Accuracy:
    """
    How near result `n` is to what it should be: to fp64 as eager is, or as eager is if it rounds
    each operation once; or where integers go in, whose results eager has not in fp64, to those of
    the same numbers in fp64.
    """
    eager = sample.results[n]
    wide = (by_mpmath if name in BY_MPMATH else fp64)(name, sample)[n]
    best = compare(ours, wide, eager, longest)
    if not best.ok:
        best = compare(ours, wide, single(sample)[n], longest)
    if not best.ok and eager.is_floating_point() and (wide := of_floats(sample)[n]) is not eager:
        best = compare(ours, wide, eager, longest)
    return best


def same_choice(value: torch.Tensor, ours: torch.Tensor, eager: torch.Tensor) -> bool:
    """True if two tensors of indices along some dimension name equal elements, each of them one."""
    if ours.dtype is not torch.int64 or not value.dim():
        return False
    for dim in range(value.dim()):
        pair = [t if t.dim() == value.dim() else t.unsqueeze(dim) for t in (ours, eager)]
        if any(t.shape[:dim] + t.shape[dim + 1 :] != value.shape[:dim] + value.shape[dim + 1 :]
               for t in pair):  # fmt: skip
            continue
        if any((t.sort(dim)[0].diff(dim=dim) == 0).any() for t in pair):
            continue
        first, second = (value.gather(dim, t) for t in pair)
        if torch.equal(first.nan_to_num(), second.nan_to_num()):
            return True
    return False


def same_product(name: str, sample: Sample, found: list[Any], longest: int) -> bool:
    """True if the factors are as near to the matrix as eager's, and orthogonal."""
    if len(found) == 2:
        values, left = found
        right = left.mT
    else:
        left, values, right = found
        right = right.mT if name == "svd" else right
    size = values.shape[-1]
    product = (left[..., :size] * values[..., None, :]) @ right[..., :size, :]
    one = [part.mT @ part - torch.eye(part.shape[-1]) for part in (left, right.mT)]
    near = torch.finfo(values.dtype).eps * 8 * max(left.shape[-2], right.shape[-1])
    if any((part.abs() > near).any() for part in one):
        return False
    matrix = sample.args[0]
    if len(found) == 2:
        matrix = matrix.tril() + matrix.tril(-1).mT
    return compare(product, matrix.double(), matrix, longest).ok or bool(
        ((product - matrix).abs() <= near * values.abs().amax(-1)[..., None, None]).all()
    )


class _Draws(TorchDispatchMode):
    """Knows whether an operation has drawn random numbers."""

    found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def is_drawn(sample: Sample) -> bool:
    """
    True if eager draws random numbers: then a shape and a dtype are all there is to compare
    (`test/python/test_random.py` has the distributions).
    """
    with torch.no_grad(), _Draws() as draws:
        sample.function(*(t.clone() for t in sample.args))
    return draws.found


def fp64(name: str, sample: Sample) -> list[Any]:
    """The results in fp64, or eager's where it has none."""
    wide = (widened(t.clone()) for t in sample.args)
    return _or_eager(sample, lambda: sample.function(*wide))


def by_mpmath(name: str, sample: Sample) -> list[Any]:
    """The results of a function of one number, where they are real numbers."""
    found = fp64(name, sample)[0].clone().double()
    flat, given = found.view(-1), sample.args[0].double().flatten().tolist()
    for n, value in enumerate(given):
        if flat[n].isfinite():
            flat[n] = float(BY_MPMATH[name](mpmath.mpf(value)))
    return [found]


def of_floats(sample: Sample) -> list[Any]:
    """The results of the same numbers in fp64, of those shapes, or eager's."""
    numbers = (t.double() for t in sample.args)
    found = _or_eager(sample, lambda: sample.function(*numbers))
    same = len(found) == len(sample.results) and all(
        isinstance(f, torch.Tensor) and f.shape == e.shape and f.dtype is torch.float64
        for f, e in zip(found, sample.results, strict=True)
    )
    return found if same else sample.results


def single(sample: Sample) -> list[Any]:
    """The results with each operation rounded once, or eager's where that is not known."""
    return _or_eager(sample, lambda: rounded(sample.function, *(t.clone() for t in sample.args)))


def _or_eager(sample: Sample, function: Callable[[], Any]) -> list[Any]:
    try:
        with torch.no_grad():
            return tree_leaves(function())
    except Exception:
        return sample.results


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """What is said of an entry: the worst that becomes of a sample, and of how many."""
    for kind in (WRONG, REFUSED, LESS_ACCURATE):
        found = [v for v in verdicts if v.kind == kind]
        if found:
            part = f"{len(found)} of {len(verdicts)}: " if len(found) < len(verdicts) else ""
            return Verdict(kind, part + found[0].why)
    return Verdict(RIGHT) if verdicts else Verdict(NO_SAMPLES)


@dataclass(frozen=True)
class Row:
    """What became of an entry, by so many of its samples."""

    dtype: str
    name: str
    kind: str
    why: str
    judged: int
    samples: int


@dataclass(frozen=True)
class Task:
    """An entry to judge in a dtype, by so many samples at most, evenly chosen."""

    dtype: str
    name: str
    most: int
    host: bool

    def row(self) -> Row:
        """The worst that becomes of the samples that are judged."""
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        kind = getattr(torch, self.dtype)
        found = list(samples(entries(kind)[self.name], kind))
        last, count = len(found) - 1, min(len(found), self.most)
        chosen = [found[n * last // max(count - 1, 1)] for n in range(count)]
        verdict = worst([judged(self.name, sample, host=self.host) for sample in chosen])
        return Row(self.dtype, self.name, verdict.kind, verdict.why, count, len(found))


Results = dict[str, dict[str, Row]]
"""What became of entries by dtype and name."""


def read(path: Path) -> Results:
    found: Results = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        row = Row(*json.loads(line))
        found.setdefault(row.dtype, {})[row.name] = row
    return found


def judge_all(options: argparse.Namespace) -> None:
    """Judges what the file has not by as many samples, and writes each verdict to it."""
    known = read(options.results)

    def is_known(dtype: str, name: str) -> bool:
        row = known.get(dtype, {}).get(name)
        return row is not None and row.judged >= min(options.samples, row.samples)

    tasks = [
        Task(dtype, name, options.samples, options.host)
        for dtype in options.dtypes.split(",")
        for name in sorted(entries(getattr(torch, dtype)))
        if not is_known(dtype, name)
    ]
    with Pool(options.processes) as pool, options.results.open("a", encoding="utf-8") as file:
        for row in pool.imap(Task.row, tasks):
            file.write(f"{json.dumps(astuple(row))}\n")
            file.flush()


def by_dtype(results: Results) -> Iterator[str]:
    """The rows of the table by dtype, and what is not right in dtypes other than float32."""
    kinds = (RIGHT, LESS_ACCURATE, REFUSED, WRONG, NO_SAMPLES)
    yield f"| dtype | entries | judged | samples | of | {' | '.join(kinds)} |\n|{'---|' * 10}\n"
    for dtype in DTYPES:
        rows = results.get(dtype, {}).values()
        counts = Counter(row.kind for row in rows)
        samples = (sum(row.judged for row in rows), sum(row.samples for row in rows))
        cells = [len(entries(getattr(torch, dtype))), len(rows), *samples]
        numbers = " | ".join(str(n) for n in (*cells, *(counts[k] for k in kinds)))
        yield f"| {dtype} | {numbers} |\n"
    in_floats = results.get("float32", {})
    for dtype in DTYPES[1:]:
        others = {
            f"`{name}` ({v.kind})"
            for name, v in results.get(dtype, {}).items()
            if v.kind not in (RIGHT, NO_SAMPLES)
            and (name not in in_floats or v.kind != in_floats[name].kind)
        }
        if others:
            yield f"\n{dtype}, beside what is so in float32: {', '.join(sorted(others))}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the file of verdicts, a line each")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=3, help="of an entry at most, evenly chosen")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--host", action="store_true", help="on the host, not in Tensor IR")
    options = parser.parse_args()
    judge_all(options)
    results = read(options.results)
    verdicts = results["float32"]
    counts = Counter(v.kind for v in verdicts.values())
    said = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    version = ".".join(torch.__version__.split(".")[:2])
    sys.stdout.write(
        "# PyTorch's operator tests\n\n"
        f"Made by `test/python/op_db.py` with PyTorch {version}: {len(verdicts)} entries of its\n"
        f"database of operators for float32, by the worst of the samples that are judged:\n"
        f"{said}. So {counts[REFUSED] / len(verdicts):.1%} of them are refused.\n\n"
        "Accuracy is that of `dlc/judge/accuracy.py`, whose fp64 is eager's, and mpmath's of J\n"
        "and Y. Why an operation is refused is told in `docs/operators.md`.\n\n"
        + "".join(by_dtype(results))
        + "\n## float32\n\n| entry | | why |\n|---|---|---|\n"
        + "".join(f"| `{name}` | {v.kind} | {v.why} |\n" for name, v in sorted(verdicts.items()))
    )


if __name__ == "__main__":
    main()
