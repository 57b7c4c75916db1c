"""
What becomes of each operation of PyTorch: `python docs/operators.py > docs/operators.md`.

An overload is lowered by dlc, taken apart when a program is imported, or refused. The
list has the core ATen operations, of which PyTorch says that all others can be made, and beside
them all that dlc lowers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch
from torch._ops import OpOverload

from dlc.frontend.aten.decomposing import decompositions
from dlc.frontend.aten.draws import GENERATED
from dlc.frontend.aten.taken_apart import overload_name
from dlc.transforms.tensor.decompositions import COMPLEX, DECOMPOSITIONS
from dlc.transforms.tensor.decompositions.refusals import UNKNOWN, reason_against

REFUSED = """\
## Refused

Of PyTorch's own tests of operators (`docs/op_db.md`, by whose names they are called here) these are
refused, some only in the cases told; derivatives, own generators and what has no other reason above
are beside them. A program may return numbers and flags of Python, as `x.sum().item()`,
`torch.equal` and `torch.allclose` give them, and what Python adds, multiplies and divides of
numbers; what computes tensors with one, or branches on it, is refused.

Cholesky's, LU, LDL and QR factors of real matrices, and what is solved by them, are loops of the
host program over columns; least squares are solved by QR factors (`driver="gels"`) or by singular
values, and their residuals are NaN where eager has none for want of rank; eigenvalues of symmetric
ones and singular values are found by Jacobi's rotations, and their vectors may have other signs
than eager's; the exponential of a matrix squares as often as it takes. They raise no errors: of a
matrix that has no such factors, or no inverse, the result has infinities or NaNs
(`linalg.cholesky_ex`, `inv_ex`, `solve_ex`, `lu_factor_ex`, `ldl_factor_ex` tell it).

| what | why | instead |
|---|---|---|
| `nonzero`, `argwhere`, `masked_select`, `__getitem__` of a mask, `x[mask]` | \
the shape depends on data | `torch.nonzero_static(x, size=n)`, `torch.where` |
| `unique`, `unique_consecutive` | the shape depends on data | outside of the program |
| `repeat_interleave` as often as a tensor says | the shape depends on data | `output_size=` |
| `tensor_split` at places of a tensor | the shapes depend on data | a list of numbers |
| `nn.functional.one_hot` without a number of classes | the shape depends on data | `num_classes=` |
| `bincount` | the shape depends on data | \
`torch.zeros(n, dtype=torch.int64).index_add(0, x, torch.ones_like(x))` |
| `to_sparse`, `sparse.mm.reduce`, `sparse.sampled_addmm` | tensors are dense | masks |
| `hash_tensor` | there is no uint64 | outside of the program |
| `linalg.eig`, `linalg.eigvals` | of general matrices there are no eigenvalues | of symmetric \
ones `eigh`, `eigvalsh`; or outside of the program |
"""


def core_operations() -> Iterator[OpOverload]:
    """The overloads that this PyTorch counts among its core, by name."""
    for qualified in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, name = qualified.partition("::")
        packet, _, overload = name.partition(".")
        if namespace == "aten":
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if torch.Tag.core in op.tags:
                yield op


def fate(op: OpOverload) -> str:
    """What becomes of an operation: `lowered`, `taken apart`, or why it is refused."""
    name = overload_name(op)
    if name in DECOMPOSITIONS or name in COMPLEX or op in GENERATED:
        return "lowered"
    if op in decompositions(DECOMPOSITIONS):
        return "taken apart"
    reason = reason_against(name)
    unknown = reason == UNKNOWN and op._can_decompose()
    return "taken apart" if unknown else f"refused: {reason}"


def table() -> str:
    """The document, in Markdown."""
    core = {overload_name(op): fate(op) for op in core_operations()}
    version = ".".join(torch.__version__.split(".")[:2])
    lines = [
        "# Operations",
        "",
        f"Made by `python docs/operators.py` with PyTorch {version}. An operation is lowered",
        "by dlc (`dlc/transforms/tensor/decompositions/`), taken apart into others when a program",
        "is imported (by PyTorch or by `dlc/frontend/`), or refused with a sentence that names it",
        "and where it stands.",
        "",
        "## Core ATen",
        "",
        "| operation | |",
        "|---|---|",
        *(f"| `{name}` | {what} |" for name, what in core.items()),
        "",
        "## Lowered beside them",
        "",
        "What the rest of PyTorch calls is taken apart into these and those above.",
    ]
    families: dict[str, list[str]] = {}
    for name, decomposition in DECOMPOSITIONS.items():
        if name not in core:
            module = decomposition.__module__.rpartition(".")[2]
            families.setdefault(module, []).append(f"`{name.removesuffix('.default')}`")
    for module, names in families.items():
        lines += ["", f"**{module}**: {', '.join(sorted(names))}"]
    names = [f"`{name.removesuffix('.default')}`" for name in COMPLEX]
    lines += ["", "## Of complex numbers", "", ", ".join(sorted(names))]
    return "\n".join([*lines, "", REFUSED])


if __name__ == "__main__":
    sys.stdout.write(table())
