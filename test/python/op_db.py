"""
PyTorch's own tests of its operators: every sample of every entry of its database.

An entry is right if all of its samples are: what a sample gives in Tensor IR, or on the host, has
eager's shapes and dtypes and is as near to fp64 as dlc's rule wants it. What eager refuses, and
entries for GPUs alone, are no samples. This makes the table, in some minutes:

    PYTHONPATH=docs:test/python python test/python/op_db.py > docs/op_db.md
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import Pool
from typing import Any

import torch
from expected import rounded
from test_operators import interpreted
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

import dlc
from dlc.diagnostics import OpError
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.judge.accuracy import compare
from dlc.judge.reference import widened

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ImportWarning)  # it would rather have hypothesis
    from torch.testing._internal.common_methods_invocations import op_db

# The import forbids other tests of this process to set PyTorch's flags; `torch.backends` itself is
# a wrapper that shows its module's values and does not set them.
torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True

MOST = 3
"""The samples of an entry that the table goes by, evenly chosen."""
UNINITIALISED = ("empty", "empty_like", "empty_permuted", "new_empty")
"""What they give has a shape and a dtype, and nothing else to compare."""
WRONG, REFUSED, LESS_ACCURATE, RIGHT = "wrong", "refused", "less accurate", "right"


@dataclass(frozen=True)
class Verdict:
    kind: str
    why: str = ""


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
    exact = found if name in UNINITIALISED else fp64(sample)
    verdict = Verdict(RIGHT)
    for n, (ours, wide, eager) in enumerate(zip(found, exact, sample.results, strict=True)):
        if not isinstance(eager, torch.Tensor):
            if ours != eager:
                return Verdict(WRONG, f"{ours}, expected {eager}")
            continue
        ours = ours.view(torch.uint8) if eager.dtype is torch.uint8 else ours
        if ours.shape != eager.shape or ours.dtype != eager.dtype:
            return Verdict(WRONG, f"{ours.dtype} {list(ours.shape)}, expected {eager.dtype}")
        if not eager.numel() or name in UNINITIALISED:
            continue
        best = compare(ours, wide, eager, longest)
        if not best.ok:
            best = compare(ours, wide, single(sample)[n], longest)
        if best.ok or is_drawn(sample):
            continue
        if best.mismatches or best.error > 100 * best.bound:
            return Verdict(WRONG, str(best))
        verdict = Verdict(LESS_ACCURATE, f"{best.error:.1e}, the rule is {best.bound:.1e}")
    return verdict


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


def fp64(sample: Sample) -> list[Any]:
    """The results in fp64, or eager's where it has none."""
    wide = (widened(t.clone()) for t in sample.args)
    return _or_eager(sample, lambda: sample.function(*wide))


def single(sample: Sample) -> list[Any]:
    """The results with each operation rounded once, or eager's where that is not known."""
    return _or_eager(sample, lambda: rounded(sample.function, *(t.clone() for t in sample.args)))


def _or_eager(sample: Sample, function: Callable[[], Any]) -> list[Any]:
    try:
        with torch.no_grad():
            return tree_leaves(function())
    except Exception:
        return sample.results


def reason(message: str) -> str:
    """A refusal in some words: its first sentence, without places."""
    lines = [line for line in message.splitlines() if "error: " in line or "supported" in line]
    text = (lines[-1] if lines else message.splitlines()[0]).rpartition("error: ")[2]
    text = re.sub(r"\d+ operations? (is|are) not supported: ", "", text)
    text = re.sub(r" \([^()]*\.py:\d+(: )?", lambda m: " (" if m[1] else " (unknown", text)
    text = text.replace(" (unknown)", "").replace("|", "/")
    return text.split("; ")[0].split("), ")[0].strip("( )").replace(" (", ": ")


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """What is said of an entry: the worst that becomes of a sample, and of how many."""
    for kind in (WRONG, REFUSED, LESS_ACCURATE):
        found = [v for v in verdicts if v.kind == kind]
        if found:
            part = f"{len(found)} of {len(verdicts)}: " if len(found) < len(verdicts) else ""
            return Verdict(kind, part + found[0].why)
    return Verdict(RIGHT) if verdicts else Verdict("no samples")


def verdict_of(name: str) -> Verdict:
    """The worst that becomes of the samples of an entry that are judged."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found = list(samples(entries(torch.float32)[name], torch.float32))
    last, count = len(found) - 1, min(len(found), MOST)
    chosen = [found[n * last // max(count - 1, 1)] for n in range(count)]
    return worst([judged(name, sample) for sample in chosen])


def main() -> None:
    names = sorted(entries(torch.float32))
    with Pool(2) as pool:
        verdicts = dict(zip(names, pool.map(verdict_of, names, chunksize=4), strict=True))
    counts = Counter(v.kind for v in verdicts.values())
    said = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    version = ".".join(torch.__version__.split(".")[:2])
    sys.stdout.write(
        "# PyTorch's operator tests\n\n"
        f"Made by `test/python/op_db.py` with PyTorch {version}: {len(verdicts)} entries of its\n"
        f"database of operators for float32, by the worst of at most {MOST} samples:\n{said}.\n\n"
        "Accuracy is that of `dlc/judge/accuracy.py`, whose fp64 is eager's: of J, Y and Ai that\n"
        "has only seven digits (`test/python/test_special.py` asks mpmath).\n\n"
        "Refused without a reason of its own: factorizations of matrices; series and recurrences\n"
        "whose length is data (incomplete gamma functions, polynomials of Hermite, Laguerre and\n"
        "Legendre); tensors by strides that nothing is written to; histograms with edges.\n\n"
        "| entry | | why |\n|---|---|---|\n"
        + "".join(f"| `{name}` | {v.kind} | {v.why} |\n" for name, v in verdicts.items())
    )


if __name__ == "__main__":
    main()
