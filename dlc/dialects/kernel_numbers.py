"""Operations that give the numbers of a block and of a thread."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    i64,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import HasAncestor, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.kernel_clusters import ClusterBarrierOp, MapClusterOp
from dlc.dialects.kernel_func import FuncOp, enclosing_func
from dlc.dialects.kernel_multicast import MbarrierArriveAtOp, TmaMulticastOp
from dlc.dialects.size_index import WIDEST, size_expr
from dlc.ir.attributes import INDEX, i64_attr
from dlc.ir.expr import Expr
from dlc.ir.sizes import NeedsNumber, Size


class NumberOpBase(IRDLOperation, ABC):
    """The number of the block, or of the thread in its block, that runs."""

    result = result_def(IndexType())
    assembly_format = "attr-dict"
    traits = traits_def(Pure(), HasAncestor(FuncOp))

    def __init__(self) -> None:
        super().__init__(result_types=[INDEX])


_AMONG_BLOCKS = ClusterBarrierOp | MapClusterOp | MbarrierArriveAtOp | TmaMulticastOp
"""What blocks of a cluster do with each other."""


@irdl_op_definition
class BlockIdOp(NumberOpBase):
    """
    `%b = kernel.block_id (from 128 of 32)?`: from 0 up to the grid size, or the number among so
    many blocks from one on, where only these come by.
    """

    name = "kernel.block_id"
    first = opt_prop_def(IntegerAttr.constr(i64))
    count = opt_prop_def(IntegerAttr.constr(i64))
    assembly_format = "(`from` $first^ `of` $count)? attr-dict"

    def __init__(self, part: range | None = None) -> None:
        """The number among all blocks, or among a part of them."""
        numbers = {} if part is None else {"first": part.start, "count": len(part)}
        properties = {name: i64_attr(n) for name, n in numbers.items()}
        IRDLOperation.__init__(self, properties=properties, result_types=[INDEX])

    @property
    def part(self) -> range | None:
        """The blocks that it tells apart; None for all."""
        if self.first is None or self.count is None:
            return None
        first = self.first.value.data
        return range(first, first + self.count.value.data)

    @property
    def before(self) -> int:
        """The blocks of the grid that come before those that are numbered."""
        return 0 if self.first is None else self.first.value.data

    def index_range(self) -> tuple[float, float]:
        if self.part is not None:
            return (0, len(self.part) - 1)
        func = enclosing_func(self)
        return (0, min(max(func.most_grid - 1, 0), WIDEST)) if func else (0, float("inf"))

    def index_top(self) -> Expr | None:
        """The last block, where the number of blocks is a size that an index can be."""
        func = enclosing_func(self)
        grid: Size | int = 0 if func is None else func.grid_size
        try:
            return size_expr(grid, self) - 1 if isinstance(grid, Size) else None
        except NeedsNumber:  # a product of sizes
            return None

    def verify_(self) -> None:
        func, part = enclosing_func(self), self.part
        if (self.first is None) != (self.count is None):
            raise VerifyException("expected a first block and how many there are, or neither")
        if part is None or func is None:
            return
        if not part or part.start < 0 or part.stop > func.grid_size:
            raise VerifyException(
                f"expected blocks of a grid of {func.grid_size}, found {len(part)} from "
                f"{part.start} on"
            )
        cluster = func.cluster_size
        if part.start % cluster or (len(part) % cluster and self._reaches_others(func)):
            raise VerifyException(
                f"expected whole clusters of {cluster} blocks, found {len(part)} blocks "
                f"from {part.start} on"
            )

    def _reaches_others(self, func: FuncOp) -> bool:
        """True if blocks that have such a number meet others of their cluster, or reach memory of
        theirs: in the whole branch of the kernel that is for these blocks."""
        block = self.parent
        while block is not None and (around := block.parent_op()) is not func:
            if around is None or (outer := around.parent) is func.body.block:
                break
            block = outer
        return block is not None and any(isinstance(op, _AMONG_BLOCKS) for op in block.walk())


@irdl_op_definition
class ThreadIdOp(NumberOpBase):
    """`%t = kernel.thread_id`: from 0 up to the block size."""

    name = "kernel.thread_id"

    def index_range(self) -> tuple[float, float]:
        func = enclosing_func(self)
        return (0, func.block_size - 1) if func else (0, float("inf"))
