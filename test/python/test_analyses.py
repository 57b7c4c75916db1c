"""What is asked twice, with an edit of the IR in between, is answered anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import loop_cases
import pytest
from harness import apply, parse, scheduled
from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import kernel, loop
from dlc.dialects.directives import sizes_map
from dlc.ir.affine_forms import from_affine
from dlc.ir.analyses import Analyses
from dlc.ir.expr import Expr
from dlc.passes import STEPS

NEST = """
%y = loop.kernel @k(%x: memref<64x8xf32> = %t) -> (%y: memref<64x8xf32>) {
  %five = arith.constant 5 : index
  loop.for %i in 4, %j in 8 {
    %row = loop.index %i * 2
    %a = loop.load %x[%row floordiv 8 + %five, %j] where (%row >= 8) : memref<64x8xf32>
    loop.store %a, %y[%i, %j] : memref<64x8xf32>
  }
}
"""
MAIN = "func.func @main(%t: tensor<64x8xf32>) -> tensor<64x8xf32> {{ {} func.return %y : {} }}"


def exprs_of(map: AffineMapAttr, indices: Sequence[SSAValue]) -> tuple[Expr, ...]:
    """The results of a map over index operands, as they are now."""
    return tuple(from_affine(e, indices) for e in map.data.results)


class Nest:
    """A load whose subscripts follow from an axis, through an index operation and a constant."""

    def __init__(self) -> None:
        self.module = parse(MAIN.format(NEST, "tensor<64x8xf32>"))
        ops = list(self.module.walk())
        (self.loop,) = (op for op in ops if isinstance(op, loop.ForOp))
        (self.row,) = (op for op in ops if isinstance(op, loop.IndexOp))
        (self.load,) = (op for op in ops if isinstance(op, loop.LoadOp))
        (self.five,) = (op for op in ops if isinstance(op, arith.ConstantOp))

    def more_points(self) -> None:
        self.loop.set_axes([8, 8])

    def fewer_points(self) -> None:
        self.loop.extents = sizes_map((1, 1))

    def another_loop(self) -> None:
        body = self.loop.detach_region(0)
        other = loop.ForOp.create(properties={"extents": sizes_map((8, 8))}, regions=[body])
        Rewriter.insert_op(other, InsertPoint.before(self.loop))

    def another_constant(self) -> None:
        self.five.properties["value"] = IntegerAttr.from_index_int_value(6)

    def another_map(self) -> None:
        results = (AffineMap.identity(1).results[0],) * 2
        self.load.map = AffineMapAttr(AffineMap(len(self.load.indices), 0, results))

    def another_map_before(self) -> None:
        dimension = AffineMap.identity(1).results[0]
        self.row.map = AffineMapAttr(AffineMap(1, 0, (dimension * 9,)))

    def another_operand(self) -> None:
        self.row.result.replace_all_uses_with(self.loop.axes[1])

    def another_index(self) -> None:
        self.load.set_index([Expr(), Expr.of(self.loop.axes[0])], [])


@pytest.mark.parametrize(
    "edit",
    [
        Nest.more_points,
        Nest.fewer_points,
        Nest.another_loop,
        Nest.another_constant,
        Nest.another_map,
        Nest.another_map_before,
        Nest.another_operand,
        Nest.another_index,
    ],
)
def test_subscripts_after_an_edit(edit: Callable[[Nest], None]) -> None:
    nest = Nest()
    load = nest.load
    before = load.subscripts, load.where
    ranges = [[e.range for e in exprs] for exprs in before]
    assert load.subscripts is before[0]  # computed once
    assert load.where is before[1]
    edit(nest)
    after = load.subscripts, load.where
    conditions = [load.conditions] if load.conditions else []
    assert after[0] == exprs_of(load.map, load.indices)
    assert after[1] == tuple(e for map in conditions for e in exprs_of(map, load.indices))
    assert [[e.range for e in exprs] for exprs in after] != ranges


def test_a_launch_finds_the_kernel_that_has_the_name_now() -> None:
    module = parse(
        "".join(
            f"kernel.func @{name}(%x: memref<4xf32>) -> (%y: memref<4xf32>) grid 1 block 32 {{}}\n"
            for name in ("first", "second")
        )
        + "func.func @main(%t: tensor<4xf32>) -> tensor<4xf32> {"
        + "%y = kernel.launch @first(%t) : (tensor<4xf32>) -> (tensor<4xf32>)"
        + "func.return %y : tensor<4xf32> }"
    )
    first, second = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    (launch,) = (op for op in module.walk() if isinstance(op, kernel.LaunchOp))
    assert launch.callee is first
    first.sym_name, second.sym_name = StringAttr("third"), StringAttr("first")
    assert launch.callee is second
    second.detach()
    assert launch.callee is None


def test_answers_are_kept_until_invalidated() -> None:
    nest, analyses = Nest(), Analyses()

    def points(of: loop.ForOp) -> tuple[int, ...]:
        return of.all_extents

    assert analyses.get(points, nest.loop) == (4, 8)
    nest.more_points()
    assert analyses.get(points, nest.loop) == (4, 8)
    analyses.invalidate()
    assert analyses.get(points, nest.loop) == (8, 8)


def test_nothing_is_edited_between_a_question_and_its_repetition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    get, repeated = Analyses.get, Counter[str]()

    def checked(self: Analyses, question: Callable[[Operation], object], about: Operation):
        known = (question, about) in self._answers  # pyright: ignore[reportPrivateUsage]
        answer = get(self, question, about)
        assert answer == question(about), f"{question.__name__} of {about}"
        repeated[question.__name__] += known
        return answer

    monkeypatch.setattr(Analyses, "get", checked)
    steps = ",".join(step.pass_name for step in STEPS if step.stage in ("tile", "kernel"))
    module = scheduled(loop_cases.gemm(256, 256, 256, transposed=True), None, "sm_80")
    apply(module, steps, round_trip=False)
    assert {"shared_loads", "loop_of", "_fillings", "_subscripts"} <= (+repeated).keys()
