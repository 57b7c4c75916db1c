"""
An exported graph, taken apart into operations that dlc lowers, by its own functions and PyTorch's.

Most graphs need it not (`dlc/frontend/aten/taken_apart.py`), nor the import of what is here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OperatorBase, OpOverload
from torch.export import exported_program
from torch.fx import GraphModule, Node

from dlc.frontend.aten.bags import BAGS
from dlc.frontend.aten.beside_aten import beside_aten
from dlc.frontend.aten.composed import COMPOSED
from dlc.frontend.aten.counting import COUNTING
from dlc.frontend.aten.derivatives import DERIVATIVES
from dlc.frontend.aten.digits import DIGITS
from dlc.frontend.aten.distinct_operands import make_operands_distinct
from dlc.frontend.aten.draws import DRAWS
from dlc.frontend.aten.factorizations import FACTORIZATIONS
from dlc.frontend.aten.fast_paths import FAST_PATHS
from dlc.frontend.aten.filled_views import keep_layouts
from dlc.frontend.aten.flexible_attention import take_attention_apart
from dlc.frontend.aten.fourier import FOURIER
from dlc.frontend.aten.fractional import FRACTIONAL
from dlc.frontend.aten.fused_attention import ATTENTION
from dlc.frontend.aten.margins import margins_of_eager
from dlc.frontend.aten.overlapping import OVERLAPPING
from dlc.frontend.aten.recurrent_layers import RECURRENT
from dlc.frontend.aten.resampling import RESAMPLING
from dlc.frontend.aten.strided import STRIDED
from dlc.frontend.aten.subscripts import at_tensors
from dlc.frontend.aten.taken_apart import is_in_training, overload_name
from dlc.frontend.source import ImportFailure


def take_apart(
    exported: torch.export.ExportedProgram, whole: Container[str] | None
) -> torch.export.ExportedProgram:
    """
    The graph without the operations that are not in `whole`, as far as there are functions for
    them; PyTorch traces all of it anew. ImportFailure where a result would be of another type.
    """
    take_attention_apart(exported.graph_module)
    make_operands_distinct(exported.graph_module)
    keep_layouts(exported.graph)
    with margins_of_eager(), _kept_whole(exported, whole):
        before = _result_types(exported)
        exported = exported.run_decompositions(decompositions(whole))
        _check_results(before, _result_types(exported))
        at_tensors(exported.graph)
        return exported


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


BEYOND_CORE = re.compile(
    r"_?upsample_\w+|lstm|gru|rnn_(relu|tanh)|_?native_batch_norm(_legit)?(_functional)?"
    r"|_batch_norm_(no_update|with_update(_functional)?)|batch_norm_backward"
    r"|max_pool2d_with_indices_backward"
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
    table[torch.ops.prims.scalar_tensor.default] = torch.ops.aten.scalar_tensor.default
    # Dynamo writes addcmul_ and addcdiv_ with a primitive of Inductor's, known once it is imported.
    if fma := getattr(torch.ops.prims, "fma", None):
        table[fma.default] = lambda a, b, c: a * b + c
    return table


def _own() -> dict[OperatorBase, Callable[..., Any]]:
    """dlc's functions for ATen overloads, which go before PyTorch's."""
    first = (FAST_PATHS, COMPOSED, BAGS, COUNTING, DIGITS, FOURIER, FRACTIONAL, DRAWS)
    tables = (*first, ATTENTION, DERIVATIVES, OVERLAPPING, RESAMPLING, STRIDED, RECURRENT)
    return {op: function for table in (*tables, FACTORIZATIONS) for op, function in table.items()}


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
    used = {n.target for n in nodes} - {n.target for n in nodes if is_in_training(n)}

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
