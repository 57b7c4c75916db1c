"""torch.export of a module or function: a functional ATen graph with lines of the source."""

from __future__ import annotations

import inspect
import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from functools import cache
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OperatorBase, OpOverload
from torch.export import exported_program
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.traceback import preserve_node_meta
from torch.utils._pytree import tree_map_only

from dlc.diagnostics import with_hint
from dlc.frontend.ambient import Ambient
from dlc.frontend.bags import BAGS
from dlc.frontend.beside_aten import beside_aten
from dlc.frontend.composed import COMPOSED
from dlc.frontend.counting import COUNTING
from dlc.frontend.digits import DIGITS
from dlc.frontend.distinct_operands import make_operands_distinct
from dlc.frontend.draws import DRAWS, OwnGenerator
from dlc.frontend.factorizations import FACTORIZATIONS
from dlc.frontend.factorizations.errors import unchecked_factors
from dlc.frontend.fast_paths import FAST_PATHS
from dlc.frontend.filled_views import keep_layouts
from dlc.frontend.flexible_attention import take_attention_apart
from dlc.frontend.fourier import FOURIER
from dlc.frontend.fractional import FRACTIONAL
from dlc.frontend.overlapping import OVERLAPPING
from dlc.frontend.overloads import CHECKED_BY_EXPORT, TO_DEVICE, TO_DTYPE, bind_arguments
from dlc.frontend.parts import closest_name, device_hint
from dlc.frontend.recurrent_layers import RECURRENT, is_dropping, shapes_only
from dlc.frontend.resampling import RESAMPLING
from dlc.frontend.source import ImportFailure, all_frames_recorded, place_of_traceback
from dlc.frontend.strided import STRIDED, NotRowMajor
from dlc.frontend.subscripts import at_tensors
from dlc.frontend.unchecked import Unchecked
from dlc.frontend.written_views import check_writes

LEFT = frozenset(
    (
        CHECKED_BY_EXPORT,
        TO_DEVICE,
        TO_DTYPE,
        torch.ops.aten.contiguous.default,
        torch.ops.aten.reshape.default,
    )
)
"""What PyTorch would take apart, and is as well left whole."""
DROPPING: Mapping[object, str] = {
    torch.ops.aten.dropout.default: "p",
    torch.ops.aten.feature_dropout.default: "p",
    torch.ops.aten.alpha_dropout.default: "p",
    torch.ops.aten.feature_alpha_dropout.default: "p",
    torch.ops.aten.scaled_dot_product_attention.default: "dropout_p",
}
"""What drops elements at random, and the name of the probability."""


def export(
    root: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shown_as: Mapping[str, str],
    whole: Container[str] | None = None,
    *,
    gradients: bool = False,
    dynamic_shapes: Any = None,
) -> torch.export.ExportedProgram:
    """
    The functional ATen graph of a call. The overloads in `whole` (`rms_norm.default`; all of them
    if it is None) are kept, PyTorch's decompositions take apart the others as far as it has any.
    With `gradients` the program finds them recorded and required as they are; else nowhere. Which
    numbers of the call are symbols is said in `dynamic_shapes` as to `torch.export.export`.
    """
    # Export would take a tensor that is passed twice for one argument: each gets its own object.
    apart = _apart if gradients else torch.Tensor.detach
    args, kwargs = tree_map_only(torch.Tensor, apart, (args, kwargs))
    with ExitStack() as stack:
        if not gradients:
            stack.enter_context(torch.no_grad())
        stack.enter_context(_quiet())
        stack.enter_context(Unchecked())
        stack.enter_context(unchecked_factors())
        stack.enter_context(all_frames_recorded())
        stack.enter_context(shapes_only(whole))
        if isinstance(root, GraphModule):
            stack.enter_context(_lines_of_graph(root))
        try:
            exported = torch.export.export(
                root, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False
            )
            for name, inner in exported.graph_module.named_modules():
                if name and isinstance(inner, GraphModule):
                    inner.forward = Interpreter(inner).run  # its nodes' own lines are kept so
            check_writes(exported.graph, shown_as)
            if _is_taken_apart(exported, whole):
                return exported
            take_attention_apart(exported.graph_module)
            make_operands_distinct(exported.graph_module)
            keep_layouts(exported.graph)
            stack.enter_context(_kept_whole(exported, whole))
            before = _result_types(exported)
            exported = exported.run_decompositions(decompositions(whole))
            _check_results(before, _result_types(exported))
            at_tensors(exported.graph)
            return exported
        except ImportFailure:
            raise
        except Exception as error:
            place = place_of_traceback(error.__traceback__, shown_as)
            failure = ImportFailure(explain(error, place.text if place else ""), place)
            named = isinstance(error, AttributeError)
            hint = closest_name(error) if named else device_hint(error)
            raise with_hint(failure, hint) from error


