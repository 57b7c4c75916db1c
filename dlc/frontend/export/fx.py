"""Import: a PyTorch module or function and example arguments, exported, as Torch IR."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnknownLoc,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from dlc.dialects.size import FactOp, SymbolOp, number_attribute, numbers_attribute
from dlc.dialects.user_outputs import DTYPE, MUTATES, OUTPUTS, attribute_of, plain_outputs
from dlc.frontend.arguments import Argument
from dlc.frontend.aten.draws import STATE, fresh_state
from dlc.frontend.export.alias import AliasAnalysis
from dlc.frontend.export.control_flow import ProgramImporter
from dlc.frontend.export.exported_call import ExportedCall, export_call
from dlc.frontend.export.imported import ImportedProgram, Result
from dlc.frontend.export.index_bounds import Bounds, index_bounds
from dlc.frontend.export.nodes import Unrepresentable, Values, name_hint, tensor_type
from dlc.frontend.export.pair_values import converted, main_type
from dlc.frontend.export.size_names import NoSize, is_of_sizes, size_of, sizes_of
from dlc.frontend.export.sized_guard import SizedGuard
from dlc.frontend.export.sized_program import SizedProgram
from dlc.frontend.guard import Guard
from dlc.frontend.pairs import output, strides_of_pairs
from dlc.frontend.source import Place, UnsupportedError
from dlc.frontend.state.ambient import Ambient
from dlc.garbage import rarely_collected
from dlc.ir.home import home_of
from dlc.ir.leaves import Constant, Leaf, Output
from dlc.ir.sizes import Size, is_packed
from dlc.target import WIDEST_ACCESS

DRAWS = "dlc.draws"


def import_program(
    module: torch.nn.Module | Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    sources: Mapping[str, str] | None = None,
    exporting: AbstractContextManager[object] = nullcontext(),
    whole: Container[str] | None = None,
) -> ImportedProgram:
    """
    Exports `module` (a module in the mode it is in, or a function) as called with `args` and
    `kwargs` and mirrors the functional ATen graph in Torch IR. `sources` maps file names of the
    program's code to the names to be shown in locations; `exporting` is entered around PyTorch's
    own part. ATen overloads that are not in `whole` are taken apart where PyTorch can.

    Raises ImportFailure where PyTorch cannot export the program, and UnsupportedError with every
    operation that has no representation, as one whose shape depends on data.
    """
    with rarely_collected():
        call = export_call(module, args, kwargs, sources=sources, exporting=exporting, whole=whole)
        return import_call(call)


def import_sized(
    module: torch.nn.Module | Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    whole: Container[str] | None = None,
) -> ImportedProgram | SizedProgram:
    """
    The same for all calls whose sizes differ where `dynamic_shapes` of `torch.export.export` says
    so; a program of this call alone if none of its sizes may change. ImportFailure, too, for a size
    that the user says to change and the program fixes, and UnsupportedError for what has no form
    in Torch IR with sizes.
    """
    with rarely_collected():
        call = export_call(module, args, kwargs, whole=whole, dynamic_shapes=dynamic_shapes)
        program = import_call(call)
        return program if call.sizes is None else sized_program(call, program)


def sized_program(call: ExportedCall, program: ImportedProgram) -> SizedProgram:
    """What has been imported of a call with sizes, which its module declares from here on."""
    assert call.sizes is not None
    symbols = call.sizes.symbols
    try:
        facts = call.sizes.facts
    except NoSize as reason:
        raise UnsupportedError([(f"what the program asks of its sizes: {reason}", None)]) from None
    block = program.module.body.block
    declared = [*map(SymbolOp, symbols.values()), *map(FactOp, facts)]
    for op in declared:
        op.location = UnknownLoc()
    first = block.first_op
    assert first is not None
    block.insert_ops_before(declared, first)
    program.module.verify()
    return SizedProgram(program, symbols, facts, call.sizes.places, call.sized_numbers)


def import_call(call: ExportedCall) -> ImportedProgram:
    """Mirrors an exported program in Torch IR. UnsupportedError as of `import_program`."""
    return _Importer(call).run()


class _Importer:
    """Assembles an ImportedProgram from an exported one."""

    def __init__(self, call: ExportedCall) -> None:
        self.call, self.exported = call, call.exported
        self.arguments = list(call.arguments)

    def run(self) -> ImportedProgram:
        examples = {a.index: self.call.seen(a) for a in self.arguments}
        types = self.argument_types(examples)
        block = Block(arg_types=types)
        values: dict[Node, Values] = dict(zip(self.call.holders, block.args, strict=True))
        for node, argument, value in zip(
            self.call.holders, self.arguments, block.args, strict=True
        ):
            value.name_hint = name_hint(argument.name)
            if argument.guard.dtype.is_complex:
                type = tensor_type(examples[argument.index])
                values[node] = converted(block, value, "view_as_complex.default", type)
        importer = ProgramImporter(block, values, self.call.shown_as)
        importer.run(self.call.compute)
        if importer.unsupported:
            raise UnsupportedError(importer.unsupported)
        if importer.state is not None:
            index, guard = len(self.arguments), Guard.of(torch.zeros(2, dtype=torch.int64))
            name = STATE
            while name in {argument.name for argument in self.arguments}:
                name += "_"
            self.arguments.append(Argument(index, name, "random", guard, None, fresh_state))
            types.append(importer.state.type)
        results, outputs, returned = self.collect_results(examples)
        operands = [self.returned_value(block, node, importer.values[node]) for node in returned]
        block.add_op(func.ReturnOp(*operands))
        attributes = [result_attributes(r, n) for r, n in zip(results, returned, strict=True)]
        bounds = index_bounds(block)
        given = [
            argument_attributes(argument, bounds.get(value), importer.drawn)
            for argument, value in zip(self.arguments, block.args, strict=True)
        ]
        main = func.FuncOp(
            "main",
            (types, [main_type(node.meta["val"]) for node in returned]),
            Region(block),
            arg_attrs=ArrayAttr(given),
            res_attrs=ArrayAttr(attributes) if any(a.data for a in attributes) else None,
        )
        pairs = [n for n, node in enumerate(returned) if node.meta["val"].is_complex()]
        if outputs != plain_outputs([r.argument for r in results], pairs):
            main.attributes[OUTPUTS] = attribute_of(outputs)
        spec = self.exported.call_spec.out_spec
        assert spec is not None
        program = ImportedProgram(
            module=ModuleOp([main]),
            arguments=self.arguments,
            results=results,
            outputs=outputs,
            output_spec=spec,
            input_spec=self.call.input_spec,
            constants=self.call.constants,
            calls=self.call.calls,
            eager=self.call.eager,
            attributes=self.call.attributes,
            ambient=Ambient.now(sorted(self.call.questions.asked)),
            free=self.call.free,
            root=self.call.root,
        )
        if self.call.sizes is None:
            program.module.verify()
        return program

    def argument_types(self, examples: Mapping[int, torch.Tensor]) -> list[Attribute]:
        """The types of `@main`'s arguments; UnsupportedError names all that have none."""
        unsupported: list[tuple[str, Place | None]] = []
        types: list[Attribute] = []
        for argument in self.arguments:
            try:
                types.append(main_type(examples[argument.index]))
            except Unrepresentable as reason:
                unsupported.append((f"{argument.kind} '{argument.name}': {reason}", None))
        if unsupported:
            raise UnsupportedError(unsupported)
        return types

    def returned_value(self, block: Block, node: Node, value: Values) -> SSAValue:
        """A value as `@main` returns it."""
        assert isinstance(value, SSAValue)
        if not node.meta["val"].is_complex():
            return value
        return converted(block, value, "view_as_real.default", main_type(node.meta["val"]))

    def collect_results(
        self, examples: Mapping[int, torch.Tensor]
    ) -> tuple[list[Result], list[Leaf], list[Node]]:
        """`@main`'s results and their nodes, and how the user's output is made of them."""
        results: list[Result] = []
        returned: list[Node] = []
        written: dict[Node, int] = {}
        by_name = {a.name: a.index for a in self.arguments if a.kind != "input"}
        specs = self.exported.graph_signature.output_specs
        for spec, node in zip(specs, self.call.returned, strict=True):
            if spec.kind.name == "USER_OUTPUT":
                continue
            assert spec.target is not None
            if spec.kind.name == "USER_INPUT_MUTATION":
                index = self.call.holders[self.call.nodes[spec.target]]
            else:
                index = by_name[spec.target]
            name = self.arguments[index].name
            results.append(Result(len(results), name, "mutation", index))
            returned.append(node)
            written[node] = index
        aliases = AliasAnalysis(self.call.holders | written, examples)
        pairs = zip(specs, self.call.returned, strict=True)
        given = [node for spec, node in pairs if spec.kind.name == "USER_OUTPUT"]
        nodes = [n for n in given if isinstance(n, Node) and not is_of_sizes(n.meta["val"])]
        held = {node: found for node in nodes if (found := aliases.argument_of(node)) is not None}
        bases = aliases.bases([node for node in nodes if node not in held])
        outputs: list[Leaf] = []
        seen: dict[int, int] = {}
        home = home_of(examples.values())
        for path, node in zip(self.call.output_paths(), given, strict=True):
            if not isinstance(node, Node):
                outputs.append(Constant(path, node))
            elif is_of_sizes(node.meta["val"]):
                outputs.append(Constant(path, returned_size(node.meta["val"])))
            elif node in held:
                made = output(path, "argument", *held[node], node)
                outputs.append(with_first(made, aliases.identity(node), seen, len(outputs)))
            else:
                base, view = bases[node]
                if base not in returned:
                    device = elsewhere(base.meta["val"].device, home)
                    results.append(Result(len(results), base.name, "output", device=device))
                    returned.append(base)
                made = output(path, "result", returned.index(base), view, node)
                made = replace(made, is_number=node in self.call.numbers)
                outputs.append(with_first(made, aliases.identity(node), seen, len(outputs)))
        return results, outputs, returned


