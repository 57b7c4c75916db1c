"""What passes ask of the loops of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import MemoryEffectKind, get_effects

from dlc.dialects.loop import ForOp, ReduceOp
from dlc.ir.variance import Variance, variance
