"""
PyTorch's own tests of its operators: every sample of every entry of its database.

What a sample gives on the host, or in Tensor IR, has eager's shapes and dtypes and is as near to
fp64 as dlc's rule wants it. What eager refuses, and entries for GPUs alone, are no samples.
`op_db_table.py` judges all of them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

import mpmath
import torch
from expected import rounded
from test_operators import interpreted
from test_special import FUNCTIONS
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from verdicts import ENLARGED, LESS_ACCURATE, REFUSED, RIGHT, WRONG, Verdict, reason
from xdsl.dialects.builtin import ModuleOp

from dlc.analysis.loop.loops import longest_reduction
from dlc.backend.host.host_backend import HostBackend
from dlc.compiler import Variant
from dlc.diagnostics import OpError
from dlc.frontend.export.fx import import_program
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.judge.accuracy import Accuracy, compare
from dlc.judge.conditioning import Expected
from dlc.judge.reference import widened
from dlc.passes import last_step, steps_between
from dlc.pipeline import apply_pass
from dlc.stages import Stages, compiler_context
from dlc.target import DEFAULT_TARGET, set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

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


@dataclass(frozen=True)
class Found:
    """What dlc gives, and the longest reduction."""

    results: list[Any]
    longest: int
    complaint: Callable[[], str | None] = lambda: "how errors grow is not known"
    """What is wrong beyond how well the results can be known, if anything."""


Run = Callable[[Sample], Found]


@dataclass(frozen=True)
class Host:
    """Runs samples on the host."""

    backend: HostBackend = field(default_factory=HostBackend)

    def run(self, sample: Sample) -> Found:
        args = [t.clone() for t in sample.args]
        program = import_program(sample.function, args, whole=DECOMPOSITIONS)
        set_target(program.module, DEFAULT_TARGET)
        stages, longest = _lowered(program.module)
        variant = Variant(program, self.backend, stages)

        def complaint() -> str | None:
            bound = [t.clone() for t in program.bind([t.clone() for t in sample.args])]
            return Expected(program.module, bound).complaint(variant.rehearse(bound))

        return Found(tree_leaves(variant.run(program.bind(args))), longest, complaint)


def _lowered(module: ModuleOp) -> tuple[Stages, int]:
    """A program and its kernels, verified at the end alone; and its longest reduction."""
    kernels, longest = module.clone(), 1
    for step in steps_between("torch", "kernel"):
        apply_pass(compiler_context(), kernels, step.pass_name)
        if step == last_step("loop"):
            longest = longest_reduction(kernels)
    kernels.verify()
    return Stages(module, kernels=kernels), longest


def in_tensor_ir(sample: Sample) -> Found:
    """What a sample gives in Tensor IR."""
    found, longest = interpreted(sample.function, [t.clone() for t in sample.args])
    return Found(tree_leaves(found[-1]), longest)


def judged(name: str, sample: Sample, run: Run = in_tensor_ir) -> Verdict:
    """What becomes of a sample of an entry."""
    try:
        answer = run(sample)
    except (OpError, ImportFailure, UnsupportedError, RuntimeError) as error:
        return Verdict(REFUSED, reason(str(error)))
    except Exception as error:
        return Verdict(WRONG, f"{type(error).__name__}: {error}")
    return of_results(name, sample, answer)


def all_judged(name: str, samples: Sequence[Sample], run: Run = in_tensor_ir) -> list[Verdict]:
    """
    What becomes of samples of an entry, which are one program as long as that is right: tracing
    and compiling a program takes some time, however small it is. A sum of it may be of one term,
    by the rule for accuracy. What is not right in it is judged alone, and so is what is refused.
    """
    if len(samples) == 1:
        return [judged(name, samples[0], run)]
    try:
        found = iter(run(_joined(samples)).results)
        answers = [Found(list(islice(found, len(s.results))), 1) for s in samples]
        verdicts = [of_results(name, *one) for one in zip(samples, answers, strict=True)]
    except Exception:
        first, rest = judged(name, samples[0], run), samples[1:]
        size = len(samples) // 2 if first.kind == RIGHT else 1
        parts = (rest[n : n + size] for n in range(0, len(rest), size))
        return [first, *(verdict for part in parts for verdict in all_judged(name, part, run))]
    return [
        verdict if verdict.kind == RIGHT else judged(name, sample, run)
        for verdict, sample in zip(verdicts, samples, strict=True)
    ]


def _joined(samples: Sequence[Sample]) -> Sample:
    """A call that makes all of these calls."""

    def function(*tensors: torch.Tensor) -> list[Any]:
        given = iter(tensors)
        return [s.function(*islice(given, len(s.args))) for s in samples]

    args, results = (
        sum(parts, ()) for parts in zip(*((s.args, tuple(s.results)) for s in samples))
    )
    return Sample(function, args, list(results))


def of_results(name: str, sample: Sample, answer: Found) -> Verdict:
    """What is said of the results of a sample."""
    found, longest = answer.results, answer.longest
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
        said = f"{best.error:.1e}, the rule is {best.bound:.1e}"
        if answer.complaint() is None:
            return Verdict(ENLARGED, said)
        if best.mismatches or best.error > 100 * best.bound:
            return Verdict(WRONG, str(best))
        verdict = Verdict(LESS_ACCURATE, said)
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
