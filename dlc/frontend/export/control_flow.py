"""`torch.cond`, `while_loop`, `scan` and `map` of an exported graph as operations of `flow`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node
from xdsl.dialects.builtin import ComplexType, TensorType, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from dlc.dialects import flow
from dlc.dialects import torch as torch_ir
from dlc.dialects.layouts import shape_of
from dlc.frontend.aten.distinct_operands import COPY, is_control_flow
from dlc.frontend.export.nodes import GraphImporter, Unrepresentable, Values, name_hint
from dlc.frontend.source import location_of, place_of


@dataclass
class ProgramImporter(GraphImporter):
    """Imports control flow as well, with the functions that it is given as bodies."""

    def import_node(self, node: Node) -> None:
        if node.target is COPY and node.users and all(map(is_control_flow, node.users)):
            self.values[node] = self.values[node.all_input_nodes[0]]
            return
        if not is_control_flow(node):
            super().import_node(node)
            return
        op = self._flow(node)
        if op is None:
            self.failed.add(node)
            return
        op.location = location_of(place_of(node.meta.get("stack_trace"), self.shown_as))
        self.block.add_op(op)
        for result in op.results:
            result.name_hint = name_hint(node.name)
        self.values[node] = list(op.results)

    def _flow(self, node: Node) -> Operation | None:
        """The operation of a node; None if something in it has no counterpart."""
        modules = [self._module(a) for a in node.args if isinstance(a, Node) and a.op == "get_attr"]
        given = [a for a in node.args if not (isinstance(a, Node) and a.op == "get_attr")]
        assert isinstance(node.target, torch._ops.HigherOrderOperator)
        match node.target.name():
            case "cond":
                flag = self._flag(self._tensors(given[:1])[0], self.block)
                operands = self._tensors(given[1])
                bodies = [self._body(m, [], operands) for m in modules]
                if bodies[0] is None or bodies[1] is None:
                    return None
                return flow.IfOp(flag, bodies[0], bodies[1])
            case "while_loop":
                inits, further = (self._tensors(g) for g in given)
                before = self._body(modules[0], inits, further, condition=True)
                body = self._body(modules[1], inits, further)
                return None if before is None or body is None else flow.WhileOp(inits, before, body)
            case name:
                inits = self._tensors(given[0]) if name == "scan" else []
                scanned, further = (self._tensors(g) for g in given[-2:])
                if not scanned:
                    raise Unrepresentable("it goes over no tensor, expected one at least")
                return self._loop(modules[0], inits, scanned, further)

    def _loop(
        self,
        module: GraphModule,
        inits: Sequence[SSAValue],
        scanned: Sequence[SSAValue],
        further: Sequence[SSAValue],
    ) -> Operation | None:
        body = self._body(module, inits, further, scanned)
        if body is None:
            return None
        return flow.ForOp(shape_of(scanned[0])[0], inits, scanned, body)

    def _module(self, node: Node) -> GraphModule:
        owner = node.graph.owning_module
        assert owner is not None
        assert isinstance(node.target, str)
        module = owner.get_submodule(node.target)
        assert isinstance(module, GraphModule)
        return module

    def _tensors(self, given: object) -> list[SSAValue]:
        """The values of nodes; Unrepresentable for anything but tensors."""
        assert isinstance(given, list | tuple)
        found: list[SSAValue] = []
        for item in given:
            value = self.values.get(item) if isinstance(item, Node) else None
            if not isinstance(value, SSAValue):
                what = "a number that depends on data" if isinstance(item, Node) else repr(item)
                raise Unrepresentable(
                    f"it is given {what}, expected tensors; give torch.tensor(n) for a number n"
                )
            if isinstance(value.type, TensorType) and isinstance(
                value.type.element_type, ComplexType
            ):
                raise Unrepresentable("its numbers are complex, give view_as_real of them")
            found.append(value)
        return found

    def _body(
        self,
        module: GraphModule,
        inits: Sequence[SSAValue],
        further: Sequence[SSAValue],
        scanned: Sequence[SSAValue] = (),
        *,
        condition: bool = False,
    ) -> Region | None:
        """
        A function as a body: what it is given beside what is carried and scanned is used as it is.
        """
        types = [*(v.type for v in inits), *(flow.piece_of(v.type) for v in scanned)]
        block = Block(arg_types=types)
        nodes = list(module.graph.nodes)
        placeholders = [n for n in nodes if n.op == "placeholder"]
        values: dict[Node, Values] = dict(zip(placeholders, [*block.args, *further], strict=True))
        for placeholder, argument in zip(placeholders, block.args, strict=False):
            argument.name_hint = name_hint(placeholder.name)
        inside = ProgramImporter(block, values, self.shown_as, self.unsupported)
        inside.run([n for n in nodes if n.op not in ("placeholder", "output", "get_attr")])
        if inside.failed:
            return None
        if inside.state is not None:
            raise Unrepresentable("it draws random numbers; draw them before it, and scan them")
        (given,) = module.graph.find_nodes(op="output")[0].args
        results = inside._tensors(given if isinstance(given, list | tuple) else [given])
        if condition:
            results = [inside._flag(results[0], block)]
        block.add_op(flow.YieldOp(results))
        return Region(block)

    def _flag(self, value: SSAValue, block: Block) -> SSAValue:
        """A condition without dimensions; Unrepresentable for one that is no boolean."""
        if value.type == flow.FLAG:
            return value
        if set(shape_of(value)) - {1} or value.type != TensorType(i1, shape_of(value)):
            raise Unrepresentable(f"its condition is {value.type}, expected one boolean")
        view = torch_ir.AtenOp("view.default", {"self": value}, {"size": []}, [flow.FLAG])
        block.add_op(view)
        return view.results[0]
