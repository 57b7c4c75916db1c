"""
Random schedules: options of every step, of those that it declares to be worth a try and some more,
mostly in order, some steps left out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from harness import STEPS

from dlc.dialects.mma_layouts import OF_FLOATS, OF_HALVES, OF_WARPGROUPS
from dlc.registry import get_pass
from dlc.transforms.step import SchedulingPass, scheduling_steps
from dlc.transforms.step_space import Value
from dlc.transforms.tile.register_tile import OF_TENSOR_CORES

T = TypeVar("T")
THEN = "tileify,blockify-launch{block=4,16 thread=4,4},register-tile{extents=4}"

TENSOR_CORES = 0.15
"""How often a warp multiplies matrices, if it can."""
MMA = [
    *(f" mma={shape}" for shape in OF_HALVES),
    *(
        f" mma={shape} precision={how}"
        for shape in OF_FLOATS
        if shape not in OF_WARPGROUPS
        for how in OF_TENSOR_CORES
    ),
]
"""Products of warps; blocks of random schedules have no warpgroups."""
SMALL = {"chunk-matmul-k.bk": 32, "cooperative-reduce.threads": 96, "cooperative-reduce.rows": 8}
"""Options of which larger values take the simulator long."""


def values(option: str, most: int | None = None) -> list[Value]:
    """What the step of `STEP.OPTION` declares to be worth a try, small enough to be run."""
    step, _, name = option.partition(".")
    cls = get_pass(step)
    assert issubclass(cls, SchedulingPass)
    most = most or SMALL.get(option, 1 << 20)
    return [v for v in cls.domains[name].values if not isinstance(v, int) or v <= most]


def random_schedule(rng: random.Random) -> list[str]:
    """The steps with their options."""

    def pick(*options: T) -> T:
        return rng.choice(options)

    def of(option: str, most: int | None = None) -> Value:
        return pick(*values(option, most))

    def number(option: str, most: int | None = None) -> int:
        found = of(option, most)
        assert isinstance(found, int)
        return found

    def maybe(option: str, chance: float = 0.5) -> str:
        value = of(option) if rng.random() < chance else None
        return "" if value is None else f" {option.partition('.')[2]}={_text(value)}"

    axes = pick(1, 2, 2, 2, 3)  # of a launch, from the right; its others get 1
    thread = [number("blockify-launch.thread", 8 if axes > 2 else 16) for _ in range(axes)]
    extents = [number("register-tile.extents", 8) for _ in range(axes)]
    mma = ""
    if axes > 1 and rng.random() < TENSOR_CORES:
        thread[-2:], extents[-2:] = [pick(1, 2), pick(1, 2)], [pick(16, 32), pick(8, 16)]
        mma = pick(*MMA)
    block = [t * e * pick(1, 1, 1, 2) for t, e in zip(thread, extents, strict=True)]
    vector = number("chunk-matmul-k.vector", 8)
    if mma:
        vector = 16 if OF_HALVES[0] in mma else 8
    bk = pick(*(n for n in values("chunk-matmul-k.bk") if isinstance(n, int) and n >= vector))
    then = pick("", f' then="{THEN}"', ' then="tileify,cooperative-reduce{threads=4 vector=2}"')
    combine = pick(then, then, then, " combine=last", " combine=cluster", " combine=atomic")
    buffers = rng.sample(["v0", "v1", "v2"], rng.randint(1, 2))
    named = pick("", "", "", f" buffers={_list(buffers)}")
    strip = _braced(maybe("permute-register-tile.strip"))
    steps = [
        "tileify",
        f"chunk-matmul-k{{bk={pick(bk, 3 * vector)} vector={vector}}}",
        f"split-matmul-k{{splits={number('split-matmul-k.splits', 8)}{combine}}}",
        f"cooperative-reduce{{threads={of('cooperative-reduce.threads')} "
        f"rows={of('cooperative-reduce.rows')} vector={of('cooperative-reduce.vector')}"
        f"{maybe('cooperative-reduce.order', 0.75)}{maybe('cooperative-reduce.blocks')}}}",
        f"blockify-launch{{block={_list(block)} thread={_list(thread)}"
        f"{maybe('blockify-launch.group', 0.75)}}}",
        f"chunk-reduce{{bk={number('chunk-reduce.bk', 16)}{maybe('chunk-reduce.apart')}}}",
        f"stage-inputs{{budget={of('stage-inputs.budget')}{named}{maybe('stage-inputs.compute')}}}",
        f"register-tile{{extents={_list(extents)}{mma}}}",
        f"permute-register-tile{pick('', '{strip=2,1}', strip)}",
        f"double-buffer{{depth={of('double-buffer.depth')}}}",
        "tma-copy",
        f"split-inner-for-swizzle{_braced(maybe('split-inner-for-swizzle.bytes', 1))}",
        "async-copy",
        f"pad-smem{pick('', '{padding=4 every=2}', _braced(maybe('pad-smem.padding', 1)))}",
        "pipeline-k-outer",
        f"mark-unroll{{limit={number('mark-unroll.limit', 16)}}}",
    ]
    assert [step.split("{")[0] for step in steps] == list(STEPS)
    others = [name for name in scheduling_steps() if name not in STEPS]
    steps = _ordered([*steps, *(_of_plugin(rng, name) for name in others)])
    rare = {"cooperative-reduce": 0.5, "split-matmul-k": 0.5, "tma-copy": 0.6, "tileify": 1.0}
    kept = [step for step in steps if rng.random() < rare.get(step.split("{")[0], 0.85)]
    if rng.random() < 0.25:
        rng.shuffle(kept)
    elif rng.random() < 0.25:
        a, b = sorted(rng.sample(range(len(kept)), 2))
        kept.insert(a, kept.pop(b))
    return kept


def as_schedule(steps: Sequence[str]) -> str:
    """Steps in the order in which a schedule names them."""
    return ",".join(_ordered(steps))


def random_mistake(rng: random.Random, steps: Sequence[str]) -> str:
    """A schedule with a mistake that no kernel makes good."""
    texts = _ordered(steps)
    at = rng.randrange(len(texts))
    name = texts[at].split("{")[0]
    match rng.randrange(5):
        case 0:
            texts.insert(rng.randint(0, len(texts)), texts[at])
        case 1:
            texts.append("cse")
        case 2:
            texts[at] = texts[at].replace(name, name[::-1])
        case 3:
            texts[at] = f"{name}{{points=3}}"
        case _ if len(texts) > 1:
            texts.insert(0, texts.pop(rng.randint(1, len(texts) - 1)))
        case _:
            texts.append("mark-unroll{limit=-1}")
    return ",".join(texts)


def _of_plugin(rng: random.Random, name: str) -> str:
    """A step of a plug-in, each option of the values that it declares, or not stated."""
    cls = get_pass(name)
    assert issubclass(cls, SchedulingPass)
    chosen = {option: rng.choice(domain.values) for option, domain in cls.domains.items()}
    stated = (f"{option}={_text(v)}" for option, v in chosen.items() if v is not None)
    return f"{name}{_braced(' '.join(stated))}"


def _ordered(steps: Sequence[str]) -> list[str]:
    """Steps in the order of the pipeline."""
    return sorted(steps, key=lambda step: scheduling_steps()[step.split("{")[0]])


def _list(items: Sequence[object]) -> str:
    return ",".join(map(str, items))


def _text(value: Value) -> str:
    """A value as a schedule states it."""
    return _list(value) if isinstance(value, tuple) else str(value).lower()


def _braced(options: str) -> str:
    return f"{{{options.strip()}}}" if options else ""