def elsewhere(device: torch.device, home: torch.device | None) -> str | None:
    """The device of a result, unless it is that of the tensors that the program was called with."""
    return None if device == home or device.type == "meta" else str(device)


def with_first(made: Output, identity: int, seen: dict[int, int], number: int) -> Output:
    """
    Output `number`, which says that it is an output before it if that is the very object and would
    be made anew. `seen` has the first output of each identity.
    """
    first = seen.setdefault(identity, number)
    anew = made.view is not None or made.is_complex
    return replace(made, same=first) if anew and first != number else made


def argument_attributes(
    argument: Argument, bounds: Bounds | None, drawn: Size | int
) -> DictionaryAttr:
    attributes: dict[str, Attribute] = {
        "dlc.name": StringAttr(argument.name),
        "dlc.kind": StringAttr(argument.kind),
    }
    if argument.kind == "random":
        attributes[DRAWS] = number_attribute(drawn)
    guard = argument.guard
    shape: Sequence[Size | int] = guard.shape
    strides: Sequence[Size | int] = guard.strides
    if isinstance(guard, SizedGuard):
        shape, strides = guard.extents, guard.steps
    packed = is_packed(shape, strides)
    if guard.dtype.is_complex:
        attributes[DTYPE] = StringAttr(str(guard.dtype).removeprefix("torch."))
        strides = strides_of_pairs(strides)
    if not packed:
        attributes["dlc.strides"] = numbers_attribute(strides)
    if guard.align < WIDEST_ACCESS:
        attributes["dlc.align"] = IntegerAttr(guard.align, i64)
    if bounds is not None:
        attributes["dlc.bounds"] = numbers_attribute(bounds)
    return DictionaryAttr(attributes)


def result_attributes(result: Result, node: Node) -> DictionaryAttr:
    attributes: dict[str, Attribute] = {}
    value: torch.Tensor = node.meta["val"]
    shape, strides = sizes_of(value.shape), sizes_of(value.stride())
    packed = is_packed(shape, strides)
    if value.is_complex():
        attributes[DTYPE] = StringAttr(str(value.dtype).removeprefix("torch."))
        strides = strides_of_pairs(strides)
    if result.argument is not None:
        attributes[MUTATES] = IntegerAttr(result.argument, i64)
    elif not packed:
        attributes["dlc.strides"] = numbers_attribute(strides)
    return DictionaryAttr(attributes)


def returned_size(value: object) -> object:
    """A number that the user gets and that is a size; UnsupportedError for another of sizes."""
    if isinstance(value, torch.SymInt):
        return size_of(value)
    reason = f"it returns {value}, which is no integer, computed from sizes"
    raise UnsupportedError([(reason, None)])