def _result_types(exported: torch.export.ExportedProgram) -> list[tuple[Any, ...] | None]:
    """Shape and dtype of each tensor that a graph gives back; None for what is no tensor."""
    results: Any = exported.graph.output_node().args[0]
    given = (leaf.meta.get("val") if isinstance(leaf, Node) else None for leaf in results)
    return [(*v.shape, v.dtype) if isinstance(v, torch.Tensor) else None for v in given]


def _check_results(before: Sequence[object], after: Sequence[object]) -> None:
    """
    ImportFailure if operations were taken apart into what gives results of other types. What a
    graph leaves in its arguments comes before its results, once it writes to none.
    """
    own = after[len(after) - len(before) :]
    for number, (wanted, found) in enumerate(zip(before, own, strict=False)):
        if wanted is not None and found is not None and wanted != found:
            raise ImportFailure(
                f"result {number} is of an operation that is computed in part only: {wanted} is "
                f"expected, and there is {found}"
            )


def _apart(tensor: torch.Tensor) -> torch.Tensor:
    """A leaf with these elements, which requires a gradient if they do."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _is_taken_apart(exported: torch.export.ExportedProgram, whole: Container[str] | None) -> bool:
    """
    True if a graph is as `run_decompositions` would leave it, but for operations in `LEFT`: so are
    those of most models. Decomposing traces all of it anew, which takes as long as the export,
    and is when autocast takes effect.
    """
    nodes = (node for node in exported.graph.nodes if node.op not in ("placeholder", "output"))
    if whole is None or Ambient.now().autocast:
        return False
    return all(
        node.target in LEFT
        or _is_of_sizes(node)
        or (
            _is_functional(node.target)
            and overload_name(node.target) in whole
            and node.target not in DRAWS
            and not _is_in_training(node)
            and not is_dropping(node)
        )
        for node in nodes
    )


def _is_of_sizes(node: Node) -> bool:
    """True for a number that depends on sizes, of which none depends on data."""
    value = node.meta.get("val")
    return isinstance(value, torch.SymInt) and not free_unbacked_symbols(value)


def _is_in_training(node: Node) -> bool:
    """
    True if an operation draws random numbers, normalizes a batch, or writes to running statistics,
    of which its schema says nothing.
    """
    if (probability := DROPPING.get(node.target)) is not None:
        given = bind_arguments(node)
        return bool(given.get(probability)) and bool(given.get("train", True))
    if node.target is torch.ops.aten.rrelu.default:
        return bool(bind_arguments(node).get("training"))
    if node.target is torch.ops.aten.batch_norm.default:
        return bool(bind_arguments(node)["training"])
    if node.target is torch.ops.aten.instance_norm.default:
        given = bind_arguments(node)
        return bool(given["use_input_stats"]) and given["running_mean"] is not None
    return False


def _is_functional(op: object) -> bool:
    """True if an operation writes to no argument, and is no view that is made of other views."""
    if not isinstance(op, OpOverload) or op._schema.is_mutable:
        return False
    aliases = any(argument.alias_info is not None for argument in op._schema.arguments)
    return not (aliases and op.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd))


def explain(error: Exception, line: str = "") -> str:
    """One sentence for what PyTorch raised while it exported a program, at a line of it."""
    text = str(error)
    if isinstance(error, NotRowMajor | OwnGenerator):
        return text.splitlines()[0]
    kind = type(error).__name__
    if found := re.match("Unsupported input type <class '(.*?)'>", text):
        return (
            f"an argument holds an object of the class {found[1]}, expected tensors, numbers, "
            "strings, None, and lists, tuples and dicts of these; keep it outside of the "
            "arguments, as in lambda x: f(x, it), or give list(it)"
        )
    frames = traceback.extract_tb(error.__traceback__)
    for pattern, sentence in SENTENCES:
        if re.search(pattern, f"{kind}: {text}, in {frames[-1].name if frames else None}"):
            of_values = (said for word, said in OF_VALUES if re.search(word, line))
            return next(of_values, sentence) if sentence == BRANCHES else sentence
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    first = first.replace("'FakeTensor' object", "'Tensor' object")  # what stands for it in tracing
    return f"torch.export cannot trace the program: {kind}: {first}"


BRANCHES = (
    "the program branches on values of a tensor, as if, while and x[flag] of one bool do, "
    "expected one path for all values; use torch.where, or take the branch outside of the program"
)
OF_VALUES = (
    (
        r"^\s*assert\b",
        "the program asserts something of values of a tensor, which are not known when it is "
        "compiled; leave the assert out, or make it outside of the program",
    ),
    (
        r"^(?!\s*(if|elif|while)\b).*\b(float|int|range)\(",
        "the program makes a Python number of a tensor, whose values are not known when it is "
        "compiled; compute with the tensor itself, as x * x.max() in place of x * float(x.max())",
    ),
)
"""For the words of a line that needs values of a tensor, what it does with them."""
SENTENCES = (
    (
        "does not require grad and does not have a grad_fn",
        "the program computes gradients, expected a forward pass; leave backward() and the "
        'optimizer out, or train with torch.compile(model, backend="dlc")',
    ),
    (
        "^DynamicOutputShapeException",
        "the shape of a tensor depends on its values, expected one shape for all values; use "
        "torch.where in place of a mask that selects, or compute it outside of the program",
    ),
    (
        "^PendingUnbackedSymbolNotFound",
        "the shape of a tensor, or the place of what is selected, depends on values in a way that "
        "torch.export does not follow; use torch.where in place of a mask that selects, "
        "x.index_select in place of x[i], or compute it outside of the program",
    ),
    (
        "^DataDependentOutputException|data-dependent|Boolean value of Tensor",
        BRANCHES,
    ),
    (
        r"num_mutated_inp_runtime_indices|Encountered a set_ on a graph input"
        r"|IndexError.* in produce_guards_verbose$",
        "the program gives an argument another shape, strides or memory, as x.t_(), x.resize_(), "
        "x.unsqueeze_(0) and x.set_() do, expected to write to its elements only; write x = x.t() "
        "and the like",
    ),
    (
        "expected compiled_fn to be GraphModule",
        "the program writes to an argument that shares memory with another one, expected memory "
        "of its own; pass a clone of one of them",
    ),
    (
        "found a fake tensor in the exported program constant's list",
        "the program computes with a tensor that torch.export does not follow, as x.data is; use "
        "x.detach(), or compute it outside of the program",
    ),
    (
        "Cannot access data pointer of Tensor that doesn't have storage",
        "torch.export does not follow what the program does with its tensors, such as "
        "torch.func.grad; trace it first: "
        "dlc.compile(torch.fx.experimental.proxy_tensor.make_fx(f)(*args), args)",
    ),
    (
        r"\.numpy\(\) is not supported",
        "the program takes a tensor to NumPy, expected functions of torch only; compute with "
        "torch, or convert outside of the program",
    ),
)
"""What PyTorch's errors say, as patterns for `KIND: TEXT, in FUNCTION`, in terms of the program."""


