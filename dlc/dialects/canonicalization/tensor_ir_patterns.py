"""The canonicalization patterns of the tensor_ir dialect."""

from __future__ import annotations

from dlc.dialects.canonical import Patterns
from dlc.dialects.canonicalization.constant_patterns import (
    FoldElementwise,
    FoldIndexMap,
    FoldReduce,
)
from dlc.dialects.canonicalization.index_map_patterns import ComposeGather, ComposeIndexMap
from dlc.dialects.tensor_ir import ElementwiseOp, GatherOp, IndexMapOp, ReduceOp

PATTERNS: Patterns = {
    ElementwiseOp: (FoldElementwise(),),
    ReduceOp: (FoldReduce(),),
    IndexMapOp: (FoldIndexMap(), ComposeIndexMap()),
    GatherOp: (ComposeGather(),),
}
