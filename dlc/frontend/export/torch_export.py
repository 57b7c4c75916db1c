"""torch.export of a module or function: a functional ATen graph with lines of the source."""

from __future__ import annotations

import inspect
import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter
from torch.fx.traceback import preserve_node_meta
from torch.utils._pytree import tree_leaves, tree_map_only

from dlc.diagnostics import with_hint
from dlc.frontend.aten.copied import CopiedTogether, copies_of_tensors
from dlc.frontend.aten.draws import OwnGenerator
from dlc.frontend.aten.failed_operations import (
    modules_left_on_failure,
    transforms_left_on_failure,
)
from dlc.frontend.aten.numbers_of_data import MATH, ValueNeeded, functions_of_numbers
from dlc.frontend.aten.optimizer_steps import StepsOptimizer, no_optimizer_steps
from dlc.frontend.aten.recurrent_layers import shapes_only
from dlc.frontend.aten.storages import counted_from_storage
from dlc.frontend.aten.strided import NotRowMajor
from dlc.frontend.aten.taken_apart import is_taken_apart
from dlc.frontend.aten.unchecked import Unchecked
from dlc.frontend.aten.unchecked_factors import unchecked_factors
from dlc.frontend.aten.written_views import check_writes
from dlc.frontend.export.eager_errors import as_raised, check_types
from dlc.frontend.export.returned_texts import check_texts
from dlc.frontend.source import (
    GRADIENTS,
    ImportFailure,
    Place,
    all_frames_recorded,
    place_of,
    place_of_traceback,
)
from dlc.frontend.state.error_hints import closest_name, device_hint
from dlc.frontend.state.questions import Questions


def export(
    root: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shown_as: Mapping[str, str],
    questions: Questions,
    whole: Container[str] | None = None,
    *,
    gradients: bool = False,
    dynamic_shapes: Any = None,
) -> torch.export.ExportedProgram:
    """
    The functional ATen graph of a call. The overloads in `whole` (`rms_norm.default`; all of them
    if it is None) are kept, PyTorch's decompositions take apart the others as far as it has any.
    With `gradients` the program finds them recorded and required as they are; else nowhere. Which
    numbers of the call are symbols is said in `dynamic_shapes` as to `torch.export.export`; what
    the graph asks of its arguments' memory is noted in `questions`.
    """
    # Export would take a tensor that is passed twice for one argument: each gets its own object.
    apart = _apart if gradients else torch.Tensor.detach
    args, kwargs = tree_map_only(torch.Tensor, apart, (args, kwargs))
    with ExitStack() as stack:
        if not gradients:
            stack.enter_context(torch.no_grad())
            held = (*root.parameters(), *root.buffers(), *tree_leaves((args, kwargs)))
            if any(isinstance(t, torch.Tensor) and t.is_inference() for t in held):
                stack.enter_context(torch.inference_mode())  # in which alone they may change
        stack.enter_context(_quiet())
        stack.enter_context(Unchecked())
        stack.enter_context(functions_of_numbers())
        stack.enter_context(copies_of_tensors())
        stack.enter_context(unchecked_factors())
        stack.enter_context(no_optimizer_steps())
        stack.enter_context(modules_left_on_failure())
        stack.enter_context(transforms_left_on_failure())
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
            check_texts(exported)
            questions.storages |= counted_from_storage(exported.graph, shown_as)
            if is_taken_apart(exported, whole):
                return exported
            check_types(exported.graph, whole, shown_as)
            from dlc.frontend.aten.decomposing import take_apart  # with a table for each kind

            return take_apart(exported, whole)
        except ImportFailure:
            raise
        except Exception as error:
            place = place_of_failure(error, shown_as)
            message = explain(error, place.text if place else "")
            plain = message.startswith(RAISES)
            failure = as_raised(error, message, place) if plain else ImportFailure(message, place)
            named = isinstance(error, AttributeError)
            hint = closest_name(error) if named else device_hint(error)
            raise with_hint(failure, hint) from error


def place_of_failure(error: Exception, shown_as: Mapping[str, str]) -> Place | None:
    """Where the program failed; where an operation of its graph did, the line of that."""
    _, _, traced = str(error).partition("\nOriginal traceback:\n")
    return (
        place_of(traced, shown_as) if traced else place_of_traceback(error.__traceback__, shown_as)
    )


