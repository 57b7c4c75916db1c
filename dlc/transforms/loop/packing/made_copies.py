"""Kernels that lay operands out anew: what several kernels read, once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import loop
from dlc.ir.structure import structure
from dlc.text import unique_name


class Copies:
    """Those that a pass has inserted so far."""

    def __init__(self, kernels: Sequence[loop.KernelOp]) -> None:
        self._names = {kernel.name_ for kernel in kernels}
        self._made: dict[Hashable, loop.KernelOp] = {}

    def has(self, kernel: loop.KernelOp, copying: loop.KernelOp) -> bool:
        """True if what a kernel's operand is laid out as is there already."""
        return self._key(kernel, copying) in self._made

    def take(self, kernel: loop.KernelOp, copying: loop.KernelOp) -> SSAValue:
        """The operand as it is laid out: by a kernel that is there, or by this one, before it."""
        key = self._key(kernel, copying)
        if key in self._made:
            copying.erase()
        else:
            copying.sym_name = StringAttr(unique_name(copying.name_, self._names))
            Rewriter.insert_op(copying, InsertPoint.before(kernel))
            self._made[key] = copying
        return self._made[key].results[0]

    @staticmethod
    def _key(kernel: loop.KernelOp, copying: loop.KernelOp) -> Hashable:
        return kernel.parent, *copying.operands, structure(copying)
