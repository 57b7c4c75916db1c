"""
The programs of bench/roofline.py, as data: operators and fused programs at benchmark sizes.

    python bench/kernel_programs.py [--only REGEX]        # lists them: name and text

A row of the table is a family, a name, a text as `dlc compile -c` takes it, and the sizes that its
braces stand for, a program for each. A program's name is `family/name.sizes`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass

Sizes = tuple[tuple[int, ...], ...]
Row = tuple[str, str, Sizes]


@dataclass(frozen=True)
class Program:
    """A program with random inputs."""

    name: str
    family: str
    text: str


def sizes(*each: int) -> Sizes:
    """Those of texts with one extent."""
    return tuple((n,) for n in each)


LINEAR: Sizes = ((128, 1024, 4096), (128, 4096, 4096), (1024, 2048, 2048), (1024, 8192, 1024))
"""Rows, features in and out."""
MATRICES: Sizes = ((1024, 4096), (4096, 4096), (8192, 8192), (128, 65536))
"""Rows and columns."""
LOSSES: Sizes = ((128, 4096), (4096, 4096), (32768, 1024), (32768, 32768))
PLANES: Sizes = ((16, 64, 256), (64, 64, 128), (32, 256, 56), (112, 64, 512))
"""Batch, channels, and the extent of a square plane."""
IMAGES: Sizes = ((16, 3, 64, 224), (16, 64, 64, 112), (32, 64, 128, 56), (128, 128, 256, 28))
"""Batch, channels in and out, and the extent of a square plane."""
VOLUMES: Sizes = ((8, 3, 16, 32), (16, 16, 32, 32), (4, 32, 64, 24), (16, 32, 32, 16))
HEADS: Sizes = ((1, 32, 512, 64), (8, 16, 1024, 64), (32, 12, 128, 64), (1, 28, 2048, 128))
"""Batch, heads, tokens, and the extent of a head."""

_CONV2D = "nn.Conv2d({1}, {2}, 3, padding=1)(torch.randn({0}, {1}, {3}, {3}))"
_CONV3D = "nn.Conv3d({1}, {2}, 3, padding=1)(torch.randn({0}, {1}, {3}, {3}, {3}))"
_LINEAR = "nn.Linear({1}, {2})(torch.randn({0}, {1}))"
_PLANES = "torch.randn({0}, {1}, {2}, {2})"
_PAIR = "a = torch.randn({0}, {1}); b = torch.randn({0}, {1}); "
_X = "torch.randn({0}, {1})"

PRODUCTS: tuple[Row, ...] = (
    ("square", "torch.randn({0}, {0}) @ torch.randn({0}, {0})", sizes(512, 1024, 2048, 4096)),
    (
        "matrices",
        "torch.randn({0}, {1}) @ torch.randn({1}, {2})",
        (
            (1, 4096, 4096), (1, 2048, 5632), (4096, 4096, 1), (131072, 1024, 1),
            (32768, 32, 32768), (16384, 16, 1024), (256, 131072, 256), (32, 524288, 32),
            (1000, 3001, 777), (8192, 64, 64), (64, 8192, 8192), (2048, 8192, 4096),
        ),
    ),
    (
        "batched",
        "torch.bmm(torch.randn({0}, {1}, {2}), torch.randn({0}, {2}, {3}))",
        ((128, 128, 256, 512), (16, 1024, 1024, 1024), (512, 64, 64, 64), (64, 1, 4096, 512)),
    ),
    (
        "transposed",
        "torch.randn({1}, {0}).T @ torch.randn({2}, {1}).T",
        ((1024, 4096, 2048), (4096, 1024, 4096)),
    ),
    ("bias_gelu", "F.gelu(" + _LINEAR + ")", LINEAR),
    (
        "scale_residual",
        "x = torch.randn({0}, {1}); nn.Linear({1}, {1})(x) * 0.5 + x",
        ((128, 4096), (1024, 2048)),
    ),
)  # fmt: skip

LINEAR_CHAINS: tuple[Row, ...] = (
    ("max_pool_sum", "(F.max_pool1d(" + _LINEAR + ", 2).sum(1) * 0.5)", LINEAR),
    (
        "avg_pool_gelu",
        "F.gelu(F.avg_pool1d(" + _LINEAR + ".unsqueeze(1), 4).squeeze(1)).max(1).values",
        LINEAR,
    ),
    ("max_pool", "F.max_pool1d(" + _LINEAR + ", 2)", LINEAR),
    ("min_subtract", "torch.min(" + _LINEAR + ", torch.tensor(2.0)) - 2.0", LINEAR[:2]),
    ("group_norm_min", "nn.GroupNorm(32, {2})(" + _LINEAR + ").min(1, keepdim=True)[0]", LINEAR),
    ("softmax", "torch.softmax(F.dropout(" + _LINEAR + ", 0.5, False), 1)", LINEAR),
    ("swish_norm", "y = " + _LINEAR + "; nn.LayerNorm({2})(torch.sigmoid(y) * y)", LINEAR),
    ("logsumexp", "F.mish(torch.logsumexp(" + _LINEAR + ", 1, keepdim=True))", LINEAR),
)

CONVOLUTIONS: tuple[Row, ...] = (
    (
        "conv1d",
        "nn.Conv1d({1}, {2}, {4}, stride={5}, dilation={6})(torch.randn({0}, {1}, {3}))",
        (
            (32, 64, 128, 8192, 3, 1, 1), (16, 3, 64, 65536, 7, 2, 1),
            (64, 64, 128, 16384, 3, 3, 4), (16, 256, 256, 4096, 1, 1, 1),
        ),
    ),
    ("conv2d", _CONV2D, IMAGES),
    (
        "conv2d_strided",
        "nn.Conv2d({1}, {2}, {4}, stride={5}, padding={6})(torch.randn({0}, {1}, {3}, {3}))",
        (
            (64, 3, 64, 224, 7, 2, 3), (128, 3, 96, 224, 11, 4, 2), (16, 64, 128, 56, 3, 2, 1),
            (32, 64, 128, 56, 1, 1, 0),
        ),
    ),
    (
        "conv2d_dilated",
        "nn.Conv2d({1}, {2}, 3, padding=2, dilation=2)(torch.randn({0}, {1}, {3}, {3}))",
        IMAGES[1:3],
    ),
    (
        "conv2d_grouped",
        "nn.Conv2d({1}, {1}, 3, padding=1, groups={3})(torch.randn({0}, {1}, {2}, {2}))",
        ((32, 64, 112, 64), (16, 256, 56, 256), (32, 128, 56, 4), (16, 512, 14, 32)),
    ),
    ("conv3d", _CONV3D, VOLUMES),
    (
        "transposed1d",
        "nn.ConvTranspose1d({1}, {2}, 5, stride={4})(torch.randn({0}, {1}, {3}))",
        ((16, 64, 128, 8192, 1), (32, 64, 64, 4096, 2)),
    ),
    (
        "transposed2d",
        "nn.ConvTranspose2d({1}, {2}, 3, stride={4})(torch.randn({0}, {1}, {3}, {3}))",
        ((16, 64, 64, 128, 1), (16, 128, 64, 64, 2), (8, 32, 32, 256, 1), (16, 32, 64, 64, 3)),
    ),
    (
        "transposed3d",
        "nn.ConvTranspose3d({1}, {2}, 3, stride={4})(torch.randn({0}, {1}, {3}, {3}, {3}))",
        ((8, 32, 16, 32, 1), (8, 32, 32, 16, 2)),
    ),
)  # fmt: skip

CONVOLUTION_CHAINS: tuple[Row, ...] = (
    ("relu_bias", "F.relu(" + _CONV2D + ") + torch.randn({2}, 1, 1)", IMAGES),
    ("hardswish_max_pool", "F.max_pool2d(F.hardswish(" + _CONV2D + "), 2)", IMAGES),
    ("min_channels", "torch.tanh((" + _CONV2D + ").min(1, keepdim=True)[0])", IMAGES),
    ("avg_pool_sum", "torch.sigmoid(F.avg_pool2d(" + _CONV2D + ", 4)).sum((1, 2, 3))", IMAGES),
    ("group_norm", "nn.GroupNorm(8, {2})(" + _CONV2D + ").tanh()", IMAGES),
    ("batch_norm", "nn.BatchNorm2d({2}).eval()(" + _CONV2D + ") * 2", IMAGES[:2]),
    ("volume_max_pool", "F.max_pool3d(torch.softmax(" + _CONV3D + ", 1), 2)", VOLUMES),
    (
        "transposed_pool",
        "F.avg_pool3d(nn.ConvTranspose3d({1}, {2}, 3, stride=2, padding=1)"
        "(torch.randn({0}, {1}, {3}, {3}, {3})), 2)",
        VOLUMES[1:3],
    ),
    (
        "transposed_mean",
        "nn.ConvTranspose2d({1}, {2}, 3)(torch.randn({0}, {1}, {3}, {3})).mean((2, 3))",
        IMAGES[1:3],
    ),
)

REDUCTIONS: tuple[Row, ...] = (
    ("sum", _X + ".sum()", MATRICES),
    ("sum_rows", _X + ".sum(1)", MATRICES),
    ("mean_columns", _X + ".mean(0)", MATRICES),
    (
        "sum_middle",
        "torch.randn({0}, {1}, {2}).sum(1)",
        ((16, 256, 256), (128, 4096, 4095), (1024, 32, 64), (8, 65536, 16)),
    ),
    ("max_rows", _X + ".max(1).values", MATRICES),
    ("argmax", "torch.argmax(" + _X + ", 1)", MATRICES),
    ("argmin_columns", "torch.argmin(" + _X + ", 0)", MATRICES),
    ("norm", "torch.norm(" + _X + ")", ((1024, 4096), (8192, 8192), (16384, 16384))),
    ("variance", "torch.var(" + _X + ", 1)", MATRICES[:2]),
)

LOSS_PROGRAMS: tuple[Row, ...] = (
    ("mse", _PAIR + "F.mse_loss(a, b)", LOSSES),
    ("huber", _PAIR + "F.smooth_l1_loss(a, b)", LOSSES),
    ("hinge", _PAIR + "torch.clamp(1 - a * b, min=0).mean()", LOSSES),
    ("kl", _PAIR + "F.kl_div(a, b, reduction='batchmean')", LOSSES),
    (
        "cross_entropy",
        "F.cross_entropy(" + _X + ", torch.randint(0, {1}, ({0},)))",
        ((4096, 10), (32768, 4096), (512, 151669), (8192, 32000)),
    ),
    ("cosine", _PAIR + "(1 - F.cosine_similarity(a, b, 1)).mean()", LOSSES),
    ("triplet", _PAIR + "F.triplet_margin_loss(a, b, torch.randn({0}, {1}))", LOSSES),
)

NORMS: tuple[Row, ...] = (
    ("layer", "nn.LayerNorm({1})(" + _X + ")", MATRICES),
    (
        "layer_statistics",
        "torch.native_layer_norm(" + _X + ", [{1}], torch.randn({1}), torch.randn({1}), 1e-5)",
        MATRICES,
    ),
    ("rms", "nn.RMSNorm({1})(" + _X + ")", MATRICES),
    ("layer_planes", "nn.LayerNorm(({1}, {2}, {2}))(" + _PLANES + ")", PLANES),
    ("group", "nn.GroupNorm(8, {1})(" + _PLANES + ")", PLANES),
    (
        "small_groups",
        "nn.GroupNorm(32, {1})(" + _PLANES + ")",
        ((32, 256, 28), (64, 512, 14), (16, 1024, 14), (128, 64, 16)),
    ),
    ("instance", "nn.InstanceNorm2d({1})(" + _PLANES + ")", PLANES),
    ("batch", "nn.BatchNorm2d({1}).eval()(" + _PLANES + ")", PLANES[:2]),
    (
        "quantized",
        "x = "
        + _X
        + "; s = x.abs().amax(1, keepdim=True) / 127; ((x / s).round().to(torch.int8), s)",
        MATRICES,
    ),
    ("l2", "x = " + _X + "; x / x.norm(2, 1, keepdim=True)", MATRICES),
    ("frobenius", "x = " + _PLANES + "; x / x.norm()", PLANES[:2]),
)

SOFTMAXES: tuple[Row, ...] = (
    ("rows", "torch.softmax(" + _X + ", 1)", (*MATRICES, (4096, 393216))),
    ("log", "torch.log_softmax(" + _X + ", 1)", MATRICES),
    ("columns", "torch.softmax(" + _X + ", 0)", MATRICES[:2]),
    ("channels", "torch.softmax(" + _PLANES + ", 1)", PLANES[:2]),
    ("logsumexp", "torch.logsumexp(" + _X + ", 1)", MATRICES),
)

POOLS: tuple[Row, ...] = (
    ("max2d", "F.max_pool2d(" + _PLANES + ", 3, 2, 1)", PLANES),
    ("average2d", "F.avg_pool2d(" + _PLANES + ", 11)", PLANES),
    (
        "max1d",
        "F.max_pool1d(torch.randn({0}, {1}, {2}), 8, 1, 4, 3)",
        ((64, 192, 65536), (16, 64, 4096)),
    ),
    (
        "average1d",
        "F.avg_pool1d(torch.randn({0}, {1}, {2}), 8, 1, 4)",
        ((64, 128, 65536), (16, 64, 4096)),
    ),
    (
        "max3d",
        "F.max_pool3d(torch.randn({0}, {1}, {2}, {2}, {2}), 3, 2, 1)",
        ((16, 32, 128), (4, 64, 64)),
    ),
    ("average3d", "F.avg_pool3d(torch.randn({0}, {1}, {2}, {2}, {2}), 3, 2, 1)", ((16, 32, 128),)),
    ("adaptive", "F.adaptive_avg_pool2d(" + _PLANES + ", 1)", PLANES),
)

SCANS: tuple[Row, ...] = (
    ("cumsum", "torch.cumsum(" + _X + ", 1)", (*MATRICES, (32768, 32768))),
    ("cumsum_columns", "torch.cumsum(" + _X + ", 0)", MATRICES[:2]),
    ("cumprod", "torch.cumprod(" + _X + ", 1)", (*MATRICES[:2], (32768, 32768))),
    ("reverse", "torch.cumsum(" + _X + ".flip(1), 1).flip(1)", MATRICES),
    ("masked", "torch.cumsum(" + _X + " * (torch.randn({0}, {1}) > 0), 1)", MATRICES),
    ("cummax", "torch.cummax(" + _X + ", 1).values", MATRICES[:2]),
)

MOVEMENTS: tuple[Row, ...] = (
    ("transpose", _X + ".T.contiguous()", MATRICES),
    (
        "permute",
        "torch.randn({0}, {1}, {2}, {3}).permute(0, 2, 1, 3).contiguous()",
        ((8, 512, 16, 64), (32, 128, 12, 64)),
    ),
    ("channels_last", _PLANES + ".permute(0, 2, 3, 1).contiguous()", PLANES[:3]),
    ("concatenate", _PAIR + "torch.cat([a, b], 1)", MATRICES),
    ("stack", _PAIR + "torch.stack([a, b], 1)", MATRICES[:2]),
    ("flip", _X + ".flip(1)", MATRICES[:2]),
    ("roll", "torch.roll(" + _X + ", 17, 1)", MATRICES[:2]),
    (
        "embedding",
        "F.embedding(torch.randint(0, {0}, ({2},)), " + _X + ")",
        ((32000, 2048, 4096), (151669, 3584, 512)),
    ),
    ("gather", "torch.gather(" + _X + ", 1, torch.randint(0, {1}, ({0}, {1})))", MATRICES[:2]),
)

ORDERINGS: tuple[Row, ...] = (
    (
        "sort",
        "torch.sort(" + _X + ", 1)",
        ((1024, 4096), (32768, 128), (64, 65536), (1, 1048576)),
    ),
    (
        "topk",
        "torch.topk(" + _X + ", {2})",
        ((4096, 4000, 8), (1, 131072, 50), (65536, 64, 2), (128, 32000, 256)),
    ),
    (
        "index_add",
        "torch.zeros({0}, {2}).index_add(0, torch.randint(0, {0}, ({1},)), torch.randn({1}, {2}))",
        ((10000, 100000, 256), (50000, 4096, 256), (4096, 64, 4096), (100, 65536, 128)),
    ),
    (
        "scatter_add",
        "torch.zeros({0}, {1}).scatter_add(1, torch.randint(0, {1}, ({0}, {2})), "
        "torch.randn({0}, {2}))",
        ((1024, 4096, 8192), (64, 1000, 100000), (4096, 128, 512), (1, 100000, 262144)),
    ),
    (
        "embedding_bag",
        "nn.EmbeddingBag({0}, {1})(torch.randint(0, {0}, ({2} * {3},)), "
        "torch.arange(0, {2} * {3}, {3}))",
        (
            (50000, 256, 4096, 32),
            (1000000, 64, 16384, 20),
            (10000, 1024, 512, 100),
            (1000, 16, 65536, 4),
        ),
    ),
    (
        "searchsorted",
        "torch.searchsorted(torch.randn({0}), torch.randn({1}))",
        ((4096, 1000000), (1000000, 1000000), (100, 16777216), (65536, 4194304)),
    ),
)

ACTIVATIONS: tuple[Row, ...] = tuple(
    (name, text.format(_X), shapes)
    for name, text, shapes in (
        ("relu", "torch.relu({0})", MATRICES),
        ("gelu", "F.gelu({0})", MATRICES),
        ("silu", "F.silu({0})", ((128, 4096), (16384, 16384))),
        ("softplus", "F.softplus({0})", ((128, 4096), (16384, 16384))),
        ("tanh_gelu", "F.gelu({0}, approximate='tanh')", MATRICES[:2]),
        ("swiglu", "F.silu({0}) * {0}", MATRICES[:2]),
    )
)

_ATTENTION = (
    "F.scaled_dot_product_attention(torch.randn({0}, {1}, {2}, {3}), "
    "torch.randn({0}, {1}, {2}, {3}), torch.randn({0}, {1}, {2}, {3})"
)
ATTENTIONS: tuple[Row, ...] = (
    ("full", _ATTENTION + ")", HEADS),
    ("causal", _ATTENTION + ", is_causal=True)", HEADS),
    (
        "one_token",
        "k = torch.randn({0}, {1}, {2}, {3}); v = torch.randn({0}, {1}, {2}, {3}); "
        "F.scaled_dot_product_attention(torch.randn({0}, {1}, 1, {3}), k, v)",
        HEADS[:2],
    ),
)

_FIRE = (
    "s = F.relu(nn.Conv2d({1}, {2}, 1)(torch.randn({0}, {1}, {3}, {3}))); "
    "torch.cat([F.relu(nn.Conv2d({2}, {4}, 1)(s)), "
    "F.relu(nn.Conv2d({2}, {4}, 3, padding=1)(s))], 1)"
)
_INVERTED = (
    "x = torch.randn({0}, {1}, {3}, {3}); nn.Sequential(nn.Conv2d({1}, {2}, 1, bias=False), "
    "nn.BatchNorm2d({2}), nn.ReLU6(), nn.Conv2d({2}, {2}, 3, padding=1, groups={2}, bias=False), "
    "nn.BatchNorm2d({2}), nn.ReLU6(), nn.Conv2d({2}, {1}, 1, bias=False), nn.BatchNorm2d({1}))"
    ".eval()(x) + x"
)
_RESIDUAL = (
    "x = torch.randn({0}, {1}, {2}, {2}); F.relu(nn.Sequential("
    "nn.Conv2d({1}, {1}, 3, padding=1, bias=False), nn.BatchNorm2d({1}), nn.ReLU(), "
    "nn.Conv2d({1}, {1}, 3, padding=1, bias=False), nn.BatchNorm2d({1})).eval()(x) + x)"
)
_TRANSFORMER = (
    "x = torch.randn({0}, {1}, {2}); h = nn.LayerNorm({2})(x); "
    "q = nn.Linear({2}, {2})(h).view({0}, {1}, {3}, 64).transpose(1, 2); "
    "k = nn.Linear({2}, {2})(h).view({0}, {1}, {3}, 64).transpose(1, 2); "
    "v = nn.Linear({2}, {2})(h).view({0}, {1}, {3}, 64).transpose(1, 2); "
    "a = F.scaled_dot_product_attention(q, k, v, is_causal=True); "
    "y = x + nn.Linear({2}, {2})(a.transpose(1, 2).reshape({0}, {1}, {2})); "
    "y + nn.Linear(4 * {2}, {2})(F.gelu(nn.Linear({2}, 4 * {2})(nn.LayerNorm({2})(y))))"
)
BLOCKS: tuple[Row, ...] = (
    (
        "vgg",
        "nn.Sequential(nn.Conv2d({1}, {2}, 3, padding=1), nn.ReLU(), "
        "nn.Conv2d({2}, {2}, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))"
        "(torch.randn({0}, {1}, {3}, {3}))",
        ((10, 3, 64, 224), (10, 64, 128, 112), (10, 128, 256, 56), (10, 512, 512, 14)),
    ),
    ("fire", _FIRE, ((64, 96, 16, 54, 64), (64, 256, 32, 27, 128))),
    (
        "dense_layer",
        "x = torch.randn({0}, {1}, {2}, {2}); torch.cat([x, nn.Sequential(nn.BatchNorm2d({1}), "
        "nn.ReLU(), nn.Conv2d({1}, 32, 3, padding=1, bias=False)).eval()(x)], 1)",
        ((10, 64, 56), (10, 256, 28)),
    ),
    (
        "dense_transition",
        "nn.Sequential(nn.BatchNorm2d({1}), nn.ReLU(), nn.Conv2d({1}, {2}, 1, bias=False), "
        "nn.AvgPool2d(2)).eval()(torch.randn({0}, {1}, {3}, {3}))",
        ((32, 128, 64, 128), (10, 256, 128, 56)),
    ),
    ("inverted_residual", _INVERTED, ((10, 24, 144, 56), (10, 96, 576, 14))),
    ("residual", _RESIDUAL, ((10, 64, 56), (16, 256, 14))),
    ("transformer", _TRANSFORMER, ((1, 512, 768, 12), (8, 1024, 768, 12), (1, 1, 2048, 32))),
    (
        "mlp",
        "nn.Sequential(nn.Linear({1}, {2}), nn.ReLU(), nn.Linear({2}, {2}), nn.ReLU(), "
        "nn.Linear({2}, {3}))(torch.randn({0}, {1}))",
        ((1, 1000, 2000, 10), (128, 16384, 8192, 8192)),
    ),
)

FAMILIES: dict[str, tuple[Row, ...]] = {
    "product": PRODUCTS,
    "linear-chain": LINEAR_CHAINS,
    "convolution": CONVOLUTIONS,
    "convolution-chain": CONVOLUTION_CHAINS,
    "reduction": REDUCTIONS,
    "loss": LOSS_PROGRAMS,
    "norm": NORMS,
    "softmax": SOFTMAXES,
    "pool": POOLS,
    "scan": SCANS,
    "movement": MOVEMENTS,
    "ordering": ORDERINGS,
    "activation": ACTIVATIONS,
    "attention": ATTENTIONS,
    "block": BLOCKS,
}


def _programs() -> Iterator[Program]:
    for family, rows in FAMILIES.items():
        for name, text, shapes in rows:
            for extents in shapes:
                ending = "x".join(map(str, extents))
                yield Program(f"{family}/{name}.{ending}", family, text.format(*extents))


PROGRAMS = tuple(_programs())


def select(only: str | None) -> list[Program]:
    """The programs whose names a regular expression is found in."""
    return [p for p in PROGRAMS if only is None or re.search(only, p.name)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--only", metavar="REGEX")
    for program in select(parser.parse_args().only):
        print(f"{program.name:44} {program.text}")


if __name__ == "__main__":
    main()