def _apart(tensor: torch.Tensor) -> torch.Tensor:
    """A leaf with these elements, which requires a gradient if they do."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def explain(error: Exception, line: str = "") -> str:
    """One sentence for what PyTorch raised while it exported a program, at a line of it."""
    text = str(error)
    if isinstance(error, (NotRowMajor, OwnGenerator, CopiedTogether, ValueNeeded, StepsOptimizer)):
        return text.splitlines()[0]
    kind = type(error).__name__
    if found := re.match("Unsupported input type <class '(.*?)'>", text):
        instead = "keep it outside of the arguments, as in lambda x: f(x, it), or give list(it)"
        if found[1] == "numpy.ndarray":
            instead = "give torch.from_numpy(it)"
        return (
            f"an argument holds an object of the class {found[1]}, expected tensors, numbers, "
            f"strings, None, and lists, tuples and dicts of these; {instead}"
        )
    if found := re.match("Found <class '(.*?)'> in output, which is not a known type", text):
        return (
            f"the program gives an object of the class {found[1]}, expected tensors, numbers, "
            "strings, None, and lists, tuples and dicts of these; return what it holds, as in "
            "it.total"
        )
    if found := re.search(r"Constant (\S+) is mutated in the forward", text):
        return (
            f"the program changes '{found[1]}', a tensor that is neither an argument of it nor a "
            "buffer: its kernels would not; pass it, register it as a buffer of the module, or "
            "change a clone of it"
        )
    frames = traceback.extract_tb(error.__traceback__)
    for pattern, sentence in SENTENCES:
        if re.search(pattern, f"{kind}: {text}, in {frames[-1].name if frames else None}"):
            of_values = (said for word, said in OF_VALUES if re.search(word, line))
            return next(of_values, sentence) if sentence == BRANCHES else sentence
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    first = first.replace("'FakeTensor' object", "'Tensor' object")  # what stands for it in tracing
    return f"{RAISES}{kind}: {first}"


RAISES = "torch.export cannot trace the program: "
"""The first words about what has no sentence of its own."""


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
        rf"^(?!\s*(if|elif|while)\b).*(?<![.\w])({'|'.join(MATH)})\(",
        "a function of math computes with a number that comes from a tensor; call it by its "
        "module, as math.sqrt(n) in place of sqrt(n), or compute with the tensor itself",
    ),
    (
        r"^(?!\s*(if|elif|while)\b).*\b(float|int|range)\(",
        "the program makes a Python number of a tensor, whose values are not known when it is "
        "compiled; compute with the tensor itself, as x * x.max() in place of x * float(x.max()), "
        "or with x.max().item() and math.trunc(x.max().item()), which stay numbers of the tensor",
    ),
    (
        r"^(?!\s*(if|elif|while)\b).*\bmath\.\w+\(",
        "a function of math computes with a number that comes from a tensor and is none that dlc "
        f"has for these, which are {', '.join(MATH)}, floor, ceil and trunc; compute with the "
        "tensor itself",
    ),
)
"""For the words of a line that needs values of a tensor, what it does with them."""
SENTENCES = (
    (
        "unhashable type: non-nested Sym",
        "the program looks something up by a number that comes from a tensor, whose value is not "
        "known when it is compiled; return the number, and look it up outside of the program",
    ),
    (
        "unsupported format string passed to (Sym|FakeT|FunctionalT)",
        "the program makes a text of a tensor, whose values are not known when it is compiled; "
        "return the tensor or the number, and make the text outside of the program",
    ),
    (
        "does not require grad and does not have a grad_fn",
        GRADIENTS,
    ),
    (
        "^DynamicOutputShapeException",
        "the shape of a tensor depends on its values, expected one shape for all values; use "
        "torch.where in place of a mask that selects, or compute it outside of the program",
    ),
    (
        "argument 'size' failed to unpack the object",
        "the shape of a tensor depends on values, as in packed sequences on lengths, expected "
        "one shape for all values; mask what is behind the ends, or use torch.compile(f, "
        'backend="dlc"), which leaves such parts to PyTorch',
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
        "Creating a new Tensor subclass|Unable to cast NotImplemented to Tensor",
        "the program computes with a tensor of a class of its own, whose operations torch.export "
        'does not follow; give x.as_subclass(torch.Tensor), or use torch.compile(f, backend="dlc")',
    ),
    (
        r"\.numpy\(\) is not supported",
        "the program takes a tensor to NumPy, expected functions of torch only; compute with "
        "torch, or convert outside of the program",
    ),
)
"""What PyTorch's errors say, as patterns for `KIND: TEXT, in FUNCTION`, in terms of the program."""


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
