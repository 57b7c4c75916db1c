"""
Programs of which several schedules are measured, so that a GPU says which is the fastest.

The schedules stand in the records of bench/measured.py, by `choices/` and what the program is and
how it is computed, such as `choices/split.32x2048x2048.8.last`: what was measured once is measured
again with the next GPU. To ask for another schedule, add it to `ASKED`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from kernel_programs import PROGRAMS as KERNELS
from torch import Tensor

Made = tuple[Callable[..., Any], tuple[Any, ...]]

RESULTS = Path(__file__).parent / "results"
RECORDS = ("measured.json", "measured_h200.json")
ASKED: Mapping[str, str] = {
    "128x2048x5632.128x96x64.by2x1.in6.2.kernel.producer1": (
        "tileify,chunk-matmul-k{bk=64 vector=16},"
        'split-matmul-k{splits=2 then="tileify,blockify-launch{block=2,512 thread=2,128},'
        'register-tile{extents=4},mark-unroll{limit=32}"},'
        "blockify-launch{block=128,96 thread=2,1},stage-inputs{budget=28672},"
        "register-tile{extents=64,96 mma=m64n96k16},double-buffer{depth=6},"
        "tma-copy,split-inner-for-swizzle{bytes=128},pipeline-k-outer{producer=1},"
        "mark-unroll{limit=4}"
    ),
    "32x2048x5632.64x96x64.by1x1.in8.2.kernel.producer1": (
        "tileify,chunk-matmul-k{bk=64 vector=16},"
        'split-matmul-k{splits=2 then="tileify,blockify-launch{block=2,512 thread=2,128},'
        'register-tile{extents=4},mark-unroll{limit=32}"},'
        "blockify-launch{block=64,96 thread=1,1},stage-inputs{budget=20480},"
        "register-tile{extents=64,96 mma=m64n96k16},double-buffer{depth=8},"
        "tma-copy,split-inner-for-swizzle{bytes=128},pipeline-k-outer{producer=1},"
        "mark-unroll{limit=4}"
    ),
    "32x2048x5632.64x128x64.by1x1.in6.3.kernel.producer1": (
        "tileify,chunk-matmul-k{bk=64 vector=16},"
        'split-matmul-k{splits=3 then="tileify,blockify-launch{block=2,512 thread=2,128},'
        'register-tile{extents=4},mark-unroll{limit=32}"},'
        "blockify-launch{block=64,128 thread=1,1},stage-inputs{budget=24576},"
        "register-tile{extents=64,128 mma=m64n128k16},double-buffer{depth=6},"
        "tma-copy,split-inner-for-swizzle{bytes=128},pipeline-k-outer{producer=1},"
        "mark-unroll{limit=4}"
    ),
    "32x2048x5632.64x48x128.by1x1.in6.producer1": (
        "tileify,chunk-matmul-k{bk=128 vector=16},blockify-launch{block=64,48 thread=1,1},"
        "stage-inputs{budget=28672},register-tile{extents=64,48 mma=m64n48k16},"
        "double-buffer{depth=6},tma-copy{store=3},split-inner-for-swizzle{bytes=128},"
        "pipeline-k-outer{producer=1},mark-unroll{limit=4}"
    ),
    "4096x4096x4096.128x256x64.by2x1.in4.multicast2,1.producer1.registers40.resident1": (
        "tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=128,256 thread=2,1},"
        "stage-inputs{budget=49152},register-tile{extents=64,256 mma=m64n256k16},"
        "double-buffer{depth=4},tma-copy{store=2 multicast=2,1},"
        "split-inner-for-swizzle{bytes=128},"
        "pipeline-k-outer{producer=1 registers=40 resident=1},mark-unroll{limit=4}"
    ),
}
"""Schedules of linears that no GPU has measured, by what their programs are called."""
IN_FLIGHT = (
    "512x2048x2048.128x64x64.by2x1.in8.producer1",
    "512x2048x2048.128x64x64.by2x1.in8.multicast1,2.producer1",
    "512x2048x5632.128x176x64.by2x1.in5.producer1",
    "128x2048x5632.128x48x64.by2x1.in8.producer1",
    "32x2048x5632.64x48x64.by1x1.in12.producer1",
    "4096x4096x4096.128x256x64.by2x1.in4.producer1.registers40.resident1",
    "4096x4096x4096.256x128x64.by2x1.in4.group8.producer1.registers40.resident1",
)
"""Linears of the records that are asked for again, with the products of a chunk in flight."""
APART = "x+square+sum+rms+rms_norm,product+linear+linear_2+silu+product_2+linear_3+linear_4+mul"
HEADS, GROUPS, WIDTH, KEYS = 32, 4, 64, 2048
"""Heads of queries and of keys, and their elements, as of TinyLlama, and what a cache holds."""


@dataclass(frozen=True)
class Program:
    """A program, made where it is measured: a function or module, and its arguments."""

    name: str
    make: Callable[[], Made]
    options: dict[str, Any] = field(default_factory=dict)
    """Of `dlc.compile`."""
    passes: str = ""
    """One that its Kernel IR goes through beside."""
    tf32: bool = False
    """Whether PyTorch may compute products of f32 in it."""

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]


def of_function(
    function: Callable[..., Any], *shapes: Sequence[int], dtype: torch.dtype = torch.float32
) -> Callable[[], Made]:
    """A function of tensors drawn on the current device."""

    def make() -> Made:
        return function, tuple(torch.randn(*shape, dtype=dtype) for shape in shapes)

    return make


def of_text(text: str) -> Callable[[], Made]:
    """A program as `dlc run -c` takes it."""

    def make() -> Made:
        from dlc.frontend.scripts.capture import capture_text

        return capture_text(text)

    return make


of_halves = partial(of_function, dtype=torch.bfloat16)


def matmul(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def _columns(x: Tensor) -> Tensor:
    return torch.softmax(x, 0)


def _argmax(x: Tensor) -> Tensor:
    return torch.argmax(x, 1)


def _transpose(x: Tensor) -> Tensor:
    return x.T.contiguous()


def _max_pool2d(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, 2, 1)


def _chain(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(8):
        x = torch.softmax(x @ w, -1)
    return x


def full(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _attend(q: Tensor, k: Tensor, v: Tensor, last: Tensor) -> Tensor:
    """One query of each row over the keys up to its last one."""
    held = torch.arange(k.shape[2], device=k.device) <= last[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=held[:, None, None], enable_gqa=True)


def _gated(x: Tensor, g: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    h = F.rms_norm(x, x.shape[-1:], g)
    return F.silu(F.linear(h, gate)) * F.linear(h, up)


def linear_of(rows: int, k: int, columns: int) -> Callable[[], Made]:
    """A linear in bf16."""
    return of_halves(F.linear, (rows, k), (columns, k))


def _matmul_of(rows: int, k: int, columns: int) -> Callable[[], Made]:
    return of_function(matmul, (rows, k), (k, columns))


def _attention_of(keys: int, width: int, mask: str = "", rows: int = 0) -> Callable[[], Made]:
    shapes = [(1, 32, rows or keys, width), *[(1, 32, keys, width)] * 2]
    added = [(keys, keys)] if mask == "added" else []
    return of_halves(causal if mask == "causal" else full, *shapes, *added)


def _warpgroups_of(keys: int) -> Callable[[], Made]:
    return _attention_of(keys, 128, {512: "causal", 2048: "added"}.get(keys, ""))


def _token_of(rows: int) -> Callable[[], Made]:
    shapes = ((rows, HEADS, 1, WIDTH), *[(rows, GROUPS, KEYS, WIDTH)] * 2)

    def make() -> Made:
        _, tensors = of_halves(_attend, *shapes)()
        return _attend, (*tensors, torch.full((rows,), KEYS - 1))

    return make


SQUARE = (4096, 4096)
FAMILIES: Mapping[str, Callable[..., Callable[[], Made]]] = {
    r"argmax\.": lambda: of_function(_argmax, SQUARE),
    r"attention\.(\d+)\.": lambda width: _attention_of(4096, width),
    r"causal\.(\d+)\.": lambda width: of_function(causal, *[(1, 32, 512, width)] * 3),
    r"chain\.": lambda: of_function(_chain, (128, 1024), (1024, 1024)),
    r"linear\.(\d+)x(\d+)x(\d+)\.": linear_of,
    r"max_pool2d\.": lambda: of_function(_max_pool2d, (16, 64, 256, 256)),
    r"one-row\.(\d+)\.": lambda keys: _attention_of(keys, 64, rows=1),
    r"(?:parts|split)\.(\d+)x(\d+)x(\d+)\.": _matmul_of,
    r"row-chain\.": lambda: of_function(_chain, (1, 1024), (1024, 1024)),
    r"softmax\.(\d+)x(\d+)\.": lambda *shape: of_function(softmax, shape),
    r"softmax-columns\.": lambda: of_function(_columns, SQUARE),
    r"square\.": lambda: of_function(matmul, SQUARE, SQUARE),
    r"square-linear\.": lambda: of_function(F.linear, SQUARE, SQUARE),
    r"token\.attention\.(\d+)\.": _token_of,
    r"token\.gated\.": lambda: of_halves(_gated, (1, 2048), (2048,), *[(5632, 2048)] * 2),
    r"token\.product\.(\d+)x(\d+)\.": lambda rows, k: linear_of(rows, k, 2048),
    r"transpose\.": lambda: of_function(_transpose, SQUARE),
    r"turns\.(\d+)x(\d+)\..*\.(full|causal)": _attention_of,
    r"warpgroups\.(\d+)\.": _warpgroups_of,
}
"""What makes a program by the beginning of its name, of the numbers in it."""
AS_CHOSEN = r"(row-)?chain\.|square-linear\.|token\.gated\.1\.(apart|fused)$|.*\.default$"
"""Programs whose schedules are those that are chosen, whatever they were."""


def program_of(name: str, schedules: Mapping[str, str]) -> Program | None:
    """A program by its name and the schedules of its kernels; None for one that is not known."""
    if (make := _made(told := name.removeprefix("choices/"))) is None:
        return None
    options: dict[str, Any] = {}
    if not re.match(AS_CHOSEN, told):
        options["schedules"] = {name: text for name, text in schedules.items() if text}
    if told == "token.gated.1.apart":
        options["plan"] = APART
    if tf32 := told.endswith(".tf32"):
        options["precision"] = "tf32"
    passes = "overlap-launches" if told.endswith(".overlap-launches") else ""
    return Program(name, make, options, passes, tf32)


def _made(told: str) -> Callable[[], Made] | None:
    if told.startswith("tiles."):
        text = next((t for name, t in _texts().items() if told.startswith(f"tiles.{name}.")), None)
        return of_text(text) if text else None
    for pattern, make in FAMILIES.items():
        if found := re.match(pattern, told):
            return make(*(int(part) if part.isdigit() else part for part in found.groups()))
    return None


@cache
def _texts() -> dict[str, str]:
    """The programs of bench/kernel_programs.py without their families."""
    return {program.name.rpartition("/")[2]: program.text for program in KERNELS}


def choices() -> Iterator[Program]:
    """What the records have schedules of, and what is asked beside."""
    found: dict[str, Mapping[str, str]] = {}
    for record in RECORDS:
        rows = json.loads((RESULTS / record).read_text())["rows"]
        found |= {n: row["schedules"] for n, row in rows.items() if "schedules" in row}
    found |= {f"choices/linear.{name}": {"linear": text} for name, text in ASKED.items()}
    for name in IN_FLIGHT:
        waits = found[f"choices/linear.{name}"]["linear"]
        text = waits.replace("{producer=1", "{producer=1 products=1")
        found[f"choices/linear.{name}.products1"] = {"linear": text}
    ((name, waits),) = found["choices/warpgroups.4096.2of64"].items()
    ahead = waits.replace("{depth=2}", "{depth=3}").replace("=1}", "=1 registers=40 products=1}")
    found["choices/warpgroups.4096.2of64.in3.registers40.products1"] = {name: ahead}
    for name, schedules in found.items():
        if name.startswith("choices/") and (program := program_of(name, schedules)):
            yield program
