"""The nodes of an exported FX graph, one by one, as operations of the `torch` dialect."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch.fx import Node
from torch.utils._pytree import tree_map_only
from xdsl.dialects.builtin import ComplexType, TensorType, f16, f32, f64, i64
from xdsl.ir import Attribute, Block, SSAValue

from dlc.dialects import torch as torch_ir
from dlc.dialects.sized_types import sized_tensor
from dlc.frontend.aten.draws import DRAWS_ELSEWHERE, GENERATED, STATE, draws
from dlc.frontend.aten.overloads import ASSERTING, TO_DEVICE, TO_DTYPE, UNCHECKED, bind_arguments
from dlc.frontend.aten.subscripts import NUMBER
from dlc.frontend.export.eager_errors import check_eager
from dlc.frontend.export.size_names import NoSize, is_of_sizes, names_of, size_of, sizes_of
from dlc.frontend.source import Place, location_of, place_of
from dlc.ir.elements import ELEMENTS
from dlc.ir.sizes import Size

ELEMENT_TYPES: Mapping[torch.dtype, Attribute] = {
    **{getattr(torch, element.torch): element.type for element in ELEMENTS},
    torch.complex32: ComplexType(f16),
    torch.complex64: ComplexType(f32),
    torch.complex128: ComplexType(f64),
}

WITHOUT_VALUE = frozenset(
    ("device", "layout", "pin_memory", "non_blocking", "memory_format", "requires_grad")
)
"""Arguments of ATen ops that say where or how a tensor is stored, not what it is."""

COPY = torch.ops.prims.copy_strided.default
"""What PyTorch's decompositions end with where the result must lie like an argument."""
Values: TypeAlias = SSAValue | list[SSAValue]
"""What a node stands for: a tensor, or the tensors of a tuple or list."""


class Unrepresentable(Exception):
    """Says why a node has no counterpart in the `torch` dialect."""


def tensor_type(value: object) -> TensorType:
    """The type of a (fake) tensor; Unrepresentable if there is none."""
    if not isinstance(value, torch.Tensor):
        if value is None:
            raise Unrepresentable("it returns nothing, expected a tensor")
        raise Unrepresentable(
            f"it returns a {type(value).__name__} computed from data, expected a tensor; a number "
            "that gives a shape or a place, as n in x[:n] and range(n), is no tensor"
        )
    if value.layout is not torch.strided or value.is_quantized:
        raise Unrepresentable(f"its tensor is {value.layout} or quantized, expected a strided one")
    element = ELEMENT_TYPES.get(value.dtype)
    if element is None:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in ELEMENT_TYPES)
        raise Unrepresentable(f"its dtype is {value.dtype}, expected one of {known}")
    try:
        return sized_tensor(element, sizes_of(value.shape))
    except NoSize:
        shape = "x".join(str(extent) for extent in value.shape)
        raise Unrepresentable(f"its shape {shape} depends on data, expected a static one") from None


def name_hint(name: str) -> str | None:
    """An SSA name from a name of the source: `layers.0.weight` is `%layers_0_weight`."""
    hint = re.sub(r"(_\d+)+$", "", re.sub(r"\W+", "_", name)).strip("_")
    return hint if hint and not hint[0].isdigit() else None


def operation_of(node: Node) -> object:
    """The operation of a node: of one that keeps its place for its effects, the one within."""
    if getattr(node.target, "__name__", "") == "with_effects" and len(node.args) > 1:
        return node.args[1]
    return node.target


def plain(value: object) -> torch_ir.Argument:
    """A non-tensor argument as the dialect holds it; Unrepresentable for a device, …"""
    match value:
        case None | bool() | int() | float() | complex() | str():
            return value
        case torch.dtype():
            return str(value).removeprefix("torch.")
        case torch.SymInt():
            try:
                return size_of(value)
            except NoSize as reason:
                raise Unrepresentable(f"its argument: {reason}") from None
        case torch.SymFloat():
            raise Unrepresentable(
                f"its argument is a number computed from {names_of(value)} that is no integer, "
                "expected an integer of sizes; call it for one size, or compute it of a tensor"
            )
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            raise Unrepresentable(
                f"its argument {value} is of type {type(value).__name__}, expected a number, "
                "a string, a dtype or a list"
            )


def _number_of(node: Node) -> object:
    """What a node stands for where that depends on sizes alone, else the node."""
    value = node.meta.get("val")
    return value if is_of_sizes(value) else node


def _asserts_of_sizes(node: Node) -> bool:
    return all(is_of_sizes(given.meta.get("val")) for given in node.all_input_nodes)


def _described(node: Node) -> str:
    """A value that is no tensor, as an error names it."""
    value = node.meta.get("val")
    kind = getattr(value, "script_class_name", type(value).__name__)
    return f"an object of type {str(kind).rpartition('.')[2]}, expected a tensor or a number"


def _taker_of_number(node: Node) -> str | None:
    """The argument of an operation that a number of a tensor is."""
    for user in node.users:
        if isinstance(user.target, torch._ops.OpOverload):
            for name, value in bind_arguments(user).items():
                if value is node:
                    return f"argument '{name}' of {user.target}"
    return None


