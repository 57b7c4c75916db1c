"""The modules of torch.nn by `torch.compile(dynamic=True)`, in eval mode: as in eager."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

R = torch.randn
POOLED: list[tuple[torch.Tensor, ...]] = [
    nn.MaxPool1d(2, return_indices=True)(R(2, 4, 6)),
    nn.MaxPool2d(2, return_indices=True)(R(1, 2, 4, 6)),
    nn.MaxPool3d(2, return_indices=True)(R(1, 2, 2, 4, 4)),
]


def _parts(*shape: int) -> tuple[Any, ...]:
    """Windows of two points, two of each dimension, at places that are given."""
    return 2, 2, None, False, torch.rand(shape)


SMALL: dict[str, tuple[tuple[torch.Tensor, ...], dict[str, tuple[Any, ...]]]] = {
    "points": (
        (R(3, 4),),
        {
            name: ()
            for name in (
                "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish "
                "PReLU ReLU ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink "
                "Identity RReLU Dropout AlphaDropout FeatureAlphaDropout Flatten"
            ).split()
        }
        | {"Threshold": (0.1, 2.0), "GLU": (1,), "Unflatten": (1, (2, 2))},
    ),
    "rows": (
        (R(3, 4),),
        {
            "Linear": (4, 3), "LayerNorm": (4,), "RMSNorm": (4,), "BatchNorm1d": (4,),
            "Softmin": (-1,), "Softmax": (-1,), "LogSoftmax": (-1,), "RNNCell": (4, 3),
            "LSTMCell": (4, 3), "GRUCell": (4, 3), "SyncBatchNorm": (4,),
            "DataParallel": (nn.Linear(4, 3),),
        },
    ),
    "lines": (
        (R(2, 4, 7),),
        {
            "Conv1d": (4, 3, 2), "ConvTranspose1d": (4, 3, 2), "InstanceNorm1d": (4,),
            "GroupNorm": (2, 4), "MaxPool1d": (2,), "AvgPool1d": (2,), "LPPool1d": (2, 2),
            "AdaptiveMaxPool1d": (2,), "AdaptiveAvgPool1d": (2,), "Dropout1d": (),
            "ReflectionPad1d": (1,), "ReplicationPad1d": (1,), "CircularPad1d": (1,),
            "ZeroPad1d": (1,), "ConstantPad1d": (1, 0.5),
        },
    ),
    "images": (
        (R(2, 4, 4, 6),),
        {
            "Conv2d": (4, 3, 2), "ConvTranspose2d": (4, 3, 2), "InstanceNorm2d": (4,),
            "BatchNorm2d": (4,), "MaxPool2d": (2,), "AvgPool2d": (2,), "LPPool2d": (2, 2),
            "AdaptiveMaxPool2d": (2,), "AdaptiveAvgPool2d": (2,), "Dropout2d": (), "Softmax2d": (),
            "ReflectionPad2d": (1,), "ReplicationPad2d": (1,), "CircularPad2d": (1,),
            "ZeroPad2d": (1,), "ConstantPad2d": (1, 0.5), "LocalResponseNorm": (2,),
            "ChannelShuffle": (2,), "PixelShuffle": (2,), "PixelUnshuffle": (2,), "Unfold": (2,),
            "UpsamplingNearest2d": (None, 2), "UpsamplingBilinear2d": (None, 2),
            "Upsample": (None, 1.5, "bilinear"),
        },
    ),
    "volumes": (
        (R(1, 2, 3, 4, 4),),
        {
            "Conv3d": (2, 3, 2), "ConvTranspose3d": (2, 3, 2), "InstanceNorm3d": (2,),
            "BatchNorm3d": (2,), "MaxPool3d": (2,), "AvgPool3d": (2,), "LPPool3d": (2, 2),
            "AdaptiveMaxPool3d": (2,), "AdaptiveAvgPool3d": (2,), "Dropout3d": (),
            "ReflectionPad3d": (1,), "ReplicationPad3d": (1,), "CircularPad3d": (1,),
            "ZeroPad3d": (1,), "ConstantPad3d": (1, 0.5),
        },
    ),
    "pairs": (
        (R(3, 4), R(3, 4).sigmoid()),
        {
            "BCEWithLogitsLoss": (), "HuberLoss": (), "KLDivLoss": (), "L1Loss": (), "MSELoss": (),
            "PoissonNLLLoss": (), "SmoothL1Loss": (), "SoftMarginLoss": (),
            "MultiLabelSoftMarginLoss": (), "HingeEmbeddingLoss": (), "CosineSimilarity": (),
            "PairwiseDistance": (), "CrossEntropyLoss": (), "Bilinear": (4, 4, 3),
        },
    ),
    "triples": (
        (R(3, 4), R(3, 4), R(3, 4).exp()),
        {"TripletMarginLoss": (), "TripletMarginWithDistanceLoss": ()},
    ),
    "classes": (
        (R(3, 4).log_softmax(-1), torch.tensor([0, 3, 1])),
        {
            "NLLLoss": (), "MultiMarginLoss": (), "CrossEntropyLoss": (),
            "LinearCrossEntropyLoss": (4, 5),
        },
    ),
    "shares": ((R(3, 4).sigmoid(), R(3, 4).sigmoid()), {"BCELoss": ()}),
    "labels": (
        (R(3, 4), torch.tensor([[3, 0, -1, 1], [0, 1, 2, 3], [-1, 0, 0, 0]])),
        {"MultiLabelMarginLoss": ()},
    ),
    "signs": ((R(3, 4), R(3, 4), torch.tensor([1, -1, 1])), {"CosineEmbeddingLoss": ()}),
    "ranks": ((R(3), R(3), torch.tensor([1, -1, 1])), {"MarginRankingLoss": ()}),
    "places of lines": (POOLED[0], {"MaxUnpool1d": (2,)}),
    "places of images": (POOLED[1], {"MaxUnpool2d": (2,)}),
    "places of volumes": (POOLED[2], {"MaxUnpool3d": (2,)}),
    "parts of images": ((R(2, 3, 4, 6),), {"FractionalMaxPool2d": _parts(2, 3, 2)}),
    "parts of volumes": ((R(1, 2, 4, 4, 4),), {"FractionalMaxPool3d": _parts(1, 2, 3)}),
    "words": (
        (torch.tensor([[0, 3, 1], [4, 4, 2]]),),
        {"Embedding": (5, 3), "EmbeddingBag": (5, 3)},
    ),
    "columns": ((R(1, 8, 4),), {"Fold": ((3, 3), (2, 2))}),
    "sentences": (
        (R(3, 2, 4), R(3, 2, 4), R(3, 2, 4)),
        {"MultiheadAttention": (4, 2)},
    ),
    "encoders": ((R(3, 2, 4),), {
        "TransformerEncoderLayer": (4, 2, 8),
        "TransformerEncoder": (nn.TransformerEncoderLayer(4, 2, 8), 1, None, False),
    }),
    "decoders": ((R(3, 2, 4), R(2, 2, 4)), {
        "TransformerDecoderLayer": (4, 2, 8), "Transformer": (4, 2, 1, 1, 8),
        "TransformerDecoder": (nn.TransformerDecoderLayer(4, 2, 8), 1),
    }),
    "recurrent": ((R(3, 2, 4),), {"RNN": (4, 3), "GRU": (4, 3), "LSTM": (4, 3)}),
    "resizing": ((R(1, 4, 3, 3),), {"CrossMapLRN2d": (2,)}),
    "aligned": (
        (
            R(5, 2, 4).log_softmax(-1), torch.tensor([[1, 2, 3], [2, 2, 1]]),
            torch.tensor([5, 4]), torch.tensor([3, 2]),
        ),
        {"CTCLoss": ()},
    ),
    "clusters": (
        (R(3, 4), torch.tensor([0, 3, 5])), {"AdaptiveLogSoftmaxWithLoss": (4, 6, [2, 4])}
    ),
    "branching": ((R(3, 4), R(3, 4), R(3, 4).exp()), {"GaussianNLLLoss": ()}),
}  # fmt: skip
"""Inputs, and the modules that take them: each with the arguments of its constructor."""
BREAKING = ("recurrent", "resizing", "aligned", "clusters", "branching")
"""Groups that Dynamo leaves to eager itself."""
NONE = re.compile("(Lazy.*|.*Base|Container|Sequential|Module(List|Dict)?|Parameter.*|NLLLoss2d)")
"""What holds others, becomes one of them or is their base."""
LEFT = {"aten._trilinear.default", "aten._embedding_bag.default"}
"""What PyTorch may run of the others."""


class Together(nn.Module):
    """The results of several modules on the same inputs."""

    def __init__(self, group: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        modules = [(name, args) for name, args in SMALL[group][1].items() if hasattr(nn, name)]
        self.modules_of = nn.ModuleList(getattr(nn, name)(*args) for name, args in modules)

    def forward(self, *inputs: torch.Tensor) -> list[Any]:
        return [module(*inputs) for module in self.modules_of]


def test_no_module_is_missing() -> None:
    named = {name for name, kind in vars(nn).items() if isinstance(kind, type)}
    modules = {name for name in named if issubclass(getattr(nn, name), nn.Module)}
    given = {name for _, group in SMALL.values() for name in group}
    assert {name for name in modules - given if not NONE.fullmatch(name)} == set()


@pytest.mark.parametrize("group", SMALL)
def test_as_in_eager(group: str, caplog: pytest.LogCaptureFixture):
    torch._dynamo.reset()
    model, inputs = Together(group).eval(), SMALL[group][0]
    whole = group not in BREAKING
    compiled = torch.compile(model, backend="dlc", dynamic=True, fullgraph=whole)
    with torch.no_grad():
        found = compiled(*inputs)
        torch.testing.assert_close(found, model(*inputs), rtol=1e-4, atol=1e-5)
    said = [r.message.partition("PyTorch: ")[2] for r in caplog.records if r.name == "dlc.graphs"]
    assert {line.split(" (")[0] for line in said} <= LEFT
