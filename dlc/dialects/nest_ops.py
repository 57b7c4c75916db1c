"""
The operations that the loop and the tile dialect share: loops and reduces over axes, and with them
(`dlc.dialects.access`) loads, stores, index values, selects and yields.

A dialect names them, and says which kinds its axes have and which yield ends a body.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import AnyAttr, opt_prop_def, prop_def, traits_def, var_result_def
from xdsl.traits import RecursivelySpeculatable, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import YieldOpBase
from dlc.dialects.axes import AxesOp, Fold, Over, axes_properties, terminate
from dlc.dialects.directives import Name
from dlc.ir.monoid import MONOIDS, Monoid


class ForOpBase(AxesOp, ABC):
    """
    `d.for %i in 4, %j in 8 { … }`, or `d.for serial(%o in 2) register(%v in 4) { … }`

    Runs its body at every point of its axes; the points are independent.
    """

    custom_directives = (Over,)
    assembly_format = "custom<Over>($extents, $kinds, $body) attr-dict"
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, extents: Sequence[int], body: Region, kinds: Sequence[str] = ()) -> None:
        terminate(body, type(self))
        super().__init__(regions=[body], properties=axes_properties(type(self), extents, kinds))

    def verify_(self) -> None:
        self.verify_axes()
        last = self.body.block.last_op
        if isinstance(last, YieldOpBase) and (last.values or last.conditions):
            raise VerifyException("expected a body that yields nothing")


class ReduceOpBase(AxesOp, ABC):
    """
    `%r = d.reduce add %i in 4, %j in 8 -> f32 { … d.yield %v : f32 }`

    Folds what its body yields with a monoid, over all points of its axes in order, the last one
    fastest; over no points the result is the monoid's identity. A body may yield several values: a
    monoid of one value folds each of them on its own, as in
    `%a, %b = d.reduce add %k in 64 -> (f32, f32) { … d.yield %u, %v : f32, f32 }`.

    Of one that is `about 4`, as in `d.reduce add about 4 %k in 64 -> f32`, the conditions of the
    yield, which tell up to which point it goes, are expected to leave so many points of its axis.
    """

    monoid_name = prop_def(StringAttr, prop_name="monoid")
    about = opt_prop_def(IntegerAttr.constr(i64))
    results_ = var_result_def(AnyAttr())

    custom_directives = (Name, Fold)
    assembly_format = (
        "custom<Name>($monoid) (`about` $about^)?"
        " custom<Fold>($extents, $kinds, type($results_), $body) attr-dict"
    )
    traits = traits_def(RecursiveMemoryEffect(), RecursivelySpeculatable())

    def __init__(
        self,
        monoid: str,
        extents: Sequence[int],
        result_types: Sequence[Attribute],
        body: Region,
        kinds: Sequence[str] = (),
    ) -> None:
        properties = axes_properties(type(self), extents, kinds)
        super().__init__(
            regions=[body],
            properties={"monoid": StringAttr(monoid), **properties},
            result_types=[list(result_types)],
        )

    @property
    def monoid(self) -> Monoid:
        return MONOIDS[self.monoid_name.data]

    def hint(self, axis: SSAValue) -> int:
        whole = super().hint(axis)
        return whole if self.about is None else min(whole, self.about.value.data)

    @property
    def adds_floats(self) -> bool:
        """True if it is a sum of floats, or several."""
        return self.monoid_name.data == "add" and all(
            isinstance(r.type, AnyFloat) for r in self.results
        )

    @property
    def rounds(self) -> bool:
        """True if a fold adds floats, so that its error grows with the number of points."""
        return self.monoid.adds and all(isinstance(r.type, AnyFloat) for r in self.results)

    def verify_(self) -> None:
        verify_monoid(self.monoid_name.data, [r.type for r in self.results])
        self.verify_axes()
        last = self.body.block.last_op
        if self.about is not None and self.about.value.data < 1:
            raise VerifyException(f"expected about 1 point or more, found {self.about.value.data}")
        if isinstance(last, YieldOpBase):
            yielded = [v.type for v in last.values]
            expected = [r.type for r in self.results]
            if yielded != expected:
                raise VerifyException(
                    f"expected a body that yields ({', '.join(map(str, expected))}), "
                    f"found ({', '.join(map(str, yielded))})"
                )


def verify_monoid(name: str, types: Sequence[Attribute]) -> None:
    """Checks that a monoid exists and folds values of these types."""
    if name not in MONOIDS:
        raise VerifyException(f"expected a monoid ({', '.join(MONOIDS)}), found '{name}'")
    arity, least = MONOIDS[name].arity, MONOIDS[name].least
    if arity is None and len(types) < least:
        some, found = "one result" if least == 1 else f"{least} results", len(types) or "none"
        raise VerifyException(f"expected at least {some} for the monoid '{name}', found {found}")
    if arity is not None and arity != len(types):
        raise VerifyException(
            f"expected {arity} results for the monoid '{name}', found {len(types)}"
        )
