"""
Verification of a module that changes, pass after pass: what is known to be valid is not looked at
again.

Whether a kernel is valid follows from its structure (`dlc.ir.structure`) alone, as it sees nothing
of what is around it: of two kernels that do the same, and of one that a pass left as it was, the
inside is verified once. All else is verified whenever anything of the module has changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from contextvars import ContextVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from dlc.ir.dominance import verify_dominance
from dlc.ir.structure import structure

_sound: ContextVar[AbstractSet[Operation]] = ContextVar("sound", default=frozenset())
"""The operations whose regions are known to be valid while a module is verified."""


class SoundByStructure(Operation):
    """Mixin of operations that are isolated from above, and whose validity is their structure's."""

    def verify(self, verify_nested_ops: bool = True) -> None:
        super().verify(verify_nested_ops and self not in _sound.get())


class Verifier:
    """Verifies one module, as often as it changes."""

    def __init__(self) -> None:
        self._state: list[object] = []
        self._structures: dict[Operation, Hashable] = {}
        """The structures of the kernels of the module when it was found valid."""
        self._valid: set[Hashable] = set()

    def verify(self, module: ModuleOp) -> None:
        """Raises what the verifiers of operations and `verify_dominance` do."""
        structures: dict[Operation, Hashable] = {}
        state = list(_state(module, structures))
        if state == self._state:  # as after half of all passes
            return
        sound: set[Operation] = set()
        first: set[Hashable] = set()
        for kernel, key in structures.items():
            # A comparison with what it was is faster than a hash of what it is.
            if self._structures.get(kernel) == key or key in self._valid or key in first:
                sound.add(kernel)
            else:
                first.add(key)
        token = _sound.set(sound)
        try:
            module.verify()
            verify_dominance(module, sound)
        finally:
            _sound.reset(token)
        self._valid |= first
        self._state, self._structures = state, structures


def _state(op: Operation, structures: dict[Operation, Hashable]) -> Iterator[object]:
    """
    All that verifiers see of an operation; operations, blocks and values equal only themselves.
    The structures of the kernels in it are also put into `structures`.
    """
    yield (
        op,
        op.parent,
        (*op.operands,),
        (*op.successors,),
        op.attributes.copy(),
        op.properties.copy(),
        op.result_types,
        [[(block, block.arg_types) for block in region.blocks] for region in op.regions],
    )
    if isinstance(op, SoundByStructure):
        structures[op] = structure(op)
        yield structures[op]
        return
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _state(inner, structures)