def overload_name(op: object) -> str:
    """`add.Tensor`, or an empty text for what is no overload of an ATen op."""
    ours = isinstance(op, OpOverload) and op.namespace == "aten"
    return str(op).removeprefix("aten.") if ours else ""


BEYOND_CORE = re.compile(
    r"_?upsample_\w+|lstm|gru|rnn_(relu|tanh)|_?native_batch_norm(_legit)?(_functional)?"
    r"|_batch_norm_(no_update|with_update(_functional)?)|max_pool2d_with_indices_backward"
    r"|grid_sampler_2d|tri[lu]_indices|ldexp|dist|pairwise_distance|renorm"
    r"|special_(ndtr|entr)|hinge_embedding_loss|margin_ranking_loss"
)
"""Operations that PyTorch takes apart on request, though it counts them among the core."""


def decompositions(whole: Container[str] | None) -> dict[OperatorBase, Callable[..., Any]]:
    """PyTorch's functions for the ATen overloads that are not in `whole`, in terms of others."""
    if whole is None:
        return {}
    table = {op: f for name, op, f in _core_decompositions() if name not in whole}
    table |= _own() | beside_aten()
    # What decompositions are written with beside ATen.
    table[torch.ops.prims.convert_element_type.default] = lambda value, dtype: (
        torch.ops.aten._to_copy.default(value, dtype=dtype)
    )
    # Dynamo writes addcmul_ and addcdiv_ with a primitive of Inductor's, known once it is imported.
    if fma := getattr(torch.ops.prims, "fma", None):
        table[fma.default] = lambda a, b, c: a * b + c
    return table


