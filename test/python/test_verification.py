"""The verifier of a module that changes looks again at what changed, and at nothing else."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, test
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr, i32
from xdsl.ir import Operation
from xdsl.irdl import OpDef
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from dlc.dialects import loop
from dlc.ir.dominance import DominanceError
from dlc.ir.expr import Expr
from dlc.ir.verification import Verifier
from dlc.registry import register

KERNEL = """
  %{out} = loop.kernel @{out}(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {{
    loop.for %i in 8 {{
      %a = loop.load %x[%i] : memref<8xf32>
      %b = math.exp %a : f32
      %c = arith.addf %a, %b : f32
      loop.store %c, %y[%i] : memref<8xf32>
    }}
  }}"""


def module_of(*names: str) -> ModuleOp:
    kernels = "".join(KERNEL.format(out=name) for name in names)
    text = f"""func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{{kernels}
  func.return %{names[-1]} : tensor<8xf32>
}}"""
    return Parser(register(Context()), text).parse_module()


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[arith.AddfOp]:
    """The additions that are verified from now on."""
    found: list[arith.AddfOp] = []
    verify = arith.AddfOp.verify_

    def counted(self: arith.AddfOp) -> None:
        found.append(self)
        verify(self)

    monkeypatch.setattr(arith.AddfOp, "verify_", counted)
    return found


def kernels_of(module: ModuleOp) -> list[loop.KernelOp]:
    return [op for op in module.walk() if isinstance(op, loop.KernelOp)]


def sum_of(kernel: loop.KernelOp) -> arith.AddfOp:
    (found,) = (op for op in kernel.walk() if isinstance(op, arith.AddfOp))
    return found


def test_only_what_changed_is_verified_again(sums: list[arith.AddfOp]) -> None:
    module, verifier = module_of("p", "q"), Verifier()
    verifier.verify(module)
    first, second = map(sum_of, kernels_of(module))
    assert sums == [first]  # the second has its structure
    sums.clear()
    verifier.verify(module)
    assert sums == []
    second.operands = (second.lhs, second.lhs)
    verifier.verify(module)
    assert sums == [second]
    sums.clear()
    first.operands = (first.lhs, first.lhs)  # as the second, which is known to be valid
    verifier.verify(module)
    assert sums == []
    Verifier(is_compared=False).verify(module)
    assert sums == [first, second]


def test_what_becomes_invalid_is_found(sums: list[arith.AddfOp]) -> None:
    module, verifier = module_of("p", "q"), Verifier()
    verifier.verify(module)
    total = sum_of(kernels_of(module)[1])
    exp = total.rhs.owner
    assert total.parent is not None
    total.detach()
    loop_body = exp.parent  # pyright: ignore[reportAttributeAccessIssue]
    loop_body.insert_op_before(total, exp)  # pyright: ignore[reportArgumentType]
    for _ in range(2):  # and what is invalid stays so
        with pytest.raises(DominanceError, match="used before it is defined"):
            verifier.verify(module)


def test_a_value_of_another_kernel_is_found() -> None:
    module, verifier = module_of("p", "q"), Verifier()
    verifier.verify(module)
    first, second = map(sum_of, kernels_of(module))
    second.operands = (second.lhs, first.rhs)
    with pytest.raises(VerifyException, match="a region that does not contain this use"):
        verifier.verify(module)


def test_a_kernel_itself_is_verified_however_valid_its_inside() -> None:
    module, verifier = module_of("p", "q"), Verifier()
    verifier.verify(module)
    kernel = kernels_of(module)[1]
    kernel.operands = ()
    with pytest.raises(VerifyException):
        verifier.verify(module)


def test_an_operation_that_names_another_parent_is_found() -> None:
    module, verifier = module_of("p", "q"), Verifier()
    verifier.verify(module)
    first, second = map(sum_of, kernels_of(module))
    second.parent = first.parent
    with pytest.raises(ValueError, match="Parent pointer"):
        verifier.verify(module)


def test_declarations_hold_again_only_where_something_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[str] = []
    verify = OpDef.verify

    def counted(self: OpDef, op: Operation) -> None:
        checked.append(op.name)
        verify(self, op)

    monkeypatch.setattr(OpDef, "verify", counted)
    module, verifier = module_of("p"), Verifier()
    verifier.verify(module)
    (kernel,) = kernels_of(module)
    total = sum_of(kernel)
    checked.clear()
    total.operands = (total.rhs, total.lhs)  # the verifier that is written is run, and says nothing
    verifier.verify(module)
    assert checked == []
    total.properties["fastmath"] = StringAttr("no flags")
    with pytest.raises(VerifyException, match="fastmath"):
        verifier.verify(module)
    assert set(checked) == {"arith.addf"}
    checked.clear()
    total.properties.clear()
    with pytest.raises(VerifyException, match="fastmath"):
        verifier.verify(module)


def test_a_declaration_that_asks_for_a_class_is_not_checked_for_each_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[str] = []
    verify = OpDef.verify

    def counted(self: OpDef, op: Operation) -> None:
        checked.append(op.name)
        verify(self, op)

    module, verifier = module_of("p"), Verifier()
    verifier.verify(module)
    (kernel,) = kernels_of(module)
    (load,) = (op for op in kernel.walk() if isinstance(op, loop.LoadOp))
    monkeypatch.setattr(OpDef, "verify", counted)
    load.set_index([load.subscripts[0] * 0], [])  # another map, of no indices
    load.set_index([Expr.of(load.parent.args[0])], [Expr.of(load.parent.args[0])])  # pyright: ignore
    verifier.verify(module)
    assert checked == ["loop.load"]  # it has a property more
    load.set_index([Expr.of(load.parent.args[0])], [Expr.of(load.parent.args[0]) + 3])  # pyright: ignore
    checked.clear()
    verifier.verify(module)
    assert checked == []
    load.properties["map"] = StringAttr("no map")
    with pytest.raises(VerifyException, match="affine_map"):
        verifier.verify(module)


def test_sizes_of_groups_of_operands_are_checked_for_each_value() -> None:
    module, verifier = module_of("p"), Verifier()
    verifier.verify(module)
    (kernel,) = kernels_of(module)
    (load,) = (op for op in kernel.walk() if isinstance(op, loop.LoadOp))
    load.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [1, 2, 0])
    with pytest.raises(VerifyException, match="operand"):
        verifier.verify(module)


def test_a_terminator_that_is_lost_is_found() -> None:
    module, verifier = module_of("p"), Verifier()
    verifier.verify(module)
    (kernel,) = kernels_of(module)
    (body,) = (op.body.block for op in kernel.walk() if isinstance(op, loop.ForOp))
    assert body.last_op is not None
    body.last_op.detach()
    with pytest.raises(VerifyException, match="terminat"):
        verifier.verify(module)


def test_what_a_written_verifier_sees_of_others_is_looked_at_again() -> None:
    module, verifier = module_of("p"), Verifier()
    verifier.verify(module)
    (kernel,) = kernels_of(module)
    (nest,) = (op for op in kernel.walk() if isinstance(op, loop.ForOp))
    exp = sum_of(kernel).rhs.owner
    assert isinstance(exp, Operation)
    user = test.TestOp(operands=[nest.axes[0]])
    nest.body.block.insert_op_before(user, exp)
    with pytest.raises(VerifyException, match="expected axes in subscripts"):
        verifier.verify(module)
