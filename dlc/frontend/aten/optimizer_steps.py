"""Steps of optimizers, which a program has no gradients for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook


class StepsOptimizer(Exception):
    """Says that a program steps an optimizer whose parameters have gradients."""


@contextmanager
def no_optimizer_steps() -> Iterator[None]:
    """Within it an optimizer that would write to its parameters raises StepsOptimizer."""

    def check(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        if any(p.grad is not None for p in parameters):
            raise StepsOptimizer(
                "the program steps an optimizer, expected a forward pass, since gradients are no "
                "inputs of it; step outside of the program, or train with "
                'torch.compile(model, backend="dlc")'
            )

    handle = register_optimizer_step_pre_hook(check)
    try:
        yield
    finally:
        handle.remove()
