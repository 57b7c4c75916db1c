"""ATen overloads as nodes of an exported graph call them."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

CHECKED_BY_EXPORT = torch.ops.aten._assert_tensor_metadata.default
"""Compares dtypes, shapes and strides, all of which are static here; it has no result."""
UNCHECKED = frozenset((CHECKED_BY_EXPORT, torch.ops.aten._linalg_check_errors.default))
"""What computes nothing: that, and the errors of matrices that cannot be factored."""
ASSERTING = frozenset(
    (
        torch.ops.aten._assert_scalar.default,
        torch.ops.aten.sym_constrain_range.default,
        torch.ops.aten.sym_constrain_range_for_size.default,
    )
)
"""What computes nothing where it is of sizes, of which an export keeps what it asks."""
TO_DTYPE, TO_DEVICE = torch.ops.aten.to.dtype, torch.ops.aten.to.device
"""Casts, both: where a tensor lies does not count."""


def bind_arguments(node: Node) -> dict[str, Any]:
    """The arguments that a node gives to its ATen overload, by the names of its schema."""
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    return dict(zip(names, node.args)) | dict(node.kwargs)
