"""The coefficients by which the incomplete gamma functions are computed, here and in C."""

from __future__ import annotations

EPSILON = 2.0**-53
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""The coefficients of 1/a, 1/a**3, … in the series of log(Γ(a)) (DLMF 5.11.1)."""
TEMME = (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600)
"""Those of the powers of η in Temme's expansion (DLMF 8.12.8, 8.12.12)."""
TEMME_NEXT = (-1 / 540, -1 / 288, 1 / 378)
"""The same of what is divided by a."""
LARGE = 1e6
"""Above it the two are enough; below it, series and fraction are short enough."""
