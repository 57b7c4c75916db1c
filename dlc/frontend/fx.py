"""Import: a PyTorch module or function and example arguments, exported, as Torch IR."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.export.graph_signature import InputSpec
from torch.fx import Node
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_map_only, tree_unflatten
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from dlc.dialects.user_outputs import (
    DTYPE,
    MUTATES,
    OUTPUTS,
    Constant,
    Leaf,
    attribute_of,
    plain_outputs,
)
from dlc.frontend.alias import AliasAnalysis
from dlc.frontend.ambient import FLAGS, Ambient
from dlc.frontend.calls import Calls, canonical_call, signature_of
from dlc.frontend.control_flow import ProgramImporter
from dlc.frontend.draws import STATE, fresh_state
from dlc.frontend.exclusive import exclusive
from dlc.frontend.free_variables import FreeVariables
from dlc.frontend.function_module import FunctionModule
from dlc.frontend.guard import Guard
from dlc.frontend.held_tensors import Held
from dlc.frontend.imported import (
    Argument,
    ImportedProgram,
    Kind,
    Result,
)
from dlc.frontend.index_bounds import Bounds, index_bounds
from dlc.frontend.module_attributes import (
    ModuleAttributes,
    recorded_attributes,
    unseen_bodies,
)
from dlc.frontend.nodes import Unrepresentable, Values, name_hint, tensor_type
from dlc.frontend.pairs import (
    converted,
    main_type,
    output,
    resolved,
    strides_of_pairs,
)
from dlc.frontend.questions import Questions
from dlc.frontend.source import ImportFailure, Place, UnsupportedError
from dlc.frontend.torch_export import export
from dlc.target import WIDEST_ACCESS

DRAWS = "dlc.draws"
KINDS: Mapping[str, Kind] = {
    "PARAMETER": "parameter",
    "BUFFER": "buffer",
    "CONSTANT_TENSOR": "constant",
}


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
    shown_as = sources or {}
    signature = signature_of(module)
    args, kwargs = tree_map_only(torch.Tensor, resolved, (args, kwargs))
    args, kwargs = canonical_call(signature, args, kwargs)
    check_layouts(signature, args, kwargs)
    root = module if isinstance(module, torch.nn.Module) else FunctionModule(module)
    followed = root.tensors.values() if isinstance(root, FunctionModule) else ()
    free = FreeVariables(module, followed)
    with (
        exclusive(),
        exporting,
        recorded_attributes(free.reach_method) as attributes,
        unseen_bodies(root, attributes),
    ):
        with Questions() as questions:
            exported = export(root, args, kwargs, shown_as, whole)
            questions.asked |= {name for name, flag in FLAGS.items() if free.reads(flag.ask)}
            if questions.for_gradients:
                exported = export(root, args, kwargs, shown_as, whole, gradients=True)
        free.check_unchanged()
    importer = _Importer(
        root, module, exported, Calls(signature), args, kwargs, shown_as, attributes
    )
    importer.questions, importer.free = questions, free
    return importer.run()


class _Importer:
    """Assembles an ImportedProgram from an exported one."""

    def __init__(
        self,
        root: torch.nn.Module,
        eager: Callable[..., Any],
        exported: torch.export.ExportedProgram,
        calls: Calls,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        shown_as: Mapping[str, str],
        attributes: ModuleAttributes,
    ):
        self.attributes = attributes
        self.questions = Questions()
        self.free = FreeVariables()
        self.root, self.eager, self.exported, self.calls = root, eager, exported, calls
        self.leaves, self.input_spec = calls.flatten(args, kwargs)
        self.leaf_names = leaf_names(calls.signature, args, kwargs)
        self.shown_as = shown_as
        graph = exported.graph_module.graph
        self.nodes = {node.name: node for node in graph.nodes}
        self.compute = [n for n in graph.nodes if n.op not in ("placeholder", "output", "get_attr")]
        (returned,) = graph.find_nodes(op="output")[0].args
        self.returned: Sequence[Any] = returned
        self.arguments: list[Argument] = []
        self.constants: dict[int, object] = {}
        self.places = places_of(root)
        self.holders: dict[Node, int] = {}
        """The nodes that hold an argument: its placeholder, and the value it is left with."""

    def run(self) -> ImportedProgram:
        self.collect_arguments()
        examples = {a.index: self.example(a) for a in self.arguments}
        types = self.argument_types(examples)
        block = Block(arg_types=types)
        values: dict[Node, Values] = dict(zip(self.holders, block.args, strict=True))
        for node, argument, value in zip(self.holders, self.arguments, block.args, strict=True):
            value.name_hint = name_hint(argument.name)
            if argument.guard.dtype.is_complex:
                type = tensor_type(examples[argument.index])
                values[node] = converted(block, value, "view_as_complex.default", type)
        importer = ProgramImporter(block, values, self.shown_as)
        importer.run(self.compute)
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
            input_spec=self.input_spec,
            constants=self.constants,
            calls=self.calls,
            eager=self.eager,
            attributes=self.attributes,
            ambient=Ambient.now(sorted(self.questions.asked)),
            free=self.free,
            root=self.root,
        )
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

    def collect_arguments(self) -> None:
        """Inputs in the order of the call, then what the module holds, by first use."""
        specs = self.exported.graph_signature.input_specs
        inputs = [spec for spec in specs if spec.kind.name == "USER_INPUT"]
        if len(inputs) != len(self.leaves):
            raise ImportFailure(
                f"torch.export found {len(inputs)} inputs in a call with {len(self.leaves)}; "
                "pass tensors, numbers and containers of them"
            )
        for leaf, spec in enumerate(inputs):
            value = self.leaves[leaf]
            if isinstance(value, torch.Tensor):
                self.add_argument(spec, self.leaf_names[leaf], "input", value, leaf)
            else:
                self.constants[leaf] = value
        held = {spec.arg.name: spec for spec in specs if spec.kind.name in KINDS}
        for node in [n for user in self.compute for n in user.all_input_nodes] + [
            *(node for node in self.returned if isinstance(node, Node)),
            *(self.nodes[name] for name in held if self.is_mutated(held[name])),
        ]:
            if (spec := held.pop(node.name, None)) is not None:
                assert spec.target is not None
                fetch = self.fetcher(spec.target)
                tensor = fetch()
                assert tensor is not None
                kind = KINDS[spec.kind.name]
                self.add_argument(spec, spec.target, kind, tensor, None, fetch)

    def add_argument(
        self,
        spec: InputSpec,
        name: str,
        kind: Kind,
        tensor: torch.Tensor,
        leaf: int | None,
        fetch: Callable[[], torch.Tensor | None] | None = None,
    ) -> None:
        index, guard = len(self.arguments), Guard.of(tensor, self.questions.for_gradients)
        self.arguments.append(Argument(index, name, kind, guard, leaf, fetch))
        self.holders[self.nodes[spec.arg.name]] = index

    def is_mutated(self, spec: InputSpec) -> bool:
        outputs = self.exported.graph_signature.output_specs
        return any(o.kind.name != "USER_OUTPUT" and o.target == spec.target for o in outputs)

    def fetcher(self, name: str) -> Callable[[], torch.Tensor | None]:
        """Finds the module's tensor of that qualified name, or the constant that export made."""
        prefix, _, leaf = name.rpartition(".")
        try:
            owner = self.root.get_submodule(prefix)
        except AttributeError:
            owner = None
        if owner is not None and isinstance(getattr(owner, leaf, None), torch.Tensor):
            return Held(self.places.get(id(getattr(owner, leaf)), ((owner, leaf),)))
        constant = self.exported.constants[name]
        assert isinstance(constant, torch.Tensor)
        return lambda: constant

    def example(self, argument: Argument) -> torch.Tensor:
        if argument.leaf is not None:
            return self.leaves[argument.leaf]
        assert argument.tensor is not None
        return argument.tensor

    def collect_results(
        self, examples: Mapping[int, torch.Tensor]
    ) -> tuple[list[Result], list[Leaf], list[Node]]:
        """`@main`'s results and their nodes, and how the user's output is made of them."""
        results: list[Result] = []
        returned: list[Node] = []
        written: dict[Node, int] = {}
        by_name = {a.name: a.index for a in self.arguments if a.kind != "input"}
        specs = self.exported.graph_signature.output_specs
        for spec, node in zip(specs, self.returned, strict=True):
            if spec.kind.name == "USER_OUTPUT":
                continue
            assert spec.target is not None
            if spec.kind.name == "USER_INPUT_MUTATION":
                index = self.holders[self.nodes[spec.target]]
            else:
                index = by_name[spec.target]
            name = self.arguments[index].name
            results.append(Result(len(results), name, "mutation", index))
            returned.append(node)
            written[node] = index
        aliases = AliasAnalysis(self.holders | written, examples)
        pairs = zip(specs, self.returned, strict=True)
        given = [node for spec, node in pairs if spec.kind.name == "USER_OUTPUT"]
        nodes = [node for node in given if isinstance(node, Node)]
        held = {node: found for node in nodes if (found := aliases.argument_of(node)) is not None}
        bases = aliases.bases([node for node in nodes if node not in held])
        outputs: list[Leaf] = []
        for path, node in zip(self.output_paths(), given, strict=True):
            if not isinstance(node, Node):
                outputs.append(Constant(path, node))
            elif node in held:
                outputs.append(output(path, "argument", *held[node], node))
            else:
                base, view = bases[node]
                if base not in returned:
                    results.append(Result(len(results), base.name, "output"))
                    returned.append(base)
                outputs.append(output(path, "result", returned.index(base), view, node))
        return results, outputs, returned

    def output_paths(self) -> list[str]:
        """Where each leaf stands in the user's output; `0` if that is a tensor."""
        spec = self.exported.call_spec.out_spec
        assert spec is not None
        paths, _ = tree_flatten_with_path(tree_unflatten(range(spec.num_leaves), spec))
        return [".".join(_key(key) for key in path) or "0" for path, _ in paths]


