"""Whether a program asks for gradients: `torch.is_grad_enabled()`, `x.requires_grad`."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

import torch

OWN = ("torch", "dlc")
"""Packages whose questions change no result."""

_IS_REQUIRED: Any = torch._C.TensorBase.requires_grad


class GradientQuestions:
    """In this context `asked` tells whether code of the user's has asked so far."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Self:
        is_enabled = self._is_enabled = torch.is_grad_enabled

        def is_grad_enabled() -> bool:
            self._note()
            return is_enabled()

        def requires_grad(tensor: torch.Tensor) -> bool:
            self._note()
            return _IS_REQUIRED.__get__(tensor)

        torch.is_grad_enabled = is_grad_enabled
        self._is_required = vars(torch.Tensor).get("requires_grad")
        required: Any = property(requires_grad, _IS_REQUIRED.__set__)
        torch.Tensor.requires_grad = required
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        torch.is_grad_enabled = self._is_enabled
        if self._is_required is None:
            del torch.Tensor.requires_grad
        else:
            torch.Tensor.requires_grad = self._is_required

    def _note(self) -> None:
        """Called by what stands for the question."""
        asking = str(sys._getframe(2).f_globals.get("__name__"))
        if asking.partition(".")[0] not in OWN:
            self.asked = True
