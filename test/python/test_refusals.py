"""What `dlc.compile` does not take is refused by a sentence that says what to write."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dlc
from dlc.backend import LaunchError
from dlc.cli.dlc_cli import main
from dlc.frontend.source import ImportFailure, UnsupportedError


def _add_in_place(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    return a + b


def _gradient(x: torch.Tensor) -> torch.Tensor:
    return torch.func.grad(lambda y: (y * y).sum())(x)


class Doubled(torch.Tensor):
    """A class of tensors whose sums are twice the sum."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 2 if func is torch.add else result


class Holder(torch.nn.Module):
    """Holds a tensor of that class."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("own", torch.ones(4).as_subclass(Doubled))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(self.own, x)


def _noise(x: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return x + torch.randn(4, 4, generator=generator)


X = torch.arange(16.0).view(4, 4)
LONG = torch.arange(8.0)
REFUSED: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], str]] = {
    "csr": (
        torch.mm,
        lambda: (X.to_sparse_csr(), X),
        r"torch.sparse_csr, expected a dense tensor; give to_dense\(\) of it",
    ),
    "coo": (
        torch.mm,
        lambda: (X.to_sparse(), X),
        r"torch.sparse_coo, expected a dense tensor; give to_dense\(\) of it",
    ),
    "overlap": (
        _add_in_place,
        lambda: (LONG[:6], LONG[2:]),
        "shares memory .* pass a clone of one",
    ),
    "expanded": (
        lambda x: x.expand(2, 8)[:, :4].zero_(),
        lambda: (LONG,),
        "several elements at one place in memory, such as an expanded one",
    ),
    "windows": (lambda x: x.unfold(0, 3, 1).fill_(2), lambda: (LONG,), "several elements at one"),
    "gaps": (
        lambda x: x.unfold(0, 3, 3)[:1].mul_(2),
        lambda: (LONG,),
        "elements between them that are in none",
    ),
    "twice": (_add_in_place, lambda: (LONG, LONG), "shares memory .* pass a clone of one"),
    "data": (lambda x: x.data + 1, lambda: (X,), r"as x.data is; use x.detach\(\)"),
    "gradient": (
        _gradient,
        lambda: (X,),
        r"such as torch.func.grad; trace it first: .*make_fx\(f\)",
    ),
    "transposed": (lambda x: x.t_() + 1, lambda: (X,), "gives an argument another shape, strides"),
    "resized": (lambda x: x.resize_(2) + 1, lambda: (LONG[:4],), "another shape, strides or mem"),
    "unsqueezed": (lambda x: x.unsqueeze_(0) + 1, lambda: (X,), "another shape, strides or mem"),
    "squeezed": (lambda x: x.squeeze_(0) + 1, lambda: (LONG[None],), "another shape, strides or"),
    "flag": (lambda x, f: x[f], lambda: (X, torch.tensor(True)), r"and x\[flag\] of one bool do"),
    "range": (
        lambda x, r: sum(x[n] for n in r),
        lambda: (X, range(2)),
        r"the class range, expected tensors, numbers, .* or give list\(it\)",
    ),
    "packed": (
        lambda x: torch.nn.LSTM(1, 2)(x)[0].data,
        lambda: (torch.nn.utils.rnn.pack_padded_sequence(LONG.view(4, 2, 1), [4, 2]),),
        "a PackedSequence, .* give the padded one",
    ),
    "a class of tensors": (
        lambda x: torch.add(x, 1),
        lambda: (X.as_subclass(Doubled),),
        r"an argument is a Doubled, .* give x\.as_subclass\(torch\.Tensor\)",
    ),
    "one of a module": (Holder(), lambda: (X,), "'own' is a Doubled, expected a torch.Tensor"),
    "one in a program": (
        lambda x: torch.add(x.as_subclass(Doubled), 1),
        lambda: (X,),
        "a tensor of a class of its own",
    ),
    "a generator": (_noise, lambda: (X,), r"torch\.randn\(4, 4, generator=generator\)"),
    "copied together": (
        lambda x: copy.deepcopy([x, x[1:]]),
        lambda: (X,),
        r"tensors that share memory together, .* clone\(\) one",
    ),
    "numpy": (lambda x: x.numpy(), lambda: (X,), "takes a tensor to NumPy"),
}


def test_a_number_of_data_is_no_place() -> None:
    with pytest.raises(UnsupportedError, match=r"computed from data, .* as n in x\[:n\]"):
        dlc.compile(lambda x, n: x[:n], (X, torch.tensor(1)), backend="host")


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_sentences(name: str) -> None:
    program, args, sentence = REFUSED[name]
    with pytest.raises(ImportFailure, match=sentence):
        dlc.compile(program, args(), backend="host")


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.unfold(0, 4, 4)[:1].mul_(2),
        lambda x: x[None].expand(1, 8).mul_(2),
        lambda x: x.view(2, 4).t().mul_(2),
        lambda x: x.mul_(2).expand(2, 8),
    ],
    ids=["apart", "once", "transposed", "before"],
)
def test_views_with_a_place_for_each_element_are_written_to(
    write: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    mine, eager = LONG.clone(), LONG.clone()
    f = dlc.compile(write, (LONG.clone(),), backend="host")
    assert torch.equal(f(mine), write(eager))
    assert torch.equal(mine, eager)


def test_a_later_call_is_refused_as_the_first_one_is() -> None:
    f = dlc.compile(torch.mm, (X, X), backend="host")
    with pytest.raises(ImportFailure, match=r"torch\.sparse_coo, expected a dense tensor"):
        f(X.to_sparse(), X)


def test_what_a_sentence_proposes_works() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    torch.testing.assert_close(
        dlc.compile(make_fx(_gradient)(X), (X,), backend="host")(X), _gradient(X)
    )


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_are_looked_through(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    def program(x: torch.Tensor) -> Any:
        return checkpoint(torch.tanh, x, use_reentrant=reentrant)

    with torch.no_grad():
        torch.testing.assert_close(dlc.compile(program, (X,), backend="host")(X), X.tanh())


def test_a_call_with_a_class_of_tensors_is_refused() -> None:
    compiled = dlc.compile(lambda x: torch.add(x, 1), (X,), backend="host")
    with pytest.raises(ImportFailure, match="an argument is a Doubled"):
        compiled(X.as_subclass(Doubled))


def test_copies_have_memory_of_their_own() -> None:
    def program(x: torch.Tensor) -> Any:
        held = [torch.ones(4), torch.arange(4.0)]
        copies = copy.deepcopy([*held, held[0]])
        copies[0].mul_(3)
        same = copy.copy(held[1])
        same.add_(1)
        return x * copies[2] + held[0], held[1] - copies[1], copy.deepcopy(x)

    torch.testing.assert_close(dlc.compile(program, (X,), backend="host")(X), program(X))


def test_arguments_by_name_are_no_target() -> None:
    with pytest.raises(TypeError, match="expected the name of a target") as raised:
        dlc.compile(torch.clamp, (X,), {"min": 0.0})  # pyright: ignore[reportArgumentType]
    assert raised.value.__notes__[0].startswith("hint: arguments by name: ")


def test_a_class_is_no_program_and_flags_are_true_or_false() -> None:
    with pytest.raises(TypeError, match="found the class ReLU") as raised:
        dlc.compile(torch.nn.ReLU, (X,))
    assert raised.value.__notes__ == ["hint: an object of it: dlc.compile(ReLU(...), args)"]
    with pytest.raises(TypeError, match="expected True or False for freeze, found 'yes'"):
        dlc.compile(torch.relu, (X,), freeze="yes")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("args", [X, {"x": X}, 3])
def test_arguments_stand_in_a_tuple(args: Any) -> None:
    with pytest.raises(TypeError, match="expected a tuple of arguments") as raised:
        dlc.compile(torch.relu, args)
    assert raised.value.__notes__ == ["hint: of one tensor: dlc.compile(f, (x,))"]


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("sm_70", "it is older than all that dlc knows: sm_75, "),
        ("sm90", "did you mean sm_90? the targets are sm_75, "),
    ],
)
def test_targets_are_hinted_at_alike(
    target: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=f"unknown target '{target}'") as raised:
        dlc.compile(torch.relu, (X,), target=target)
    (note,) = raised.value.__notes__
    assert note.startswith(f"hint: {hint}")
    assert main(["compile", "-c", "torch.relu(torch.randn(3))", "--target", target]) == 2
    assert note in capsys.readouterr().err


def test_a_program_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    f = dlc.compile(torch.nn.Softmax(-1), (X,), target="sm_80", backend="host")
    assert repr(f) == "<dlc program Softmax for sm_80 on host: 1 kernel (softmax)>"
    f.variant((X[0],))
    assert repr(f).endswith("1 kernel (softmax), 2 variants>")
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"dlc {dlc.__version__}\n"


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ({"target": 90}, "unknown target '90'", "did you mean sm_90? the targets are sm_75, "),
        ({"backend": torch.device("cuda:1")}, "unknown backend 'cuda:1'", "did you mean cuda?"),
        ({"backend": "cpu"}, "unknown backend 'cpu'", "did you mean host?"),
        ({"precision": torch.float16}, "unknown precision 'torch.float16'", "there are f32, "),
    ],
)
def test_options_are_hinted_at(options: dict[str, Any], what: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"^{what}\n") as raised:
        dlc.compile(torch.relu, (X,), **options)
    assert raised.value.__notes__[0].startswith(f"hint: {hint}")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("kernel", 'did you mean kernels? f.ir("kernel") is its text'),
        ("code", 'f.ir("cuda") is its text'),
        ("state_dict", "f.function is the module that was compiled, which has state_dict"),
        ("forward", "a call of it runs its kernels: f(x)"),
        ("zzz", "it has backend, check, explain, "),
    ],
)
def test_attributes_that_a_program_lacks(name: str, hint: str) -> None:
    f = dlc.compile(torch.nn.Softmax(-1), (X,), backend="host")
    with pytest.raises(AttributeError, match=f"a program of dlc has no attribute '{name}'") as r:
        getattr(f, name)
    assert r.value.__notes__[0].startswith(f"hint: {hint}")
    assert not hasattr(f, "__array__")


def test_an_attribute_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(program: dlc.CompiledProgram) -> None:
        raise AttributeError("of another object")

    monkeypatch.setattr(dlc.CompiledProgram, "kernels", property(fails))
    with pytest.raises(AttributeError, match="of another object"):
        dlc.compile(torch.relu, (X,), backend="host").kernels


def test_tensors_without_elements() -> None:
    f = dlc.compile(torch.relu, (X,), backend="host")
    with pytest.raises(LaunchError, match="the device 'meta' has no elements"):
        f(X.to("meta"))


def test_a_decomposition_that_asks_for_what_is_not_there() -> None:
    from dlc.dialects.torch import AtenOp
    from dlc.transforms.tensor.decompositions.builder import Refused
    from dlc.transforms.tensor.decompositions.lowering import Lowering

    f = dlc.compile(torch.mul, (X, X + 1), backend="host")
    (op,) = (op for op in f.variants[0].module("torch").walk() if isinstance(op, AtenOp))
    with pytest.raises(Refused, match="a tensor for 'mat3', found tensors for self, other"):
        Lowering(op, 0).tensor("mat3")