def _own() -> dict[OperatorBase, Callable[..., Any]]:
    """dlc's functions for ATen overloads, which go before PyTorch's."""
    first = (FAST_PATHS, COMPOSED, BAGS, COUNTING, DIGITS, FOURIER, FRACTIONAL, DRAWS)
    tables = (*first, OVERLAPPING, RESAMPLING, STRIDED, RECURRENT, FACTORIZATIONS)
    return {op: function for table in tables for op, function in table.items()}


@cache
def _core_decompositions() -> list[tuple[str, OperatorBase, Callable[..., Any]]]:
    """Name, operation and decomposition of each ATen overload that has one."""
    core = dict(core_aten_decompositions())
    for op, function in decomposition_table.items():
        if BEYOND_CORE.fullmatch(overload_name(op).partition(".")[0]):
            core[op] = function
    return [(name, op, f) for op, f in core.items() if (name := overload_name(op))]


@contextmanager
def _kept_whole(
    exported: torch.export.ExportedProgram, whole: Container[str] | None
) -> Iterator[None]:
    """
    Makes PyTorch keep the composite operations of this program that are in `whole`, and take others
    apart by dlc's functions. Left alone, it overrides all that it knows, some 600, which takes most
    of the time of an export; so it is where it has none of the functions that say which they are.
    """
    try:
        from torch._export.utils import _is_preservable_cia_op, _special_op_to_preserve_cia

        original = exported_program._split_decomp_table_to_cia_and_python_decomp
    except (ImportError, AttributeError):
        yield
        return
    modules = (m for m in exported.graph_module.modules() if isinstance(m, GraphModule))
    nodes = [node for module in modules for node in module.graph.nodes]
    own = _own()
    used = {n.target for n in nodes} - {n.target for n in nodes if _is_in_training(n)}

    def split(table: dict[Any, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
        composite = [op for op in used if isinstance(op, OpOverload) and _is_preservable_cia_op(op)]
        apart = {op: own[op] for op in composite if op in own}
        kept = (op for op in composite if whole is None or overload_name(op) in whole)
        return apart | dict.fromkeys(kept, _special_op_to_preserve_cia), table

    exported_program._split_decomp_table_to_cia_and_python_decomp = split
    try:
        yield
    finally:
        exported_program._split_decomp_table_to_cia_and_python_decomp = original


@contextmanager
def _quiet() -> Iterator[None]:
    """Holds back what PyTorch logs and prints while it fails; the error says what matters."""
    saved = logging.root.manager.disable
    logging.disable(logging.ERROR)
    held = io.StringIO()
    try:
        with redirect_stderr(held), warnings.catch_warnings():
            # PyTorch deprecates what its own export still uses.
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            # Recurrent layers hold their parameters in a list, too, which PyTorch takes for
            # tensors that the program assigns.
            warnings.filterwarnings("ignore", r"The tensor attributes? (\S*_flat_weights\S*,? )+w")
            yield
        sys.stderr.write(held.getvalue())
    finally:
        logging.disable(saved)


@contextmanager
def _lines_of_graph(graph: GraphModule) -> Iterator[None]:
    """Runs an FX graph node by node, so that operations get the lines that its nodes know."""

    def forward(*args: Any) -> Any:
        with preserve_node_meta():
            return Interpreter(graph).run(*args)

    forward.__signature__ = inspect.signature(graph.forward)  # type: ignore[attr-defined]
    graph.forward = forward
    try:
        yield
    finally:
        del graph.forward
