"""What runs with tensors on a device that is not the CPU: see `test_far_device.py`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kernel_programs
import pytest
import torch
import torch.nn.functional as F
from fake_gpu import FakeGpu, InPlace, fake_backend
from families import FAMILIES
from far_device.load import LIBRARY
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

import dlc
from dlc.backend import BackendError, LaunchError
from dlc.cli.dlc_cli import main
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure

FAR = torch.device("cuda", 0)
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).to(FAR)
MOST = 48
"""The extents of the benchmark's programs, which are there for their texts."""


def same(found: Any, expected: Any) -> None:
    """Equal results, on the same devices."""
    pairs = list(zip(tree_leaves(found), tree_leaves(expected), strict=True))
    assert pairs
    for mine, eager in pairs:
        if not isinstance(eager, torch.Tensor):
            assert mine == pytest.approx(eager, abs=1e-4)
            continue
        assert (mine.device, mine.dtype) == (eager.device, eager.dtype)
        torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-4, equal_nan=True)


def compiled(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return dlc.compile(function, args, backend="host", **options)


def agrees(function: Callable[..., Any], *args: Any) -> Any:
    """The program, once its results are found to be eager's."""
    program = compiled(function, *args)
    same(program(*args), function(*args))
    return program


def test_the_device_is_none_of_the_cpus() -> None:
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        X.numpy()
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu"):
        X + torch.ones(6)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_operator_of_each_family_is_compiled(family: str) -> None:
    """The first and the last one, if their own tensors move."""
    for case in (FAMILIES[family][0], FAMILIES[family][-1]):
        args = tree_map_only(torch.Tensor, lambda t: t.to(FAR), case.args)
        if moves(case.function, args):
            compiled(case.function, *args)


def moves(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """False for a function that has tensors of its own on the CPU."""
    try:
        function(*args)
    except RuntimeError as error:
        return "at least two devices" not in str(error)
    return True


@pytest.mark.parametrize("family", kernel_programs.FAMILIES)
def test_a_text_of_each_family_is_compiled(family: str) -> None:
    """The first and the last one, with modules made on the device."""
    rows = kernel_programs.FAMILIES[family]
    for _, text, sizes in (rows[0], rows[-1]):
        with torch.device(FAR):
            function, args = capture_text(text.format(*(min(n, MOST) for n in sizes[0])))
            compiled(function, *args)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.convolution(x)))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, 8), nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(i))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.tensor(2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.minimum(x * self.scale, torch.tensor(0.5))


def test_large_parameters_are_looked_at_where_they_are() -> None:
    agrees(nn.Linear(64, 128).to(FAR), torch.randn(4, 64, device=FAR))


def test_buffers_are_updated() -> None:
    images = torch.randn(2, 3, 6, 6, device=FAR)
    module, eager = Block().to(FAR), Block().to(FAR)
    eager.load_state_dict(module.state_dict())
    program = compiled(module, images)
    with torch.no_grad():
        for _ in range(2):
            same(program(images), eager(images))
    same(module.state_dict(), eager.state_dict())


def test_gradients_and_tied_weights() -> None:
    module, tokens = Tied().to(FAR), torch.randint(0, 10, (3, 4), device=FAR)
    agrees(module, tokens)(tokens).sum().backward()
    found, module.embedding.weight.grad = module.embedding.weight.grad, None
    module(tokens).sum().backward()
    same(found, module.embedding.weight.grad)


def test_numbers_on_the_host_go_with_tensors_elsewhere() -> None:
    """As arguments, constants, attributes and in closures, whose changes are seen."""
    agrees(lambda s, x: x * s, torch.tensor(3.0), X)
    module = Scaled()
    program = agrees(module, X)
    for change in (
        lambda: module.scale.fill_(5.0),
        lambda: module.scale.data.fill_(-5.0),
        lambda: setattr(module, "scale", torch.tensor(7.0)),
        lambda: setattr(module, "scale", torch.tensor(8.0, device=FAR)),
    ):
        change()
        same(program(X), module(X))
    agrees(lambda x: x[torch.tensor([2, 0])], X)


def test_results_are_where_eager_has_them() -> None:
    agrees(lambda x: (x + 1, torch.zeros(3) + 1), X)
    agrees(lambda x: (x.cpu() * 2, x.to("cpu").sum().item()), X)
    agrees(lambda: torch.ones(5, device=FAR) * 2)
    agrees(lambda: torch.ones(5) * 2)
    assert compiled(lambda: torch.rand(5, device=FAR))().device == FAR
    views = compiled(lambda x: (x.t(), x), X)(X)
    assert views[1] is X
    assert views[0].data_ptr() == X.data_ptr()


def test_what_is_written_in_place() -> None:
    def step(p: torch.Tensor, g: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        return p.sub_(g * rate)

    mine, eager, rate = X.clone(), X.clone(), torch.tensor(0.1)
    program = compiled(step, mine, X, rate)
    same(program(mine, X, rate), step(eager, X, rate))
    same(mine, eager)


def test_complex_and_empty_tensors() -> None:
    z = torch.view_as_complex(X.reshape(-1, 2).clone())
    agrees(lambda z: (z * z.conj(), z.abs()), z)
    agrees(lambda x: (x * 2, x.sum(0)), X[:0])


def test_random_numbers_and_the_default_device() -> None:
    module = nn.Dropout(0.5)
    program = compiled(module, X)
    torch.manual_seed(0)
    first = program(X)
    torch.manual_seed(0)
    same(program(X), first)
    torch.set_default_device(FAR)
    try:
        assert program(X).device == FAR
        agrees(Block().eval(), torch.randn(2, 3, 6, 6))
        compiled(module, X).check()
    finally:
        torch.set_default_device(None)


def test_saved_programs(tmp_path: Path) -> None:
    module, path = Block().to(FAR).eval(), tmp_path / "program"
    images = torch.randn(2, 3, 6, 6, device=FAR)
    agrees(module, images).save(path)
    with torch.no_grad():
        same(dlc.load_program(path)(images), module(images))


class Placed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale if self.scale.is_cuda else x - self.scale


ASKING: dict[str, Callable[[torch.Tensor], Any]] = {
    "is_cuda": lambda x: x * 2 if x.is_cuda else x + 1,
    "is_cpu": lambda x: x * 2 if (x + 1).is_cpu else x + 1,
    "device": lambda x: x * 2 if x.device.type == "cuda" else x + 1,
    "get_device": lambda x: x * (x.get_device() + 3),
    "is_meta": lambda x: x * 2 if x.is_meta or x.is_cuda else x + 1,
    "in a branch": lambda x: torch.cond(
        x.sum() > 0, lambda x: x * 2 if x.is_cuda else x + 1, lambda x: x * 3, (x,)
    ),
}


@pytest.mark.parametrize("name", ASKING)
def test_programs_that_ask_where_tensors_are(name: str, tmp_path: Path) -> None:
    function, here = ASKING[name], X.cpu().abs()
    program = compiled(function, here)
    for x in (here, here.to(FAR), here + 1, here.to(FAR) + 1):
        same(program(x), function(x))
    assert len(program.variants) == 2
    path = tmp_path / "program.dlc"
    compiled(function, here).save(path)
    loaded = dlc.load_program(path)
    same(loaded(here), function(here))
    with pytest.raises(ImportFailure, match="no kernels for such a call") as failure:
        loaded(here.to(FAR))
    assert "float32[4, 6] on cpu" in "".join(failure.value.__notes__)
    if name != "in a branch":
        sized = compiled(function, here, dynamic_shapes=({0: torch.export.Dim("n")},))
        for x in (here[:3], here[:3].to(FAR)):
            same(sized(x), function(x))
    caught = torch.compile(function, backend="dlc")
    for x in (here, here.to(FAR)):
        same(caught(x), function(x))


def test_programs_that_do_not_ask_serve_tensors_anywhere() -> None:
    program = compiled(lambda x: x * 2, X.cpu())
    same(program(X), X * 2)
    assert len(program.variants) == 1


def test_copies_of_what_modules_hold_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    module, x = nn.Linear(6, 5), X.cpu()
    away = compiled(module.to(FAR), X)
    with caplog.at_level(logging.WARNING, "dlc"):
        for scale in (1.0, 2.0):
            module.weight.data.fill_(scale)  # which no version tells
            same(away(X), module(X))
        assert len([r for r in caplog.records if r.name == "dlc.kernels"]) == 1
        said = (
            "copies 2 tensors of modules from cuda:0 to cpu, 0.00014 MB, the first of them argument"
        )
        assert said in caplog.text
        caplog.clear()
        module.to("cpu")
        same(compiled(module, x)(x), module(x))
        assert not [r for r in caplog.records if r.name == "dlc.kernels"]


def test_modules_that_move() -> None:
    module, x = Placed(), torch.ones(2)
    program = compiled(module, x)
    same(program(x), module(x))
    module.to(FAR)
    same(program(x.to(FAR)), module(x.to(FAR)))
    module.to("cpu")
    same(program(x), module(x))


def test_programs_for_many_sizes_and_branches() -> None:
    rows = {0: torch.export.Dim.AUTO}
    program = compiled(lambda x: torch.softmax(x, -1), X, dynamic_shapes=(rows,))
    for count in (4, 7):
        x = torch.randn(count, 6, device=FAR)
        same(program(x), torch.softmax(x, -1))

    def branch(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    program = agrees(branch, X)
    same(program(-X), branch(-X))


def test_torch_compile() -> None:
    torch._dynamo.reset()

    def step(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return torch.minimum(x, torch.tensor(0.5)) * s + torch.arange(6, device=x.device)

    program = torch.compile(step, backend="dlc", options={"backend": "host"})
    same(program(X, torch.tensor(3.0)), step(X, torch.tensor(3.0)))
    module = nn.Sequential(nn.Linear(6, 5), nn.ReLU()).to(FAR)
    torch.compile(module, backend="dlc", options={"backend": "host"})(X).sum().backward()
    assert all(p.grad is not None and p.grad.device == FAR for p in module.parameters())


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ImportFailure, match="at least two devices, cuda:0 and cpu"):
        compiled(lambda a, b: a + b, X, torch.randn(6))
    tokens = torch.tensor([1, 9], device=FAR)
    with pytest.raises(LaunchError, match=r"indices from 0 to 3, found 9 at \[1\]"):
        compiled(lambda w, i: F.embedding(i, w), X, tokens % 4)(X, tokens)


# A GPU that is none, whose memory is the device's


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    gpu = FakeGpu()
    made = fake_backend(gpu, "cuda-bindings", tmp_path, monkeypatch)
    made.device = made._torch.device = FAR
    with InPlace(gpu):
        yield made


@contextmanager
def captured(backend: Any, run: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """What torch captures of a call: a replay, which gives the results."""
    LIBRARY.far_device_capturing(1)
    try:
        replay, result = backend._torch.capture(run)
    finally:
        LIBRARY.far_device_capturing(0)

    def again() -> Any:
        replay()
        return result

    yield again


def finished(backend: Any, result: Any) -> Any:
    backend._torch.gpu.synchronize()
    return result


def test_captures_read_constants_that_were_moved_before(backend: Any) -> None:
    module = Scaled()
    program = dlc.compile(module, (X,), backend=backend)
    same(finished(backend, program(X)), module(X))
    with captured(backend, lambda: program(X)) as replay:
        same(replay(), module(X))
        module.scale.fill_(-1.0)
        finished(backend, program(X))
        same(replay(), module(X))
    module.scale.fill_(4.0)
    with (
        pytest.raises(LaunchError, match="cannot copy it to cuda:0"),
        captured(backend, lambda: program(X)),
    ):
        pass


def test_captures_read_what_was_computed_once_before(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: backend._torch.gpu.synchronize())
    w = torch.ones(6, 6).to(FAR)

    def f(x: torch.Tensor) -> torch.Tensor:
        return x @ w.cumsum(0).cumsum(1)

    program, expected = dlc.compile(f, (X,), backend=backend, freeze=True), f(X)
    same(finished(backend, program(X)), expected)
    with captured(backend, lambda: program(X)) as replay:
        w.mul_(2)
        same(finished(backend, program(X)), f(X))
        others = [torch.full_like(w, torch.nan) for _ in range(64)]  # where what is freed lay
        same(replay(), expected)
        assert all(other.isnan().all() for other in others)
    w.mul_(2)
    with (
        pytest.raises(LaunchError, match="cannot compute what is kept"),
        captured(backend, lambda: program(X)),
    ):
        pass


def test_captures_say_which_argument_they_cannot_copy(backend: Any) -> None:
    number = torch.tensor(3.0)
    program = dlc.compile(lambda x, s: x * s, (X, number), backend=backend)
    same(finished(backend, program(X, number)), X * 3)
    said = "argument 1 of @main, %s, is on cpu, and a graph that is being captured cannot copy it"
    with pytest.raises(LaunchError, match=said), captured(backend, lambda: program(X, number)):
        pass


def test_graphs_take_numbers_of_the_host(backend: Any) -> None:
    module = Scaled()
    program = dlc.compile(lambda x, s: module(x) - s, (X, torch.tensor(1.0)), backend=backend)
    graph = program.graph(X, torch.tensor(1.0))
    for scale, less in ((2.0, 1.0), (2.0, 3.0), (-1.0, 3.0)):
        module.scale.fill_(scale)
        same(finished(backend, graph(X, torch.tensor(less))), module(X) - less)
    with pytest.raises(BackendError, match="a graph reads tensors on cuda:0, and 'x' is on cpu"):
        program.graph(X.cpu(), torch.tensor(1.0))


def test_the_judge_draws_random_numbers_where_the_program_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "x = torch.randn(2, 8, device='cuda'); F.dropout(x) * torch.arange(8, device=x.device)"
    assert main(["run", "-c", text, "--backend", "host"]) == 0
    assert "OK" in capsys.readouterr().out
