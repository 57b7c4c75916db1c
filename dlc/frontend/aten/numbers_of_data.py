"""
Numbers of Python that come from tensors (`x.max().item()`), where a program computes with them.

While PyTorch exports a program such a number is a symbol. Functions that want to see its value, as
`math.exp` and `max` do, compute with a tensor of one element instead, and operations of tensors get
one in place of the number; `dlc/frontend/export/returned_numbers.py` then finds tensors everywhere.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, reduce, wraps
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_any, tree_map_only

NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
MATH: dict[str, Callable[..., Tensor]] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("sqrt", "exp", "exp2", "expm1", "log1p", "log2", "log10", "erf", "erfc", "lgamma"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
            *("asinh", "acosh", "atanh", "atan2", "hypot", "copysign", "fmod"),
            *("isnan", "isinf", "isfinite"),
        )
    },
    "log": lambda value, base=None: (
        torch.log(value) if base is None else torch.log(value) / torch.log(base)
    ),
    "fabs": torch.abs,
    "degrees": torch.rad2deg,
    "radians": torch.deg2rad,
}
"""Functions of the module `math`, and the same of tensors."""
ARITHMETIC: dict[str, Callable[..., Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "truediv": torch.div,
    "floordiv": torch.floor_divide, "mod": torch.remainder,
}  # fmt: skip
"""Python's operators of floats, and the same of tensors."""
COMPARISONS: dict[str, Callable[..., Tensor]] = {
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
}  # fmt: skip
TAKE_TENSORS = frozenset(
    "add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow rsub "
    "eq ne lt le gt ge less less_equal greater greater_equal not_equal clamp clip clamp_min "
    "clamp_max where masked_fill fill lerp copysign float_power bitwise_and bitwise_or bitwise_xor "
    "radd rmul truediv rtruediv floordiv rfloordiv mod rmod rpow iadd isub imul itruediv ifloordiv "
    "imod ipow rdiv idiv and or xor rand ror rxor iand ior ixor lshift rshift rlshift rrshift "
    "ilshift irshift bitwise_left_shift bitwise_right_shift".split()
)
"""Names of operations that take a tensor of one element wherever they take a number."""
FACTORS = {"add": "alpha", "sub": "alpha", "subtract": "alpha", "addcmul": "value",
           "addcdiv": "value"}  # fmt: skip
"""By the names of operations, that of a number that their second tensor may be multiplied by."""


class ValueNeeded(TypeError):
    """Says that an operation needs the value of a number that comes from a tensor."""


@contextmanager
def functions_of_numbers() -> Iterator[None]:
    """Within it functions of `MATH` and Python's, as `max`, take numbers that come from tensors,
    and arithmetic of such floats is Python's."""
    saved = [(module, name, getattr(module, name)) for module, name in _names()]
    for module, name, original in saved:
        setattr(module, name, of_numbers(original))
    try:
        yield
    finally:
        for module, name, original in saved:
            setattr(module, name, original)


def of_numbers(value: Any) -> Any:
    """What `functions_of_numbers` has in place of such a function; other values as they are."""
    is_function = isinstance(value, BuiltinFunctionType | FunctionType)
    return _replacements().get(value, value) if is_function else value


def _names() -> list[tuple[ModuleType | type, str]]:
    of_python = ((builtins, name) for name in ("max", "min", "divmod"))
    return [*((math, name) for name in MATH), *of_python, *_operators()]


@cache
def _operators() -> list[tuple[type, str]]:
    """Methods of symbols; those of integers, which call those of floats untraced, too."""
    names = [f"__{side}{name}__" for name in (*ARITHMETIC, *COMPARISONS) for side in ("", "r")]
    kinds = (torch.SymFloat, torch.SymInt)
    return [(kind, name) for kind in kinds for name in names if name in vars(kind)]


