"""Programs that return numbers and flags of Python, as `x.sum().item()` and `torch.equal` are."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exported import as_array, build, run
from torch.utils._pytree import tree_leaves, tree_map_only

import dlc
from dlc.backend.export import export_program
from dlc.cli.dlc_cli import main
from dlc.diagnostics import OpError
from dlc.dialects.main_function import main_of
from dlc.dialects.user_outputs import outputs_of
from dlc.frontend.export.fx import import_program
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.ir.locations import LocParser
from dlc.stages import compiler_context

X = torch.tensor([[1.5, -2.0, 3.0], [4.0, 0.25, -8.0]])


def written(x: torch.Tensor) -> Any:
    before = x[0, 0].item()
    x.add_(1)
    return before, x[0, 0].item(), x


ARITHMETIC = (
    *(lambda s, n: s**2, lambda s, n: abs(s) ** 0.5, lambda s, n: n**-2, lambda s, n: 2.0**s),
    *(lambda s, n: s // 0.4, lambda s, n: s % 0.4, lambda s, n: (n - 5) // 3, lambda s, n: -n % 3),
    *(lambda s, n: divmod(n, 2), lambda s, n: divmod(s, -0.3)),
    *(
        lambda s, n: 1.0 // (n / (n * 10)),
        lambda s, n: (s / abs(s)) // 0.1,
        lambda s, n: s * 1e300 // 1,
    ),
    *(lambda s, n: n << 2 | 1, lambda s, n: round(s), lambda s, n: round(s / 3, 2)),
    *(lambda s, n: math.ceil(s / 3), lambda s, n: math.floor(s / 3), lambda s, n: abs(n) / 2),
)
FUNCTIONS = (
    *(lambda a, b: math.exp(min(a, 700.0)), lambda a, b: math.log(a, 3)),
    *(lambda a, b: math.atan2(a, b), lambda a, b: math.fmod(b, a / 3)),
    *(lambda a, b: math.sqrt(a), lambda a, b: math.isnan(b), lambda a, b: math.pow(a, 2)),
    *(lambda a, b: min(a, b), lambda a, b: max(b, 0.5, a), lambda a, b: max(math.nan * a, b)),
)


def not_(x: torch.Tensor) -> Any:
    return torch.sym_not(x.max().item() > 3)


def operands(x: torch.Tensor, i: torch.Tensor) -> Any:
    most, last = x.max().item(), i[2].item()
    floats = x / max(x.abs().max().item(), 1e-12), most - x, x.abs() ** last, 2.0 / most * x
    bounds = x.clamp(-1.0, most / 2), torch.where(x > 0, x, last), x.masked_fill(x > 0, most)
    integers = i * last, i * most, i // last, i == last, x > most / 2, (x > 0) + last
    return floats, bounds, integers, x.sum() * most, x.double() * last


def filled(x: torch.Tensor) -> Any:
    sums = torch.zeros(2)
    for place, row in enumerate(x):
        sums[place] = row.sum().item()
    y = x.clone()
    y[0] *= x.max().item()
    most, place = x.max().item(), x.argmax().item()
    made = torch.tensor([most, 1.0, place]), torch.full((2, 3), place), torch.full_like(x, most)
    return sums.mean(), y, made, x.new_full((2,), most), torch.tensor(bool_of(x))


def bool_of(x: torch.Tensor) -> Any:
    return (x > 3).any().item()


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "a sum": (lambda x: x.sum().item(), (X,)),
    "a sum in fp64": (lambda x: x.sum().item(), (X.double() / 3,)),
    "an index, a tensor, a number of it": (
        lambda x: {"at": x.argmax().item(), "rest": [x.max(), x.max().item(), None]},
        (X,),
    ),
    "a flag": (lambda x: (x > 3).any().item(), (X,)),
    "of an argument": (lambda x: x.item(), (torch.ones(1, 1),)),
    "of unsigned bytes": (lambda x: x.item(), (torch.full((), 200, dtype=torch.uint8),)),
    "of halves": (lambda x: x.max().item(), (X.half(),)),
    "not a number": (lambda x: x.sum().item(), (X * math.nan,)),
    "infinite": (lambda x: (x / 0).max().item(), (X,)),
    "computed of floats": (lambda x: -(2 * x.mean().item() + x.sum().item() / 3) - 1, (X,)),
    "computed of integers": (lambda x: 100 * (x > 0).sum().item() / 6, (X,)),
    "added up": (lambda x: sum(row.sum().item() for row in x), (X.half(),)),
    "an integer and what it is": (lambda x: [-x.argmax().item(), x.argmax().item() * 3], (X,)),
    "powers, quotients, rests": (
        lambda x: [f(x.sum().item(), x.argmax().item()) for f in ARITHMETIC],
        (X,),
    ),
    "functions of numbers": (
        lambda x: [f(x.max().item(), x.min().item()) for f in FUNCTIONS],
        (X,),
    ),
    "compared": (lambda x: [x.max().item() > 3, x.argmax().item() == 3, not_(x)], (X,)),
    "NaN compared": (
        lambda x: [(n == n, n != n, -n <= n, n < math.inf) for n in [x.max().item() * math.nan]],
        (X,),
    ),
    "operands": (operands, (X, torch.tensor([3, -7, 2]))),
    "bits of integers": (
        lambda x, i: [
            (i & n, n | i, i ^ n, i << n, i.int() >> n, i.to(torch.uint8) & n, (x > 0) & n)
            for n in [x.argmax().item()]
        ],
        (X, torch.tensor([3, -7, 2])),
    ),
    "factors": (
        lambda x: [
            (
                torch.add(x, x, alpha=n),
                x.clone().sub_(x, alpha=n),
                x.long().add(3 * i, alpha=k),
                i.add(x.to(torch.uint8), alpha=100 * k),
                x.add(i.to(torch.int8), alpha=100 * n),
            )
            for n, k, i in [(x.max().item(), x.argmax().item(), x.long())]
        ],
        (X,),
    ),
    "operands beside halves": (
        lambda x: (x.half() * (x[0, 2].item() / 8), x.half().sum() * x.max().item()),
        (X,),
    ),
    "digits beside halves": (
        lambda x: [
            (y * most, most / y, y * (x.argmax().item() + 998), y.clone().div_(most))
            for most in (x[0, 2].item() / 9, x[1, 2].item() / 7)
            for y in (x.half(), x.bfloat16())
        ],
        (X,),
    ),
    "a power in f64": (
        lambda x: [(x.float_power(n) - x.double() ** n) * 2.0**40 for n in [x[0, 2].item() / 9]],
        (X.abs(),),
    ),
    "arithmetic that is not reordered": (
        lambda x: [
            (0 * n, m - n + n, m - big + big, 0 % n, n - n, (m * 0.1) * 10 - m, 1 / big * 0)
            for n, m, big in [(x.max().item() * math.inf, x.min().item(), x.max().item() * 1e12)]
        ],
        (X,),
    ),
    "of an integer and a float": (
        lambda x: [
            (x * (i * 2.5), x / (i - m), 0.5 * i + x, x - m * i, i + m - m, i % m, 7.5 // i)
            for i, m in [(x.argmax().item(), x.max().item() * 1e17)]
        ],
        (X,),
    ),
    "filled": (filled, (X,)),
    "in control flow": (
        lambda x: torch.cond(x.sum() > 0, torch.neg, lambda x: x * math.sqrt(2.0), (x,)),
        (X,),
    ),
    "a list": (lambda x: x[:, 1].tolist(), (X,)),
    "of what is written to": (written, (X,)),
    "equal": (torch.equal, (X, X.clone())),
    "equal in other dtypes": (torch.equal, (X, X.double())),
    "not equal": (torch.equal, (X, X + 1e-3)),
    "of another shape": (torch.equal, (X, X[:1])),
    "NaN is not itself": (torch.equal, (X * math.nan, X * math.nan)),
    "equal and empty": (torch.equal, (X[:0], X[:0])),
    "not contiguous": (torch.equal, (X.t(), X.t().contiguous())),
    "close": (torch.allclose, (X, X * (1 + 1e-6))),
    "not close": (lambda x, y: x.allclose(y, atol=1e-4, rtol=0), (X, X + 1e-3)),
    "close to a row": (torch.allclose, (X[:1].expand(2, 3), X[:1])),
    "NaNs are close": (lambda x, y: torch.allclose(x, y, equal_nan=True), (X * math.nan,) * 2),
    "close and empty": (torch.allclose, (X[:, :0], X[:, :0])),
}


def same(ours: Any, eager: Any) -> bool:
    """Of the same types and structure; sums of floats are rounded otherwise."""
    if isinstance(eager, torch.Tensor):
        return torch.allclose(ours, eager)
    if isinstance(eager, float):
        return type(ours) is float and (
            ours == pytest.approx(eager, rel=1e-6) or (ours != ours and eager != eager)
        )
    return type(ours) is type(eager) and ours == eager


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:.*capture_scalar_outputs")
def test_numbers_are_those_of_eager(name: str) -> None:
    function, args = PROGRAMS[name]
    torch._dynamo.reset()
    compiled = dlc.compile(function, args, backend="host")
    dynamo = torch.compile(lambda *a: function(*a), backend="dlc", options={"backend": "host"})
    for way in (compiled, dynamo):
        own, ours = (tree_map_only(torch.Tensor, torch.clone, args) for _ in range(2))
        eager, found = function(*own), way(*ours)
        pairs = zip(tree_leaves(found), tree_leaves(eager), strict=True)
        assert all(same(*pair) for pair in pairs), (found, eager)
        assert all(map(torch.equal, own, ours)) or any(t.isnan().any() for t in own)


def several(x: torch.Tensor) -> Any:
    return x.sum().item(), (x > 3).any().item(), x + 1, x.argmin().item()


def test_saved_and_loaded_programs_give_numbers(tmp_path: Path) -> None:
    compiled = dlc.compile(several, (X,), backend="host")
    compiled.save(tmp_path / "p.dlc")
    assert "number" in compiled.ir("torch")
    (tmp_path / "k.mlir").write_text(compiled.ir("kernel"))
    for program in (
        dlc.load_program(tmp_path / "p.dlc", backend="host"),
        dlc.load(tmp_path / "k.mlir", backend="host"),
    ):
        total, flag, tensor, place = program(X)
        assert (total, flag, place) == (-1.25, True, 5)
        assert (type(total), type(flag), type(place)) == (float, bool, int)
        assert torch.equal(tensor, X + 1)


def test_an_exported_program_writes_numbers(tmp_path: Path, scheduler: Path) -> None:
    compiled = dlc.compile(several, (X,), backend="host")
    export_program(compiled.variants[0].module("kernel"), tmp_path)
    build(tmp_path, scheduler)
    np.save(tmp_path / "x.npy", as_array(X))
    assert run(tmp_path).returncode == 0
    found = [np.load(tmp_path / "out" / f"{n}.npy") for n in range(4)]
    assert [found[n].item() for n in (0, 1, 3)] == [-1.25, True, 5]
    stated = json.loads((tmp_path / "manifest.json").read_text())["results"]
    assert [entry.get("number", False) for entry in stated] == [True, True, False, True]
    made = subprocess.run([tmp_path / "run", "--help"], capture_output=True, text=True, check=False)
    assert re.search(r"RESULTS/0.npy +f32\[\] +0 +a number", made.stdout), made.stdout


def test_run_shows_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # the second one is known
        assert main(["run", "-c", "torch.randn(3, 4).sum().item()"]) == 0
        assert "(number)" in capsys.readouterr().out


def test_numbers_beside_gradients() -> None:
    def function(x: torch.Tensor) -> Any:
        y = (x * x).sum()
        return y, y.item(), x.argmax().item(), x.detach().max().item()

    x, own = (X.clone().requires_grad_() for _ in range(2))
    found, eager = dlc.compile(function, (x,), backend="host")(x), function(own)
    assert found[1:] == eager[1:]
    found[0].backward()
    eager[0].backward()
    assert x.grad is not None
    assert own.grad is not None
    assert torch.equal(x.grad, own.grad)


def test_numbers_that_decide_on_shapes_are_refused() -> None:
    def checked(x: torch.Tensor) -> Any:
        number = x.argmax().item()
        torch._check(number < 4)
        return number

    for function in (lambda x: x.new_zeros(x.argmax().item()), checked):
        with pytest.raises(UnsupportedError, match="computed from data, expected a tensor"):
            import_program(function, (X,))
    for branches in (
        lambda x: x + 1 if torch.equal(x, x) else x,
        lambda x: [x + 1 if n != n else x for n in [x.max().item()]],
        lambda x: [x + 1 if n < math.inf else x for n in [x.max().item()]],
    ):
        with pytest.raises(ImportFailure, match="branches on values of a tensor"):
            import_program(branches, (X,))
    with pytest.raises(UnsupportedError, match=r"argument 'beta' of aten.softplus.default takes"):
        import_program(lambda x: torch.nn.functional.softplus(x, x.argmax().item()), (X,))
    with pytest.raises(ImportFailure, match="addmm needs the value of a number that comes from a"):
        import_program(lambda x: torch.addmm(x, x, x.t() @ x, beta=x.max().item()), (X,))
    with pytest.raises(ImportFailure, match="and is none that dlc has for these, which are sqrt"):
        import_program(lambda x: x * math.gcd(x.argmax().item(), 6), (X,))
    with pytest.raises(ImportFailure, match="Float did not match Double"):
        import_program(torch.allclose, (X, X.double()))


@pytest.mark.parametrize(
    "made", [str, repr, lambda n: f"of {n}", lambda n: f"{n:.2f}", lambda n: {f"{n}": 1}]
)
@pytest.mark.parametrize("of", [lambda x: x.argmax().item(), lambda x: x.max()])
def test_a_text_of_a_number_or_a_tensor_is_refused(made: Any, of: Any) -> None:
    with pytest.raises(ImportFailure, match=r"makes (of )?a t(ext of a t)?ensor"):
        import_program(lambda x: (x + 1, made(of(x))), (X,))


def test_a_constant_text_is_returned() -> None:
    compiled = dlc.compile(lambda x: (x + x.max().item(), "u7 FakeTensor"), (X,), backend="host")
    assert compiled(X)[1] == "u7 FakeTensor"


def test_a_number_is_of_one_element() -> None:
    text = (
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> "
        'attributes {dlc.outputs = [{path = "0", number, result = 0 : i64}]} '
        "{ func.return %x : tensor<4xf32> }"
    )
    module = LocParser(compiler_context(), text, "wrong.mlir").parse_module()
    with pytest.raises(OpError, match=r"a number in dlc\.outputs to be a tensor of one element"):
        outputs_of(main_of(module))