def places_of(root: torch.nn.Module) -> dict[int, tuple[tuple[torch.nn.Module, str], ...]]:
    """The modules and names where each tensor of a module is, by the identity of the tensor."""
    places: dict[int, tuple[tuple[torch.nn.Module, str], ...]] = {}
    for module in root.modules():
        for names in (module._parameters, module._buffers, vars(module)):
            for name, value in names.items():
                if isinstance(value, torch.Tensor):
                    places[id(value)] = (*places.get(id(value), ()), (module, name))
    return places


def argument_attributes(argument: Argument, bounds: Bounds | None, drawn: int) -> DictionaryAttr:
    attributes: dict[str, Attribute] = {
        "dlc.name": StringAttr(argument.name),
        "dlc.kind": StringAttr(argument.kind),
    }
    if argument.kind == "random":
        attributes[DRAWS] = IntegerAttr(drawn, i64)
    guard = argument.guard
    strides = guard.strides
    if guard.dtype.is_complex:
        attributes[DTYPE] = StringAttr(str(guard.dtype).removeprefix("torch."))
        strides = strides_of_pairs(strides)
    if not _is_contiguous(guard.shape, guard.strides):
        attributes["dlc.strides"] = DenseArrayBase.from_list(i64, list(strides))
    if guard.align < WIDEST_ACCESS:
        attributes["dlc.align"] = IntegerAttr(guard.align, i64)
    if bounds is not None:
        attributes["dlc.bounds"] = DenseArrayBase.from_list(i64, list(bounds))
    return DictionaryAttr(attributes)


