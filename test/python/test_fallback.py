"""What dlc cannot compile under `torch.compile`: left to eager PyTorch, or an error, as asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

import dlc
from dlc.frontend.source import ImportFailure


@torch.library.custom_op("dlc_test::negated", mutates_args=())
def negated(x: torch.Tensor) -> torch.Tensor:
    return -x


@negated.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


negated.register_autograd(lambda context, gradient: -gradient)


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What dlc has logged."""
    return [record.message for record in caplog.records if record.name.startswith("dlc.")]


def around(x: torch.Tensor) -> torch.Tensor:
    """A custom operation amid others; its argument is written to before and after."""
    x.mul_(2)
    y = negated(x.relu() + 1)
    x.add_(y)
    return y.softmax(-1) * x


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_custom_operation_amid_a_graph(
    grad: bool, dynamic: bool | None, caplog: pytest.LogCaptureFixture
):
    compiled = torch.compile(around, backend="dlc", dynamic=dynamic, fullgraph=True)
    for n in (3, 4):
        w = torch.randn(n, requires_grad=grad)
        (ours, our_x), (eagers, eager_x) = (
            (f(x), x) for f, x in ((compiled, w * 1), (around, w * 1))
        )
        torch.testing.assert_close((ours, our_x), (eagers, eager_x))
        if grad:
            mine, its = (torch.autograd.grad(y.sum(), w)[0] for y in (ours, eagers))
            torch.testing.assert_close(mine, its)
    line = said(caplog)[0]
    assert "operations of a graph are left to eager PyTorch: dlc_test.negated.default" in line
    assert f"{__file__}:" in line
    assert "it is no ATen op" in line


def test_what_is_left_and_why(caplog: pytest.LogCaptureFixture):
    def program(x: torch.Tensor) -> torch.Tensor:
        return negated(x) + 2 * negated(x + 1) + torch.poisson(x.abs()) * 0

    x = torch.randn(4)
    assert torch.equal(torch.compile(program, backend="dlc")(x), program(x))
    (line,) = said(caplog)
    assert line.startswith("3 of 9 operations")
    assert "dlc_test.negated.default" in line
    assert "(2 times)" in line
    assert "random numbers" in line


def rotated(x: torch.Tensor) -> torch.Tensor:
    angles = torch.polar(torch.ones(2), torch.arange(2.0))
    turned = torch.view_as_complex(x.view(2, 2)) * angles
    return torch.view_as_real(turned.tanh()).flatten() + 1


@pytest.mark.parametrize("grad", [False, True])
def test_what_only_pytorch_knows(grad: bool, caplog: pytest.LogCaptureFixture):
    compiled = torch.compile(rotated, backend="dlc", fullgraph=True)
    for x in (torch.full((4,), 0.3), torch.full((4,), -0.4)):
        x.requires_grad_(grad)
        torch.testing.assert_close(compiled(x), rotated(x))
        if grad:
            mine, eagers = (torch.autograd.grad(f(x).sum(), x) for f in (compiled, rotated))
            torch.testing.assert_close(mine, eagers)
    assert re.search("not compiled for complex", said(caplog)[0])


def test_writes_to_one_place_are_left(caplog: pytest.LogCaptureFixture):
    """PyTorch's functional graphs add up what is written there."""

    def zeroed(x: torch.Tensor) -> torch.Tensor:
        return x.expand(2, 4)[:, :2].zero_() + x[1]

    mine, eager = torch.arange(4.0), torch.arange(4.0)
    assert torch.equal(torch.compile(zeroed, backend="dlc")(mine), zeroed(eager))
    assert torch.equal(mine, eager)
    (sentence,) = said(caplog)
    assert re.search("left to eager PyTorch: .*several elements at one place", sentence)


def test_without_fallback_dynamo_hears_of_it():
    def program(x: torch.Tensor) -> torch.Tensor:
        return negated(x) + 1

    compiled = torch.compile(program, backend="dlc", options={"fallback": False})
    x = torch.randn(4)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"'dlc' raised[^$]*negated"):
        compiled(x)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(suppress_errors=True):
        assert torch.equal(compiled(x), program(x))


def test_errors_of_ours_are_suppressed(monkeypatch: pytest.MonkeyPatch):
    def broken(*args: Any, **options: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("dlc.importing.import_program", broken)
    compiled, x = torch.compile(lambda x: x + 1, backend="dlc"), torch.ones(2)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="a defect"):
        compiled(x)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(suppress_errors=True):
        assert compiled(x).tolist() == [2, 2]


@pytest.mark.parametrize("transform", [torch.func.hessian, torch.func.jacfwd])
def test_transforms_that_differentiate_are_compiled(transform: Any):
    """An export follows none, and one that fails within leaves them."""
    graphs: list[torch.fx.GraphModule] = []

    def seen(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    program, x = transform(lambda x: x.sin() * x.sum()), torch.randn(3)
    compiled = torch.compile(program, backend="dlc", options={"fallback": False, "backend": "host"})
    torch.testing.assert_close(compiled(x), program(x))
    torch._dynamo.reset()
    torch.compile(program, backend=seen)(x)
    with pytest.raises(ImportFailure):
        dlc.compile(graphs[0], (x,), backend="host")
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    with forward_ad.dual_level():
        pass


def test_options():
    x = torch.randn(3)
    for options in ({"target": "sm_80", "backend": "host"}, {"sync": True, "fallback": False}):
        torch._dynamo.reset()
        compiled = torch.compile(torch.neg, backend="dlc", options=options)
        assert torch.equal(compiled(x), -x)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(torch.neg, backend="dlc", mode="reduce-overhead")(x), -x)


@pytest.mark.parametrize(
    ("mode", "options", "words"),
    [
        (
            None,
            {"traget": "sm_90"},
            "unknown option 'traget' of the backend dlc\nhint: did you mean target",
        ),
        ("reduce-overheads", None, "did you mean reduce-overhead"),
        ("max-autotune", None, "hint: dlc tune measures"),
        (None, {"target": "sm_9"}, "unknown target 'sm_9'\nhint: .*: sm_75, "),
        (None, {"backend": "hots"}, "unknown backend 'hots'\nhint: did you mean host"),
        (None, {"fallback": 0}, "the option fallback is True or False, not 0"),
        (None, {"graph": True}, "the backend 'host' has no CUDA graphs"),
    ],
)
def test_unknown_options(mode: str | None, options: dict[str, Any] | None, words: str):
    compiled = torch.compile(torch.neg, backend="dlc", mode=mode, options=options)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=words):
        compiled(torch.randn(2))


@pytest.mark.parametrize(("norm_first", "masked"), [(False, True), (True, False)])
def test_the_fast_path_of_encoders(norm_first: bool, masked: bool):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).eval()
    x = torch.randn(2, 5, 8)
    mask = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool() if masked else None
    compiled = torch.compile(layer, backend="dlc", options={"fallback": False})
    with torch.no_grad():
        expected = layer(x, src_key_padding_mask=mask)
        torch.testing.assert_close(compiled(x, src_key_padding_mask=mask), expected)
