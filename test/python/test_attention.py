"""Attention is one sweep over keys: what is joined, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_fusion import kernels, loops, run
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp, StringAttr

import dlc
from dlc.dialects.loop import ReduceOp

INF, NAN = float("inf"), float("nan")
Program = Callable[..., Tensor]


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys whose first element is negative are not attended to: maybe none is."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(k[..., :1] >= 0).mT)


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True)


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT * 0.5, -1) @ v


def scaled_before(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q / 2.0) @ k.mT
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (powers @ v) / powers.sum(-1, keepdim=True)


def capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(torch.tanh(q @ k.mT / 20) * 20, -1) @ v


def by_distance(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows, keys = (torch.arange(x.shape[-2], device=x.device) for x in (q, k))
    far = (rows[:, None] - keys).abs()
    scores = q @ k.mT - 0.25 * far
    return torch.softmax(scores.masked_fill(far > 5, -INF), -1) @ v


PROGRAMS: dict[str, Program] = {
    "sdpa": F.scaled_dot_product_attention,
    "causal": causal,
    "masked": masked,
    "grouped": grouped,
    "by hand": by_hand,
    "scaled before": scaled_before,
    "soft-capped": capped,
    "a window, ALiBi": by_distance,
}


def one_kernel(program: Program, *shapes: tuple[int, ...]) -> ModuleOp:
    module = loops(program, *shapes)
    for kernel in kernels(module):
        kernel.attributes["fuse"] = StringAttr("always")
    run(module, "fuse-loops,join-cascades")
    return module


def joined(program: Program, *shapes: tuple[int, ...]) -> list[str]:
    """The text of the program as one kernel, and the monoids of its reduces."""
    module = one_kernel(program, *shapes)
    folds = [op.monoid_name.data for op in module.walk() if isinstance(op, ReduceOp)]
    return [str(module), *folds]


def draw(rows: int, keys: int, width: int = 4, columns: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(rows * 1000 + keys)
    shapes = (1, 2, rows, width), (1, 2, keys, width), (1, 2, keys, columns)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_with_one_sweep_over_keys(name: str, tmp_path: Path) -> None:
    program, inputs = PROGRAMS[name], draw(9, 11)
    text, *folds = joined(program, *(tuple(x.shape) for x in inputs))
    assert folds == ["expsum", "add"]
    file = tmp_path / "joined.mlir"
    file.write_text(text)
    loaded = dlc.load(file, backend="host")
    exact = program(*(x.double() for x in inputs))
    torch.testing.assert_close(loaded(*inputs).double(), exact, rtol=1e-5, atol=1e-6)
    assert {verdict.answer for verdict in loaded.check()} == {"clean"}


def unusual(program: Program, tmp_path: Path, *inputs: Tensor) -> None:
    text, *_ = joined(program, *(tuple(x.shape) for x in inputs))
    file = tmp_path / "joined.mlir"
    file.write_text(text)
    exact = program(*(x.double() for x in inputs))
    found = dlc.load(file, backend="host")(*inputs).double()
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", ["causal", "masked", "by hand"])
@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (7, 1), (1, 7), (33, 29), (3, 0)])
def test_ragged_sizes(name: str, rows: int, keys: int, tmp_path: Path) -> None:
    unusual(PROGRAMS[name], tmp_path, *draw(rows, keys))


def test_rows_without_keys_are_zero_as_the_operation_has_them(tmp_path: Path) -> None:
    q, k, v = draw(5, 8)
    k[..., 0] = -1.0  # masks all keys
    v[0, 1, 3, 2] = INF  # and 0 times it is NaN
    unusual(masked, tmp_path, q, k, v)


def test_keys_that_the_operation_masks_give_nothing() -> None:
    """Nor do lengths that are data; what PyTorch adds to their scores leaves NaN as it is."""
    q, k, v = draw(5, 7)
    mask, lengths = torch.ones(5, 7, dtype=torch.bool).tril(1), torch.tensor([3, 5])

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, lengths: Tensor) -> list[Tensor]:
        known = torch.arange(7) < lengths[:, None, None, None]
        masks: list[dict[str, Any]] = [
            {"is_causal": True},
            {"attn_mask": mask},
            {"attn_mask": known},
        ]
        return [F.scaled_dot_product_attention(q, k, v, **mask) for mask in masks]

    compiled = dlc.compile(attention, (q, k, v, mask, lengths), backend="host")
    usual = compiled(q, k, v, mask, lengths)
    k[:, :, -1] = torch.tensor([NAN, INF] * (k.shape[-1] // 2))
    for found, expected in zip(compiled(q, k, v, mask, lengths), usual, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["sdpa", "by hand", "a window, ALiBi"])
def test_infinities_and_nan_go_where_they_do(name: str, tmp_path: Path) -> None:
    q, k, v = draw(6, 10)
    q[0, 0, 1, 0], q[0, 0, 2, 1] = NAN, INF
    k[0, 1, 4, 0], v[0, 0, 5, 1], v[0, 1, 0, 0] = INF, -INF, NAN
    unusual(PROGRAMS[name], tmp_path, q, k, v)


@pytest.mark.parametrize("name", ["causal", "by hand"])
def test_large_scores(name: str, tmp_path: Path) -> None:
    q, k, v = draw(6, 40)
    q, k = torch.full_like(q, 64.0), k.mul(16).round() * 4  # products are exact
    unusual(PROGRAMS[name], tmp_path, q, k, v)


STEPS = (
    "tileify",
    "chunk-matmul-k{bk=8 vector=4}",
    "blockify-launch{block=8,4 thread=4,4}",
    "stage-inputs{budget=20000 compute=true points=2,2}",
    "register-tile{extents=2}",
    "permute-register-tile",
    "double-buffer{depth=2}",
    "async-copy",
    "pad-smem",
    "pipeline-k-outer",
    "mark-unroll{limit=8}",
)
HELD = (
    STEPS[0],
    "chunk-matmul-k{bk=16 vector=4}",
    "blockify-launch{block=16,32 thread=4,4 lanes=2}",
    "stage-inputs{budget=20000 compute=true points=4,4}",
    "register-tile{extents=4,8 held=true strip=4}",
    *STEPS[5:],
)
"""Threads keep scores and powers in registers."""


def scheduled(program: Program, steps: Sequence[str], *inputs: Tensor) -> ModuleOp:
    """The program as one kernel with a schedule."""
    module = one_kernel(program, *(tuple(x.shape) for x in inputs))
    (kernel,) = kernels(module)
    kernel.schedule = StringAttr(",".join(steps))
    return module


def tiled(program: Program, steps: Sequence[str], file: Path, *inputs: Tensor) -> None:
    """The kernel by steps gives the right numbers, and has no races."""
    file.write_text(str(scheduled(program, steps, *inputs)))
    exact = program(*(x.double() for x in inputs))
    loaded = dlc.load(file, backend="host")
    found = loaded(*inputs).double()
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert {verdict.answer for verdict in loaded.check()} <= {"clean"}


@pytest.mark.parametrize(
    ("name", "rows", "keys", "steps"),
    [
        ("causal", 21, 37, STEPS),
        ("causal", 1, 9, STEPS),
        ("masked", 8, 8, STEPS),
        ("a window, ALiBi", 9, 17, STEPS),
        ("causal", 21, 37, HELD),
        ("masked", 8, 8, HELD),
        ("a window, ALiBi", 9, 17, HELD),
    ],
)
def test_in_tiles(name: str, rows: int, keys: int, steps: Sequence[str], tmp_path: Path) -> None:
    tiled(PROGRAMS[name], steps, tmp_path / "tiled.mlir", *draw(rows, keys, 8))


@pytest.mark.parametrize(
    ("blocks", "tile"),
    [
        ("block=8,8 thread=4,8", "extents=2"),
        ("block=4,8 thread=4,4 lanes=2", "extents=2"),
        ("block=4,16 thread=1,8", "extents=4,2"),
    ],
    ids=["a warp's rows", "a row each", "a warp"],
)
def test_rows_that_threads_hold(blocks: str, tile: str, tmp_path: Path) -> None:
    """Rows and columns of threads in other shapes; all share their powers, and nothing else."""
    steps = [step for step in HELD if step.partition("{")[0] != "permute-register-tile"]
    steps[2:5] = [
        f"blockify-launch{{{blocks}}}",
        "stage-inputs{budget=20000 compute=true points=1,2}",
        f"register-tile{{{tile} held=true}}",
    ]
    file = tmp_path / "held.mlir"
    tiled(causal, steps, file, *draw(13, 21, 8, 16))
    text = dlc.load(file, backend="host").ir("tile")
    assert text.count("tile.share %power") == 1
    assert "tile.compute" not in text


@pytest.mark.parametrize("shape", [(16, 32), (9, 21)])
def test_threads_read_what_has_one_reader_where_it_lies(
    shape: tuple[int, int], tmp_path: Path
) -> None:
    """A mask that is added has an element for each score, and no slab."""

    def added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(q @ k.mT * 0.5 + mask, -1) @ v

    q, k, v = draw(*shape, 8)
    mask = torch.randn(shape)
    mask[1], mask[2, 3:], mask[3, 0] = -INF, -INF, NAN
    steps = [s.replace("budget=20000", "budget=20000 buffers=q,k,v") for s in HELD]
    file = tmp_path / "added.mlir"
    tiled(added, steps, file, q, k, v, mask)
    assert "tile.stage %mask" not in dlc.load(file, backend="host").ir("tile")


@pytest.mark.parametrize("keys", [16, 8])
def test_threads_hold_what_is_of_the_only_chunk(keys: int, tmp_path: Path) -> None:
    steps = [step for step in HELD if not step.startswith(("double", "async", "pipeline"))]
    tiled(causal, steps, tmp_path / "held.mlir", *draw(21, keys, 8))
    text = dlc.load(tmp_path / "held.mlir", backend="host").ir("tile")
    assert text.count("tile.hold") == 4
    assert "serial(%ko" not in text


@pytest.mark.parametrize("count", [5, 7, 9])
def test_steps_of_what_is_held(count: int, tmp_path: Path) -> None:
    tiled(causal, HELD[:count], tmp_path / "held.mlir", *draw(9, 21, 8))


@pytest.mark.parametrize("left_out", [1, 2, 3, 4, 6, 7, 9])
def test_each_step_may_be_left_out(left_out: int, tmp_path: Path) -> None:
    steps = [*STEPS[:left_out], *STEPS[left_out + 1 :]]
    needs = {"blockify-launch": ("stage-inputs", "register-tile", "permute-register-tile")}
    needs |= {"stage-inputs": ("double-buffer", "async-copy", "pad-smem", "pipeline-k-outer")}
    gone = STEPS[left_out].partition("{")[0]
    dependents = needs.get(gone, ()) + (needs["stage-inputs"] if gone == "blockify-launch" else ())
    steps = [step for step in steps if step.partition("{")[0] not in dependents]
    tiled(causal, steps, tmp_path / "tiled.mlir", *draw(13, 21, 8))


@pytest.mark.parametrize("steps", [STEPS, HELD], ids=["slabs", "held"])
def test_tiles_of_unusual_numbers(steps: Sequence[str], tmp_path: Path) -> None:
    q, k, v = draw(11, 20, 8)
    q[0, 0, 1, 0], q[0, 0, 2, 1] = NAN, INF
    k[0, 1, 4, 0], v[0, 0, 5, 1], v[0, 1, 0, 0] = INF, -INF, NAN
    tiled(by_hand, steps, tmp_path / "tiled.mlir", q, k, v)
    q, k, v = draw(5, 20, 8)
    k[..., 0] = -1.0  # masks all keys
    tiled(masked, steps, tmp_path / "masked.mlir", q, k, v)
    q, k = torch.full_like(q, 64.0), k.mul(16).round() * 4  # products are exact
    tiled(by_hand, steps, tmp_path / "large.mlir", q, k, v)


@pytest.mark.parametrize(("name", "rows", "keys"), [("causal", 70, 70), ("causal", 127, 129)])
def test_by_default_it_is_one_kernel(name: str, rows: int, keys: int) -> None:
    inputs = draw(rows, keys, 8, 8)
    compiled = dlc.compile(PROGRAMS[name], tuple(inputs), backend="host")
    assert len(compiled.kernels) == 1
    assert "reduce expsum" in compiled.ir("loop")
    exact = PROGRAMS[name](*(x.double() for x in inputs))
    found = compiled(*inputs).double()
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6)


def test_few_keys_are_tiled_as_many_are() -> None:
    """No score is computed again for what reads it, nor a value for each row, to save a launch."""

    def heads(x: Tensor) -> Tensor:
        return x.view(2, 11, 4, 8).transpose(1, 2)

    def attention(x: Tensor, y: Tensor, z: Tensor, w: Tensor) -> Tensor:
        q, k, v = heads(x), heads(y), heads(z @ w)
        return causal(q, k, v).transpose(1, 2).reshape(2, 11, 32)

    module = loops(attention, *[(2, 11, 32)] * 3, (32, 32))
    run(module, "fuse-loops,schedule-kernels")
    names = [kernel.name_ for kernel in kernels(module)]
    assert names == ["matmul", "scaled_dot_product_attention"]
    assert all("chunk-matmul-k" in str(kernel.schedule) for kernel in kernels(module))


def test_chunks_of_which_all_is_masked_are_skipped() -> None:
    shapes = [(1, 32, 512, 64)] * 3
    inputs = tuple(torch.empty(shape, device="meta") for shape in shapes)
    compiled = dlc.compile(causal, inputs, backend="host", target="sm_90")
    (kernel,) = compiled.kernels
    assert "chunk-matmul-k" in kernel.schedule
    assert "last=2 waves=4 lanes=2" in kernel.schedule
    assert "held=true" in kernel.schedule
    assert "tile.reduce exp2sum rising serial(%ko in 8)" in compiled.ir("tile")
    assert "where (%brow * 32 - %ko * 64 >= -31)" in compiled.ir("tile")


def test_powers_of_scores_in_memory_are_computed_once_for_a_block() -> None:
    """The largest score of a row, the powers and their sum have slabs, if scores are loaded."""
    scores, v = (torch.empty(s, device="meta") for s in ((32, 512, 512), (32, 512, 64)))
    compiled = dlc.compile(lambda s, v: torch.softmax(s, -1) @ v, (scores, v), target="sm_90")
    (kernel,) = compiled.kernels
    assert "chunk-matmul-k" in kernel.schedule
    assert kernel.source.count("= exp_below(") == 2  # of a chunk's powers, and between chunks


def test_no_warp_has_the_issue_slots_of_other_schedulers() -> None:
    """A block of one warp that an SM has alone takes four times what it would take of all slots."""
    inputs = tuple(torch.empty(1, 32, 128, 64, device="meta") for _ in range(3))
    compiled = dlc.compile(causal, inputs, backend="host", target="sm_90")
    (kernel,) = compiled.kernels
    assert kernel.grid * kernel.block // 32 >= 2 * 132
