"""Backwards that dlc compiles: derivatives of operations, and steps of training."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from xdsl.utils.exceptions import DiagnosticException

import dlc
import dlc.dynamo

aten = torch.ops.aten
HOST = {"backend": "host", "fallback": False}


def check(op: Callable[..., Any], *args: Tensor) -> None:
    """All that an operation gives is as eager's, of one program, as exact as of f32."""
    wanted, found = op(*args), dlc.compile(op, args, backend="host")(*args)
    pairs = [(wanted, found)] if isinstance(wanted, Tensor) else zip(wanted, found, strict=True)
    for ours, eager in ((b, a) for a, b in pairs):
        assert (ours.shape, ours.dtype, ours.stride()) == (eager.shape, eager.dtype, eager.stride())
        scale = eager.abs().max().item() if eager.numel() else 0.0
        torch.testing.assert_close(ours, eager, rtol=0, atol=3e-6 * scale)


class Convolution(nn.Module):
    """`aten.convolution_backward` of all three, by a convolution's own numbers."""

    def __init__(self, steps: Sequence[object]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, gradient: Tensor, value: Tensor, weight: Tensor, bias: int) -> object:
        mask = [True, True, True]
        return aten.convolution_backward(gradient, value, weight, [bias], *self.steps, mask)


@pytest.mark.parametrize(
    ("sizes", "window", "channels", "groups", "stride", "padding", "dilation", "transposed"),
    [
        ((7, 9), 3, (4, 6), 1, 1, 1, 1, False),
        ((9, 12), 3, (4, 6), 2, 2, 0, 2, False),  # a row that no window reaches
        ((8, 8), 3, (6, 6), 6, 2, 1, 1, False),
        ((11,), 4, (3, 5), 1, 2, 1, 1, False),
        ((4, 5, 6), 2, (2, 3), 1, 1, 0, 1, False),
        ((5, 6), 3, (4, 6), 1, 2, 1, 1, True),
        ((4, 5), 2, (4, 6), 2, 3, 0, 2, True),
        ((1, 1), 1, (1, 1), 1, 1, 0, 1, False),
    ],
)
def test_of_convolutions(
    sizes: tuple[int, ...], window: int, channels: tuple[int, int], groups: int,
    stride: int, padding: int, dilation: int, transposed: bool,
) -> None:  # fmt: skip
    given, made = channels
    axes = len(sizes)
    shape = (given, made // groups) if transposed else (made, given // groups)
    more = [stride - 1 if transposed else 0] * axes
    steps = *([n] * axes for n in (stride, padding, dilation)), transposed, more, groups
    value, weight = torch.randn(2, given, *sizes), torch.randn(*shape, *[window] * axes)
    gradient = torch.randn_like(aten.convolution(value, weight, None, *steps))
    module = Convolution(steps)
    wanted = module(gradient, value, weight, made)
    found = dlc.compile(module, (gradient, value, weight, made), backend="host")(
        gradient, value, weight, made
    )
    for ours, eager in zip(found, wanted, strict=True):
        assert ours.shape == eager.shape
        torch.testing.assert_close(ours, eager, rtol=0, atol=2e-6 * eager.abs().max().item())


def trained(eager: nn.Module, x: Tensor) -> None:
    """A module's result and gradients of one step are as eager's, as exact as of f32."""
    ours = copy.deepcopy(eager)
    step: Callable[[Tensor], Tensor] = torch.compile(ours, backend="dlc", options=HOST)
    found: list[list[Tensor | None]] = []
    for model, of in ((eager, eager), (step, ours)):
        leaf = x.clone().requires_grad_()
        result = model(leaf)
        result.sin().sum().backward()
        found.append([result, leaf.grad, *(p.grad for p in of.parameters())])
    for wanted, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("batch", "layer"),
    [
        (2, nn.ConvTranspose2d(2, 3, 3, dilation=2, output_padding=1)),
        (1, nn.ConvTranspose1d(2, 4, 3, stride=2, dilation=4, output_padding=3, groups=2)),
        (0, nn.Conv2d(2, 3, 3, padding=1)),
        (0, nn.ConvTranspose2d(2, 4, 3, groups=2)),
    ],
)
def test_of_convolutions_with_much_padding_and_without_images(batch: int, layer: nn.Module) -> None:
    trained(layer, torch.randn(batch, 2, 4, *([5] if "2d" in type(layer).__name__ else [])))


