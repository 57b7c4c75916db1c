"""
Recurrent layers: each is a loop over the steps of its sequence, `flow.for`.

What a step computes of the input is a product for all steps at once, before the loop. Both
directions of a layer are steps of one loop, so a step is as few launches as one direction takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from dlc.dialects.layouts import shape_of
from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.products import contract
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.shape import concatenated

Values = Sequence[SSAValue]


@dataclass(frozen=True)
class Cell:
    """What a step makes of its gates, which are [direction, row of the batch, unit] each."""

    gates: int
    step: Callable[[Lowering, Values, Values, Values], list[SSAValue]]
    """The next states, of the products of the input, those of the state, and the states."""


@dataclass(frozen=True)
class Layer:
    """The weights of a layer, one for each direction."""

    input: Values
    state: Values
    input_bias: Values
    state_bias: Values
    projection: Values


def lstm_step(c: Lowering, given: Values, own: Values, states: Values) -> list[SSAValue]:
    def memory(*scalars: Scalar) -> Scalar:
        i, f, g = (x + y for x, y in zip(scalars[:3], scalars[3:6], strict=True))
        return s.sigmoid(f) * scalars[6] + s.sigmoid(i) * s.tanh(g)

    shape = shape_of(states[1])
    cell = c.elementwise(memory, *given[:3], *own[:3], states[1], shape=shape, hint="c")
    hidden = c.elementwise(
        lambda x, y, z: s.sigmoid(x + y) * s.tanh(z), given[3], own[3], cell, shape=shape, hint="h"
    )
    return [hidden, cell]


def gru_step(c: Lowering, given: Values, own: Values, states: Values) -> list[SSAValue]:
    def hidden(*scalars: Scalar) -> Scalar:
        (r, z, n), (own_r, own_z, own_n), h = scalars[:3], scalars[3:6], scalars[6]
        new = s.tanh(n + s.sigmoid(r + own_r) * own_n)
        return new + s.sigmoid(z + own_z) * (h - new)

    shape = shape_of(states[0])
    return [c.elementwise(hidden, *given, *own, states[0], shape=shape, hint="h")]


def plain_step(
    function: Callable[[Scalar], Scalar],
) -> Callable[[Lowering, Values, Values, Values], list[SSAValue]]:
    def step(c: Lowering, given: Values, own: Values, states: Values) -> list[SSAValue]:
        shape = shape_of(states[0])
        return [
            c.elementwise(lambda x, y: function(x + y), given[0], own[0], shape=shape, hint="h")
        ]

    return step


def recurrent(cell: Cell) -> Callable[[Lowering], Lowered]:
    def decomposition(c: Lowering) -> Lowered:
        hx = c.tensors("hx") or [c.tensor("hx")]
        value = c.tensor("input")
        rank = dims(3)
        if c.flag("batch_first"):
            steps = [shape_of(value)[1], shape_of(value)[0], shape_of(value)[2]]
            value = c.move(value, [rank[1], rank[0], rank[2]], steps)
        last: list[list[SSAValue]] = []
        for number, layer in enumerate(layers_of(c)):
            count = len(layer.input)
            states = [part_of(c, state, number * count, count) for state in hx]
            value, after = sequence(c, cell, layer, value, states)
            last.append(after)
        if c.flag("batch_first"):
            value = c.move(value, [rank[1], rank[0], rank[2]], c.shape)
        results = [
            concatenated(c, states, 0, shape_of(first))
            for states, first in zip(zip(*last, strict=True), hx, strict=True)
        ]
        return [c.cast(v, c.element) for v in (value, *results)]

    return decomposition


def layers_of(c: Lowering) -> list[Layer]:
    """The layers of an operation: PyTorch has the weights of each, by direction, in one list."""
    params, biased = c.tensors("params"), c.flag("has_biases")
    count, directions = c.integer("num_layers"), 2 if c.flag("bidirectional") else 1
    size = len(params) // (count * directions)
    found: list[Layer] = []
    for first in range(0, len(params), size * directions):
        kinds = [params[first + n : first + size * directions : size] for n in range(size)]
        biases = kinds[2:4] if biased else [[], []]
        projection = kinds[-1] if size == (5 if biased else 3) else []
        found.append(Layer(kinds[0], kinds[1], biases[0], biases[1], projection))
    return found


def sequence(
    c: Lowering, cell: Cell, layer: Layer, value: SSAValue, states: Values
) -> tuple[SSAValue, list[SSAValue]]:
    """What a layer gives for a sequence [step, row, feature], and its last states."""
    steps, rows, _ = shape_of(value)
    directions = len(layer.input)
    given = [input_product(c, layer, value, d) for d in range(directions)]
    weight = joined_along_new(c, layer.state)
    bias = joined_along_new(c, layer.state_bias) if layer.state_bias else None
    projection = joined_along_new(c, layer.projection) if layer.projection else None

    def step(carried: Values, pieces: Values) -> tuple[list[SSAValue], list[SSAValue]]:
        units = shape_of(weight)[1] // cell.gates
        own = [own_gate(c, carried[0], weight, bias, g, units) for g in range(cell.gates)]
        parts = [input_gate(c, pieces, g, units) for g in range(cell.gates)]
        hidden, *rest = cell.step(c, parts, own, carried)
        if projection is not None:
            hidden = projected(c, hidden, projection)
        piece = hidden if directions > 1 else c.reshape(hidden, shape_of(hidden)[1:])
        return [hidden, *rest], [c.cast(piece, c.element)]

    wide = [c.wide(state) for state in states]
    *last, stacked = c.loop(steps, wide, given, step)
    width = shape_of(stacked)[-1]
    if directions == 1:
        return stacked, last
    t, b, k = dims(3)
    backward = [c.at(steps - 1) - t, fixed(1), b, k - width]
    result = c.index_map(
        [stacked, stacked],
        [[t, fixed(0), b, k], backward],
        [steps, rows, 2 * width],
        [[fixed(width - 1) - k], []],
        hint=c.hint,
    )
    return result, last


def input_product(c: Lowering, layer: Layer, value: SSAValue, direction: int) -> SSAValue:
    """The products of the input with its weight, for each step in the order of a direction."""
    weight = layer.input[direction]
    steps, rows, features = shape_of(value)
    t, b, r, k = dims(4)
    at = c.at(steps - 1) - t if direction else t
    shape = [steps, rows, shape_of(weight)[0], features]
    product = contract(c, value, weight, [at, b, k], [r, k], shape)
    if not layer.input_bias:
        return product
    bias = layer.input_bias[direction]
    return c.elementwise(
        lambda x, y: x + y.to(x.element), product, bias, shape=shape[:-1], hint="input"
    )


def own_gate(
    c: Lowering, state: SSAValue, weight: SSAValue, bias: SSAValue | None, gate: int, units: int
) -> SSAValue:
    """The products of the state with the rows of the weight that belong to a gate."""
    directions, rows, width = shape_of(state)
    d, b, j, k = dims(4)
    shape = [directions, rows, units, width]
    product = contract(c, state, weight, [d, b, k], [d, j + gate * units, k], shape)
    if bias is None:
        return product
    own = c.move(bias, [d, j + gate * units], shape[:-1])
    return c.elementwise(lambda x, y: x + y.to(x.element), product, own, shape=shape[:-1])


def input_gate(c: Lowering, pieces: Values, gate: int, units: int) -> SSAValue:
    """The rows of a gate of a step's products, of all directions."""
    rows = shape_of(pieces[0])[0]
    d, b, j = dims(3)
    subscripts = [b, j + gate * units]
    conditions = [[fixed(n) - d] for n in range(len(pieces) - 1)]
    shape = [len(pieces), rows, units]
    return c.index_map(pieces, [subscripts] * len(pieces), shape, [*conditions, []])


