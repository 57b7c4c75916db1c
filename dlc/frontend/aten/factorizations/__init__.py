"""
Factorizations of matrices and what is solved by them: loops of the host program over columns, whose
bodies are compiled once, however many there are. Of real numbers; complex ones are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch._ops import OperatorBase

from dlc.frontend.aten.factorizations.cholesky import CHOLESKY
from dlc.frontend.aten.factorizations.exponential import EXPONENTIAL
from dlc.frontend.aten.factorizations.householder import HOUSEHOLDER
from dlc.frontend.aten.factorizations.jacobi import JACOBI
from dlc.frontend.aten.factorizations.ldl import LDL
from dlc.frontend.aten.factorizations.lu import LU
from dlc.frontend.aten.factorizations.triangular import TRIANGULAR

FACTORIZATIONS: Mapping[OperatorBase, Callable[..., object]] = {
    **TRIANGULAR,
    **CHOLESKY,
    **LU,
    **LDL,
    **HOUSEHOLDER,
    **EXPONENTIAL,
    **JACOBI,
}
"""Functions for operations, as `run_decompositions` takes them."""