def test_of_a_convolution_what_is_asked_for() -> None:
    def of_weight(gradient: Tensor, value: Tensor, weight: Tensor) -> Tensor:
        steps = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
        return aten.convolution_backward(
            gradient, value, weight, None, *steps, [False, True, False]
        )[1]

    check(of_weight, torch.randn(2, 6, 7, 9), torch.randn(2, 4, 7, 9), torch.randn(6, 4, 3, 3))


@pytest.mark.parametrize(
    "how",
    [
        ([2, 2], [], [0, 0], False, True, None),
        ([3, 2], [2, 1], [1, 1], True, False, None),
        ([3], [2], [1], True, True, None),
        ([2, 3], [3, 2], [1, 0], False, True, 5),
    ],
)
def test_of_means_over_windows(how: tuple[object, ...]) -> None:
    value = torch.randn(2, 3, 7, 10)
    gradient = torch.randn_like(aten.avg_pool2d(value, *how))
    check(lambda g, x: aten.avg_pool2d_backward(g, x, *how), gradient, value)
    volume = torch.randn(2, 4, 7, 6)
    how = [2, 2, 3], [2, 1, 2], [1, 0, 1], True, False, None
    gradient = torch.randn_like(aten.avg_pool3d(volume, *how))
    check(lambda g, x: aten.avg_pool3d_backward(g, x, *how), gradient, volume)


@pytest.mark.parametrize(
    ("given", "wanted"), [((7, 10), (3, 4)), ((8, 8), (2, 4)), ((5, 5), (7, 1))]
)
def test_of_adaptive_windows(given: tuple[int, int], wanted: tuple[int, int]) -> None:
    value, gradient = torch.randn(2, 3, *given), torch.randn(2, 3, *wanted)
    check(aten._adaptive_avg_pool2d_backward, gradient, value)
    _, places = aten.adaptive_max_pool2d(value, wanted)
    check(aten.adaptive_max_pool2d_backward, gradient, value, places)


SAMPLED = {
    "upsample_nearest2d": False,
    "_upsample_nearest_exact2d": False,
    "upsample_bilinear2d": True,
    "upsample_bicubic2d": True,
    "_upsample_bilinear2d_aa": True,
    "_upsample_bicubic2d_aa": True,
}
SIZES = (
    ((5, 6), (10, 12), (2.0, 2.0)),
    ((7, 9), (11, 4), (None, None)),
    ((5, 5), (5, 13), (1.0, 2.6)),
)


@pytest.mark.parametrize("name", SAMPLED)
def test_of_images_at_other_sizes(name: str) -> None:
    op = getattr(aten, f"{name}_backward")
    flags: Sequence[Sequence[bool]] = ([True], [False]) if SAMPLED[name] else ([],)
    for (given, wanted, factors), flag in zip(SIZES, itertools.cycle(flags), strict=False):
        rest = *flag, *factors
        gradient = torch.randn(2, 3, *wanted)
        check(lambda g, w=wanted, n=given, r=rest: op(g, w, (2, 3, *n), *r), gradient)


def test_of_others() -> None:
    check(
        lambda g: aten.upsample_linear1d_backward(g, [9], [2, 3, 4], False),
        torch.randn(2, 3, 9),
    )
    value = torch.tensor([-1.0, -0.5, 0.0, 0.5, 2.0, torch.nan])
    for op in (aten.softshrink_backward, aten.hardshrink_backward):
        found = dlc.compile(lambda g, x, op=op: op(g, x, 0.5), (value.cos(), value), backend="host")
        wanted = op(value.cos(), value, 0.5)
        assert torch.equal(found(value.cos(), value).nan_to_num(7), wanted.nan_to_num(7))


