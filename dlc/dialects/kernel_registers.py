"""
How many registers the threads of a warpgroup have: some give theirs up, and others take them.

```
kernel.set_max_registers 168 to 40      // in a warpgroup that only asks for copies
kernel.set_max_registers 168 to 232     // in two others, of the 384 threads of a block
```

What a warpgroup gives up goes to a pool of its block, from which others take: they wait until it
has enough (PTX ISA, "setmaxnreg").
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.kernel_func import enclosing_func
from dlc.dialects.kernel_wgmma import verify_warpgroups
from dlc.dialects.register_counts import set_obstacle
from dlc.target import Target


@irdl_op_definition
class SetMaxRegistersOp(IRDLOperation):
    """
    `kernel.set_max_registers 168 to 232`

    Each thread of a warpgroup, all of which execute this, has so many registers instead of so many:
    it gives the others up, or waits for more. It is done once by a warpgroup, from the number at
    the kernel's entry, which is what a block that has an SM for itself leaves to each thread.
    """

    name = "kernel.set_max_registers"
    before = prop_def(IntegerAttr.constr(i64))
    after = prop_def(IntegerAttr.constr(i64))
    assembly_format = "$before `to` $after attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, before: int, after: int) -> None:
        super().__init__(
            properties={"before": IntegerAttr(before, i64), "after": IntegerAttr(after, i64)}
        )

    @property
    def counts(self) -> tuple[int, int]:
        """Registers of a thread before and after."""
        return self.before.value.data, self.after.value.data

    def verify_(self) -> None:
        target = verify_warpgroups(self, "setmaxnreg")
        before, after = self.counts
        for count in (before, after):
            if obstacle := set_obstacle(count):
                raise VerifyException(f"expected {obstacle}, found {count}")
        if before == after:
            raise VerifyException(f"expected another number of registers than {before}")
        if _is_in_loop(self):
            raise VerifyException("expected to stand in no loop: it is executed once")
        func = enclosing_func(self)
        if func is not None and target is not None:
            _verify_entry(before, func.block_size, target)


def sets_registers(func: Operation) -> bool:
    """True if warpgroups of a kernel set how many registers they have."""
    return any(isinstance(op, SetMaxRegistersOp) for op in func.walk())


def _verify_entry(before: int, threads: int, target: Target) -> None:
    entry = target.entry_registers(threads)
    if before != entry:
        raise VerifyException(
            f"expected the {entry} registers that each of {threads} threads has at the entry on "
            f"{target.name}, found {before}"
        )


def _is_in_loop(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, scf.ForOp | scf.WhileOp):
        parent = parent.parent_op()
    return parent is not None
