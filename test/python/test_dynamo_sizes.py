"""`torch.compile(backend="dlc")` of programs whose sizes change: how often they are exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from dlc.backend.host.host_backend import HostBackend

HOST = {"backend": "host", "fallback": False}


class Net(nn.Module):
    """Rows of a batch, one after the other, and numbers that depend on how many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor]:
        b, s, _ = x.shape
        h = torch.relu(self.up(x)).reshape(b * s, 32)
        return self.down(h).view(b, s, 16) + x, s, h.sum() / s


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """One entry for each export."""
    found: list[int] = []
    export = torch.export.export

    def counting(*args: Any, **kwargs: Any) -> Any:
        found.append(len(found))
        return export(*args, **kwargs)

    monkeypatch.setattr(torch.export, "export", counting)
    torch._dynamo.reset()
    yield found
    torch._dynamo.reset()


def check(f: Callable[..., Any], model: Callable[..., Any], *args: Any) -> None:
    with torch.no_grad():
        torch.testing.assert_close(f(*args), model(*args))


def test_dynamic_programs_are_exported_once(exports: list[int]) -> None:
    net = Net()
    f = torch.compile(net, backend="dlc", options=HOST, dynamic=True)
    for b, s in ((2, 5), (2, 7), (3, 9), (4, 4)):
        check(f, net, torch.randn(b, s, 16))
    assert len(exports) == 1


def test_a_dimension_that_changes_is_found_at_its_second_size(exports: list[int]) -> None:
    net = Net()
    f = torch.compile(net, backend="dlc", options=HOST)
    for s in (5, 7, 9, 4, 6):
        check(f, net, torch.randn(2, s, 16))
    assert len(exports) == 2


class Block(nn.Module):
    """A layer of a language model, and the logits of the last token."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.head = nn.Linear(32, 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = (
            t.view(b, s, 2, 16).transpose(1, 2) for t in self.qkv(F.rms_norm(x, (32,))).chunk(3, -1)
        )
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = x + self.out(h.transpose(1, 2).reshape(b, s, 32))
        return self.head(h[:, -1])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """The kernels of each variant that is compiled, as texts."""
    found: list[frozenset[str]] = []
    prepare = HostBackend.prepare

    def counting(self: Any, images: Any) -> None:
        found.append(frozenset(image.source for image in images))
        prepare(self, images)

    monkeypatch.setattr(HostBackend, "prepare", counting)
    return found


@pytest.mark.parametrize("dynamic", [True, None])
def test_twenty_sizes_are_one_import_and_one_set_of_kernels(
    dynamic: bool | None, exports: list[int], made: list[frozenset[str]]
) -> None:
    """
    Of a batch and a length, beside what Dynamo makes of the first call before it takes these to
    change. The sizes lie in six ranges, of which none is predicted to need kernels of its own.
    """
    block = Block().eval()
    f = torch.compile(block, backend="dlc", options=HOST, dynamic=dynamic)
    for n in range(20):
        check(f, block, torch.randn(2 + n % 3, 11 + 2 * n, 32))
    first = 0 if dynamic else 1
    assert len(exports) == len(set(made)) == 1 + first


@pytest.mark.parametrize(("cache", "count"), [("static", 2), ("dynamic", 3)])
def test_texts_of_transformers_are_compiled_a_few_times(
    cache: str, count: int, exports: list[int], made: list[frozenset[str]]
) -> None:
    """
    The same tokens as eager's: by one program for the prompt and one for a token with a static
    cache, by another for all lengths with one that grows, which has kernels for 6, 7 and 8.
    """
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
    }
    model = LlamaForCausalLM(LlamaConfig(**sizes, eos_token_id=None, pad_token_id=0)).eval()
    how = {"cache_implementation": "static"} if cache == "static" else {}
    prompts = torch.randint(3, 64, (2, 5))
    generate = partial(model.generate, prompts, max_new_tokens=5, do_sample=False, **how)
    expected = generate(disable_compile=True)
    model.forward = torch.compile(model.forward, backend="dlc", options=HOST)
    assert generate(disable_compile=True).equal(expected)
    assert len(exports) == len(set(made)) == count


def test_ranges_of_sizes_are_one_export(exports: list[int], made: list[frozenset[str]]) -> None:
    f = partial(torch.softmax, dim=1)
    compiled = torch.compile(lambda x: f(x), backend="dlc", options=HOST, dynamic=True)
    for n in (127, 128, 129):
        check(compiled, f, torch.randn(4, n))
    assert len(exports) == 1
    assert [made.index(kernels) for kernels in made] == [0, 0, 2]


def test_a_dimension_may_be_marked(exports: list[int]) -> None:
    net = Net()
    f = torch.compile(net, backend="dlc", options=HOST)
    for s in (5, 7, 9):
        x = torch.randn(2, s, 16)
        torch._dynamo.mark_dynamic(x, 1, min=2, max=64)
        check(f, net, x)
    assert len(exports) == 1


def test_gradients_are_of_one_export_as_well(exports: list[int]) -> None:
    net = Net()
    f = torch.compile(net, backend="dlc", options=HOST, dynamic=True)
    for b, s in ((2, 5), (2, 7), (3, 9)):
        x = torch.randn(b, s, 16, requires_grad=True)
        (ours,) = torch.autograd.grad(f(x)[0].square().sum(), x)
        (eager,) = torch.autograd.grad(net(x)[0].square().sum(), x)
        torch.testing.assert_close(ours, eager)
    assert len(exports) == 2  # of the forward and the backward


def test_a_size_that_only_dlc_fixes_is_compiled_for_each(exports: list[int]) -> None:
    """What is divided by a root of a size has no form for all sizes."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0] ** -0.5

    compiled = torch.compile(f, backend="dlc", options=HOST, dynamic=True)
    for n in (4, 9):
        check(compiled, f, torch.randn(n, 3))


def test_integers_that_change_are_sizes(exports: list[int]) -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        return x[:, :n] * n

    compiled = torch.compile(f, backend="dlc", options=HOST, dynamic=True)
    for n in (4, 9, 5):
        check(compiled, f, torch.randn(3, 16), n)
    assert len(exports) == 1


def test_an_integer_that_can_be_one_number_only_is_that_number(exports: list[int]) -> None:
    """Dynamo takes it to change, and bounds it from both sides by the shapes of slices."""

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        return (x[:n] * n).tril().sum(0)

    compiled = torch.compile(f, backend="dlc", options=HOST)
    x = torch.randn(2, 8)
    for n in (1, 2):
        check(compiled, f, x, n)
