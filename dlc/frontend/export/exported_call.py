"""
A PyTorch module or function, exported as it is called with example arguments: what `@main` takes.

`dlc/frontend/export/fx.py` makes Torch IR of it. Nothing here needs xDSL, so that a command that
finds the program by `dlc/frontend/export/export_text.py` does without.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputSpec
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_map_only, tree_unflatten

from dlc.frontend.arguments import Argument, Kind, check_overlaps, tensor_of
from dlc.frontend.aten.distinct_operands import is_control_flow
from dlc.frontend.calls import Calls, bound_call, canonical_call, signature_of
from dlc.frontend.exclusive import exclusive
from dlc.frontend.export.fixed_sizes import Fixings, recorded_fixings
from dlc.frontend.export.returned_numbers import returned_numbers
from dlc.frontend.export.torch_export import export
from dlc.frontend.guard import Guard
from dlc.frontend.pairs import pairs_of, resolved
from dlc.frontend.source import ImportFailure, placed_by
from dlc.frontend.state.ambient import FLAGS
from dlc.frontend.state.free_variables import FreeVariables
from dlc.frontend.state.function_module import FunctionModule, root_of
from dlc.frontend.state.given_containers import unchanged_containers
from dlc.frontend.state.held_tensors import Held
from dlc.frontend.state.module_attributes import (
    ModuleAttributes,
    recorded_attributes,
    unseen_bodies,
)
from dlc.frontend.state.questions import Questions
from dlc.frontend.state.tracers import check_class

if TYPE_CHECKING:
    from dlc.frontend.export.dynamic_shapes import Marks
    from dlc.frontend.export.sized_call import SizedCall
    from dlc.ir.sizes import Size

KINDS: Mapping[str, Kind] = {
    "PARAMETER": "parameter",
    "BUFFER": "buffer",
    "CONSTANT_TENSOR": "constant",
}


class ExportedCall:
    """An exported program, the call that it was exported for, and the arguments of its `@main`."""

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
        questions: Questions,
        free: FreeVariables,
        marks: Sequence[Marks] | None = None,
        fixings: Fixings | None = None,
    ) -> None:
        self.attributes = attributes
        """What the code of the modules has read of them."""
        self.questions, self.free = questions, free
        self.root, self.eager, self.exported, self.calls = root, eager, exported, calls
        self.leaves, self.input_spec = calls.flatten(args, kwargs)
        self.leaf_names = leaf_names(calls.signature, args, kwargs)
        self.shown_as = shown_as
        graph = exported.graph_module.graph
        self.numbers = returned_numbers(graph)
        """The tensors whose element the user gets as a number of Python."""
        self.nodes = {node.name: node for node in graph.nodes}
        self.compute = [n for n in graph.nodes if n.op not in ("placeholder", "output", "get_attr")]
        (returned,) = graph.find_nodes(op="output")[0].args
        self.returned: Sequence[Any] = returned
        self.arguments: list[Argument] = []
        self.constants: dict[int, object] = {}
        self.sized_numbers: dict[int, Size] = {}
        """The leaves of the call that are numbers of its sizes."""
        self.places = places_of(root)
        self.holders: dict[Node, int] = {}
        """The nodes that hold an argument: its placeholder, and the value it is left with."""
        self.sizes = self.named_sizes(marks, fixings or {})
        """The sizes that the export is for, unless it is for those of this call alone."""
        self.collect_arguments()

    def named_sizes(self, marks: Sequence[Marks] | None, fixings: Fixings) -> SizedCall | None:
        """The sizes that the user has marked, if any of them may change."""
        if marks is None:
            return None
        from dlc.frontend.export.sized_call import SizedCall  # of programs for many sizes

        values = [self.nodes[spec.arg.name].meta["val"] for spec in self.inputs()]
        given = self.leaves, self.leaf_names, marks, fixings, self.shown_as
        sizes = SizedCall(values, *given)
        return sizes if sizes.symbols else None

    def inputs(self) -> list[InputSpec]:
        """What the export takes for the leaves of the call."""
        specs = self.exported.graph_signature.input_specs
        return [spec for spec in specs if spec.kind.name == "USER_INPUT"]

    def collect_arguments(self) -> None:
        """Inputs in the order of the call, then what the module holds, by first use."""
        specs, inputs = self.exported.graph_signature.input_specs, self.inputs()
        if len(inputs) != len(self.leaves):
            raise ImportFailure(
                f"torch.export found {len(inputs)} inputs in a call with {len(self.leaves)}; "
                "pass tensors, numbers and containers of them"
            )
        for leaf, spec in enumerate(inputs):
            value = self.leaves[leaf]
            seen = self.nodes[spec.arg.name].meta.get("val")
            if isinstance(value, torch.Tensor):
                self.add_argument(spec, self.leaf_names[leaf], "input", value, leaf)
            elif self.sizes is not None and isinstance(seen, torch.SymInt):
                self.sized_numbers[leaf] = self.sizes.number(seen)
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
        index, asked = len(self.arguments), self.questions
        guard = Guard.of(
            tensor,
            gradients=asked.for_gradients,
            devices=asked.for_devices,
            offsets=spec.arg.name in asked.storages,
        )
        if self.sizes is not None and leaf is not None:
            seen = self.nodes[spec.arg.name].meta["val"]
            guard = self.sizes.guard(guard, seen)
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

    def seen(self, argument: Argument) -> torch.Tensor:
        """The same as the export has seen it: its sizes are symbols."""
        if self.sizes is None or argument.leaf is None:
            return self.example(argument)
        return self.nodes[self.inputs()[argument.leaf].arg.name].meta["val"]

    def bind(self, args: Sequence[Any], written: Collection[int]) -> list[torch.Tensor]:
        """
        The tensors of `@main`'s arguments for a call with `args`, where the program writes to those
        that are `written`. ImportFailure as of `ImportedProgram.bind`.
        """
        leaves, _ = self.calls.flatten(args, None)
        bound = [pairs_of(tensor_of(argument, leaves, written)) for argument in self.arguments]
        check_overlaps(self.arguments, written, bound)
        return bound

    def output_paths(self) -> list[str]:
        """Where each leaf stands in the user's output; `0` if that is a tensor."""
        spec = self.exported.call_spec.out_spec
        assert spec is not None
        paths, _ = tree_flatten_with_path(tree_unflatten(range(spec.num_leaves), spec))
        return [".".join(_key(key) for key in path) or "0" for path, _ in paths]


