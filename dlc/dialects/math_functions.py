"""
The dialect `math` of xDSL, with the functions of the table of scalars that it lacks.

```
%y = math.erfc %x : f32
```
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Dialect, Operation

from dlc.ir.math_operations import KNOWN, operation
from dlc.ir.scalar_ops import SCALARS


class _Math(Dialect):
    """What plug-ins bring until it is loaded is in it."""

    @property
    def operations(self) -> Iterator[type[Operation]]:
        names = (name for name in SCALARS if name.startswith("math."))
        yield from map(operation, dict.fromkeys([*KNOWN, *names]))


Math = _Math("math")
