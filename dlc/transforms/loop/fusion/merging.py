"""
Merging two kernels, worked out once for all pairs of kernels that are alike.

The layers of a model repeat: what is found out about the kernels of the first holds for those of
the others, names aside.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import get_args

from xdsl.ir import Attribute, Block, Region, SSAValue

from dlc.analysis.loop.contraction import operands_of
from dlc.dialects.factor_types import Widening
from dlc.dialects.fusion_plan import join_members
from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp, StoreOp, YieldOp
from dlc.dialects.scan_ops import AlongOpBase
from dlc.dialects.size_index import size_hint
from dlc.ir.monoid import EXPSUM
from dlc.ir.provenance import ops_of, set_ops, set_values, values_of
from dlc.ir.sizes import Size
from dlc.ir.structure import structure
from dlc.schedule.estimate import Cost, estimate
from dlc.target import Target
from dlc.transforms.loop.fusion.beside import beside
from dlc.transforms.loop.fusion.cascades import has_cascades, join_cascades
from dlc.transforms.loop.fusion.flattened import grouped, unflattened
from dlc.transforms.loop.fusion.following import follow
from dlc.transforms.loop.fusion.hoisting import hoist
from dlc.transforms.loop.fusion.inline import inlinable, inline_producer
from dlc.transforms.loop.fusion.keeping import storing
from dlc.transforms.loop.fusion.moments import MONOID as MOMENTS
from dlc.transforms.loop.fusion.moments import has_moments, join_moments
from dlc.transforms.loop.fusion.normal_form import normalize_kernel
from dlc.transforms.loop.fusion.repetition import least_folds
from dlc.transforms.loop.fusion.row_factors import has_row_factors, join_row_factors
from dlc.transforms.loop.fusion.splitting import split_reader
from dlc.transforms.loop.fusion.window_folds import written_out

MAX_OPS = 400
"""No merged kernel has more operations: it could be neither read nor compiled."""
MAX_COPIED = 8 * MAX_OPS
"""No merge copies more operations to loads, equal ones not yet joined: it would take seconds to see
that it is too large or too slow, as with steps of a stencil that are already merged."""
_ONE_SWEEP = (EXPSUM, MOMENTS)
_COPYING = (ForOp, LoadOp, *get_args(Widening), StoreOp, YieldOp)


@dataclass(frozen=True)
class Facts:
    """The properties of kernels of one structure that fusion decides by."""

    cost: Cost
    """The estimate of a launch."""
    obstacle: str | None
    """The reason why such a kernel cannot be merged into another, if it cannot."""
    reduces: bool
    scans: bool
    operands: frozenset[int]
    """The inputs that are operands of a contraction, or of a matrix times a vector."""
    loads: tuple[int, ...]
    """The number of loads of each input."""
    size: int
    """The number of operations, nested ones included."""
    cascades: bool
    """True if it folds what it has folded, in one sweep or so that it could be one."""
    copies: bool
    """True if the result is a copy, perhaps in a wider type: memory is never worth it."""
    widens: bool
    """True if it is one in a wider type."""
    elements: int
    """The most that an output has, at the sizes that are likely."""

    @property
    def seconds(self) -> float:
        """The estimated time of a launch."""
        return self.cost.seconds


@dataclass(frozen=True)
class Merged:
    """A consumer that computes what it would have loaded, not bound to any tensors."""

    form: int
    body: Region
    inputs: tuple[int, ...]
    """The inputs of the kernel: positions among those of the consumer, then the producer."""
    properties: dict[str, Attribute]
    remarks: tuple[str, ...]
    """The sentences to be said of what was done beside merging."""


@dataclass
class Merges:
    """All merges that were looked at, and what is known of the kernels in them."""

    target: Target
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    """A small number for each structure: its form."""
    _forms: dict[KernelOp, int] = field(default_factory=dict)
    _facts: dict[int, Facts] = field(default_factory=dict)
    _merged: dict[Hashable, Merged | None] = field(default_factory=dict)
    _least: dict[Hashable, float] = field(default_factory=dict)
    _unfilled: dict[KernelOp, Region] = field(default_factory=dict)
    """The program of each kernel that has none yet, as it may be merged before any is needed."""

    def normalize(self, kernels: Iterable[KernelOp]) -> None:
        """`normalize_kernel` for each that is not known to be in that form, as its likes are."""
        canonical: set[Hashable] = set()

        def key(kernel: KernelOp) -> Hashable:
            first: dict[SSAValue, int] = {}
            return self.form(kernel), *(first.setdefault(v, len(first)) for v in kernel.inputs)

        for kernel in kernels:
            if key(kernel) not in canonical:
                normalize_kernel(kernel)
                del self._forms[kernel]
                canonical.add(key(kernel))

    def form(self, kernel: KernelOp) -> int:
        """Equal for two kernels of one structure, which does not change any more."""
        if kernel not in self._forms:
            self._forms[kernel] = self._numbers.setdefault(structure(kernel), len(self._numbers))
        return self._forms[kernel]

    def facts(self, kernel: KernelOp) -> Facts:
        form = self.form(kernel)
        if form not in self._facts:
            self._facts[form] = self._facts_of(kernel)
        return self._facts[form]

    def _facts_of(self, kernel: KernelOp) -> Facts:
        operands = operands_of(kernel)
        scans = any(isinstance(op, AlongOpBase) for op in kernel.walk())
        return Facts(
            estimate(kernel, self.target),
            inlinable(kernel, follows=scans),
            any(isinstance(op, ReduceOp) for op in kernel.walk()),
            scans,
            frozenset(n for n, ref in enumerate(kernel.input_refs) if ref in operands),
            tuple(
                sum(isinstance(use.operation, LoadOp) for use in ref.uses)
                for ref in kernel.input_refs
            ),
            sum(1 for _ in kernel.walk()),
            _has_sweeps(kernel),
            copies := all(isinstance(op, _COPYING) for op in kernel.body.walk()),
            copies and any(isinstance(op, Widening) for op in kernel.body.walk()),
            max((_elements(ref, kernel) for ref in kernel.output_refs), default=0),
        )

    def copied(self, producer: KernelOp, consumer: KernelOp) -> int:
        """The operations that merging the two would copy to loads, equal ones not yet joined."""
        facts = self.facts(producer)
        if facts.scans:  # it is followed, and stays as often as it is
            return 0
        return facts.size * self.loads(producer, consumer)

    def loads(self, producer: KernelOp, consumer: KernelOp) -> int:
        """The loads by which `consumer` reads the result of `producer`."""
        result, facts = producer.outputs[0], self.facts(consumer)
        loads = zip(consumer.inputs, facts.loads, strict=True)
        return sum(count for tensor, count in loads if tensor is result)

    def merge(
        self, producer: KernelOp, consumer: KernelOp, *, stores: bool = False
    ) -> Merged | None:
        """
        `consumer` as it is when it computes the result of `producer` itself, and, if `stores` says
        so, stores it for others; None where it cannot: where `producer` scans and `consumer` does
        not follow it point by point, or where it does not read each element at a point of its own.
        """
        key = (*self._wired([producer], consumer), stores)
        if key not in self._merged:
            kernels = self._inlined(producer, consumer, stores=stores)
            found = [self._finished(kernel, [producer], consumer) for kernel in kernels]
            best = min(found, key=lambda m: self.facts_of(m).seconds, default=None)
            self._merged[key] = best
        return self._merged[key]

    def put_beside(self, earlier: KernelOp, later: KernelOp) -> Merged:
        """`later` as it is when it does what `earlier` does, too, for which `beside` is legal."""
        key = ("beside", *self._wired([earlier], later))
        if (merged := self._merged.get(key)) is None:
            self.fill(earlier)
            self.fill(later)
            merged = self._merged[key] = self._finished(beside(earlier, later), [earlier], later)
        return merged

    def merge_all(self, producers: Sequence[KernelOp], consumer: KernelOp) -> Merged:
        """
        `consumer` as it is when it computes the results of `producers` itself: each of them is read
        by it or by one before in their order, and none of them scans.
        """
        key = self._wired(producers, consumer)
        if (merged := self._merged.get(key)) is None:
            kernel = self._copy(consumer)
            for producer in producers:
                self.fill(producer)
                inline_producer(producer, kernel)
            merged = self._merged[key] = self._finished(kernel, producers, consumer)
        return merged

    def _finished(
        self, kernel: KernelOp, producers: Sequence[KernelOp], consumer: KernelOp
    ) -> Merged:
        """What is to be known of a merged kernel, which is given up for it."""
        normalize_kernel(kernel, clean=True)
        kernel, said = self._in_fewer_sweeps(kernel)
        self.facts(kernel)
        form, values = self.form(kernel), _values(producers, consumer)
        inputs = tuple(values.index(v) for v in kernel.inputs)
        merged = Merged(form, kernel.detach_region(0), inputs, dict(kernel.properties), said)
        del self._forms[kernel]
        kernel.erase()
        return merged

    def _wired(self, producers: Sequence[KernelOp], consumer: KernelOp) -> tuple[Hashable, ...]:
        """A key that is equal for kernels that are merged alike."""
        firsts: dict[SSAValue, int] = {p.outputs[0]: -n for n, p in enumerate(producers, 1)}
        wiring = (firsts.setdefault(v, len(firsts)) for v in _values(producers, consumer))
        return (*map(self.form, producers), self.form(consumer), tuple(wiring))

    def least_seconds(self, producer: KernelOp, consumer: KernelOp) -> float:
        """Less than what `merge` of the two takes by the estimate: known before it is built."""
        facts = self.facts(producer), self.facts(consumer)
        if not all(f.reduces for f in facts):
            return self.target.launch_seconds
        key = self._wired([producer], consumer)
        if key not in self._least:
            self.fill(producer)
            self.fill(consumer)
            flops = least_folds(producer, consumer)
            self._least[key] = self.target.launch_seconds + flops / self.target.flops
        return self._least[key]

    def _inlined(self, producer: KernelOp, consumer: KernelOp, *, stores: bool) -> list[KernelOp]:
        """
        `consumer` with `producer` inlined, or behind its scan: as it is, or with its axes taken
        apart as a contraction's are and split if that repeats fewer contractions; and, of another
        reduce that it reads for groups of points, with an axis of groups.
        """
        self.fill(producer)
        facts, result = self.facts(producer), producer.outputs[0]
        if facts.scans:
            self.fill(consumer)
            stored = storing(consumer, result) if stores else None
            reader = stored if stores else consumer
            followed = None if reader is None else follow(producer, reader)
            if stored is not None:
                stored.erase()
            return [] if followed is None else [followed]
        folds = facts.reduces and not self.facts(consumer).scans
        readers = [self._copy(consumer)]
        if folds and facts.operands and not stores:
            for rewritten in (unflattened, split_reader, written_out):
                if (other := rewritten(readers[0], result)) is not None:
                    readers[0].erase()
                    readers[0] = other
        elif folds and (other := grouped(readers[0], result)) is not None:
            readers.append(other)
        if stores:
            kept = [storing(reader, result) for reader in readers]
            for reader in readers:
                reader.erase()
            readers = [reader for reader in kept if reader is not None]
        for reader in readers:
            inline_producer(producer, reader)
        return readers

    def _copy(self, kernel: KernelOp) -> KernelOp:
        """A copy of a kernel with its program, not inserted anywhere."""
        copy = kernel.clone()
        if (body := self._unfilled.get(kernel)) is not None:
            _give_program(copy, body)
        return copy

    def _in_fewer_sweeps(self, kernel: KernelOp) -> tuple[KernelOp, tuple[str, ...]]:
        """A kernel with its cascades joined if the estimate says that this pays, and what was."""
        if not has_cascades(kernel) and not has_moments(kernel) and not has_row_factors(kernel):
            return kernel, ()
        other = kernel.clone()
        said = join_cascades(other) + join_moments(other) + join_row_factors(other)
        hoist(other)
        apart, joined = (estimate(k, self.target).seconds for k in (kernel, other))
        if joined >= apart:
            other.erase()
            return kernel, ()
        kernel.erase()
        times = f"{joined * 1e6:.1f} us instead of {apart * 1e6:.1f} us"
        return other, tuple(f"{text}: {times}" for text in said)

    def facts_of(self, merged: Merged) -> Facts:
        return self._facts[merged.form]

    def build(self, merged: Merged, producers: Sequence[KernelOp], consumer: KernelOp) -> KernelOp:
        """
        A kernel that takes the place of `consumer`, not inserted anywhere, to be filled; it has the
        result of the only producer, too, if that is stored.
        """
        values, results = _values(producers, consumer), list(consumer.results)
        if len(merged.body.block.args) > len(merged.inputs) + len(results):
            results.append(producers[0].results[0])
        block = Block(arg_types=merged.body.block.arg_types)
        kernel = KernelOp.create(
            operands=[values[n] for n in merged.inputs],
            result_types=[r.type for r in results],
            properties=dict(merged.properties),
            attributes=dict(consumer.attributes),
            regions=[Region(block)],
        )
        kernel.location = consumer.location
        origins = (*reversed(producers), consumer)
        set_ops(kernel, ops_of(*origins))
        join_members(kernel, origins)
        for old, new in zip(results, kernel.results, strict=True):
            new.name_hint = old.name_hint
        if len(results) > len(consumer.results):
            texts = values_of(consumer, len(consumer.results)) + values_of(producers[0], 1)
            set_values(kernel, texts)
        refs = [ref for k in (consumer, *producers) for ref in k.input_refs]
        kernel.name_inputs([refs[n].name_hint for n in merged.inputs])
        self._forms[kernel] = merged.form
        self._unfilled[kernel] = merged.body
        return kernel

    def fill(self, kernel: KernelOp) -> None:
        """Gives a kernel that was built its program."""
        if (body := self._unfilled.pop(kernel, None)) is not None:
            _give_program(kernel, body)


def _give_program(kernel: KernelOp, body: Region) -> None:
    """Puts a copy of a body in the place of what a kernel has, whose inputs keep their names."""
    names = [ref.name_hint for ref in kernel.input_refs]
    kernel.detach_region(0)
    kernel.add_region(body.clone())
    kernel.name_inputs(names)


def _has_sweeps(kernel: KernelOp) -> bool:
    """True if a kernel has reduces of several values, as a cascade is, or those that may be one."""
    if any(isinstance(op, ReduceOp) and op.monoid_name.data in _ONE_SWEEP for op in kernel.walk()):
        return True
    return has_cascades(kernel) or has_moments(kernel)


def _values(producers: Sequence[KernelOp], consumer: KernelOp) -> Sequence[SSAValue]:
    return [v for kernel in (consumer, *producers) for v in kernel.inputs]


def _elements(ref: SSAValue, kernel: KernelOp) -> int:
    """How many elements an output has, at the sizes that are likely."""
    return prod(size_hint(Size.of(extent), kernel) for extent in shape_of(ref))