def test_of_norms_of_a_batch_as_a_gpu_has_them() -> None:
    """`aten.batch_norm_backward`, with memory that cuDNN keeps for itself, as the CPU's own."""
    value, weight = torch.randn(4, 6, 5, 5), torch.rand(6)
    deviation = value.var((0, 2, 3), unbiased=False).add(1e-5).rsqrt()
    given = value.cos(), value, weight, value.mean((0, 2, 3)), deviation

    def of_a_gpu(g: Tensor, x: Tensor, w: Tensor, mean: Tensor, deviation: Tensor) -> object:
        known = None, None, mean, deviation, True, 1e-5, [True] * 3
        return aten.batch_norm_backward(g, x, w, *known, torch.empty(0))

    known = None, None, *given[3:], True, 1e-5, [True] * 3
    wanted = aten.native_batch_norm_backward(*given[:3], *known)
    for ours, eager in zip(
        dlc.compile(of_a_gpu, given, backend="host")(*given), wanted, strict=True
    ):
        torch.testing.assert_close(ours, eager, rtol=0, atol=3e-6 * eager.abs().max().item())


def test_heads_of_a_query_that_share_keys() -> None:
    query, key, value = torch.randn(2, 6, 5, 4), torch.randn(2, 2, 7, 4), torch.randn(2, 2, 7, 4)
    mask = torch.randn(5, 7).masked_fill(torch.rand(5, 7) < 0.3, -torch.inf)
    mask[2] = -torch.inf  # a query without keys

    def gradients(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)

    found = []
    compiled: Callable[..., Tensor] = torch.compile(gradients, backend="dlc", options=HOST)
    forms: list[Callable[..., Tensor]] = [gradients, compiled]
    for f in forms:
        leaves = [t.clone().requires_grad_() for t in (query, key, value)]
        f(*leaves, mask).sin().sum().backward()
        found.append([leaf.grad for leaf in leaves])
    for eager, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bilinear, antialiased"])
def test_of_images_that_keep_a_size(mode: str) -> None:
    """A factor that is too small for a dimension changes it or not, with gradients and without."""
    kind, _, smooth = mode.partition(", ")
    trained(nn.Upsample(scale_factor=1.3, mode=kind) if not smooth else Smooth(), IMAGE)


IMAGE = torch.randn(1, 2, 3, 7, generator=torch.Generator().manual_seed(0))


class Smooth(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=1.3, mode="bilinear", antialias=True)


class Scales(nn.Module):
    """What a network of images has beside its convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.depthwise = nn.Conv2d(6, 6, 3, stride=2, padding=1, groups=6)
        self.back = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.groups = nn.GroupNorm(2, 10)
        self.last = nn.Linear(10, 5)

    def forward(self, x: Tensor) -> Tensor:
        first = F.silu(self.norm(self.first(x)))
        low = self.back(F.max_pool2d(F.hardswish(self.depthwise(first)), 2))
        low = F.interpolate(low, scale_factor=2, mode="bilinear")
        both = self.groups(torch.cat((first, low), 1))
        pooled = F.avg_pool2d(both, 2).flatten(2).amax(-1) + F.adaptive_avg_pool2d(both, 1).flatten(
            1
        )
        return self.last(pooled)


class Words(nn.Module):
    """What a network of words has beside its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(self.table(x))
        return F.log_softmax(self.cell(y[:, 0], y.mean(1)) @ self.table.weight.t(), -1)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "images": (Scales, lambda: torch.randn(3, 3, 8, 8)),
    "images, channels last": (
        Scales,
        lambda: torch.randn(3, 3, 8, 8).to(memory_format=torch.channels_last),
    ),
    "words": (Words, lambda: torch.randint(0, 11, (3, 5))),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_learn_as_in_eager(name: str) -> None:
    torch.manual_seed(0)
    make, draw = NETWORKS[name]
    eager = make()
    ours = copy.deepcopy(eager)
    step = torch.compile(ours, backend="dlc", options=HOST)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1, momentum=0.9) for m in (eager, ours)]
    for _ in range(3):
        x = draw()
        for model, optimizer in zip((eager, step), optimizers, strict=True):
            optimizer.zero_grad()
            for part in (x, x.flip(0)):  # gradients are added up
                model(part).sin().mean().backward()
            optimizer.step()
    for mine, other in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=2e-5, atol=2e-6)


