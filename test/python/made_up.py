"""An operation that PyTorch knows and dlc never will: `aten.made_up.default`, the sine."""

from __future__ import annotations

import torch

LIBRARY = torch.library.Library("aten", "FRAGMENT")
LIBRARY.define("made_up(Tensor self) -> Tensor")


@torch.library.impl(LIBRARY, "made_up", "CompositeExplicitAutograd")
def made_up(self: torch.Tensor) -> torch.Tensor:
    """The sine, as nothing but PyTorch computes it."""
    return torch.sin(self)


MADE_UP = "aten.made_up.default"
