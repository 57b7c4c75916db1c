"""What a judge of badly conditioned programs knows of integers that rounding decides."""

from __future__ import annotations

import torch

from dlc.frontend.export.fx import import_program
from dlc.judge.conditioning import Expected


def test_decisions_of_unknown_numbers_may_be_any() -> None:
    x = torch.linspace(1e12, 1e13, 200)
    torch_ir = import_program(lambda x: (x.cos() > 0, x > 5e12), (x,)).module
    expected = Expected(torch_ir, [x])
    unknown, known = expected.exact
    assert expected.complaint([~unknown, known]) is None
    assert "is wrong at 1 of 200" in str(
        expected.complaint([unknown, known.logical_xor(x == x[0])])
    )
    of_four = torch.stack([moved[0] == unknown for moved in expected.moved]).all(0)
    assert of_four.any()  # fewer samples find one value
