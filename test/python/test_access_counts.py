"""What is counted of accesses that conditions leave out in some iterations."""

import pytest
from xdsl.parser import Parser

from dlc.analysis.kernel.instruction_counts import counts_of
from dlc.dialects import kernel
from dlc.stages import compiler_context

TEXT = """
kernel.func @k(%x: memref<8x256xf32>) -> (%y: memref<8x32xf32>) grid 8 block 32 {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %8 = arith.constant 8 : index
  %b = kernel.block_id
  %t = kernel.thread_id
  scf.for %k = %0 to %8 step %1 {
    %v = kernel.load %x[%b, %k * 32 + %t] WHERE : memref<8x256xf32>
    %w = math.exp %v : f32
  }
}
"""


@pytest.mark.parametrize(
    ("where", "iterations"),
    [
        ("", 8),
        ("where (%k * 32 + %t < 128)", 4),
        ("where (%k * 32 + %t < 100)", 3.5),  # the last lane has none of the fourth
        ("where (%t < 16)", 4),  # half of the lanes
        ("where (%b < 7)", 8),
    ],
)
def test_sectors_are_of_iterations_in_which_lanes_load(where: str, iterations: float) -> None:
    module = Parser(compiler_context(), TEXT.replace("WHERE", where)).parse_module()
    (func,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    assert counts_of(func).sectors == 4 * iterations
