"""The pass `fuse-loops`: see `FuseLoopsPass`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from dlc.analysis.contraction import contractions
from dlc.analysis.cost import estimate
from dlc.dialects.graph import unique_name
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp, StoreOp, YieldOp
from dlc.remarks import remark
from dlc.schedule.target import Target, target_of
from dlc.transforms.loops.inline import inlinable, inline_producer
from dlc.transforms.loops.normal_form import normalize_kernel

FUSE = "fuse"
"""The attribute of a kernel that forces (`"always"`) or forbids (`"never"`) merging it into the
kernels that read its result."""

MAX_OPS = 400
"""No merged kernel has more operations: it could be neither read nor compiled."""

MAX_NAME = 40
"""The length of a name that is made of the names of merged kernels."""


@dataclass(frozen=True)
class FuseLoopsPass(ModulePass):
    """
    Merges a kernel into the kernels that read its result, where the estimate says that this pays.

    Legal when the producer has one result, stored at its axes: then the load of an element can be
    replaced by the program that computes it.
    Faster when the traffic and the launch that are saved outweigh the work that is repeated and
    the tiling that is lost (`dlc.analysis.cost`); a copy in a wider type is never kept.

    ```
    %a = loop.kernel @add(%x … = %x) -> (%y …) { loop.for %i in 8 { … loop.store %s, %y[%i] } }
    %b = loop.kernel @exp(%a … = %a) -> (%y …) { loop.for %i in 8 { %0 = loop.load %a[%i] … } }
    ```
    becomes
    ```
    %b = loop.kernel @add_exp(%x … = %x) -> (%y …) { loop.for %i in 8 { %s = … math.exp %s … } }
    ```
    """

    name = "fuse-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = [k for k in op.walk() if isinstance(k, KernelOp)]
        for kernel in kernels:
            normalize_kernel(kernel)
        for block in dict.fromkeys(k.parent for k in kernels):
            if block is not None:
                _Fusion(block, target_of(op), self.name).run()


@dataclass
class _Fusion:
    """
    Fuses the kernels of one block, in three stages: what is folded merges into what folds it, so
    that contractions are recognized; then everything merges but into operands of contractions,
    since epilogues leave its tiles whole; then that, too. In each stage, producers are tried from
    the last to the first, so that a chain is one consumer by the time that its head is tried.
    """

    block: Block
    target: Target
    name: str

    def __post_init__(self) -> None:
        self.seconds: dict[KernelOp, float] = {}
        self.kept: dict[KernelOp, str] = {}
        self.tried: set[tuple[KernelOp, ...]] = set()
        self.names = {k.name_ for k in self._kernels()}

    def run(self) -> None:
        for stage in (_folds, _keeps_tiles, lambda producer, consumer: True):
            while any([self._try(k, stage) for k in reversed(list(self._kernels()))]):
                pass
        for kernel in self._kernels():
            if kernel in self.kept:
                remark(self.name, kernel.name_, self.kept[kernel])

    def _kernels(self) -> Iterator[KernelOp]:
        return (op for op in self.block.ops if isinstance(op, KernelOp))

    def _try(self, producer: KernelOp, stage: Callable[[KernelOp, KernelOp], bool]) -> bool:
        """Merges `producer` into its consumers if the stage allows it, it is legal and it pays."""
        wish = _wish(producer)
        users = dict.fromkeys(u.operation for r in producer.results for u in r.uses)
        consumers = [u for u in users if isinstance(u, KernelOp)]
        if not consumers or (producer, *consumers) in self.tried:
            return False
        reason = "the attribute `fuse` forbids it" if wish == "never" else inlinable(producer)
        if reason is not None:
            self.kept[producer] = f"kept apart: {reason}"
            return False
        if not all(stage(producer, c) for c in consumers):
            return False
        self.tried.add((producer, *consumers))
        stays = len(users) > len(consumers)
        merged = [inline_producer(producer, c) for c in consumers]
        for kernel in merged:
            normalize_kernel(kernel, clean=True)
        if (size := max(sum(1 for _ in k.walk()) for k in merged)) > MAX_OPS:
            self.kept[producer] = f"kept apart: merged, a kernel would have {size} operations"
            return _discard(merged)
        old = sum(map(self._cost, consumers)) + (0 if stays else self._cost(producer))
        new = sum(map(self._cost, merged))
        times = f"{new * 1e6:.1f} us instead of {old * 1e6:.1f} us"
        names = ", ".join(f"@{c.name_}" for c in consumers)
        if new >= old and wish != "always" and not _only_widens(producer):
            self.kept[producer] = f"kept apart: merged into {names}, {times}"
            return _discard(merged)
        remark(self.name, producer.name_, f"merged into {names}: {times}")
        self._replace(consumers, merged, None if stays else producer)
        return True

    def _cost(self, kernel: KernelOp) -> float:
        if kernel not in self.seconds:
            self.seconds[kernel] = estimate(kernel, self.target).seconds
        return self.seconds[kernel]

    def _replace(
        self, old: Sequence[KernelOp], new: Sequence[KernelOp], producer: KernelOp | None
    ) -> None:
        for before, after in zip(old, new, strict=True):
            self.block.insert_op_before(after, before)
            if producer is not None:
                self.names -= {before.name_, producer.name_}
                folded = _folds(producer, before)
                name = before.name_ if folded else _joined(producer.name_, before.name_)
                after.sym_name = StringAttr(unique_name(name, self.names))
            for a, b in zip(before.results, after.results, strict=True):
                b.name_hint = a.name_hint
                a.replace_all_uses_with(b)
            before.detach()
            before.erase()
        if producer is not None:
            producer.detach()
            producer.erase()


def _wish(kernel: KernelOp) -> str | None:
    attribute = kernel.attributes.get(FUSE)
    if attribute is None:
        return None
    if not isinstance(attribute, StringAttr) or attribute.data not in ("always", "never"):
        raise DiagnosticException(
            f'kernel \'{kernel.name_}\': expected `{FUSE}` to be "always" or "never", '
            f"found {attribute}"
        )
    return attribute.data


def _only_widens(kernel: KernelOp) -> bool:
    """Is the result a copy in a wider type? Memory for that is never worth a conversion."""
    own = (ForOp, LoadOp, arith.ExtFOp, StoreOp, YieldOp)
    return all(isinstance(op, own) for op in kernel.body.walk())


def _folds(producer: KernelOp, consumer: KernelOp) -> bool:
    """Does `consumer` fold the result of `producer`, which is larger than its own?"""
    return (
        _elements(consumer) < _elements(producer)
        and any(isinstance(op, ReduceOp) for op in consumer.walk())
        and _keeps_tiles(producer, consumer)
    )


def _elements(kernel: KernelOp) -> int:
    return max((prod(r.type.get_shape()) for r in kernel.outputs), default=0)


def _keeps_tiles(producer: KernelOp, consumer: KernelOp) -> bool:
    """Is the result of `producer` no operand of a contraction in `consumer`?"""
    refs = {
        ref
        for ref, tensor in zip(consumer.input_refs, consumer.inputs, strict=True)
        if tensor in producer.results
    }
    return not any(
        load.ref in refs for c in contractions(consumer) for load in (*c.row_loads, *c.column_loads)
    )


def _discard(kernels: Sequence[KernelOp]) -> bool:
    for kernel in kernels:
        kernel.erase()
    return False


def _joined(producer: str, consumer: str) -> str:
    """The name of two kernels merged: the words of both, if that is short enough."""
    words = dict.fromkeys([*producer.split("_"), *consumer.split("_")])
    name = "_".join(w for w in words if not w.isdigit())
    return name if len(name) <= MAX_NAME else consumer
