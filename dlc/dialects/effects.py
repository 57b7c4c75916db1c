"""Effects of operations that xDSL's traits do not state."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind


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
        beside = () if op.parent is None else op.parent.ops
        launch = SymbolRefAttr(name)
        return None if any(o.properties.get("kernel") == launch for o in beside) else frozenset()
