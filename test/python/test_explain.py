"""The account of `dlc compile --explain`: its lines."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from dlc.explain import WIDTH, Explanation
from dlc.passes import STEPS
from dlc.remarks import Remark

LONG = "64x128 blocks of 128 threads, chunks of 16, K in 4 parts: 4.3 s (issue 57.1, memory 14.7)"


def explain(*remarks: tuple[str, str], colour: bool = False) -> list[str]:
    """The lines on a kernel k, which was materialized."""
    explanation = Explanation(colour)
    module = ModuleOp([])
    explanation.start(module, STEPS)
    said = [Remark(name, "k", text) for name, text in (*remarks, ("bind-axes", "grid 1"))]
    explanation.passed(STEPS[-1], module, [*said, Remark("tileify", "other", "axes")], 0)
    return str(explanation).split("\n")


def test_a_number_stays_with_its_word() -> None:
    lines = explain(
        ("schedule-kernels", f"because {LONG}"), ("schedule-kernels", f"rather than {LONG}")
    )
    assert lines[1:5] == [
        "  because                 64x128 blocks of 128 threads, chunks of 16, K in 4 parts: 4.3 s",
        "                          (issue 57.1, memory 14.7)",
        "    rather than           64x128 blocks of 128 threads, chunks of 16, K in 4 parts: 4.3 s",
        "                          (issue 57.1, memory 14.7)",
    ]
    assert max(map(len, lines)) <= WIDTH


def test_neighbours_of_one_pass_share_its_name() -> None:
    lines = explain(
        ("vectorize-accesses", "the copy of x to y"),
        ("vectorize-accesses", "the copy of y to x"),
        ("vectorize-accesses", "the copy of y to x"),
    )
    assert lines[1:3] == [
        "  vectorize-accesses      the copy of x to y",
        "                          the copy of y to x, 2 times",
    ]


def test_what_a_schedule_does_not_name_is_left_out() -> None:
    lines = explain(
        ("pad-smem", "skipped, the kernel's schedule does not name it"),
        ("async-copy", "skipped, it has no ring or stage (stage-inputs makes stages)"),
    )
    assert [line.split()[0] for line in lines[1:]] == ["async-copy", "bind-axes"]


def test_colours() -> None:
    lines = explain(("async-copy", "skipped, no ring"), ("tileify", "thread axes"), colour=True)
    assert lines[0].startswith("\033[1mk\033[0m for ")
    assert lines[1] == "  async-copy              \033[2mskipped, no ring\033[0m"
    assert lines[2] == "  tileify                 thread axes"


def test_no_kernel() -> None:
    assert str(Explanation(False)) == "no kernel was scheduled"