def result_attributes(result: Result, node: Node) -> DictionaryAttr:
    attributes: dict[str, Attribute] = {}
    value: torch.Tensor = node.meta["val"]
    strides = value.stride()
    if value.is_complex():
        attributes[DTYPE] = StringAttr(str(value.dtype).removeprefix("torch."))
        strides = strides_of_pairs(strides)
    if result.argument is not None:
        attributes[MUTATES] = IntegerAttr(result.argument, i64)
    elif not _is_contiguous(tuple(value.shape), value.stride()):
        attributes["dlc.strides"] = DenseArrayBase.from_list(i64, list(strides))
    return DictionaryAttr(attributes)


def _is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True if elements are in row-major order without gaps; strides of extents 0 and 1 are free."""
    if 0 in shape:
        return True
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


def check_layouts(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """ImportFailure for a tensor whose memory holds more than its elements, at strides."""
    for leaf, value in enumerate(tree_leaves((args, kwargs))):
        if not isinstance(value, torch.Tensor):
            continue
        kind, dense = str(value.layout), "to_dense()"
        if value.is_nested:
            kind, dense = "nested", "to_padded_tensor(0)"
        elif value.is_quantized:
            kind, dense = "quantized", "dequantize()"
        elif value.layout is torch.strided:
            continue
        name = leaf_names(signature, args, kwargs)[leaf]
        raise ImportFailure(
            f"argument '{name}' is {kind}, expected a dense tensor; give {dense} of it"
        )


def leaf_names(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[str]:
    """A name for every leaf of a call: the parameter, and the path within a container."""
    arguments = signature.bind(*args, **kwargs).arguments
    named: dict[str, Any] = {}
    for name, value in arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        else:
            named[name] = value
    paths, _ = tree_flatten_with_path(named)
    return [".".join(_key(key) for key in path) for path, _ in paths]


def _key(key: Any) -> str:
    """One step of a path: of a mapping, a sequence or an object."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)
