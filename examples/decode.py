"""A decode loop with a cache of keys and values, which the program writes in place: each token is
a call of the same kernels. `python examples/decode.py`."""

import torch
from torch import nn
from torch.nn import functional as F

import dlc


class Decoder(nn.Module):
    def __init__(self, width: int = 32, most: int = 16) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("keys", torch.zeros(most, width))
        self.register_buffer("values", torch.zeros(most, width))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys.index_copy_(0, at, k)
        self.values.index_copy_(0, at, v)
        seen = torch.arange(len(self.keys)) <= at
        return x + self.out(F.scaled_dot_product_attention(q, self.keys, self.values, seen[None]))


model = Decoder().requires_grad_(False)
tokens = torch.randn(8, 1, 32)
expected = [model(token, torch.tensor([at])) for at, token in enumerate(tokens)]
model.keys.zero_(), model.values.zero_()

step = dlc.compile(model, (tokens[0], torch.tensor([0])))
for at, token in enumerate(tokens):
    torch.testing.assert_close(step(token, torch.tensor([at])), expected[at])
print(f"{len(tokens)} tokens by {len(step.variants)} variant:", step)
