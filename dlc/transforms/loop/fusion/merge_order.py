"""
The order in which kernels are merged: products merge into what sums them, so that contractions are
recognized; what else is folded merges into what folds it; chains that go point by point become one;
contractions and other sums take what alone follows them as epilogues; then everything merges but
into operands of contractions, which leaves their tiles whole; then that, too.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.merging import Merges

Stage = Callable[[Merges, KernelOp, KernelOp], bool]
"""Whether a producer may be merged into a consumer yet."""


def contracts(merges: Merges, producer: KernelOp, consumer: KernelOp) -> bool:
    """True if `consumer` folds products that `producer` computes: both are a contraction."""
    return (
        not merges.facts(producer).reduces
        and folds(merges, producer, consumer)
        and (merged := merges.merge(producer, consumer)) is not None
        and bool(merges.facts_of(merged).operands)
    )


def folds(merges: Merges, producer: KernelOp, consumer: KernelOp) -> bool:
    """True if `consumer` folds the result of `producer`, which is larger than its own."""
    return (
        merges.facts(consumer).elements < merges.facts(producer).elements
        and merges.facts(consumer).reduces
        and keeps_tiles(merges, producer, consumer)
    )


def chains(merges: Merges, producer: KernelOp, consumer: KernelOp) -> bool:
    """True if both compute point by point and `consumer` alone reads what `producer` does, at one
    place for each point: they are one before they follow a contraction. What is read at several
    places, as a stencil reads, is whole first: then it is known what it costs to compute it again.
    What copies in a wider type becomes part of what reads it, and memory has the narrow one."""
    both = [merges.facts(kernel) for kernel in (producer, consumer)]
    alone = _readers(producer) == {consumer} and merges.loads(producer, consumer) == 1
    return alone and not any(f.reduces for f in both) and not both[1].widens


def follows(merges: Merges, producer: KernelOp, consumer: KernelOp) -> bool:
    """
    True if `consumer` is an epilogue: to a contraction, or point by point to any reduce. What
    several kernels read waits until these are one, where they can be: each would compute it.
    """
    facts, after = merges.facts(producer), merges.facts(consumer)
    if after.widens or any(isinstance(op, KernelOp) for op in _readers(producer) - {consumer}):
        return False
    alike = facts.elements == after.elements
    sums = facts.reduces and not after.reduces and alike
    return (bool(facts.operands) or sums) and keeps_tiles(merges, producer, consumer)


def keeps_tiles(merges: Merges, producer: KernelOp, consumer: KernelOp) -> bool:
    """True if the result of `producer` is no operand of a contraction in `consumer`."""
    operands = merges.facts(consumer).operands
    return not any(consumer.inputs[n] in producer.results for n in operands)


def leaves_tiles(merges: Merges, producer: KernelOp, consumer: KernelOp) -> bool:
    """True of all but operands of contractions, and what a copy in a wider type makes of them: that
    copy is a part of the contraction first."""
    return keeps_tiles(merges, producer, consumer) and not merges.facts(consumer).widens


def _readers(producer: KernelOp) -> set[Operation]:
    return {use.operation for result in producer.results for use in result.uses}


def anything(merges: Merges, producer: KernelOp, consumer: KernelOp) -> bool:
    """The last stage: whatever is legal and pays."""
    return True


STAGES: tuple[Stage, ...] = (contracts, folds, chains, follows, leaves_tiles, anything)
