"""
Schedules of linears of halves by warpgroups, several of one program: what an H100 is asked.

Tiles without and with warps that ask for boxes, rings of several depths, boxes for several blocks,
parts of K that a cluster or a second kernel adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from part_endings import split_step


@dataclass(frozen=True)
class Tiling:
    """A schedule of a linear of so many rows, columns and points of K."""

    sizes: tuple[int, int, int]
    block: tuple[int, int]
    groups: tuple[int, int]
    depth: int
    chunk: int = 64
    splits: int = 1
    ending: str = "kernel"
    """What adds the parts: `kernel`, `last` or `cluster`."""
    multicast: str = ""
    options: str = "producer=1"
    """Of pipeline-k-outer."""
    vector: int = 16
    group: int = 0
    """Rows of blocks that are neighbours in the order of blocks."""

    @property
    def name(self) -> str:
        """Unlike those of others."""
        rows, columns, k = self.sizes
        (height, width), of = self.block, "x".join(map(str, self.groups))
        parts = [f"{height}x{width}x{self.chunk}.by{of}.in{self.depth}"]
        parts += [f"{self.splits}.{self.ending}"] if self.splits > 1 else []
        parts += [f"multicast{self.multicast}"] if self.multicast else []
        parts += [f"group{self.group}"] if self.group else []
        parts += [self.options.replace("=", "").replace(" ", ".")] if self.options else []
        return f"{rows}x{k}x{columns}.{'.'.join(parts)}"

    @property
    def places(self) -> int:
        """Boxes of results for which a warp has room, one of which is written: a divisor."""
        height, width = (b // g for b, g in zip(self.block, self.groups, strict=True))
        boxes = height // 64 * (width * 2 // gcd(width * 2, 128))
        return next((n for n in (2, 3) if boxes % n == 0), 1)

    @property
    def schedule(self) -> str:
        rows, columns, _ = self.sizes
        (height, width), (down, across) = self.block, self.groups
        own = height // down, width // across
        options = [f"store={self.places}"] if self.splits == 1 else []
        options += [f"multicast={self.multicast}"] if self.multicast else []
        splits = self.splits > 1
        split = split_step(self.splits, self.ending, (rows, columns)) if splits else ""
        group = f" group={self.group}" if self.group else ""
        steps = [
            "tileify",
            f"chunk-matmul-k{{bk={self.chunk} vector={self.vector}}}",
            f"{split}blockify-launch{{block={height},{width} thread={down},{across}{group}}}",
            f"stage-inputs{{budget={(height + width) * self.chunk * 32 // self.vector}}}",
            f"register-tile{{extents={own[0]},{own[1]} mma=m64n{own[1]}k{self.vector}"
            f"{' precision=tf32' if self.vector == 8 else ''}}}",
            f"double-buffer{{depth={self.depth}}}",
            f"tma-copy{{{' '.join(options)}}}" if options else "tma-copy",
            "split-inner-for-swizzle{bytes=128}",
            f"pipeline-k-outer{{{self.options}}}" if self.options else "pipeline-k-outer",
            "mark-unroll{limit=4}",
        ]
        return ",".join(steps)


Q512, G512, G128, G32, Q128 = (
    (512, 2048, 2048), (512, 5632, 2048), (128, 5632, 2048), (32, 5632, 2048), (128, 2048, 2048),
)  # fmt: skip
SQUARE = (4096, 4096, 4096)
RESIDENT = "producer=1 registers=40 resident=1"
TILINGS = (
    Tiling(Q512, (128, 64), (2, 1), 8),
    Tiling(Q512, (64, 128), (1, 1), 8),
    Tiling(Q512, (128, 128), (2, 1), 6),
    Tiling(Q512, (128, 64), (2, 1), 8, multicast="1,2"),
    Tiling(G512, (128, 176), (2, 1), 5),
    Tiling(G512, (128, 176), (2, 1), 5, multicast="1,2"),
    Tiling(G512, (128, 192), (2, 1), 4),
    Tiling(G512, (256, 128), (2, 1), 4),
    Tiling(G128, (128, 48), (2, 1), 8),
    Tiling(G128, (128, 96), (2, 1), 6, splits=2),
    # weights alone, whose chunks lie 4 KB apart: parts of K ask for other ones at a time
    Tiling(G32, (64, 48), (1, 1), 12),
    Tiling(G32, (64, 96), (1, 1), 8, splits=2),
    Tiling(G32, (64, 128), (1, 1), 6, splits=3),
    Tiling(G32, (64, 48), (1, 1), 6, chunk=128),
    Tiling(Q128, (64, 64), (1, 1), 8, splits=2),
    Tiling(SQUARE, (128, 256), (2, 1), 4, options=RESIDENT),
    Tiling(SQUARE, (256, 128), (2, 1), 4, options=RESIDENT, group=8),
    Tiling(SQUARE, (256, 192), (2, 1), 3, options=RESIDENT, group=8),
    Tiling(SQUARE, (128, 256), (2, 1), 4, options=RESIDENT, multicast="2,1"),
)
