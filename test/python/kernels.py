"""Loop IR kernels of every family, at any size, with the function that each computes in fp64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """A module of one kernel, its inputs, and what it should give."""

    name: str
    text: str
    inputs: tuple[Array, ...]
    expected: Callable[..., Sequence[Array]]
    longest: int
    """Points of the longest reduce."""


def _normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _memref(shape: Sequence[int], element: str = "f32") -> str:
    return "memref<" + "".join(f"{n}x" for n in shape) + element + ">"


_ELEMENTS = {"float32": "f32", "int64": "i64", "bool": "i1"}


def _module(
    name: str, inputs: dict[str, Array], outputs: dict[str, Sequence[int] | str], body: str
) -> str:
    arguments, bound = [], []
    for key, array in inputs.items():
        type = _memref(array.shape, _ELEMENTS[str(array.dtype)])
        arguments.append(f"%{key}: {type.replace('memref', 'tensor')}")
        bound.append(f"%{key}: {type} = %{key}")
    refs, names, types = [], [], []
    for key, shape in outputs.items():
        type = shape if isinstance(shape, str) else _memref(shape)
        refs.append(f"%{key}: {type}")
        names.append(f"%{key}")
        types.append(type.replace("memref", "tensor"))
    results = ", ".join(names)
    return f"""
