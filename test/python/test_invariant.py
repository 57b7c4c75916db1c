"""What is folded need not vary along the axes that it is folded over."""

from __future__ import annotations

import pytest
from fuzzing.cases import Setting, complaint
from fuzzing.programs import Program, Statement

COLUMN, ROW = "x[:, :1].expand_as(x)", "w[:1].expand_as(w)"
EXPRESSIONS = {
    "cosine similarity": "F.cosine_similarity(y, x[:, :1], dim=1)",
    "sum": f"({COLUMN} ** 2).sum(1) * y.sum(1)",
    "sum over two axes": "x[:, None].expand(7, 6, x.shape[1]).sum((1, 2)) + y.sum(1)",
    "sum over two axes, the last": "x[:, :, None].expand(*x.shape, 6).sum((1, 2)) + y.sum(1)",
    "count": f"({COLUMN} > 0).sum(1) + y.sum(1)",
    "product of numbers": f"({COLUMN} * 0.1 + 1).prod(1) + y.amax(1)",
    "variance": f"{COLUMN}.var(1) + y.var(1)",
    "argmax": f"{COLUMN}.argmax(1) + y.argmax(1)",
    "cumsum": f"{COLUMN}.cumsum(1) + y.cumsum(1)",
    "softmax": f"{COLUMN}.softmax(1) * y.softmax(1)",
    "norm": f"F.layer_norm({COLUMN} + 0, (x.shape[1],)) + F.layer_norm(y, (y.shape[1],))",
    "left factor": f"{COLUMN} @ w",
    "right factor": f"x @ {ROW}",
    "both factors": f"{COLUMN} @ {ROW}",
    "factor and norm": f"torch.einsum('ik,jk->ij', {COLUMN}, y) / {COLUMN}.norm(dim=1)",
}
SCHEDULES: dict[str, tuple[str, ...] | None] = {
    "dlc's": None,
    "cooperative": ("tileify", "cooperative-reduce{threads=4 rows=2 vector=4}"),
    "in chunks": ("tileify", "chunk-matmul-k{bk=8 vector=4}", "register-tile{extents=3,3}"),
    "split": ("tileify", "split-matmul-k{splits=3}", "cooperative-reduce{threads=8 vector=2}"),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_folds_of_what_does_not_vary(name: str, schedule: str) -> None:
    inputs = {"x": "7, 64", "y": "7, 64", "w": "64, 9"}
    program = Program(
        tuple(Statement(n, f"torch.randn(({shape}))") for n, shape in inputs.items()),
        (Statement("z", EXPRESSIONS[name]),),
        ("z",),
    )
    assert complaint(program, Setting("sm_90", SCHEDULES[schedule], None)) == ("", "")
