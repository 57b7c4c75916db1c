"""`copy.copy` and `copy.deepcopy` of tensors within a program that is exported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import _is_alias_of  # pyright: ignore[reportAttributeAccessIssue]

COPIED = "tensors that were copied"
"""The key of these in what `copy.deepcopy` remembers."""


class CopiedTogether(Exception):
    """Says that tensors which share memory are copied in one go."""


def deepcopied(tensor: Tensor, memo: dict[Any, Any]) -> Tensor:
    """
    Tensor.__deepcopy__: a clone with memory of its own. CopiedTogether for tensors that share
    memory, whose copies would, too.
    """
    if id(tensor) in memo:
        return memo[id(tensor)]
    others = memo.setdefault(COPIED, [])
    if any(_is_alias_of(tensor, other) for other in others):
        raise CopiedTogether(
            "copy.deepcopy copies tensors that share memory together, expected memory of its own "
            "for each; clone() one of them"
        )
    others.append(tensor)
    memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return memo[id(tensor)]


@contextmanager
def copies_of_tensors() -> Iterator[None]:
    """Within it `copy.copy` of a tensor is another tensor of the same memory, as it is in eager."""
    before = vars(torch.Tensor).get("__copy__")  # within another compilation there is one
    torch.Tensor.__copy__ = lambda self: self.view_as(self)  # pyright: ignore
    try:
        yield
    finally:
        if before is None:
            del torch.Tensor.__copy__  # pyright: ignore
        else:
            torch.Tensor.__copy__ = before  # pyright: ignore
