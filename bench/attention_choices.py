"""Schedules of attention of which a GPU says which is the fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

_ATTENTION = (
    "tileify,chunk-matmul-k{{bk={bk} vector=16}},blockify-launch{{block={block},{width} "
    "thread={warps},1}},stage-inputs{{budget=200000 compute=true points=4,8}},"
    "register-tile{{extents={rows},{width} mma=m16n8k16}},double-buffer{{depth={depth}}},"
    "async-copy,pad-smem,pipeline-k-outer,mark-unroll{{limit=8}}"
)
_HELD = (
    "tileify,chunk-matmul-k{{bk={bk} vector=4}},blockify-launch{{block={block} thread={thread} "
    "last=2 waves={waves} lanes=2}},stage-inputs{{budget=200000 compute=true points={points}}},"
    "register-tile{{extents={extents}{held}}},{strips}double-buffer{{depth=2}},async-copy,pad-smem,"
    "pipeline-k-outer,mark-unroll{{limit={limit}}}"
)
_WARPGROUPS = (
    "tileify,chunk-matmul-k{{bk={bk} vector=16}},blockify-launch{{block={rows},{width} "
    "thread={groups},1{last}}},stage-inputs{{budget=230400{buffers} compute=true points=4,8}},"
    "register-tile{{extents=64,{width} mma=m64n{width}k16}},double-buffer{{depth=2}},{copies}"
    "mark-unroll{{limit=8}}"
)
_BY_TMA = "tma-copy,split-inner-for-swizzle{{bytes=128}},pipeline-k-outer{{producer=1{}}},"
_ONE_ROW = (
    "tileify,chunk-matmul-k{{bk={bk} vector=4}},split-matmul-k{{splits={splits}{then}}},"
    "blockify-launch{{block=64 thread={threads}}},stage-inputs{{budget=100000 compute=true "
    "points=1,{keys}}},register-tile{{extents={extents}}},{copies}pad-smem,{pipeline}"
    "mark-unroll{{limit={limit}}}"
)


@dataclass(frozen=True)
class AttentionChoice:
    """
    Attention by a schedule, or by that of today if it is empty; a fourth shape is that of a mask
    that is added.
    """

    name: str
    schedule: str
    shapes: Sequence[Sequence[int]]
    causal: bool = False
    dtype: torch.dtype = torch.bfloat16

    def attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal)


def attention_choices() -> Iterator[AttentionChoice]:
    """By warps, by threads, by warpgroups, and of one row, beside what is chosen."""
    yield from by_warps()
    yield from by_threads()
    yield from by_warpgroups()
    yield from in_turns()
    yield from of_one_row()


def by_warps() -> Iterator[AttentionChoice]:
    """Attention of 4096 keys: rows of a warp, warps, keys of a chunk, slots of the rings."""
    for width in (128, 64):
        for rows, warps, bk, depth in (
            (32, 4, 64, 2), (32, 4, 32, 2), (32, 4, 32, 3), (16, 4, 64, 2), (32, 2, 64, 2),
            *([(16, 8, 64, 2)] if width == 64 else []),
        ):  # fmt: skip
            schedule = _ATTENTION.format(
                bk=bk, block=rows * warps, warps=warps, rows=rows, width=width, depth=depth
            )
            shape = (1, 32, 4096, width)
            name = f"attention.{width}.{rows}rows.{warps}warps.{bk}keys.in{depth}"
            yield AttentionChoice(name, schedule, (shape,) * 3)


def by_threads() -> Iterator[AttentionChoice]:
    """512 causal keys of f32; loops of 16 and more iterations are written out, or kept."""
    for width, name, block, thread, points, extents, held in (
        (64, "64x64.of.4x4", "64,64", "16,16", "4,4", "4,4", " held=true"),
        (64, "64x64.of.4x8", "64,64", "16,8", "4,8", "4,8", " held=true strip=4"),
        (64, "64x64.of.8x4", "64,64", "8,16", "8,4", "8,4", " held=true"),
        (64, "64x64.of.4x4.slabs", "64,64", "16,16", "4,4", "4,4", ""),
        (128, "64x128.of.8x8", "64,128", "8,16", "8,4", "8,8", " held=true strip=4"),
        (128, "64x128.of.4x8.slabs", "64,128", "16,16", "4,4", "4,8", ""),
        (128, "32x128.of.4x8", "32,128", "8,16", "4,4", "4,8", " held=true strip=4"),
        (64, "32x64.of.4x4.kept", "32,64", "8,16", "4,4", "4,4", " held=true"),
        (64, "64x64.of.4x4.kept", "64,64", "16,16", "4,4", "4,4", " held=true"),
        (64, "64x64.of.4x8.kept", "64,64", "16,8", "4,8", "4,8", " held=true strip=4"),
        (128, "64x128.of.8x8.kept", "64,128", "8,16", "8,4", "8,8", " held=true strip=4"),
        (128, "64x128.of.4x8.kept", "64,128", "16,16", "4,4", "4,8", " held=true strip=4"),
    ):  # fmt: skip
        schedule = _HELD.format(
            limit=8 if name.endswith("kept") else 16, bk=32 if block == "32,128" else 64,
            block=block, thread=thread, points=points, extents=extents, held=held,
            waves=128 // width,
            strips="" if held else "permute-register-tile,",
        )  # fmt: skip
        shape = (1, 32, 512, width)
        told = f"causal.{width}.{name}"
        yield AttentionChoice(told, schedule, (shape,) * 3, causal=True, dtype=torch.float32)


def by_warpgroups() -> Iterator[AttentionChoice]:
    """Heads of 128 elements of bf16, by the number of warpgroups and keys of a chunk."""
    for keys, groups, bk, producer in (
        (512, 2, 64, True), (512, 1, 128, True), (512, 1, 64, True), (4096, 2, 64, True),
        (4096, 3, 64, True), (4096, 2, 64, False), (2048, 2, 64, True), (2048, 3, 64, True),
    ):  # fmt: skip
        shape, masked = (1, 32, keys, 128), keys == 2048
        copies = "split-inner-for-swizzle{bytes=128},async-copy,pipeline-k-outer,"
        schedule = _WARPGROUPS.format(
            bk=bk, rows=64 * groups, width=128, groups=groups,
            last=" last=2" if keys == 512 else "",
            buffers=" buffers=q,k,v" if masked else "",
            copies=_BY_TMA.format("") if producer else copies,
        )  # fmt: skip
        how = "" if producer else ".no-producer"
        shapes = (shape, shape, shape, *([(keys, keys)] if masked else []))
        name = f"warpgroups.{keys}.{groups}of{bk}{how}"
        yield AttentionChoice(name, schedule, shapes, causal=keys == 512)
    masked = ((1, 32, 2048, 128),) * 3
    yield AttentionChoice("warpgroups.2048.default", "", (*masked, (2048, 2048)))


def in_turns() -> Iterator[AttentionChoice]:
    """Warpgroups that take turns at the tensor cores."""
    for keys, width, groups, bk, causal in (
        (4096, 128, 2, 128, False), (4096, 128, 2, 64, False), (4096, 128, 3, 64, False),
        (4096, 64, 2, 128, False), (512, 128, 2, 128, True), (4096, 128, 2, 128, True),
        (4096, 64, 3, 64, False), (512, 64, 2, 64, True),
    ):  # fmt: skip
        shape = 1, 32, keys, width
        kept = " registers=40" if bk == width == 128 else ""
        schedule = _WARPGROUPS.format(
            bk=bk, rows=64 * groups, width=width, groups=groups, buffers="",
            last=" last=2" if causal else "", copies=_BY_TMA.format(f"{kept} turns=1"),
        )  # fmt: skip
        name = f"turns.{keys}x{width}.{groups}of{bk}.{'causal' if causal else 'full'}"
        yield AttentionChoice(name, schedule, (shape,) * 3, causal=causal)


def of_one_row() -> Iterator[AttentionChoice]:
    """A row of bf16, by the parts that its keys are in, and the threads of a block."""
    for keys, splits, bk, threads, combine, depth in (
        (512, 8, 64, 64, "", 1), (512, 16, 32, 32, " combine=last", 1), (512, 4, 128, 64, "", 1),
        (2048, 16, 128, 64, "", 1), (2048, 32, 64, 32, "", 1), (8192, 16, 64, 64, "", 2),
        (8192, 32, 64, 32, "", 2),
    ):  # fmt: skip
        then = combine or (
            ' then="tileify,cooperative-reduce{threads=8 rows=32 vector=1 order=rows},'
            'mark-unroll{limit=2}"'
        )
        schedule = _ONE_ROW.format(
            bk=bk, splits=splits, then=then, threads=threads, keys=bk // threads,
            extents=64 // threads, limit=max(16, bk // 4),
            copies="double-buffer{depth=2},async-copy," if depth > 1 else "",
            pipeline="pipeline-k-outer," if depth > 1 else "",
        )  # fmt: skip
        row, rest = (1, 32, 1, 64), (1, 32, keys, 64)
        ending = combine.partition("=")[2] or "kernel"
        name = f"one-row.{keys}.{splits}parts.{bk}keys.{threads}threads.{ending}"
        yield AttentionChoice(name, schedule, (row, rest, rest))