@dataclass
class GraphImporter:
    """Appends `torch.aten` operations to `block`; `values` starts with the placeholders."""

    block: Block
    values: dict[Node, Values]
    shown_as: Mapping[str, str] = field(default_factory=dict)
    unsupported: list[tuple[str, Place | None]] = field(default_factory=list)
    failed: set[Node] = field(default_factory=set)
    state: SSAValue | None = None
    """The argument with seed and offset, once an operation draws random numbers."""
    drawn: Size | int = 0
    """How many random numbers the operations so far draw."""

    def run(self, nodes: Sequence[Node]) -> None:
        """
        Imports the nodes that compute something. What cannot be imported is collected in
        `unsupported`; nodes that depend on it are skipped, so each cause is named once.
        """
        for node in nodes:
            if is_of_sizes(node.meta.get("val")):
                continue  # what takes it says what it is
            if self.failed.intersection(node.all_input_nodes):
                self.failed.add(node)
                continue
            try:
                self.import_node(node)
            except Unrepresentable as reason:
                self.failed.add(node)
                target = operation_of(node)
                name = getattr(target, "__name__", str(target))
                if isinstance(target, torch._ops.OperatorBase):
                    name = str(target)
                place = place_of(node.meta.get("stack_trace"), self.shown_as)
                self.unsupported.append((f"{name}: {reason}", place))

    def import_node(self, node: Node) -> None:
        target = node.target
        if operation_of(node) is not target:
            raise Unrepresentable(
                "it has effects beside its results, such as an error that it raises"
            )
        if target is operator.getitem:
            items, index = node.args
            assert isinstance(items, Node)
            assert isinstance(index, int)
            items = self.values[items]
            assert isinstance(items, list)
            self.values[node] = items[index]
            return
        if target in NUMBER and (taker := _taker_of_number(node)) is not None:
            raise Unrepresentable(
                f"it returns a {type(node.meta['val']).__name__} computed from data, expected a "
                f"tensor; {taker} takes a number that is known when the program is compiled, as "
                "shapes are, as n in x[:n] and range(n)"
            )
        if isinstance(target, torch._ops.HigherOrderOperator):
            raise Unrepresentable("it runs a function of its own")
        if not isinstance(target, torch._ops.OpOverload):
            raise Unrepresentable("it computes with a number that depends on data")
        if target in UNCHECKED or (target in ASSERTING and _asserts_of_sizes(node)):
            return
        if target.namespace == "transformers":
            raise Unrepresentable(
                "it is an operation of transformers' own; call "
                "model.set_experts_implementation('batched_mm') if the model has experts"
            )
        if target.namespace != "aten" and target is not COPY:
            raise Unrepresentable("it is no ATen op; write it with functions of torch")
        if target._schema.is_mutable:
            raise Unrepresentable("it writes to its argument in the exported graph")
        name = str(target).removeprefix("aten.")
        place = place_of(node.meta.get("stack_trace"), self.shown_as)
        check_eager(node, bind_arguments(node), place)
        tensors, arguments = self.split_arguments(node)
        if target is COPY:
            name, tensors, arguments = "clone.default", {"self": tensors["a"]}, {}
        elif target in GENERATED:
            name = GENERATED[target]
            tensors["generator"], arguments["offset"] = self.draw(node)
        elif target in (TO_DTYPE, TO_DEVICE):
            name = "to.dtype"
            if tensor_type(node.meta["val"]) == tensors["self"].type:
                self.values[node] = tensors["self"]
                return
        val = node.meta.get("val")
        several = isinstance(val, (list, tuple))
        op = torch_ir.AtenOp(
            name,
            tensors,
            arguments,
            [tensor_type(item) for item in (val if several else (val,))],
        )
        op.location = location_of(place)
        for result in op.results:
            result.name_hint = name_hint(node.name)
        self.block.add_op(op)
        self.values[node] = list(op.results) if several else op.results[0]

    def draw(self, node: Node) -> tuple[SSAValue, Size | int]:
        """The state that an operation draws from, and where its own numbers begin."""
        if self.state is None:
            self.state = self.block.insert_arg(TensorType(i64, [2]), len(self.block.args))
            self.state.name_hint = STATE
        offset = self.drawn
        count = Size.of(offset) + size_of(draws(node.target, node.meta["val"]))
        self.drawn = count if count.number is None else count.number
        return self.state, offset

    def split_arguments(
        self, node: Node
    ) -> tuple[dict[str, SSAValue], dict[str, torch_ir.Argument]]:
        """The tensors that a node takes, by operand name, and its other arguments."""
        tensors: dict[str, SSAValue] = {}
        arguments: dict[str, torch_ir.Argument] = {}
        defaults = {a.name: a.default_value for a in node.target._schema.arguments}  # type: ignore[union-attr]
        for name, given in bind_arguments(node).items():
            value = tree_map_only(Node, _number_of, given)
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, Node) and item not in self.values:
                    if name == "generator":
                        raise Unrepresentable(f"it {DRAWS_ELSEWHERE}")
                    raise Unrepresentable(f"its argument {name} is {_described(item)}")
            if isinstance(value, Node):
                value = self.values[value]
            elif isinstance(value, (list, tuple)) and any(isinstance(v, Node) for v in value):
                value = [self.values[v] if isinstance(v, Node) else v for v in value]
            if isinstance(value, SSAValue):
                tensors[name] = value
            elif isinstance(value, list) and any(isinstance(v, SSAValue) for v in value):
                for i, item in enumerate(value):
                    if isinstance(item, SSAValue):
                        tensors[f"{name}.{i}"] = item
            elif name not in WITHOUT_VALUE and (value is not None or defaults[name] is not None):
                arguments[name] = plain(value)
        return tensors, arguments
