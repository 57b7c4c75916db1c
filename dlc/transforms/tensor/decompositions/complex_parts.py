"""Operations that treat the parts of complex numbers alike, convert to them, or ask about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from dlc.dialects.layouts import shape_of
from dlc.dialects.sized_types import sized_tensor
from dlc.dialects.torch import Argument
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed
from dlc.transforms.tensor.decompositions.complex_pairs import (
    Pair,
    PairLowered,
    PairLowering,
    is_complex,
    lower_complex,
)

MOVING = (
    "view", "_unsafe_view", "reshape", "view_copy", "flatten.using_ints", "unflatten.int",
    "view_as", "reshape_as", "_reshape_alias", "squeeze", "squeeze.dim", "squeeze.dims",
    "unsqueeze", "ravel", "atleast_1d", "atleast_2d", "atleast_3d", "clone", "alias", "detach",
    "contiguous", "lift", "lift_fresh", "lift_fresh_copy", "resolve_conj", "resolve_neg", "expand",
    "expand_as", "expand_copy", "broadcast_to", "permute", "permute_copy", "numpy_T",
    "transpose.int", "t", "mT", "swapaxes", "swapdims", "t_copy", "slice.Tensor",
    "slice_copy.Tensor", "narrow", "narrow_copy", "select.int", "select_copy.int", "unbind.int",
    "unbind_copy.int", "split.Tensor", "split.sizes", "split_with_sizes", "chunk",
    "unsafe_split.Tensor", "split_copy.Tensor", "split_with_sizes_copy", "unsafe_chunk",
    "tensor_split.sections", "tensor_split.indices", "unsafe_split_with_sizes", "cat", "concat",
    "concatenate", "stack", "flip", "roll", "repeat", "tile", "diagonal", "diagonal_copy",
    "linalg_diagonal", "unfold", "copy", "constant_pad_nd", "pad", "tril", "triu", "diag_embed",
    "slice_scatter", "select_scatter", "diagonal_scatter", "embedding", "index_select", "gather",
    "take", "index.Tensor", "_unsafe_index.Tensor", "index_put", "_unsafe_index_put",
    "where.self", "where.Scalar", "where.ScalarSelf", "where.ScalarOther", "masked_fill.Scalar",
    "masked_fill.Tensor", "fill.Scalar", "fill.Tensor",
)  # fmt: skip
"""Operations that put elements elsewhere, or others in their place."""
LINEAR = ("sum", "sum.dim_IntList", "mean", "mean.dim", "cumsum", "positive")
FILLING = ("full", "full_like", "new_full", "scalar_tensor")
REAL_FILLING = (
    "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "empty.memory_format",
    "empty_like", "new_empty", "eye", "eye.m", "empty_permuted",
)  # fmt: skip
NUMBERS = frozenset(("value", "fill_value", "other", "self", "s"))
"""What operations call numbers that become elements."""
NOT_ELEMENTS = frozenset(("condition", "mask", "index", "indices"))
"""What operations call tensors whose elements do not become those of the result."""


def _parts_of(c: PairLowering, which: int) -> list[SSAValue]:
    """The operation on one of the parts."""
    tensors: dict[str, SSAValue] = {}
    for name, value in c.named_operands.items():
        chosen = name.partition(".")[0] not in NOT_ELEMENTS
        tensors[name] = c.parts_of(value).tensors[which] if chosen else value
    arguments: dict[str, Argument] = {}
    for name, number in c.named_arguments.items():
        if name in NUMBERS and isinstance(number, bool | int | float | complex):
            number = complex(number)
            number = number.imag if which else number.real
        arguments[name] = number
    return c.real(tensors, arguments, c.real_types)


@lower_complex(*MOVING, *LINEAR, *FILLING)
def each_part(c: PairLowering) -> PairLowered:
    if not is_complex(c.op.results[0]):  # such as full_like of another dtype
        return _parts_of(c, 0)
    return [Pair(re, im) for re, im in zip(_parts_of(c, 0), _parts_of(c, 1), strict=True)]


@lower_complex(*REAL_FILLING)
def real_numbers(c: PairLowering) -> PairLowered:
    (re,) = _parts_of(c, 0)
    if not is_complex(c.op.results[0]):
        return re
    return Pair(re, c.constant(0.0, c.shape, c.element))


@lower_complex("adjoint")
def adjoint(c: PairLowering) -> PairLowered:
    found = Pair(*(_parts_of(c, which)[0] for which in (0, 1)))
    return c.of_scalars(lambda x: x.conjugate, found)


@lower_complex("_to_copy", "to.dtype", "type_as", "to.other")
def to_copy(c: PairLowering) -> PairLowered:
    value = c.tensor()
    if is_complex(c.op.results[0]):
        re, im = c.parts_of(value).tensors
        return Pair(c.cast(re, c.element), c.cast(im, c.element))
    if c.element == i1:
        return nonzero(c, value)
    return c.cast(c.parts_of(value).tensors[0], c.element)


@lower_complex("view_as_complex")
def view_as_complex(c: PairLowering) -> PairLowered:
    subscripts = dims(len(c.shape))
    re, im = (c.move(c.tensor(), [*subscripts, fixed(n)], c.shape) for n in (0, 1))
    return Pair(re, im)


@lower_complex("view_as_real", "view_as_real_copy")
def view_as_real(c: PairLowering) -> PairLowered:
    rank = len(c.shape) - 1
    first = [fixed(0) - dimension(rank)]
    return c.index_map(c.pair().tensors, [dims(rank)] * 2, c.shape, [first, []])


@lower_complex("complex")
def complex_(c: PairLowering) -> PairLowered:
    parts = (c.tensor("real"), c.tensor("imag"))
    return Pair(*(c.broadcast(c.cast(part, c.element), c.shape) for part in parts))


@lower_complex("real")
def real(c: PairLowering) -> PairLowered:
    return c.pair().tensors[0]


@lower_complex("imag")
def imag(c: PairLowering) -> PairLowered:
    return c.pair().tensors[1]


def nonzero(c: PairLowering, value: SSAValue) -> SSAValue:
    """True where an element is not 0, of a tensor that may be complex."""
    parts = c.parts[value].tensors if is_complex(value) else [value]
    return c.elementwise(
        lambda *x: x[0].to(i1) if len(x) == 1 else x[0].to(i1) | x[1].to(i1),
        *parts,
        shape=shape_of(value),
    )


def _as_real(c: PairLowering, seen: Callable[[PairLowering, SSAValue], SSAValue]) -> PairLowered:
    tensors = {name: seen(c, value) for name, value in c.named_operands.items()}
    return c.real(tensors, c.named_arguments, c.real_types)


def magnitude(c: PairLowering, value: SSAValue) -> SSAValue:
    """The absolute values of complex numbers."""
    re, im = c.parts[value].tensors
    return c.real(
        {"self": re, "other": im}, {}, [sized_tensor(c.part, shape_of(value))], "hypot.default"
    )[0]


for _name in ("any", "any.dim", "any.dims", "all", "all.dim", "all.dims"):
    lower_complex(_name)(partial(_as_real, seen=nonzero))
for _name in ("not", "and", "or", "xor"):
    lower_complex(f"logical_{_name}")(partial(_as_real, seen=nonzero))
for _name in ("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar"):
    lower_complex(_name)(partial(_as_real, seen=magnitude))
