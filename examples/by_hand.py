"""A schedule made by hand: `python examples/by_hand.py`. What cannot be obeyed is an error."""

import torch

import dlc

BY_HAND = "tileify,blockify-launch{block=16,16 thread=8,8},register-tile{extents=2,2}"


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a @ b)


a, b = torch.randn(64, 48), torch.randn(48, 64)
default = dlc.compile(product, (a, b))
(kernel,) = default.kernels
print("default:", kernel.schedule)

mine = default.with_schedule({kernel.name: BY_HAND})
print("by hand:", mine.kernels[0].schedule)
print(mine.kernels[0].ir("tile"))
print(*mine.check(), sep="\n")  # races, and the like, in the simulator
torch.testing.assert_close(mine(a, b), product(a, b))