@cache
def _replacements() -> dict[Any, Callable[..., Any]]:
    """For each function that does not take numbers from tensors one that does."""
    return {
        **{f: _computed_by(f, MATH[name]) for name, f in vars(math).items() if name in MATH},
        builtins.max: _chosen(builtins.max, torch.gt),
        builtins.min: _chosen(builtins.min, torch.lt),
        builtins.divmod: _divided,
        **{vars(kind)[name]: _of_floats(vars(kind)[name], name) for kind, name in _operators()},
    }


def with_tensors(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments of a function of tensors, with tensors for the numbers that come from some."""
    name = _name(func)
    known = name in TAKE_TENSORS or name in FACTORS  # of all that is called, few are
    if not known or not tree_any(is_of_data, (args, kwargs)):
        return args, kwargs
    if name in FACTORS and is_of_data(factor := kwargs.get(FACTORS[name])):
        dtype = _type_of_sum(args)
        if dtype is not None and (dtype is not torch.bool or isinstance(factor, torch.SymBool)):
            args = args[0], _multiplied(args[1].to(dtype), factor, name), *args[2:]
            kwargs = {key: value for key, value in kwargs.items() if key != FACTORS[name]}
    if name not in TAKE_TENSORS:
        return args, kwargs
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
    if name == "clamp" or name == "clip":  # take both bounds as tensors, or none
        args = (args[0], *(_if_number(bound, tensors, name) for bound in args[1:]))
        return args, {key: _if_number(bound, tensors, name) for key, bound in kwargs.items()}
    return tree_map_only(NUMBERS, lambda number: _beside(number, tensors, name), (args, kwargs))


def value_needed(func: Any, args: Any, kwargs: Any, error: Exception) -> ValueNeeded | None:
    """What an operation fails for, if that is the value of a number that it is given."""
    asks = type(error).__name__ == "GuardOnDataDependentSymNode"
    if not asks or not tree_any(is_of_data, (args, kwargs)):
        return None
    return ValueNeeded(
        f"{_name(func)} needs the value of a number that comes from a tensor, which is not known "
        "when the program is compiled; compute with tensors of one element in its place, or give "
        "the number as an argument"
    )


def _name(func: Any) -> str:
    return getattr(func, "__name__", "").strip("_")


def _type_of_sum(tensors: tuple[Any, ...]) -> torch.dtype | None:
    """
    What a sum of tensors is computed in; None for halves, which a product of their own would round
    once more, and for three tensors of several types.
    """
    if len(tensors) < 2 or not all(isinstance(tensor, Tensor) for tensor in tensors):
        return None
    dtype = torch.result_type(tensors[0], tensors[1])
    certain = len(tensors) == 2 or len({tensor.dtype for tensor in tensors}) == 1
    return dtype if certain and dtype not in (torch.float16, torch.bfloat16) else None


def _multiplied(tensor: Tensor, factor: Any, name: str) -> Tensor:
    """RuntimeError, as eager PyTorch raises it, for a factor of another kind than the sum."""
    if isinstance(factor, torch.SymBool) and tensor.dtype is not torch.bool:
        raise RuntimeError(f"Boolean {FACTORS[name]} only supported for Boolean results.")
    is_whole = not tensor.is_floating_point() and not tensor.is_complex()
    if is_whole and isinstance(factor, torch.SymFloat):
        raise RuntimeError(
            f"For integral input tensors, argument {FACTORS[name]} must not be a floating point "
            "number."
        )
    return torch.mul(tensor, _beside(factor, [tensor], name))


def is_of_data(value: object) -> bool:
    """Whether a symbol stands for a number that comes from a tensor, not for a size."""
    if not isinstance(value, NUMBERS):
        return False
    from torch.utils._sympy.symbol import SymT, symbol_is_type  # with SymPy, as symbols are

    return any(
        symbol_is_type(s, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))
        for s in value.node.expr.free_symbols
    )


def _if_number(value: Any, tensors: list[Tensor], name: str) -> Any:
    is_number = isinstance(value, (int, float, *NUMBERS)) and not isinstance(value, bool)
    return _beside(value, tensors, name) if is_number else value


def _beside(number: Any, tensors: list[Tensor], name: str) -> Tensor:
    """
    A tensor without dimensions that gives an operation of some tensors the type that the number
    would. Beside halves with dimensions it decides nothing, and is of f64: arithmetic keeps the
    digits of a number.
    """
    if name == "float_power":
        return torch.scalar_tensor(number, dtype=torch.float64)
    kind = _kind(number)
    dtype = torch.get_default_dtype() if kind is torch.float64 else kind
    for tensor in tensors:
        dtype = torch.result_type(tensor, torch.zeros((), dtype=dtype).item())
    halves = dtype in (torch.float16, torch.bfloat16) and name != "lerp"  # takes no other type
    if halves and any(t.dtype is dtype and t.dim() for t in tensors):
        dtype = torch.float64
    return torch.scalar_tensor(number, dtype=dtype)


def _kind(number: object) -> torch.dtype:
    """The dtype that holds a number of Python."""
    if isinstance(number, bool | torch.SymBool):
        return torch.bool
    return torch.int64 if isinstance(number, int | torch.SymInt) else torch.float64


def _computed_by(original: Callable[..., Any], function: Callable[..., Tensor]) -> Any:
    """A function of `math` that takes numbers from tensors, too: in f64, and gives such a one."""

    @wraps(original)
    def compute(*args: Any) -> Any:
        if not any(map(is_of_data, args)):
            return original(*args)
        return function(*(torch.scalar_tensor(a, dtype=torch.float64) for a in args)).item()

    return compute


@wraps(divmod)
def _divided(number: Any, by: Any, /, of_numbers: Callable[..., Any] = divmod) -> Any:
    """`divmod`, of sizes that are symbols, too, which have none."""
    is_symbol = isinstance(number, NUMBERS) or isinstance(by, NUMBERS)
    if is_symbol and not isinstance(number, Tensor) and not isinstance(by, Tensor):
        mod: Callable[[Any, Any], Any] = operator.mod
        return operator.floordiv(number, by), mod(number, by)
    return of_numbers(number, by)


def _of_floats(original: Callable[..., Any], name: str) -> Any:
    """
    Arithmetic that is Python's: as expressions of symbols 0.0 * n is 0, m - n + n is m, and the
    floor of a quotient that of one that was rounded, as 1.0 / 0.1 is. So are comparisons of two
    such numbers, as n == n is true of expressions, and of one and what is not finite.
    """
    operator, functions = name.strip("_"), ARITHMETIC | COMPARISONS
    is_reflected = operator not in functions
    function = functions[operator[is_reflected:]]

    @wraps(original)
    def compute(number: Any, by: Any) -> Any:
        kinds = {_kind(n) for n in (number, by) if isinstance(n, (int, float, *NUMBERS))}
        is_float = torch.float64 in kinds and isinstance(by, (int, float, *NUMBERS))
        if not is_float or not (is_of_data(number) or is_of_data(by)):
            return original(number, by)
        if operator in COMPARISONS and isinstance(by, int | float) and math.isfinite(by):
            return original(number, by)  # as PyTorch asks for powers, untraced
        numbers: tuple[Any, Any] = (by, number) if is_reflected else (number, by)
        one, other = (torch.scalar_tensor(n, dtype=torch.float64) for n in numbers)
        return function(one, other).item()

    return compute


def _chosen(original: Callable[..., Any], later: Callable[..., Tensor]) -> Any:
    """`max` or `min`: of numbers, some from tensors, a later one only where it is `later`."""

    def choose_one(one: Any, other: Any) -> Any:
        if not is_of_data(one) and not is_of_data(other):
            return original(one, other)
        kinds = {_kind(one), _kind(other)}
        dtype = torch.float64 if torch.float64 in kinds else torch.int64
        first, second = (torch.scalar_tensor(n, dtype=dtype) for n in (one, other))
        return torch.where(later(second, first), second, first).item()

    @wraps(original)
    def choose(*args: Any, **options: Any) -> Any:
        numbers = all(isinstance(a, (int, float, *NUMBERS)) for a in args)
        if options or len(args) < 2 or not numbers or not any(map(is_of_data, args)):
            return original(*args, **options)
        return reduce(choose_one, args)

    return choose
