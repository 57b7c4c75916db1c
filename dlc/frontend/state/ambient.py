"""PyTorch's own state, which a program reads without naming it, or asks for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Flag:
    """A question with the answers yes and no, which is a function in `owner`."""

    owner: Any
    ask: Callable[[], bool]
    set: Callable[[bool], object]


_SDP = torch.backends.cuda
GRADIENTS = "is_grad_enabled"
FLAGS: Mapping[str, Flag] = {
    GRADIENTS: Flag(torch, torch.is_grad_enabled, torch._C._set_grad_enabled),
    "is_inference_mode_enabled": Flag(
        torch,
        torch.is_inference_mode_enabled,
        lambda enabled: None,  # it records no gradients, so that nothing is run again
    ),
    "are_deterministic_algorithms_enabled": Flag(
        torch,
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "flash_sdp_enabled": Flag(_SDP, _SDP.flash_sdp_enabled, _SDP.enable_flash_sdp),
    "mem_efficient_sdp_enabled": Flag(
        _SDP, _SDP.mem_efficient_sdp_enabled, _SDP.enable_mem_efficient_sdp
    ),
    "math_sdp_enabled": Flag(_SDP, _SDP.math_sdp_enabled, _SDP.enable_math_sdp),
    "cudnn_sdp_enabled": Flag(_SDP, _SDP.cudnn_sdp_enabled, _SDP.enable_cudnn_sdp),
}
"""What a program may ask for, by the name of the function."""


@dataclass(frozen=True)
class Ambient:
    """What decides on results beside the arguments."""

    autocast: tuple[tuple[str, torch.dtype], ...]
    """The devices on which autocast is enabled, and to what."""
    default_dtype: torch.dtype
    answers: tuple[tuple[str, bool], ...] = ()
    """Of `FLAGS` those that the program asks for."""

    @staticmethod
    def now(asked: Collection[str] = ()) -> Ambient:
        """With the answers that are `asked` for."""
        autocast = tuple(
            (device, torch.get_autocast_dtype(device))
            for device in DEVICES
            if torch.is_autocast_enabled(device)
        )
        answers = tuple([(name, FLAGS[name].ask()) for name in asked])
        return Ambient(autocast, torch.get_default_dtype(), answers)

    def holds(self) -> bool:
        """True if it is so now."""
        return self == Ambient.now([name for name, _ in self.answers])

    def set(self) -> None:
        """From here on it is so again, but for `answers`."""
        wanted = dict(self.autocast)
        for device in DEVICES:
            torch.set_autocast_enabled(device, device in wanted)
            if device in wanted:
                torch.set_autocast_dtype(device, wanted[device])
        torch.set_default_dtype(self.default_dtype)

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
            for name, answer in self.answers:
                flag = FLAGS[name]
                stack.callback(flag.set, flag.ask())
                flag.set(answer)
            yield
