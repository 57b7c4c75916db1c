"""`as_strided` with an offset counts from the begin of a tensor's memory, wherever that begins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import dlc
from dlc.frontend.source import ImportFailure

Program = Callable[[torch.Tensor], torch.Tensor]
PROGRAMS: dict[str, Program] = {
    "read": lambda x: x.as_strided((2, 3), (3, 1), 4) * 2,
    "written": lambda x: x.add_(1).as_strided((2, 3), (3, 1), 4) + 0,
    "of a view": lambda x: x.view(3, 4).as_strided((2, 3), (3, 1), 0) + 1,
    "scattered": lambda x: torch.as_strided_scatter(x, x[:2] * 9, (2,), (3,), 1),
}


def part(offset: int) -> torch.Tensor:
    return torch.arange(20.0)[offset : offset + 12]


@pytest.mark.parametrize("name", PROGRAMS)
def test_arguments_have_to_begin_where_their_memory_does(name: str) -> None:
    program = PROGRAMS[name]
    compiled = dlc.compile(program, (part(0),), backend="host")
    torch.testing.assert_close(compiled(part(0)), program(part(0)), rtol=0, atol=0)
    with pytest.raises(ImportFailure, match="as_strided is given a view"):
        compiled(part(4))
    with pytest.raises(ImportFailure, match="as_strided is given a view"):
        dlc.compile(program, (part(4),), backend="host")


def test_torch_compile_leaves_others_to_pytorch() -> None:
    program = PROGRAMS["written"]
    compiled = torch.compile(program, backend="dlc")
    for offset in (0, 4, 0):
        given, own = part(offset), part(offset)
        torch.testing.assert_close(compiled(given), program(own), rtol=0, atol=0)
        torch.testing.assert_close(given, own, rtol=0, atol=0)


def test_strides_alone_count_from_the_first_element() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).as_strided((2, 3), (3, 1)) * 2

    compiled = dlc.compile(program, (part(0),), backend="host")
    for offset in (0, 4):
        torch.testing.assert_close(compiled(part(offset)), program(part(offset)), rtol=0, atol=0)
