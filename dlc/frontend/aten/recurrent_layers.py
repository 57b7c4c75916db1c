"""
Recurrent layers (`nn.LSTM`, `GRU`, `RNN`) in an export: whole, whatever the length.

PyTorch would run the decomposition of one, step by step, even where only the shapes of its results
are asked for; and an export keeps it whole only in its eval mode.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._decomp import decomposition_table
from torch._ops import OperatorBase, OpOverload
from torch.fx import Node
from torch.nn import functional as F

from dlc.frontend.aten.overloads import bind_arguments
from dlc.frontend.source import ImportFailure

aten = torch.ops.aten

LAYERS: tuple[OpOverload, ...] = (
    aten.lstm.input,
    aten.gru.input,
    aten.rnn_tanh.input,
    aten.rnn_relu.input,
)
PACKED: tuple[OpOverload, ...] = (
    aten.lstm.data,
    aten.gru.data,
    aten.rnn_tanh.data,
    aten.rnn_relu.data,
)
"""The same of a PackedSequence."""
OWN_KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)
"""Where PyTorch's decompositions of them stand."""


class EmptySequence(ImportFailure, RuntimeError):
    """A recurrent layer has no step."""


def shapes(
    input: Tensor,
    hx: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """Tensors like the results of a layer: the states of all steps, and those after the last."""
    states = [hx] if isinstance(hx, Tensor) else hx
    steps = input.shape[1 if batch_first else 0]
    if steps == 0:
        raise EmptySequence("Expected sequence length to be larger than 0 in RNN")
    width = states[0].shape[2] * (2 if bidirectional else 1)
    # In memory, steps come first.
    order = input.transpose(0, 1) if batch_first else input
    result = input.new_empty((*order.shape[:2], width))
    return (
        result.transpose(0, 1) if batch_first else result,
        *(torch.empty_like(s) for s in states),
    )


def packed(*args: Any, **kwargs: Any) -> Any:
    """A recurrent layer of a PackedSequence: ImportFailure."""
    raise ImportFailure(
        "a recurrent layer is given a PackedSequence, whose steps have sizes that depend on data, "
        "expected a tensor; give the padded one, and use torch.where beyond each length"
    )


@contextmanager
def shapes_only(whole: Container[str] | None) -> Iterator[None]:
    """Within it, stand-ins go through the recurrent layers that stay whole in one step."""
    layers = [op for op in LAYERS if whole is None or str(op).removeprefix("aten.") in whole]
    instead = dict.fromkeys(layers, shapes) | dict.fromkeys(PACKED, packed)
    saved = {layer: (dict(layer.py_kernels), decomposition_table[layer]) for layer in instead}
    try:
        for layer, function in instead.items():
            decomposition_table[layer] = function
            for key in OWN_KEYS:
                layer.py_kernels[key] = function
            layer._dispatch_cache.clear()
        yield
    finally:
        for layer, (kernels, decomposition) in saved.items():
            decomposition_table[layer] = decomposition
            layer.py_kernels.clear()
            layer.py_kernels.update(kernels)
            layer._dispatch_cache.clear()


def dropping(
    op: Callable[..., tuple[Tensor, ...]],
    input: Tensor,
    hx: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Layers with dropout between them, one by one; others stay whole."""
    if not train or not dropout or num_layers == 1:
        return NotImplemented
    states = [hx] if isinstance(hx, Tensor) else list(hx)
    count, of_layer = 2 if bidirectional else 1, len(params) // num_layers
    last: list[tuple[Tensor, ...]] = []
    for layer in range(num_layers):
        own = [state[layer * count : (layer + 1) * count] for state in states]
        given = own[0] if isinstance(hx, Tensor) else own
        weights = params[layer * of_layer : (layer + 1) * of_layer]
        options = has_biases, 1, 0.0, train, bidirectional, batch_first
        input, *after = op(input, given, weights, *options)
        last.append(tuple(after))
        if layer < num_layers - 1:
            input = F.dropout(input, dropout, True)
    return input, *(torch.cat(state) for state in zip(*last, strict=True))


def is_dropping(node: Node) -> bool:
    """True if a node is of layers with dropout between them."""
    if node.target not in LAYERS:
        return False
    given = bind_arguments(node)
    return given["train"] and given["dropout"] > 0 and given["num_layers"] > 1


RECURRENT: Mapping[OperatorBase, Callable[..., object]] = {
    layer: partial(dropping, layer) for layer in LAYERS
}
"""Functions for operations, as `run_decompositions` takes them."""