func.func @main({", ".join(arguments)}) -> ({", ".join(types)}) {{
  {results} = loop.kernel @{name}({", ".join(bound)}) -> ({", ".join(refs)}) {{
{body}
  }}
  func.return {results} : {", ".join(types)}
}}
"""


def gemm(m: int, n: int, k: int, *, transposed: bool = False) -> Case:
    """relu((x + shift) @ w + bias), w as (K, N) or, transposed, as (N, K)."""
    x, shift, bias = _normal(1, m, k), _normal(2, k), _normal(3, n)
    w = _normal(4, n, k) if transposed else _normal(4, k, n)
    at = "%j, %k" if transposed else "%k, %j"
    body = f"""
    %zero = arith.constant 0.0 : f32
    loop.for %i in {m}, %j in {n} {{
      %acc = loop.reduce add %k in {k} -> f32 {{
        %a = loop.load %x[%i, %k] : {_memref([m, k])}
        %s = loop.load %shift[%k] : {_memref([k])}
        %as = arith.addf %a, %s : f32
        %b = loop.load %w[{at}] : {_memref(w.shape)}
        %p = arith.mulf %as, %b : f32
        loop.yield %p : f32
      }}
      %c = loop.load %bias[%j] : {_memref([n])}
      %t = arith.addf %acc, %c : f32
      %r = arith.maximumf %t, %zero : f32
      loop.store %r, %y[%i, %j] : {_memref([m, n])}
    }}"""
    inputs = {"x": x, "shift": shift, "w": w, "bias": bias}
    return Case(
        f"gemm{'_t' if transposed else ''}_{m}x{n}x{k}",
        _module("mm", inputs, {"y": [m, n]}, body),
        tuple(inputs.values()),
        lambda x, s, w, b: [np.maximum((x + s) @ (w.T if transposed else w) + b, 0)],
        k,
    )


def batched(b: int, m: int, n: int, k: int) -> Case:
    """A batch of products."""
    x, w = _normal(1, b, m, k), _normal(2, b, k, n)
    body = f"""
    loop.for %b in {b}, %i in {m}, %j in {n} {{
      %acc = loop.reduce add %k in {k} -> f32 {{
        %a = loop.load %x[%b, %i, %k] : {_memref([b, m, k])}
        %c = loop.load %w[%b, %k, %j] : {_memref([b, k, n])}
        %p = arith.mulf %a, %c : f32
        loop.yield %p : f32
      }}
      loop.store %acc, %y[%b, %i, %j] : {_memref([b, m, n])}
    }}"""
    text = _module("bmm", {"x": x, "w": w}, {"y": [b, m, n]}, body)
    return Case(f"batched_{b}x{m}x{n}x{k}", text, (x, w), lambda x, w: [x @ w], k)


def softmax(rows: int, columns: int) -> Case:
    """Softmax along rows."""
    x = _normal(1, rows, columns)
    type = _memref([rows, columns])
    body = f"""
    loop.for %row in {rows} {{
      %m = loop.reduce max %k in {columns} -> f32 {{
        %a = loop.load %x[%row, %k] : {type}
        loop.yield %a : f32
      }}
      %s = loop.reduce add %k in {columns} -> f32 {{
        %a = loop.load %x[%row, %k] : {type}
        %d = arith.subf %a, %m : f32
        %e = math.exp %d : f32
        loop.yield %e : f32
      }}
      loop.for %c in {columns} {{
        %a = loop.load %x[%row, %c] : {type}
        %d = arith.subf %a, %m : f32
        %e = math.exp %d : f32
        %q = arith.divf %e, %s : f32
        loop.store %q, %y[%row, %c] : {type}
      }}
    }}"""

    def expected(x: Array) -> list[Array]:
        e = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf))
        return [e / e.sum(axis=1, keepdims=True)]

    text = _module("softmax", {"x": x}, {"y": [rows, columns]}, body)
    return Case(f"softmax_{rows}x{columns}", text, (x,), expected, columns)


def column_sum(rows: int, columns: int) -> Case:
    """Sums over the outer axis: neighbouring results are neighbours in memory."""
    x = _normal(1, rows, columns)
    body = f"""
    loop.for %c in {columns} {{
      %s = loop.reduce add %k in {rows} -> f32 {{
        %a = loop.load %x[%k, %c] : {_memref([rows, columns])}
        loop.yield %a : f32
      }}
      loop.store %s, %y[%c] : {_memref([columns])}
    }}"""
    text = _module("column_sum", {"x": x}, {"y": [columns]}, body)
    return Case(f"column_sum_{rows}x{columns}", text, (x,), lambda x: [x.sum(axis=0)], rows)


def total(n: int) -> Case:
    """One number from all elements."""
    x = _normal(1, n)
    body = f"""
    %s = loop.reduce add %k in {n} -> f32 {{
      %a = loop.load %x[%k] : {_memref([n])}
      loop.yield %a : f32
    }}
    loop.store %s, %y[] : memref<f32>"""
    text = _module("total", {"x": x}, {"y": []}, body)
    return Case(f"total_{n}", text, (x,), lambda x: [x.sum()], n)


def argmax(rows: int, columns: int) -> Case:
    """Value and index of each row's maximum."""
    x = _normal(1, rows, columns)
    x[0, columns // 2 :] = x[0].max(initial=0) + 1  # a tie: the smallest index wins
    body = f"""
    loop.for %row in {rows} {{
      %m, %i = loop.reduce argmax %k in {columns} -> (f32, i64) {{
        %a = loop.load %x[%row, %k] : {_memref([rows, columns])}
        %k0 = loop.index %k
        %k1 = arith.index_cast %k0 : index to i64
        loop.yield %a, %k1 : f32, i64
      }}
      loop.store %m, %y[%row] : {_memref([rows])}
      loop.store %i, %at[%row] : {_memref([rows], "i64")}
    }}"""
    text = _module("argmax", {"x": x}, {"y": [rows], "at": _memref([rows], "i64")}, body)
    return Case(
        f"argmax_{rows}x{columns}", text, (x,), lambda x: [x.max(axis=1), x.argmax(axis=1)], columns
    )


def pad_pointwise(rows: int, columns: int) -> Case:
    """Each element plus its left neighbour (1 at the edge), times a row's factor."""
    x, w = _normal(1, rows, columns), _normal(2, rows)
    type = _memref([rows, columns])
    body = f"""
    %one = arith.constant 1.0 : f32
    loop.for %i in {rows}, %j in {columns} {{
      %a = loop.load %x[%i, %j] : {type}
      %b = loop.load %x[%i, %j - 1] where (%j >= 1) else %one : {type}
      %f = loop.load %w[%i] : {_memref([rows])}
      %s = arith.addf %a, %b : f32
      %p = arith.mulf %s, %f : f32
      %q = loop.select %p where (%j - %i >= 0) else %one : f32
      loop.store %q, %y[%i, %j] : {type}
    }}"""

    def expected(x: Array, w: Array) -> list[Array]:
        left = np.pad(x, ((0, 0), (1, 0)), constant_values=1)[:, :-1]
        return [np.where(np.tri(*x.shape, -1, dtype=bool), 1, (x + left) * w[:, None])]

    text = _module("pad", {"x": x, "w": w}, {"y": [rows, columns]}, body)
    return Case(f"pad_{rows}x{columns}", text, (x, w), expected, 1)


def gather(rows: int, columns: int, count: int) -> Case:
    """Rows picked by a tensor of indices."""
    x = _normal(1, rows, columns)
    at = np.random.default_rng(2).integers(0, rows, count)
    body = f"""
    loop.for %i in {count}, %j in {columns} {{
      %r = loop.load %at[%i] : {_memref([count], "i64")}
      %p = arith.index_cast %r : i64 to index
      %a = loop.load %x[%p, %j] : {_memref([rows, columns])}
      loop.store %a, %y[%i, %j] : {_memref([count, columns])}
    }}"""
    text = _module("gather", {"x": x, "at": at}, {"y": [count, columns]}, body)
    return Case(f"gather_{count}x{columns}", text, (x, at), lambda x, at: [x[at]], 1)


SMALL = (
    gemm(37, 50, 40),
    gemm(20, 70, 33, transposed=True),
    batched(3, 17, 9, 21),
    softmax(6, 100),
    softmax(40, 7),
    column_sum(50, 33),
    total(1000),
    argmax(5, 77),
    pad_pointwise(9, 70),
    gather(11, 40, 13),
)
"""Every family once, ragged everywhere."""
