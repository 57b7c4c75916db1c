"""Random schedules: legal options of every step, mostly in order, some steps left out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from harness import STEPS

T = TypeVar("T")
THEN = "tileify,blockify-launch{block=4,16 thread=4,4},register-tile{extents=4}"


def random_schedule(rng: random.Random) -> list[str]:
    """The steps with their options."""

    def pick(*options: T) -> T:
        return rng.choice(options)

    axes = pick(1, 2, 2, 2, 3)  # of a launch, from the right; its others get 1
    thread = [pick(1, 2, 4, 8, 8 if axes > 2 else 16) for _ in range(axes)]
    extents = [pick(1, 2, 3, 4, 8) for _ in range(axes)]
    block = [t * e * pick(1, 1, 1, 2) for t, e in zip(thread, extents, strict=True)]
    vector = pick(1, 2, 4, 8)
    then = pick("", f' then="{THEN}"', ' then="tileify,cooperative-reduce{threads=4 vector=2}"')
    combine = pick(then, then, then, " combine=workspace", " combine=atomic")
    buffers = rng.sample(["v0", "v1", "v2"], rng.randint(1, 2))
    steps = [
        "tileify",
        f"chunk-matmul-k{{bk={vector * pick(1, 2, 3, 4)} vector={vector}}}",
        f"split-matmul-k{{splits={pick(2, 3, 5, 8)}{combine}}}",
        f"cooperative-reduce{{threads={pick(2, 4, 8, 16, 32, 64, 96)} "
        f"rows={pick(1, 2, 3, 5, 8)} vector={pick(1, 2, 4, 8)}"
        f"{pick('', ' order=threads', ' order=rows', ' order=rows')}}}",
        f"blockify-launch{{block={_list(block)} thread={_list(thread)}"
        f"{pick('', ' group=1', ' group=2', ' group=3')}}}",
        f"chunk-reduce{{bk={pick(1, 2, 5, 16)}{pick('', ' apart=true')}}}",
        f"stage-inputs{{budget={pick(512, 4096, 24576, 49152, 200000)}"
        f"{pick('', '', '', f' buffers={_list(buffers)}')}{pick('', ' compute=true')}}}",
        f"register-tile{{extents={_list(extents)}}}",
        f"permute-register-tile{pick('', '', '{strip=4}', '{strip=2,1}', '{strip=1}')}",
        f"double-buffer{{depth={pick(2, 3, 4)}}}",
        "tma-copy",
        f"split-inner-for-swizzle{pick('', '{bytes=32}', '{bytes=64}', '{bytes=128}')}",
        "async-copy",
        f"pad-smem{pick('', '', '{padding=4}', '{padding=4 every=2}')}",
        "pipeline-k-outer",
        f"mark-unroll{{limit={pick(1, 4, 16)}}}",
    ]
    assert [step.split("{")[0] for step in steps] == list(STEPS)
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
    return ",".join(sorted(steps, key=lambda step: STEPS.index(step.split("{")[0])))


def random_mistake(rng: random.Random, steps: Sequence[str]) -> str:
    """A schedule with a mistake that no kernel makes good."""
    texts = sorted(steps, key=lambda step: STEPS.index(step.split("{")[0]))
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


def _list(items: Sequence[object]) -> str:
    return ",".join(map(str, items))
