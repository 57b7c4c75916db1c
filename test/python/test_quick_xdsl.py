"""What `dlc.ir.quick_xdsl` puts in the place of xDSL's members gives what these give."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from xdsl.dialects import arith, builtin, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    i32,
)
from xdsl.dialects.test import TestOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.ir.core import BlockOps, IRWithName, SSAValues
from xdsl.irdl import IRDLOperation
from xdsl.irdl.operations import BaseAccessor, BaseAttrAccessor
from xdsl.parser import Parser
from xdsl.parser.base_parser import BaseParser
from xdsl.parser.generic_parser import GenericParser
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

import dlc
from dlc.dialects.loop import ForOp, LoadOp
from dlc.ir import quick_xdsl
from dlc.ir.quick_xdsl import REPLACED
from dlc.passes import STAGES
from dlc.pipeline import text_of
from dlc.stages import compiler_context


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
    ops = REPLACED[BlockOps, "__iter__"]
    assert seen(lambda m: iter(m.body.block.ops)) == seen(lambda m: ops(m.body.block.ops))


def test_what_no_block_can_take_is_refused():
    outer = TestOp(regions=[Region(Block())])
    with pytest.raises(ValueError, match="contained in the operation"):
        outer.regions[0].block.add_op(outer)
    for op in (outer, TestOp()):
        Block([op])
        with pytest.raises(ValueError, match="already attached"):
            Block([op])


def test_named_parts_and_types_of_results(modules: list[ModuleOp]):
    accessors = {
        BaseAccessor: REPLACED[BaseAccessor, "__get__"],
        BaseAttrAccessor: BaseAttrAccessor.__get__,  # its subclasses' are in its place
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


@pytest.mark.parametrize("named", [False, True])
def test_copies(modules: list[ModuleOp], named: bool, monkeypatch: pytest.MonkeyPatch):
    for module in [*modules, nested()]:
        found: list[Any] = []
        for quick in (True, False):
            with monkeypatch.context() as patch:
                for kind, name in () if quick else ((Operation, "clone"), (Region, "clone_into")):
                    patch.setattr(kind, name, REPLACED[kind, name])
                values: dict[SSAValue, SSAValue] = {}
                blocks: dict[Block, Block] = {}
                copy = module.clone(values, blocks, clone_name_hints=named)
            numbers = {op: number for number, op in enumerate(copy.walk())}
            uses = [[numbers[use.operation] for use in new.uses] for new in values.values()]
            names = [(old.name_hint, new.name_hint) for old, new in values.items()]
            assert not numbers.keys() & {*module.walk()}
            assert [values[old] for op in module.walk() for old in op.results] == [
                result for op in copy.walk() for result in op.results
            ]
            found.append((text_of(copy), uses, names, len(blocks)))
        assert found[0] == found[1]
        assert not named or found[0][0] == text_of(module)


def test_copies_beside_other_blocks():
    other = Region(Block([TestOp()]))
    nested().body.clone_into(other, 0)
    assert [len([*block.ops]) for block in other.blocks] == [2, 1]


ODD = (
    r'%a #b !c ^d @e @"f g" %0 %a-b "x\n" "\\" "\FF" "" {-# #-} { - -> ... ? | / * 1 1. 0x1F 0xi',
    "1.5e-3 2.e 0b1 // to the end",
    "// of a line\n a\v:b \x0c<é> _a.$1 ²",
    "é",
    '"open',
    '"\n"',
    "%",
    "@",
    "..",
    "'",
    "",
)


def tokens_of(lex: Any, text: str) -> list[Any]:
    """Kinds and places of tokens, the place after each, and what ends them."""
    lexer, found = MLIRLexer(Input(text, "text")), list[Any]()
    while not found or found[-1][0] is not MLIRTokenKind.EOF:
        try:
            token = lex(lexer)
        except ParseError as error:
            return [*found, str(error)]
        found.append((token.kind, token.span, type(token.span), token.text, lexer.pos))
    return found


def test_tokens(modules: list[ModuleOp]):
    for text in (*ODD, *map(text_of, modules)):
        assert tokens_of(MLIRLexer.lex, text) == tokens_of(REPLACED[MLIRLexer, "lex"], text)


def test_what_parsers_refuse():
    for text in ("func.func @a(%b: memref<2xf32>", '"a"(%b, %c) : (i32', '"test.op"() {a = 1'):
        said: list[str] = []
        for quick in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                for (kind, name), member in () if quick else REPLACED.items():
                    if kind in (MLIRLexer, GenericParser, BaseParser):
                        patch.setattr(kind, name, member)
                with pytest.raises(ParseError) as error:
                    Parser(compiler_context(), text).parse_module()
            said.append(str(error.value))
        assert said[0] == said[1]


def test_what_attributes_are():
    numbers, names = ArrayAttr([IntAttr(1), IntAttr(2)]), ArrayAttr([StringAttr("a")])
    hints = (ArrayAttr[IntAttr], ArrayAttr, ArrayAttr[StringAttr], IntAttr | StringAttr, list[int])
    for value, hint in product((numbers, names, ArrayAttr([]), IntAttr(1), [1, 2]), hints):
        assert builtin.isa(value, hint) == isa(value, hint)  # pyright: ignore[reportPrivateImportUsage]


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


def remade(op: IRDLOperation, init: Any, **other: Any) -> IRDLOperation:
    """An operation as one is, but for what is given, by a constructor."""
    definition, made = op.get_irdl_definition(), object.__new__(type(op))
    results = [getattr(op, name) for name, _ in definition.results]
    given = {
        "operands": [getattr(op, name) for name, _ in definition.operands],
        "result_types": [
            r.type if isinstance(r, SSAValue) else r and [v.type for v in r] for r in results
        ],
        "properties": {**op.properties, "absent": None},
        "attributes": op.attributes,
        "regions": [[Region(Block())] if r else [] for r in (op.regions,) if definition.regions],
    }
    init(made, **(given | other))
    return made


def test_constructors(modules: list[ModuleOp]):
    inits = IRDLOperation.__init__, REPLACED[IRDLOperation, "__init__"]
    count = 0
    for op in [op for module in modules for op in module.walk()]:
        assert isinstance(op, IRDLOperation)
        if len(op.regions) > 1 or op.successors:
            continue
        made, expected = (remade(op, init) for init in inits)
        assert made.operands == expected.operands
        assert type(made.operands) is type(expected.operands)
        assert made.result_types == expected.result_types
        assert made.properties == expected.properties
        assert made.attributes == expected.attributes
        assert made.location == expected.location
        assert [r.parent for r in made.regions] == [made] * len(expected.regions)
        for number, value in enumerate(made.operands):
            uses = [(u.operation, u.index) for u in value.uses]
            assert uses.index((made, number)) == uses.index((expected, number)) + len(
                [v for v in made.operands if v is value]
            )
        for new in (made, expected):
            new.erase()
        count += 1
    assert count > 100


def test_constructors_refuse_alike(modules: list[ModuleOp]):
    inits = IRDLOperation.__init__, REPLACED[IRDLOperation, "__init__"]
    load = next(op for op in modules[2].walk() if isinstance(op, LoadOp))
    wrongs: list[dict[str, Any]] = [
        {"operands": []},
        {"operands": [None, [], None]},
        {"operands": [load.ref, [], [load.ref, load.ref]]},
        {"operands": [[load.ref, load.ref], [], None]},
        {"operands": [[], [], None]},
        {"operands": [load.ref, [], [load.ref, load.ref]]},
        {"result_types": [i32, i32]},
        {"regions": [Region()]},
    ]
    for wrong in wrongs:
        said: list[str] = []
        for init in inits:
            with pytest.raises(ValueError, match=r"\S") as error:
                remade(load, init, **wrong)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_uses_follow_operands():
    """In the order in which uses come with xDSL's own setters."""
    set_by_xdsl = REPLACED[Operation, "operands"].fset
    orders: list[list[list[tuple[int, int]]]] = []
    for assign in (lambda op, new: setattr(op, "operands", new), set_by_xdsl):
        values = TestOp(result_types=[i32, i32]).results
        ops: list[Operation] = [
            TestOp(operands=[values[0], values[1], values[0]]),
            TestOp(operands=[values[0]]),
        ]
        assign(ops[0], [values[1], values[1], values[0]])
        assign(ops[1], ())
        assign(ops[1], values)
        uses = [[(ops.index(u.operation), u.index) for u in v.uses] for v in values]
        assert all(u._prev_use is None or u._prev_use._next_use is u for u in values[0].uses)
        orders.append(uses)
    assert orders[0] == orders[1]


def test_names_of_values():
    get, set_by_xdsl = (
        REPLACED[IRWithName, "name_hint"].fget,
        REPLACED[IRWithName, "name_hint"].fset,
    )
    value, other = TestOp(result_types=[i32, i32]).results
    for name in (None, "a", "a_1", "a_1_2", "a_b", "a_1", "a_1_2"):
        value.name_hint = name
        set_by_xdsl(other, name)
        assert value.name_hint == get(value) == get(other)
    for _ in range(2):
        with pytest.raises(ValueError, match="Invalid OpResult name format `1a`"):
            value.name_hint = "1a"


def test_hashes():
    maps = [AffineMap.identity(2), AffineMap.identity(2), AffineMap.identity(3)]
    assert [hash(m) for m in maps] == [REPLACED[AffineMap, "__hash__"](m) for m in maps]
    assert len({*maps}) == 2
    types = [MemRefType(i32, [2, n]) for n in (3, 3, 4)]
    assert [hash(t) for t in types] == [REPLACED[MemRefType, "__hash__"](t) for t in types]
    assert len({*types}) == 2


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