def export_call(
    module: torch.nn.Module | Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    sources: Mapping[str, str] | None = None,
    exporting: AbstractContextManager[object] = nullcontext(),
    whole: Container[str] | None = None,
    dynamic_shapes: Any = None,
) -> ExportedCall:
    """
    Exports `module` (a module in the mode it is in, or a function) as called with `args` and
    `kwargs`. `sources` maps file names of the program's code to the names to be shown in locations;
    `exporting` is entered around PyTorch's own part. ATen overloads that are not in `whole` are
    taken apart where PyTorch can. `dynamic_shapes` marks the numbers of the call that may change.
    ImportFailure where PyTorch cannot export the program.
    """
    shown_as = sources or {}
    signature = signature_of(module)
    args, kwargs = tree_map_only(torch.Tensor, resolved, (args, kwargs))
    bound_call(signature, args, kwargs)
    args, kwargs = canonical_call(signature, args, kwargs)
    check_layouts(signature, args, kwargs)
    root = root_of(module)
    if not isinstance(root, GraphModule):
        for name, value in (*root.named_parameters(), *root.named_buffers(), *vars(root).items()):
            check_class(value, f"'{name}'")
    marks, shapes = None, None
    if dynamic_shapes is not None:
        from dlc.frontend.export.dynamic_shapes import for_export, marks_of  # of such programs

        marks = marks_of(signature, args, kwargs, dynamic_shapes)
        shapes = for_export(root, args, kwargs, marks) if any(marks) else None
    followed = root.tensors.values() if isinstance(root, FunctionModule) else ()
    free = FreeVariables(module, followed)
    with (
        exclusive(),
        placed_by(getattr(module, "place_of", None)),
        exporting,
        recorded_attributes(free.reach_method) as attributes,
        unseen_bodies(root, attributes),
        unchanged_containers(root, signature, args, kwargs),
        recorded_fixings() as fixings,
        free.caches_emptied(),
        root.parameters_as_tensors() if isinstance(root, FunctionModule) else nullcontext(),
        free.unchanged(),
    ):
        with Questions() as questions:
            exported = export(root, args, kwargs, shown_as, questions, whole, dynamic_shapes=shapes)
            questions.asked |= {name for name, flag in FLAGS.items() if free.reads(flag.ask)}
            # Dynamo, which traces bodies, does not tell what these ask.
            questions.for_devices |= any(map(is_control_flow, exported.graph.nodes))
            if questions.for_gradients:
                exported = export(
                    root, args, kwargs, shown_as, questions, whole,
                    gradients=True, dynamic_shapes=shapes,
                )  # fmt: skip
    return ExportedCall(
        root,
        module,
        exported,
        Calls(signature),
        args,
        kwargs,
        shown_as,
        attributes,
        questions,
        free,
        None if shapes is None else marks,
        fixings,
    )


def places_of(root: torch.nn.Module) -> dict[int, tuple[tuple[torch.nn.Module, str], ...]]:
    """The modules and names where each tensor of a module is, by the identity of the tensor."""
    places: dict[int, tuple[tuple[torch.nn.Module, str], ...]] = {}
    for module in root.modules():
        for names in (module._parameters, module._buffers, vars(module)):
            for name, value in names.items():
                if isinstance(value, torch.Tensor):
                    places[id(value)] = (*places.get(id(value), ()), (module, name))
    return places


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