def projected(c: Lowering, hidden: SSAValue, weight: SSAValue) -> SSAValue:
    directions, rows, units = shape_of(hidden)
    d, b, j, k = dims(4)
    shape = [directions, rows, shape_of(weight)[1], units]
    return contract(c, hidden, weight, [d, b, k], [d, j, k], shape)


def part_of(c: Lowering, value: SSAValue, first: int, count: int) -> SSAValue:
    """So many elements of a tensor along its first dimension."""
    shape = [count, *shape_of(value)[1:]]
    return c.move(value, [dimension(0) + first, *dims(len(shape))[1:]], shape)


def joined_along_new(c: Lowering, values: Values) -> SSAValue:
    """Tensors side by side along a new first dimension."""
    shape = [len(values), *shape_of(values[0])]
    subscripts = dims(len(shape))[1:]
    conditions = [[fixed(n) - dimension(0)] for n in range(len(values) - 1)]
    return c.index_map(values, [subscripts] * len(values), shape, [*conditions, []])


lower("lstm.input")(recurrent(Cell(4, lstm_step)))
lower("gru.input")(recurrent(Cell(3, gru_step)))
lower("rnn_tanh.input")(recurrent(Cell(1, plain_step(s.tanh))))
lower("rnn_relu.input")(recurrent(Cell(1, plain_step(lambda x: x.maximum(0.0)))))