NORMS: dict[str, Callable[[], nn.Module]] = {
    "layer": lambda: nn.LayerNorm(8),
    "group": lambda: nn.GroupNorm(2, 6),
    "batch": lambda: nn.BatchNorm1d(6),
    "batch, without weights": lambda: nn.BatchNorm1d(6, affine=False),
    "batch, known": lambda: nn.BatchNorm1d(6).eval(),
    "all, of what autocast casts": lambda: nn.Sequential(
        nn.Linear(8, 8), nn.LayerNorm(8), nn.GroupNorm(2, 6), nn.BatchNorm1d(6), nn.ReLU()
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_in_bf16_learn_weights_in_f32(name: str) -> None:
    torch.manual_seed(0)
    eager, x, casts = NORMS[name](), torch.randn(3, 6, 8), "autocast" in name
    for parameter in eager.parameters():
        nn.init.uniform_(parameter)
    ours = copy.deepcopy(eager)
    found: list[list[Tensor | None]] = []
    step: Callable[[Tensor], Tensor] = torch.compile(ours, backend="dlc", options=HOST)
    for model, of in ((eager, eager), (step, ours)):
        leaf = x.to(torch.float32 if casts else torch.bfloat16, copy=True).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=casts):
            result = model(leaf)
        result.float().sin().sum().backward()
        found.append([result, leaf.grad, *(p.grad for p in of.parameters()), *of.buffers()])
    for wanted, mine in zip(*found, strict=True):
        assert wanted is not None
        torch.testing.assert_close(mine, wanted, rtol=0, atol=0.02 * wanted.abs().max().item())


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("loss", ["sum", "cross entropy"])
def test_the_loss_may_be_compiled_too(loss: str, images: int) -> None:
    """Its gradient is a number then, on which a convolution's may depend by conditions alone."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 4, 3, padding=1), nn.ReLU()]
    net, x = nn.Sequential(*layers), torch.randn(images, 3, 7, 7)

    def lost(x: Tensor) -> Tensor:
        y = net(x)
        return y.sum() if loss == "sum" else F.cross_entropy(y.mean((2, 3)), torch.arange(images))

    found: list[list[Tensor | None]] = []
    for f in (lost, torch.compile(lost, backend="dlc", options=HOST)):
        net.zero_grad()
        f(x).backward()
        found.append([p.grad for p in net.parameters()])
    for eager, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, eager, rtol=2e-5, atol=2e-5)


def test_a_backward_may_run_again_and_takes_any_strides() -> None:
    weight = torch.randn(5, 7, requires_grad=True)
    x = torch.randn(7, 3)
    y = torch.compile(lambda w, x: (w @ x).tanh(), backend="dlc", options=HOST)(weight, x)
    slope = (1 - (weight.detach() @ x).tanh() ** 2) @ x.t()
    for gradient in (torch.ones(5, 3), torch.ones(3, 5).t(), torch.ones(1, 1).expand(5, 3)):
        (found,) = torch.autograd.grad(y, weight, gradient, retain_graph=True)
        torch.testing.assert_close(found, slope)


def test_it_is_compiled_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def count(graph: torch.fx.GraphModule, *rest: Any) -> Callable[..., object]:
        made.append(str(graph.graph.output_node().args))
        return original(graph, *rest)

    original = dlc.dynamo.compile_functional
    monkeypatch.setattr(dlc.dynamo, "compile_functional", count)
    x = torch.randn(4, 3, requires_grad=True)
    y = torch.compile(lambda x: x.sin(), backend="dlc", options=HOST)(x)
    assert len(made) == 1
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    assert len(made) == 2
    torch._dynamo.reset()
    left = torch.compile(lambda x: x.sin(), backend="dlc", options={**HOST, "backward": False})
    left(x).sum().backward()
    assert len(made) == 3


def test_a_derivative_that_nobody_has_written_is_named() -> None:
    def f(x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, align_corners=False)

    x, grid = torch.randn(1, 2, 4, 4, requires_grad=True), torch.rand(1, 3, 3, 2)
    y = torch.compile(f, backend="dlc", options=HOST)(x, grid)
    with pytest.raises(DiagnosticException, match="grid_sampler_2d_backward"):
        y.sum().backward()
    torch._dynamo.reset()
    found = torch.compile(f, backend="dlc", options={"backend": "host"})(x, grid)
    (ours,) = torch.autograd.grad(found.cos().sum(), x)
    (eager,) = torch.autograd.grad(f(x, grid).cos().sum(), x)
    torch.testing.assert_close(ours, eager)
