"""
Functions of PyTorch that look at values only to check them, without their checks of values, and
others with tensors for the numbers that come from tensors.

What `torch.export` sees of them is a branch on data, though it is one path for all values that pass
the check: a compiled program has no counterpart of an error that depends on values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.scan import scan_op
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from dlc.frontend.aten import equal_lengths
from dlc.frontend.aten.copied import deepcopied
from dlc.frontend.aten.failed_operations import forget_failed
from dlc.frontend.aten.numbers_of_data import value_needed, with_tensors
from dlc.frontend.aten.subscripts import get_item, set_item

UNCHECKED: dict[Callable[..., Any], str] = {
    torch.cov: "cov",
    torch.Tensor.cov: "cov",
    torch.corrcoef: "corrcoef",
    torch.Tensor.corrcoef: "corrcoef",
    torch.equal: "equal",
    torch.Tensor.equal: "equal",
    torch.allclose: "allclose",
    torch.Tensor.allclose: "allclose",
    torch.combinations: "combinations",
    F.ctc_loss: "ctc_loss",
    torch.ctc_loss: "ctc_loss",
    F.gaussian_nll_loss: "gaussian_nll_loss",
    torch.linalg.lstsq: "lstsq",
    scan_op: "scan_of_copies",
    torch.narrow: "narrow",
    torch.Tensor.narrow: "narrow",
}
"""By what they stand for, the names of functions that are imported once one is called."""
WRITTEN_ANEW: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.Tensor.__getitem__: get_item,
    torch.Tensor.__setitem__: set_item,
    torch.Tensor.__deepcopy__: deepcopied,
    F.scaled_dot_product_attention: equal_lengths.attention,
}


class Unchecked(TorchFunctionMode):
    """Within it, PyTorch's functions are those of these tables."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if (name := UNCHECKED.get(func)) is not None:
            from dlc.frontend.aten import unchecked_functions  # which few programs call

            func = getattr(unchecked_functions, name)
        try:
            args, named = with_tensors(func, args, kwargs or {})
            return (WRITTEN_ANEW.get(func) or func)(*args, **named)
        except Exception as error:
            forget_failed()
            if (needed := value_needed(func, args, kwargs, error)) is not None:
                raise needed from error
            raise
