"""Hands operations their canonicalization patterns, and folders their constants."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait

Patterns = dict[type[Operation], tuple[RewritePattern, ...]]


class CanonicalizedByDialect(HasCanonicalizationPatternsTrait):
    """
    The patterns of an operation stand in the table of its dialect, which names the operations: it
    is imported, by its name, when it is asked for.
    """

    def get_patterns(self, op: type[Operation]) -> tuple[RewritePattern, ...]:
        return patterns_of(op.dialect_name()).get(op, ())

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return ()


class ArithConstants(ConstantMaterializationInterface):
    """Materializes the constants that a dialect's scalar operations fold to, as `arith`'s."""

    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        return arith.ConstantOp(value)  # pyright: ignore[reportArgumentType, reportCallIssue]


@cache
def patterns_of(dialect: str) -> Patterns:
    """The canonicalization patterns of a dialect's operations."""
    return import_module(f"dlc.dialects.canonicalization.{dialect}_patterns").PATTERNS
