"""What `dlc.ir.quick_xdsl` puts in the place of xDSL's members gives what these give."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from xdsl.dialects import arith, builtin, scf
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, ModuleOp, StringAttr, i32
from xdsl.dialects.test import TestOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.core import SSAValues
from xdsl.irdl.operations import BaseAccessor, BaseAttrAccessor
from xdsl.utils.exceptions import VerifyException

import dlc
from dlc.dialects.loop import ForOp, LoadOp
from dlc.ir import quick_xdsl
from dlc.ir.quick_xdsl import REPLACED
from dlc.passes import STAGES


@pytest.fixture(scope="module")
def modules() -> list[ModuleOp]:
    """A program in all its IRs."""

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ w, -1).relu()

    compiled = dlc.compile(program, (torch.randn(20, 40), torch.randn(40, 24)), backend="host")
    return [compiled.variants[0].stages.module(stage) for stage in STAGES]


def nested() -> ModuleOp:
    """Operations with several regions and blocks."""
    inner = [[Block([TestOp(), TestOp()]), Block()], [Block([TestOp()])]]
    return ModuleOp([TestOp(regions=[Region(blocks) for blocks in inner]), TestOp()])


@pytest.mark.parametrize(("reverse", "region_first"), [*product((False, True), repeat=2)])
def test_walks(modules: list[ModuleOp], reverse: bool, region_first: bool):
    order: Any = {"reverse": reverse, "region_first": region_first}
    for module in [*modules, nested()]:
        assert [*module.walk(**order)] == [*REPLACED[Operation, "walk"](module, **order)]
        for part in (module.body, module.body.block):
            expected = REPLACED[Region if part is module.body else Block, "walk"](part, **order)
            assert [*part.walk(**order)] == [*expected]


@pytest.mark.parametrize("edit", ["erase", "insert before", "insert after", "empty"])
def test_walks_while_operations_are_edited(edit: str):
    def seen(walk: Any) -> list[str]:
        module, found = nested(), list[str]()
        for number, op in enumerate(walk(module)):
            found.append(f"{op.name} {len(op.regions)}")
            if number and op.parent is not None and len(found) < 20:
                if edit == "erase" and not op.regions:
                    op.detach()
                elif edit == "insert before":
                    op.parent.insert_op_before(TestOp(), op)
                elif edit == "insert after":
                    op.parent.insert_op_after(TestOp(), op)
                elif op.regions:
                    op.detach_region(0)
        return found

    assert seen(Operation.walk) == seen(REPLACED[Operation, "walk"])


def test_named_parts_and_types_of_results(modules: list[ModuleOp]):
    accessors = {
        BaseAccessor: REPLACED[BaseAccessor, "__get__"],
        BaseAttrAccessor: REPLACED[BaseAttrAccessor, "__get__"],
    }
    count = 0
    for op in [op for module in modules for op in module.walk()]:
        assert op.result_types == REPLACED[Operation, "result_types"].fget(op)
        for kind in type(op).__mro__:
            for name, accessor in vars(kind).items():
                for base, get in accessors.items():
                    if isinstance(accessor, base):
                        found, expected = getattr(op, name), get(accessor, op)
                        assert type(found) is type(expected), name
                        assert found == expected
                        count += 1
    assert count > 500


def test_sequences_of_values():
    values = TestOp(result_types=[i32, i32, i32]).results
    item = REPLACED[SSAValues, "__getitem__"]
    for index in (0, -1, slice(1), slice(0, 3, 2), True):
        assert values[index] == item(values, index)
        assert type(values[index]) is type(item(values, index))
    assert values[1:].types == (i32, i32)


def test_values_of_arrays():
    for numbers in ([], [3, -4]):
        array = DenseArrayBase.from_list(i32, numbers)
        expected = REPLACED[DenseArrayBase, "get_values"](array)
        assert array.get_values() == array.get_values() == expected == tuple(numbers)
        assert array == DenseArrayBase.from_list(i32, numbers)
        assert hash(array) == hash(DenseArrayBase.from_list(i32, numbers))


def test_attributes_are_verified():
    class Neither(Attribute):
        pass

    with pytest.raises(TypeError, match="only be Data or ParametrizedAttribute"):
        Neither()
    with pytest.raises(VerifyException):
        IntegerAttr(1 << 40, i32)
    assert ArrayAttr([StringAttr("a")]) == ArrayAttr([StringAttr("a")])


def test_classes_and_identity(modules: list[ModuleOp]):
    quick_xdsl.install()  # which does nothing
    kinds = (Operation, ForOp, LoadOp, arith.AddfOp, scf.ForOp, builtin.ModuleOp, SSAValue, Block)
    for op in modules[2].walk():
        for kind in kinds:
            assert isinstance(op, kind) == (kind in type(op).__mro__)
        assert {op: 1}[op] == 1
        assert op == op
