"""The leaves of what a program returns to its user: tensors, their views, numbers, constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from dlc.ir.span import span

if TYPE_CHECKING:
    import torch

    from dlc.ir.sizes import Size


@dataclass(frozen=True)
class View:
    """Elements of a tensor's memory: strides and offset in elements, from its first one."""

    shape: tuple[Size | int, ...]
    strides: tuple[Size | int, ...]
    offset: Size | int

    def of(self, base: torch.Tensor) -> torch.Tensor:
        shape, strides, offset = self.numbers
        return base.as_strided(shape, strides, base.storage_offset() + offset)

    @property
    def end(self) -> int:
        """The first element after the view's last one."""
        shape, strides, offset = self.numbers
        return offset + span(shape, strides)

    @cached_property
    def numbers(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Shape, strides and offset of a view without sizes."""
        flat = [n for n in (*self.shape, *self.strides, self.offset) if isinstance(n, int)]
        rank = len(self.shape)
        assert len(flat) == 2 * rank + 1, f"{self} has sizes"
        return tuple(flat[:rank]), tuple(flat[rank:-1]), flat[-1]

    def at(self, sizes: Mapping[str, int]) -> View:
        """The view where sizes are such numbers."""
        shape, strides = (
            tuple(_number(n, sizes) for n in numbers) for numbers in (self.shape, self.strides)
        )
        return View(shape, strides, _number(self.offset, sizes))


@dataclass(frozen=True)
class Output:
    """A tensor or number of the user's: result or argument `number` of `@main`, or a view of it."""

    path: str
    of: Literal["result", "argument"]
    number: int
    view: View | None = None
    is_complex: bool = False
    """True if its elements are pairs of reals to `@main`."""
    is_number: bool = False
    """True if the user gets its one element, as a number of Python."""
    same: int | None = None
    """The output before it, by its number, that is the very object: a view returned twice."""

    def returned(
        self, results: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]
    ) -> torch.Tensor | float | bool:
        """What the user gets, given the arguments as the program leaves them."""
        tensor = self.tensor(results, arguments)
        return tensor.item() if self.is_number else tensor

    def at(self, sizes: Mapping[str, int]) -> Output:
        """The output where sizes are such numbers."""
        return self if self.view is None else replace(self, view=self.view.at(sizes))

    def tensor(
        self, results: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """The tensor, given the arguments as the program leaves them."""
        base = (results if self.of == "result" else arguments)[self.number]
        tensor = base if self.view is None else self.view.of(base)
        return as_complex(tensor) if self.is_complex else tensor


@dataclass(frozen=True)
class Constant:
    """What a program returns that depends on no tensor: a number, a string, None."""

    path: str
    value: object

    def returned(
        self, results: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]
    ) -> object:
        """What the user gets."""
        return self.value

    def at(self, sizes: Mapping[str, int]) -> Constant:
        """The constant where sizes are such numbers."""
        from dlc.ir.sizes import Size  # which a program for one call has not

        value = self.value
        return Constant(self.path, value.evaluate(sizes) if isinstance(value, Size) else value)


def _number(size: Size | int, sizes: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else size.evaluate(sizes)


Leaf: TypeAlias = Output | Constant


def returned_leaves(
    leaves: Sequence[Leaf], results: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]
) -> list[object]:
    """What the user gets for all leaves, given the arguments as the program leaves them."""
    found: list[object] = []
    for leaf in leaves:
        same = leaf.same if isinstance(leaf, Output) else None
        found.append(leaf.returned(results, arguments) if same is None else found[same])
    return found


def as_complex(pairs: torch.Tensor) -> torch.Tensor:
    """The complex tensor whose memory `@main` has as pairs of reals."""
    import torch  # the dialects are read without it

    if pairs.numel() == 0:  # whose strides are free, where PyTorch wants one of 1
        pairs = pairs.clone(memory_format=torch.contiguous_format)
    return torch.view_as_complex(pairs)
