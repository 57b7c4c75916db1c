"""
Factorizations of matrices and what is solved by them: loops of the host program over columns, whose
bodies are compiled once, however many there are. Of real numbers; complex ones are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch._ops import OperatorBase

from dlc.frontend.factorizations.cholesky import CHOLESKY
from dlc.frontend.factorizations.exponential import EXPONENTIAL
from dlc.frontend.factorizations.householder import HOUSEHOLDER
from dlc.frontend.factorizations.jacobi import JACOBI
from dlc.frontend.factorizations.ldl import LDL
from dlc.frontend.factorizations.lu import LU
from dlc.frontend.factorizations.triangular import TRIANGULAR

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
