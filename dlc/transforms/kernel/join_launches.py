"""Launches that read the same, or what one launch gives, become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.kernel.counts import Counts
from dlc.analysis.kernel.instruction_counts import counts_of
from dlc.analysis.once import computed_once
from dlc.dialects import flow, kernel
from dlc.dialects.kernel_op import KernelSignature, kernels_in
from dlc.ir.provenance import inherit, set_values, values_of
from dlc.remarks import remark
from dlc.schedule.scheduled_time import joined_seconds
from dlc.target import Target, target_of
from dlc.text import unique_name
from dlc.transforms.kernel.joining.joined_kernel import Inputs, JoinedKernel, constants_first
from dlc.transforms.kernel.joining.siblings import Siblings


@dataclass(frozen=True)
class JoinLaunchesPass(ModulePass):
    """
    Launches that share an input, or read what one launch gives, and do not need each other become
    one launch, whose blocks are dealt over what they do: the products for queries, keys and values,
    each with its epilogue, and then the sums of their parts, if they are split.

    *Legal when* all that a later one reads is there where the first one runs, and what it updates
    in place is not read between. A block with fewer threads than others leaves the rest idle, and
    so do blocks without a cluster beside larger ones that they do not fill.
    *Faster because* launches are saved, and few blocks do not leave most of the chip idle. That is
    estimated (`dlc.schedule.scheduled_time`): a block takes the registers and the shared memory of
    the largest. Where this costs more than all launches, as many of them become one as it pays for.

    ```
    %q = kernel.launch @q(%x, %wq) : (tensor<1x64xf32>, tensor<32x64xf32>) -> (tensor<1x32xf32>)
    %k = kernel.launch @k(%x, %wk) : (tensor<1x64xf32>, tensor<8x64xf32>) -> (tensor<1x8xf32>)
    ```
    becomes
    ```
    kernel.func @q_k(%x … %wq … %wk …) -> (%q … %k …) grid 40 block 64 {
      %block = kernel.block_id
      %0 = kernel.test where (%block < 32)
      scf.if %0 { %j = kernel.block_id from 0 of 32 … }
      %1 = kernel.test where (%block >= 32)
      scf.if %1 { %j_1 = kernel.block_id from 32 of 8 … }
    }
    …
    %q, %k = kernel.launch @q_k(%x, %wq, %wk) : (…) -> (tensor<1x32xf32>, tensor<1x8xf32>)
    ```
    """

    name = "join-launches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        joining = _Joining(op, target_of(op))
        for function in [f for f in op.ops if isinstance(f, func.FuncOp) and f.body.blocks]:
            for block in flow.blocks_of(function.body.block):
                while sum(joining.join(group) for group in _groups(function, block)):
                    pass  # what reads the results of one launch now may have read those of several
        joining.erase_unused()


def _groups(function: func.FuncOp, block: Block) -> list[list[kernel.LaunchOp]]:
    return [*Siblings(block, computed_once(function)).groups()]


@dataclass
class _Joining:
    """Joins launches of a module, the kernels of some once."""

    module: ModuleOp
    target: Target
    made: dict[object, kernel.FuncOp | None] = field(default_factory=dict)
    """By the kernels and how they share inputs; None where that does not pay."""
    times: dict[object, tuple[float, float]] = field(default_factory=dict)
    """By the same: the seconds of one launch, and of one each."""
    counts: dict[kernel.FuncOp, Counts] = field(default_factory=dict)
    joined: dict[kernel.FuncOp, None] = field(default_factory=dict)
    """The kernels that stand in others."""

    def join(self, group: Sequence[kernel.LaunchOp]) -> bool:
        """Puts one launch in the place of several, if that pays of these or of some of them."""
        group = self._chosen(group)
        funcs = [op.callee for op in group if op.callee is not None]
        inputs = Inputs.of(group)
        key = (*funcs, inputs)
        if key not in self.made:
            self.made[key] = self._build(funcs, inputs)
        new = self.made[key]
        if new is None:
            return False
        given = [group[number].inputs[slot] for number, slot in inputs.firsts]
        results = [value for op in group for value in op.outputs]
        launch = kernel.LaunchOp(new.name_, given, [value.type for value in results])
        launch.location = group[0].location
        inherit(launch, *group)
        set_values(launch, [t for op in group for t in values_of(op, len(op.outputs))])
        Rewriter.insert_op(launch, InsertPoint.before(group[0]))
        for old, value in zip(results, launch.outputs, strict=True):
            value.name_hint = old.name_hint
            old.replace_all_uses_with(value)
        for op in reversed(group):
            op.detach()
            op.erase()
        self.joined |= dict.fromkeys(funcs)
        return True

    def _chosen(self, group: Sequence[kernel.LaunchOp]) -> Sequence[kernel.LaunchOp]:
        """
        As many of a group as one launch pays for: of all that is left, the one goes without which
        most is saved, until something is; all of them where nothing ever is.
        """
        left = group
        while self._saved(left) <= 0:
            if len(left) == 2:
                return group
            left = max(([*left[:n], *left[n + 1 :]] for n in range(len(left))), key=self._saved)
        return left

    def _saved(self, group: Sequence[kernel.LaunchOp]) -> float:
        """The seconds that one launch saves of several."""
        funcs = tuple(op.callee for op in group if op.callee is not None)
        one, apart = self._seconds(funcs, Inputs.of(group))
        return apart - one

    def _seconds(self, funcs: Sequence[kernel.FuncOp], inputs: Inputs) -> tuple[float, float]:
        """What kernels take in one launch, and in one each."""
        key = (*funcs, inputs)
        if key not in self.times:
            again = [funcs[number].input_refs[slot] for number, slot in inputs.again]
            counts = [self.counts.setdefault(f, counts_of(f)) for f in funcs]
            alone = zip(funcs, counts, strict=True)
            apart = sum(joined_seconds([f], [own], self.target) for f, own in alone)
            self.times[key] = joined_seconds(funcs, counts, self.target, again), apart
        return self.times[key]

    def _build(self, funcs: Sequence[kernel.FuncOp], inputs: Inputs) -> kernel.FuncOp | None:
        seconds, apart = self._seconds(funcs, inputs)
        times = f"{seconds * 1e6:.1f} us instead of {apart * 1e6:.1f} us"
        others = ", ".join(f"@{f.name_}" for f in funcs[1:])
        if seconds >= apart:
            remark(JoinLaunchesPass.name, funcs[0].name_, f"launched apart from {others}: {times}")
            return None
        used = {k.name_ for k in kernels_in(self.module, KernelSignature)}
        name = unique_name(f"{funcs[0].name_}_beside_{funcs[1].name_}", used)
        new = JoinedKernel(name, funcs, inputs).build()
        constants_first(new)
        new.location = funcs[0].location
        Rewriter.insert_op(new, InsertPoint.after(max(funcs, key=self._place)))
        blocks = ", ".join(str(f.grid_size) for f in funcs)
        remark(
            JoinLaunchesPass.name,
            name,
            f"launched together with {others}, blocks {blocks}: {times}",
        )
        return new

    def _place(self, op: Operation) -> int:
        return self.module.body.block.get_operation_index(op)

    def erase_unused(self) -> None:
        """Erases kernels that stand in others and are launched no more."""
        launched = {op.callee for op in self.module.walk() if isinstance(op, kernel.LaunchOp)}
        for one in self.joined:
            if one not in launched:
                Rewriter.erase_op(one)
