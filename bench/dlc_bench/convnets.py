"""Convolutional networks of the literature, by their papers, with weights that mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


def _convolution(i: int, o: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution that keeps the image but for its stride, and its normalization."""
    conv = nn.Conv2d(i, o, size, stride, size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(o)]


def _stem() -> list[nn.Module]:
    return [*_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]


def _head(channels: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]


class _Appended(nn.Module):
    """What is there, and what is computed of it."""

    def __init__(self, new: Iterable[nn.Module]) -> None:
        super().__init__()
        self.new = nn.Sequential(*new)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.new(x)], 1)


class _Added(nn.Module):
    """The sum of two ways from one tensor."""

    def __init__(self, long: Iterable[nn.Module], short: Iterable[nn.Module] = ()) -> None:
        super().__init__()
        self.long, self.short = nn.Sequential(*long), nn.Sequential(*short)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.long(x) + self.short(x)
        return found


class _Fire(nn.Module):
    """Few channels, made many by two convolutions side by side."""

    def __init__(self, i: int, few: int, many: int) -> None:
        super().__init__()
        self.few = nn.Sequential(nn.Conv2d(i, few, 1), nn.ReLU())
        self.narrow = nn.Sequential(nn.Conv2d(few, many, 1), nn.ReLU())
        self.wide = nn.Sequential(nn.Conv2d(few, many, 3, padding=1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        x = self.few(x)
        return torch.cat([self.narrow(x), self.wide(x)], 1)


def densenet(blocks: tuple[int, ...], growth: int = 32) -> nn.Module:
    """Huang et al., Densely Connected Convolutional Networks, 2017."""
    layers, channels = _stem(), 64
    for number, count in enumerate(blocks):
        if number:
            half = nn.Conv2d(channels, channels // 2, 1, bias=False)
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), half, nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(count):
            narrow = [nn.BatchNorm2d(channels), nn.ReLU(), *_convolution(channels, 4 * growth, 1)]
            wide = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
            layers.append(_Appended([*narrow, nn.ReLU(), wide]))
            channels += growth
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), *_head(channels))


def mobilenet() -> nn.Module:
    """Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, 2018."""
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
    layers, channels = [*_convolution(3, 32, 3, 2), nn.ReLU6()], 32
    for factor, to, count, first in stages:
        for number in range(count):
            wide, stride = channels * factor, first if number == 0 else 1
            widen = [*_convolution(channels, wide, 1), nn.ReLU6()] if factor > 1 else []
            each = [*_convolution(wide, wide, 3, stride, wide), nn.ReLU6()]
            body = [*widen, *each, *_convolution(wide, to, 1)]
            added = stride == 1 and to == channels
            layers.append(_Added(body) if added else nn.Sequential(*body))
            channels = to
    return nn.Sequential(*layers, *_convolution(channels, 1280, 1), nn.ReLU6(), *_head(1280))


def resnet() -> nn.Module:
    """He et al., Deep Residual Learning for Image Recognition, 2016: 50 layers."""
    layers, channels = _stem(), 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for number in range(count):
            stride = 2 if stage and number == 0 else 1
            narrow = [*_convolution(channels, width, 1), nn.ReLU()]
            middle = [*_convolution(width, width, 3, stride), nn.ReLU()]
            short = [] if number else _convolution(channels, 4 * width, 1, stride)
            layers.append(_Added([*narrow, *middle, *_convolution(width, 4 * width, 1)], short))
            layers.append(nn.ReLU())
            channels = 4 * width
    return nn.Sequential(*layers, *_head(channels))


def vgg() -> nn.Module:
    """Simonyan and Zisserman, Very Deep Convolutional Networks, 2015: 16 layers."""
    layers: list[nn.Module] = []
    channels = 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    hidden = [nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), *hidden, nn.Linear(4096, 1000))


def squeezenet() -> nn.Module:
    """Iandola et al., SqueezeNet, 2016: version 1.1."""
    fires = ((64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128), (256, 48, 192),
             (384, 48, 192), (384, 64, 256), (512, 64, 256))  # fmt: skip
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2), nn.ReLU()]
    for number, sizes in enumerate(fires):
        if number in (0, 2, 4):
            layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        layers.append(_Fire(*sizes))
    last = nn.Conv2d(512, 1000, 1)
    return nn.Sequential(*layers, last, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "SqueezeNet 1.1": squeezenet,
    "MobileNetV2": mobilenet,
    "ResNet-50": resnet,
    "VGG-16": vgg,
    "DenseNet-121": lambda: densenet((6, 12, 24, 16)),
    "DenseNet-201": lambda: densenet((6, 12, 48, 32)),
}
