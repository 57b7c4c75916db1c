"""Torch IR evaluated by PyTorch itself, in the program's dtypes or in fp64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue

from dlc.backend.dtypes import torch_dtype
from dlc.diagnostics import fail
from dlc.dialects import flow
from dlc.dialects.layouts import shape_of
from dlc.dialects.main_function import main_of
from dlc.dialects.torch import AtenOp
from dlc.ir.home import home_of
from dlc.judge.aten_calls import call, epsilon_of, widened, without_onednn

Disturb: TypeAlias = Callable[[torch.Tensor, SSAValue], torch.Tensor]
"""What is used in place of a tensor that a value has."""


def _undisturbed(tensor: torch.Tensor, value: SSAValue) -> torch.Tensor:
    return tensor


def evaluate(
    module: ModuleOp,
    arguments: Sequence[torch.Tensor],
    *,
    double: bool = False,
    disturb: Disturb = _undisturbed,
    within: Disturb | None = None,
) -> list[torch.Tensor]:
    """
    The results of `@main`, each `torch.aten` being a call of that overload. With `double`, every
    floating-point tensor is fp64, casts to other floating-point types included; an argument is for
    as long as an operation uses it, so that the weights of a model need not be there twice.
    oneDNN takes no part.
    `disturb` is applied to every value at each of its uses; `within` to what an operation with that
    result holds in its type between two products: the probabilities of attention.
    OpError for any other operation, for an overload that this PyTorch does not have, and for what
    PyTorch refuses, as an index that is out of range.
    """
    main = main_of(module)
    home = home_of(arguments)
    evaluation = _Evaluation(double, disturb, within, home)
    with torch.no_grad(), without_onednn():
        # The state of random numbers is drawn on the host, as are some constants.
        return evaluation.run(main.body.block, [t.to(home) for t in arguments])


@dataclass
class _Evaluation:
    """The values of a program, as far as operations to come use them."""

    double: bool
    disturb: Disturb
    within: Disturb | None
    home: torch.device | None
    """Where all tensors are; None for PyTorch's default."""
    values: dict[SSAValue, torch.Tensor] = field(default_factory=dict)

    def use(self, value: SSAValue) -> torch.Tensor:
        tensor = widened(self.values[value]) if self.double else self.values[value]
        return self.disturb(tensor, value)

    def run(self, block: Block, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What a block gives for its arguments."""
        self.values.update(zip(block.args, arguments, strict=True))
        last_use = {v: op for op in block.ops for inner in op.walk() for v in inner.operands}
        for op in block.ops:
            if isinstance(op, func.ReturnOp | flow.YieldOp):
                return [self.use(v) for v in op.operands]
            outputs = self.outputs(op)
            self.values.update(zip(op.results, outputs, strict=True))
            for value in dict.fromkeys(v for inner in op.walk() for v in inner.operands):
                if last_use[value] is op and _block_of(value) is block:
                    del self.values[value]
            for value in op.results:
                if value not in last_use:
                    del self.values[value]
        around = block.parent_op()
        assert around is not None
        fail(around, "expected func.return at the end, found none")

    def outputs(self, op: Operation) -> Sequence[torch.Tensor]:
        match op:
            case AtenOp():
                values = {v: self.use(v) for v in op.operands}
                return _call(op, values, self.double, self.within, self.home)
            case flow.IfOp():
                return self.run((op.then if self.use(op.flag) else op.otherwise).block, [])
            case flow.ForOp():
                return self.loop(op)
            case flow.WhileOp():
                carried = [self.use(v) for v in op.inits]
                while self.run(op.before.block, carried)[0]:
                    carried = self.run(op.body.block, carried)
                return carried
            case _:
                fail(op, f"expected torch.aten in @main, found '{op.name}'")

    def loop(self, op: flow.ForOp) -> list[torch.Tensor]:
        carried = [self.use(v) for v in op.inits]
        scanned = [self.use(v) for v in op.scanned]
        rows: list[list[torch.Tensor]] = []
        for turn in range(op.trips):
            given = self.run(op.body.block, [*carried, *(s[turn] for s in scanned)])
            carried = given[: len(carried)]
            rows.append(given[len(carried) :])
        return [*carried, *(self._stack(list(c), r) for c, r in _columns(rows, op))]

    def _stack(self, pieces: list[torch.Tensor], result: SSAValue) -> torch.Tensor:
        if pieces:
            return torch.stack(pieces)
        assert isinstance(result.type, TensorType)
        dtype = torch_dtype(result.type.element_type)
        empty = torch.empty(shape_of(result), dtype=dtype, device=self.home)
        return widened(empty) if self.double else empty


def _columns(
    rows: list[list[torch.Tensor]], op: flow.ForOp
) -> Iterator[tuple[Sequence[torch.Tensor], SSAValue]]:
    """For each stacked result what it is made of."""
    for number, result in enumerate(op.stacked):
        yield [row[number] for row in rows], result


def _block_of(value: SSAValue) -> Block | None:
    """The block that defines a value."""
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


def _call(
    op: AtenOp,
    values: dict[SSAValue, torch.Tensor],
    double: bool,
    within: Disturb | None,
    home: torch.device | None,
) -> list[torch.Tensor]:
    given = {name: resolved(value, values) for name, value in given_to(op).items()}
    if not values and "device" in {a.name for a in overload_of(op)._schema.arguments}:
        given["device"] = home
    on_weights = None
    if within is not None:
        on_weights = lambda held: within(held, op.results[0])  # noqa: E731
    try:
        own = op.operand("self")
        source = None if own is None else dtype_of(own)
        return call(op.overload.data, given, result_dtype(op), double, on_weights, source)
    except torch.OutOfMemoryError:
        raise
    except (IndexError, RuntimeError, ValueError) as error:
        given_as = "what aten.{} is given, in fp64" if double else "what aten.{} is given"
        fail(op, f"PyTorch refuses {given_as.format(op.overload.data)}: {error}")


def given_to(op: AtenOp) -> dict[str, Any]:
    """What an operation is given, by name: values, lists of these, and other arguments."""
    given: dict[str, Any] = {}
    for argument in overload_of(op)._schema.arguments:
        if (value := op.operand(argument.name)) is not None:
            given[argument.name] = value
        elif items := op.operand_list(argument.name):
            given[argument.name] = items
        elif argument.name in op.arguments.data:
            given[argument.name] = op.argument(argument.name)
        elif not argument.has_default_value():
            given[argument.name] = None  # an absent tensor
    if op.operand("generator") is not None:
        given["offset"] = op.argument("offset", 0)
    return given


def resolved(given: Any, values: Mapping[SSAValue, torch.Tensor]) -> Any:
    """The same with tensors in place of values."""
    if isinstance(given, SSAValue):
        return values[given]
    if isinstance(given, list):
        return [resolved(item, values) for item in given]
    return given


def result_dtype(op: AtenOp) -> torch.dtype:
    """That of the first result."""
    return dtype_of(op.results[0])


def dtype_of(value: SSAValue) -> torch.dtype:
    assert isinstance(value.type, TensorType)
    return torch_dtype(value.type.element_type)


def default_epsilon(op: AtenOp) -> float:
    """The epsilon that None stands for in an rms_norm."""
    return epsilon_of(result_dtype(op))


def overload_of(op: AtenOp) -> Any:
    """PyTorch's operation; OpError if this PyTorch has none of that name."""
    name, _, overload = op.overload.data.partition(".")
    packet = getattr(torch.ops.aten, name, None)
    found = getattr(packet, overload, None)
    if not isinstance(found, torch._ops.OpOverload):
        fail(op, f"PyTorch {torch.__version__} has no operation aten.{op.overload.data}")
    return found


class Widened(TorchDispatchMode):
    """Within it, every floating-point tensor that an operation makes is fp64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        dtype = kwargs.get("dtype")
        if isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex):
            kwargs["dtype"] = torch.complex128 if dtype.is_complex else torch.float64
        return tree_map(
            lambda leaf: widened(leaf) if isinstance(leaf, torch.Tensor) else leaf,
            func(*args, **kwargs),
        )
