"""Whether tensors have changed, with a version and without one, and scripts with such."""

from __future__ import annotations

import pytest
import torch
from script_texts import assert_as_python, assert_as_python_or_refused
from torch import nn

from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.scripts.mementos import Memento
from dlc.frontend.state.tensor_changes import may_have_changed, refill, version_of
from dlc.judge.reference import evaluate

TOP = "    x = torch.randn(2, 5, 7, 8)\n    t, i = x.flatten(1).topk(3)\n"
KEPT = "    c = torch.zeros(3)\n    def f():\n        c.add_(1)\n        return c\n"


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.complex64])
def test_a_change_in_place_gives_another_version(
    inference: bool, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    with torch.inference_mode(inference):
        tensor = torch.zeros(shape, dtype=dtype)
        before, same = version_of(tensor), version_of(tensor)
        tensor.fill_(1)
    assert before == same
    assert (version_of(tensor) == before) == (inference and tensor.numel() == 0)
    assert may_have_changed(tensor)


def test_a_sparse_tensor_without_a_version_is_compared_by_its_numbers() -> None:
    with torch.inference_mode():
        tensor = torch.eye(3).to_sparse()
        before = version_of(tensor)
        tensor.mul_(2)
    assert version_of(tensor) != before


def test_tensors_without_a_version_are_put_back_outside_of_their_mode() -> None:
    with torch.inference_mode():
        tensor = torch.tensor([1.0, float("nan")])
        memento = Memento([tensor])
        tensor.add_(1)
    assert memento.restore()
    assert torch.equal(tensor.nan_to_num(7.0), torch.tensor([1.0, 7.0]))
    refill(tensor, torch.zeros(2))
    assert torch.equal(tensor, torch.zeros(2))


@pytest.mark.parametrize(
    "body",
    [
        f"{TOP}    r = {{'z': x.cumsum(-2)[..., ::2], 't': t}}\nr",
        f"{TOP}    r = t.sum(), x.sum()\n    print(t.sum(), x.sum())\n",
        "    i = iter([torch.randn(3), torch.randn(3)])\n    a = next(i)\n    r = a + next(i)\nr",
        "    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()\n"
        "    r = m(m(torch.randn(2, 3)))\nr",
        "    y = torch.randn(2, 3) * 2\n    y += 1\n    y[0] = 3\n    r = y\nr",
        "    c = torch.zeros(3)\n    y = torch.randn(3) * 2\n    c.add_(1)\n    r = y + c\nr",
    ],
)
def test_scripts_under_inference_mode(body: str) -> None:
    assert_as_python(f"with torch.inference_mode():\n{body}")


def test_tensors_without_a_version_are_written() -> None:
    make = "x = torch.randn(4, 3)\n    m = nn.BatchNorm1d(3)\n    x[0] = 3\n    r = m(x)"
    module, (x,) = capture_text(f"with torch.inference_mode():\n    {make}\nr")
    program = import_program(module, (x,))
    norm = nn.BatchNorm1d(3)
    y = x.clone()
    y[0] = 3
    with torch.inference_mode():
        bound = program.bind((x,))
        result = program.unflatten(evaluate(program.module, bound), bound)
        torch.testing.assert_close(result, norm(y))
    assert torch.equal(x, y)
    found = {name: b for name, b in module.named_buffers() if name.endswith("running_mean")}
    torch.testing.assert_close([*found.values()], [norm.running_mean])


def test_what_calls_change_in_place_under_inference_mode_is_not_kept() -> None:
    text = f"with torch.inference_mode():\n{KEPT}    a = f()\n    r = a + f() + torch.randn(3)\nr"
    assert_as_python_or_refused(text, "return a copy")
