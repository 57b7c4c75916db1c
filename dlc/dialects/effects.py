"""Effects of operations that xDSL's traits do not state."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.traits import EffectInstance, IsolatedFromAbove, MemoryEffect, MemoryEffectKind


class AllocatesResult(MemoryEffect):
    """
    Every operation gives memory of its own: two that are equal are not one, and one whose result is
    not used goes.
    """

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        return frozenset(EffectInstance(MemoryEffectKind.ALLOC, result) for result in op.results)


class PureUnlessLaunched(MemoryEffect):
    """
    A kernel only computes its results; but one that is launched again, on other tensors, is needed
    even if its own results are not.
    """

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance] | None:
        name = op.properties["sym_name"]
        assert isinstance(name, StringAttr)
        program = op
        while (parent := program.parent_op()) is not None and not isinstance(parent, ModuleOp):
            program = parent
        launch = SymbolRefAttr(name)
        beside = () if program is op else _program_of(program)
        return None if any(o.properties.get("kernel") == launch for o in beside) else frozenset()


def _program_of(op: Operation) -> Iterator[Operation]:
    """The operations in one, but for those in what is isolated, such as kernels."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield inner
                if inner.regions and not inner.has_trait(IsolatedFromAbove):
                    yield from _program_of(inner)
