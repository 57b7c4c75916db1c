"""PyTorch's own state, which a program reads without naming it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Ambient:
    """What decides on results beside the arguments."""

    autocast: tuple[tuple[str, torch.dtype], ...]
    """The devices on which autocast is enabled, and to what."""
    default_dtype: torch.dtype
    grad_enabled: bool | None = None
    """None where a program does not ask for it."""

    @staticmethod
    def now(asked: bool = False) -> Ambient:
        """With the gradients' mode where it is `asked` for."""
        autocast = tuple(
            (device, torch.get_autocast_dtype(device))
            for device in DEVICES
            if torch.is_autocast_enabled(device)
        )
        mode = torch.is_grad_enabled() if asked else None
        return Ambient(autocast, torch.get_default_dtype(), mode)

    def holds(self) -> bool:
        """True if it is so now."""
        return self == Ambient.now(self.grad_enabled is not None)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """It is so in here, too."""
        now, wanted = Ambient.now(), dict(self.autocast)
        with ExitStack() as stack:
            for device in DEVICES:
                if wanted.get(device) != dict(now.autocast).get(device):
                    dtype, enabled = wanted.get(device), device in wanted
                    stack.enter_context(torch.autocast(device, dtype, enabled))
            stack.callback(torch.set_default_dtype, now.default_dtype)
            torch.set_default_dtype(self.default_dtype)
            if self.grad_enabled is not None:
                stack.enter_context(torch.set_grad_enabled(self.grad_enabled))
            yield
