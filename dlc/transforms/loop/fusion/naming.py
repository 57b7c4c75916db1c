"""Names of kernels that several kernels became."""

from __future__ import annotations

from dlc.dialects.loop import KernelOp
from dlc.ir.provenance import ops_of, values_of

_MOVES = frozenset(
    "view reshape transpose permute expand unsqueeze squeeze slice select cat stack split clone "
    "contiguous to to_copy alias detach t arange full flip roll unsafe_view".split()
)
"""Operations that name a kernel only if it does nothing else."""

MAX_NAME = 40
"""The length of a name that is made of the names of merged kernels."""


def name_of(kernel: KernelOp) -> str:
    """
    A name of the program's operations in a kernel, as many of the last ones as are short enough;
    for a kernel that does a part of one, with the name of its result, too.
    """
    names = [op.split(" ")[1].split(".")[0].strip("_") for op in ops_of(kernel)]
    if not (words := [n for n in dict.fromkeys(names) if n not in _MOVES]):
        return kernel.name_
    if not any(values_of(kernel, len(kernel.results))):
        words += [r.name_hint for r in kernel.results[:1] if r.name_hint]
    kept = words.pop()
    while words and len(longer := f"{words.pop()}_{kept}") <= MAX_NAME:
        kept = longer
    return kept


def joined_name(producer: str, consumer: str) -> str:
    """The name of two kernels merged: the words of both, if that is short enough."""
    words = dict.fromkeys([*producer.split("_"), *consumer.split("_")])
    name = "_".join(w for w in words if not w.isdigit())
    return name if len(name) <= MAX_NAME else consumer
