"""What a program must do at least: operations of its products, bytes of its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from dlc.backend.dtypes import torch_dtype
from dlc.dialects.layouts import shape_of
from dlc.dialects.main_function import main_of
from dlc.dialects.torch import AtenOp
from dlc.target import precision_of

_PRODUCTS = ("mm", "bmm", "matmul", "mv", "dot", "linear", "addmm", "baddbmm", "addmv")
_CONVOLUTIONS = (
    "convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d",
)  # fmt: skip
_FACTORS = ("self", "input", "mat1", "batch1", "mat")
"""Names of the operand of a product whose last dimension is summed over; the last that is there."""
_PARTIAL = frozenset({
    "slice", "select", "index", "embedding", "gather", "index_select", "narrow", "unbind", "split",
    "split_with_sizes", "chunk", "tril", "triu", "where", "take", "as_strided", "constant_pad_nd",
    "diagonal", "unfold", "masked_select",
})  # fmt: skip
"""Operations that may leave elements of an operand unread."""
_SUMS = frozenset({
    "sum", "mean", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "adaptive_avg_pool3d",
})  # fmt: skip
_LINEAR = frozenset({
    "add", "sub", "mul", "div", "neg", "rsub", "batch_norm", "view", "reshape", "permute",
    "transpose", "squeeze", "unsqueeze", "flatten", "contiguous", "clone",
})  # fmt: skip
"""Operations of whose results a sum may be one of their operands."""


@dataclass(frozen=True)
class Work:
    """Operations (a multiply-add is two) and bytes that no implementation can do without."""

    flops: float
    read: float
    written: float
    on_tensor_cores: bool = False
    """Whether tensor cores may do the operations."""
    avoidable: float = 0.0
    """Those of the operations that need not be done: of products that are only summed."""

    @property
    def bytes(self) -> float:
        return self.read + self.written


def work_of(module: ModuleOp, arguments: Sequence[torch.Tensor]) -> Work:
    """
    The work of a module in Torch IR on its arguments: the products' operations or, without
    products, one for each element read and written; each argument once, unless an operation on it
    may read a part only; each result once, unless it is an argument.
    """
    main = main_of(module)
    block = main.body.block
    read = sum(
        _touched_bytes(tensor)
        for value, tensor in zip(block.args, arguments, strict=True)
        if _is_read_whole(value)
    )
    results = [v for op in block.ops if isinstance(op, func.ReturnOp) for v in op.operands]
    made = dict.fromkeys(v for v in results if isinstance(v.owner, AtenOp))
    written = sum(_bytes(v.type) for v in made)
    flops = product_flops(module)
    if flops:
        fast, avoidable = _may_take_tensor_cores(module), _avoidable_flops(module)
        return Work(float(flops), float(read), float(written), fast, avoidable)
    pairs = zip(block.args, arguments, strict=True)
    elements = sum(tensor.numel() for value, tensor in pairs if _is_read_whole(value))
    flops = elements + sum(prod(_shape(v.type)) for v in made)
    return Work(float(flops), float(read), float(written))


def _may_take_tensor_cores(module: ModuleOp) -> bool:
    """True if factors have 16 bits, or products of f32 may be of tf32."""
    ops = [op for op in main_of(module).body.block.ops if isinstance(op, AtenOp) and _flops(op)]
    factors = {_bytes(op.operands[0].type) // max(prod(_shape(op.operands[0].type)), 1)
               for op in ops}  # fmt: skip
    return precision_of(module) != "f32" or bool(factors & {1, 2})


def product_flops(module: ModuleOp) -> float:
    """Operations of the products of a module in Torch IR."""
    return sum(_flops(op) for op in main_of(module).body.block.ops if isinstance(op, AtenOp))


def _avoidable_flops(module: ModuleOp) -> float:
    """Operations of products whose results are only summed: their operands may be summed first."""
    ops = (op for op in main_of(module).body.block.ops if isinstance(op, AtenOp))
    return sum(flops for op in ops if (flops := _flops(op)) and _is_only_summed(op))


def _is_only_summed(op: AtenOp) -> bool:
    uses = [use.operation for result in op.results for use in result.uses]
    return bool(uses) and all(
        isinstance(use, AtenOp)
        and (_base(use) in _SUMS or (_base(use) in _LINEAR and _is_only_summed(use)))
        for use in uses
    )


def compulsory_bytes(module: ModuleOp, arguments: Sequence[torch.Tensor]) -> float:
    """
    As `work_of` counts them; an argument of operations that may read a part is read as far as their
    results are large.
    """
    read = 0
    for value, tensor in zip(main_of(module).body.block.args, arguments, strict=True):
        if not _is_read_whole(value):
            uses = [u.operation for u in value.uses if isinstance(u.operation, AtenOp)]
            most = sum(prod(_shape(op.results[0].type)) for op in uses) * tensor.element_size()
            read += min(_touched_bytes(tensor), most)
    return read + work_of(module, arguments).bytes


def _is_read_whole(value: SSAValue) -> bool:
    return any(isinstance(use.operation, AtenOp) and _base(use.operation) not in _PARTIAL
               for use in value.uses)  # fmt: skip


def _touched_bytes(tensor: torch.Tensor) -> int:
    """Of the elements that differ in their address: a broadcast one counts once."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return prod(n for n, stride in pairs if stride) * tensor.element_size() * bool(tensor.numel())


def _base(op: AtenOp) -> str:
    return op.overload.data.partition(".")[0]


def _flops(op: AtenOp) -> float:
    name = _base(op)
    shape = _shape(op.results[0].type)
    if name in _PRODUCTS:
        factors = [f for f in (op.operand(n) for n in _FACTORS) if f is not None]
        return 2 * prod(shape) * _shape(factors[-1].type)[-1]
    if name in _CONVOLUTIONS:
        weight = op.operand("weight")
        assert weight is not None
        data = op.operand("input")
        assert data is not None
        scattered = name.startswith("conv_transpose") or op.argument("transposed", False)
        points = _shape(data.type) if scattered else shape
        return 2 * prod(points) * prod(_shape(weight.type)[1:])
    if name == "scaled_dot_product_attention":
        key, value = (_shape(v.type) for v in _keys_and_values(op))
        rows, columns = shape[-2], key[-2]
        seen = rows * columns
        if op.argument("is_causal", False):
            seen = sum(min(row + 1, columns) for row in range(rows))
        return 2 * prod(shape[:-2]) * seen * (key[-1] + value[-1])
    return 0


def _keys_and_values(op: AtenOp) -> Iterator[SSAValue]:
    for name in ("key", "value"):
        operand = op.operand(name)
        assert operand is not None
        yield operand


def _shape(type: object) -> tuple[int, ...]:
    assert isinstance(type, TensorType)
    return shape_of(type)


def _bytes(type: object) -> int:
    assert isinstance(type, TensorType)
    return prod(shape_of(type)) * torch_dtype(type.element_type).itemsize
