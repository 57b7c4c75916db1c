"""
Blocks of well-known networks, tiny and with random weights, against eager PyTorch and fp64: in
Tensor IR, and those of `HOST` on the host backend too.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from expected import judge, rounded
from test_operators import interpreted
from torch import nn
from torch.utils._pytree import tree_leaves

import dlc
from dlc.frontend.source import ImportFailure

Model = tuple[nn.Module, tuple[torch.Tensor, ...]]
ZOO: dict[str, Callable[[], Model]] = {}
HOST = ("resnet", "unet", "t5")


def model(build: Callable[[], Model]) -> Callable[[], Model]:
    ZOO[build.__name__] = build
    return build


def conv(inputs: int, outputs: int, size: int, **options: Any) -> nn.Sequential:
    """Convolution, batch norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False, **options),
        nn.BatchNorm2d(outputs),
    )


class Sum(nn.Module):
    """The sum of two branches."""

    def __init__(self, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.left, self.right = left, right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.left(x) + self.right(x)


@model
def resnet() -> Model:
    branch = nn.Sequential(conv(3, 6, 3, stride=2), nn.ReLU(), conv(6, 6, 3))
    block = nn.Sequential(Sum(branch, conv(3, 6, 1, stride=2)), nn.ReLU())
    head = nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(block, head, nn.Linear(6, 5)), (torch.randn(2, 3, 9, 11),)


@model
def mobilenet() -> Model:
    squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Hardsigmoid())

    class Excite(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = squeeze

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale(x)

    inverted = nn.Sequential(
        conv(4, 8, 1), nn.ReLU6(), conv(8, 8, 3, groups=8), nn.Hardswish(), Excite(), conv(8, 4, 1)
    )
    return Sum(inverted, nn.Identity()), (torch.randn(2, 4, 7, 6),)


class ConvNeXt(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depthwise(x).permute(0, 2, 3, 1)
        return x + (self.scale * self.mlp(self.norm(y))).permute(0, 3, 1, 2)


@model
def convnext() -> Model:
    return ConvNeXt(6), (torch.randn(1, 6, 8, 5),)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU())
        self.down = nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.last = nn.Conv2d(12, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        z = F.silu(self.down(y))
        wide = F.interpolate(F.avg_pool2d(y, 2), scale_factor=2, mode="bilinear")
        return self.last(torch.cat([y, self.up(z), F.interpolate(wide, size=y.shape[2:])], 1))


@model
def unet() -> Model:
    return UNet(), (torch.randn(1, 3, 6, 8),)


class T5Attention(nn.Module):
    """Attention with a learned bias for buckets of relative positions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width, False), nn.Linear(width, width, False)
        self.bias = nn.Embedding(8, heads)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        distance = torch.arange(n)[None] - torch.arange(n)[:, None]
        far = 2 + (torch.log(distance.abs().clamp(min=1) / 2) / 3 * 2).to(torch.long).clamp(max=1)
        bucket = (distance > 0) * 4 + torch.where(distance.abs() < 2, distance.abs(), far)
        bias = self.bias(bucket).permute(2, 0, 1)[None]
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        scores = q @ k.transpose(2, 3) + bias.masked_fill(~mask[:, None, None], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@model
def t5() -> Model:
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    return T5Attention(12, 3), (torch.randn(2, 7, 12), mask)


class ViT(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, 7, width))
        self.block = nn.TransformerEncoderLayer(width, 2, 24, 0.1, F.gelu, 1e-6, True, True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), tokens], 1) + self.place
        return self.block(tokens)[:, 0]


@model
def vit() -> Model:
    return ViT(8), (torch.randn(2, 3, 8, 12),)


@model
def lstm() -> Model:
    return nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True), (torch.randn(2, 3, 5),)


@model
def gru() -> Model:
    return nn.GRU(5, 4), (torch.randn(3, 2, 5),)


class Routed(nn.Module):
    """A mixture of experts: each token goes to the best two of four."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 4)
        self.experts = nn.Parameter(torch.randn(4, width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        share = torch.zeros(x.shape[0], 4).scatter(1, chosen, weights.float()).to(x.dtype)
        return torch.einsum("te,ti,eij->tj", share, x, self.experts)


@model
def mixture() -> Model:
    return Routed(6), (torch.randn(5, 6),)


def pretrained(name: str, **options: Any) -> Callable[[], Model]:
    """A model of transformers, two tokens' width, of random weights."""

    def build() -> Model:
        transformers = pytest.importorskip("transformers")
        config = getattr(transformers, f"{name}Config")(**options)
        network = getattr(transformers, f"{name}Model")(config)

        class Hidden(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.network = network

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.network(x)[0]

        inputs = torch.randint(0, 30, (2, 5))
        return Hidden(), (torch.randn(1, 3, 8, 8) if name == "ViT" else inputs,)

    return build


SMALL = dict(vocab_size=31, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
ZOO["bert"] = pretrained("Bert", **SMALL, intermediate_size=12)
ZOO["gpt2"] = pretrained("GPT2", vocab_size=31, n_embd=8, n_layer=1, n_head=2, n_positions=9)


def exact(function: nn.Module, args: tuple[torch.Tensor, ...]) -> Any:
    wide = copy.deepcopy(function).double()
    with torch.no_grad():
        return wide(*(t.double() if t.is_floating_point() else t for t in args))


def ours_of(name: str, function: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[Any, int]:
    """dlc's results, and the length of the longest sum in them."""
    if name in HOST:
        compiled = dlc.compile(function, args, backend="host")
        return compiled(*args), compiled.variant(args).longest_reduction
    (*_, found), longest = interpreted(function, list(args))
    return found, longest


@pytest.mark.parametrize("name", ZOO)
def test_blocks_agree_with_eager(name: str) -> None:
    torch.manual_seed(0)
    function, args = ZOO[name]()
    function.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager = rounded(function, *args)
        try:
            found, longest = ours_of(name, function, args)
        except ImportFailure as refusal:
            if "exports the states of an LSTM in a wrong shape" not in str(refusal):
                raise
            pytest.skip(str(refusal))
    for ours, wide, own in zip(
        *map(tree_leaves, (found, exact(function, args), eager)), strict=True
    ):
        accuracy = judge(ours, wide, own, longest)
        assert accuracy.ok, f"{name}: {accuracy}"
