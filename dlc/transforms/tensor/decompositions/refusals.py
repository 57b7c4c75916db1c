"""Why operations that have no decomposition are refused."""

from __future__ import annotations

import re

RANDOM = (
    "bernoulli|binomial|cauchy|exponential|geometric|log_normal|multinomial|native_dropout|normal"
    "|normal_functional|poisson|rand|rand_like|randint|randint_like|randn|randn_like|random"
    "|randperm|uniform|_sample_dirichlet|_standard_gamma"
)
"""Operations that draw random numbers, without their overload."""
FACTORIZATIONS = (
    r"_?linalg_(cholesky_ex|det|eigh|householder_product|inv_ex|ldl_\w+|lu|lu_\w+|matrix_exp|pinv|qr"
    r"|slogdet|solve_ex|solve_triangular|svd)|cholesky(_inverse|_solve)?|geqrf|lu_unpack|ormqr"
    r"|triangular_solve"
)
"""Operations of linear algebra that take a matrix apart, or need one that is."""
UNKNOWN = "nobody has written it yet"
_REASONS = {
    RANDOM: "it draws random numbers; draw them outside and pass them as an argument",
    FACTORIZATIONS: "matrices of complex numbers are not factored; do it outside of the program",
    "_?linalg_(eig|eigvals)": "of general matrices there are no eigenvalues; eigh takes symmetric",
    r"\w+_backward": "of derivatives this one is not written yet",
    r"nonzero|_local_scalar_dense|sym_\w+": "the shape or the number depends on data",
    "bincount": "the shape depends on data; torch.zeros(n).index_add(0, x, weights) has n elements",
    r"_scaled_(mm|mm_v2|grouped_mm)": "of scaled products `torch._scaled_mm` alone is computed, by "
    "scales of tensors or of rows and columns, without one of the result, and a bias of columns",
    "sym_storage_offset": "it depends on how a tensor lies in memory",
    r"\w+\.\w*out": "it writes to its argument; torch.export makes it functional",
}
"""By patterns of names, with or without their overloads."""


def reason_against(name: str) -> str:
    """Why dlc has no decomposition of an operation such as `nonzero.default`."""
    for pattern, reason in _REASONS.items():
        if re.fullmatch(pattern, name) or re.fullmatch(pattern, name.partition(".")[0]):
            return reason
    return UNKNOWN
