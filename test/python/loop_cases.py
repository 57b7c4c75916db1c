"""Loop IR kernels of every family, at any size, with the function that each computes in fp64."""

from __future__ import annotations

import re
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


def _memref_of(array: Array) -> str:
    """The type of an array, with its strides if they are not those of a dense one."""
    type = _memref(array.shape, _ELEMENTS[str(array.dtype)])
    if array.flags.c_contiguous:
        return type
    strides = [n // array.itemsize for n in array.strides]
    return f"{type[:-1]}, strided<{strides}>>"


_ELEMENTS = {"float32": "f32", "int32": "i32", "int64": "i64", "bool": "i1"}


def _module(
    name: str, inputs: dict[str, Array], outputs: dict[str, Sequence[int] | str], body: str
) -> str:
    arguments, bound = [], []
    for key, array in inputs.items():
        tensor = _memref(array.shape, _ELEMENTS[str(array.dtype)]).replace("memref", "tensor")
        arguments.append(f"%{key}: {tensor}")
        bound.append(f"%{key}: {_memref_of(array)} = %{key}")
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


def batched(*extents: int) -> Case:
    """Products of m x k and k x n, the last three extents, along up to two axes before."""
    *batch, m, n, k = extents
    x, w = _normal(1, *batch, m, k), _normal(2, *batch, k, n)
    names = ["%h", "%b"][2 - len(batch) :]
    axes = zip([*names, "%i", "%j"], [*batch, m, n], strict=True)
    outer = ", ".join(f"{name} in {extent}" for name, extent in axes)
    at = "".join(f"{name}, " for name in names)
    body = f"""
    loop.for {outer} {{
      %acc = loop.reduce add %k in {k} -> f32 {{
        %a = loop.load %x[{at}%i, %k] : {_memref(x.shape)}
        %c = loop.load %w[{at}%k, %j] : {_memref(w.shape)}
        %p = arith.mulf %a, %c : f32
        loop.yield %p : f32
      }}
      loop.store %acc, %y[{at}%i, %j] : {_memref([*batch, m, n])}
    }}"""
    text = _module("bmm", {"x": x, "w": w}, {"y": [*batch, m, n]}, body)
    name = "x".join(map(str, extents))
    return Case(f"batched_{name}", text, (x, w), lambda x, w: [x @ w], k)


def rotation(heads: int, m: int, half: int, k: int) -> Case:
    """x @ w.T + bias, each head of 2 * half columns rotated by angles: two sums at a point."""
    x, w, bias = _normal(1, m, k), _normal(2, 2 * half * heads, k), _normal(3, 2 * half * heads)
    angles = _normal(4, m, half)
    first, second = f"%h * {2 * half} + %j", f"%h * {2 * half} + %j + {half}"
    y = _memref([heads, m, 2 * half])
    body = f"""
    loop.for %h in {heads}, %i in {m}, %j in {half} {{
      %u, %v = loop.reduce add %k in {k} -> (f32, f32) {{
        %a = loop.load %x[%i, %k] : {_memref(x.shape)}
        %b = loop.load %w[{first}, %k] : {_memref(w.shape)}
        %c = loop.load %w[{second}, %k] : {_memref(w.shape)}
        %p = arith.mulf %a, %b : f32
        %q = arith.mulf %a, %c : f32
        loop.yield %p, %q : f32, f32
      }}
      %b1 = loop.load %bias[{first}] : {_memref(bias.shape)}
      %b2 = loop.load %bias[{second}] : {_memref(bias.shape)}
      %u1 = arith.addf %u, %b1 : f32
      %v1 = arith.addf %v, %b2 : f32
      %angle = loop.load %angles[%i, %j] : {_memref(angles.shape)}
      %cos = math.cos %angle : f32
      %sin = math.sin %angle : f32
      %uc = arith.mulf %u1, %cos : f32
      %vs = arith.mulf %v1, %sin : f32
      %r = arith.subf %uc, %vs : f32
      loop.store %r, %y[%h, %i, %j] : {y}
      %vc = arith.mulf %v1, %cos : f32
      %us = arith.mulf %u1, %sin : f32
      %s = arith.addf %vc, %us : f32
      loop.store %s, %y[%h, %i, %j + {half}] : {y}
    }}"""

    def expected(x: Array, w: Array, bias: Array, angles: Array) -> Sequence[Array]:
        y = (x @ w.T + bias).reshape(m, heads, 2 * half).transpose(1, 0, 2)
        u, v, c, s = y[..., :half], y[..., half:], np.cos(angles), np.sin(angles)
        return [np.concatenate((u * c - v * s, v * c + u * s), -1)]

    inputs = {"x": x, "w": w, "bias": bias, "angles": angles}
    text = _module("rotation", inputs, {"y": [heads, m, 2 * half]}, body)
    return Case(f"rotation_{heads}x{m}x{half}x{k}", text, tuple(inputs.values()), expected, k)


def linear(m: int, n: int, k: int) -> Case:
    """Two outputs, x @ w + residual and its relu times a row's factor, which is read before."""
    x, w, r, f = _normal(7, m, k), _normal(8, k, n), _normal(9, m, n), _normal(10, m)
    body = f"""
    %zero = arith.constant 0.0 : f32
    loop.for %i in {m}, %j in {n} {{
      %e = loop.load %f[%i] : {_memref([m])}
      %acc = loop.reduce add %k in {k} -> f32 {{
        %a = loop.load %x[%i, %k] : {_memref([m, k])}
        %ae = arith.mulf %a, %e : f32
        %b = loop.load %w[%k, %j] : {_memref([k, n])}
        %p = arith.mulf %ae, %b : f32
        loop.yield %p : f32
      }}
      %c = loop.load %r[%i, %j] : {_memref([m, n])}
      %s = arith.addf %acc, %c : f32
      loop.store %s, %y[%i, %j] : {_memref([m, n])}
      %t = arith.maximumf %s, %zero : f32
      %u = arith.mulf %t, %e : f32
      loop.store %u, %z[%i, %j] : {_memref([m, n])}
    }}"""

    def expected(x: Array, w: Array, r: Array, f: Array) -> list[Array]:
        y = (x * f[:, None]) @ w + r
        return [y, np.maximum(y, 0) * f[:, None]]

    inputs = {"x": x, "w": w, "r": r, "f": f}
    text = _module("linear", inputs, {"y": [m, n], "z": [m, n]}, body)
    return Case(f"linear_{m}x{n}x{k}", text, tuple(inputs.values()), expected, k)


def _computed_matmul(
    name: str, arrays: tuple[np.ndarray, np.ndarray, np.ndarray], operand: str, before: str = ""
) -> str:
    """The text of h @ w, where `operand` computes %h of %a of g and %b of u."""
    (m, k), n = arrays[0].shape, arrays[2].shape[1]
    body = f"""
    {before}
    loop.for %i in {m}, %j in {n} {{
      %acc = loop.reduce add %k in {k} -> f32 {{
        %a = loop.load %g[%i, %k] : {_memref([m, k])}
        %b = loop.load %u[%i, %k] : {_memref([m, k])}
        {operand}
        %c = loop.load %w[%k, %j] : {_memref([k, n])}
        %p = arith.mulf %h, %c : f32
        loop.yield %p : f32
      }}
      loop.store %acc, %y[%i, %j] : {_memref([m, n])}
    }}"""
    return _module(name, dict(zip("guw", arrays, strict=True)), {"y": [m, n]}, body)


def silu_matmul(m: int, n: int, k: int) -> Case:
    """(silu(g) * u) @ w: an operand that is computed of two inputs."""
    g, u, w = _normal(1, m, k), _normal(2, m, k), _normal(3, k, n)
    operand = f"""{_SILU}
        %h = arith.mulf %silu, %b : f32"""
    text = _computed_matmul("silu_matmul", (g, u, w), operand, "%one = arith.constant 1.0 : f32")
    return Case(
        f"silu_matmul_{m}x{n}x{k}",
        text,
        (g, u, w),
        lambda g, u, w: [(g / (1 + np.exp(-g)) * u) @ w],
        k,
    )


def quotient_matmul(m: int, n: int, k: int) -> Case:
    """(g / u) @ w: an operand that is no number where both inputs are 0."""
    g, u, w = _normal(1, m, k), 1 + np.abs(_normal(2, m, k)), _normal(3, k, n)
    text = _computed_matmul("quotient_matmul", (g, u, w), "%h = arith.divf %a, %b : f32")
    return Case(f"quotient_matmul_{m}x{n}x{k}", text, (g, u, w), lambda g, u, w: [(g / u) @ w], k)


_SILU = """%negative = arith.negf %a : f32
        %exp = math.exp %negative : f32
        %denominator = arith.addf %exp, %one : f32
        %silu = arith.divf %a, %denominator : f32"""


def scores(b: int, m: int, n: int, k: int) -> Case:
    """What attention's softmax is taken of: q @ k.T / sqrt(d), and a mask that is added."""
    q, keys, mask = _normal(1, b, m, k), _normal(2, b, n, k), _normal(3, m, n)
    body = f"""
    %root = arith.constant {k**0.5:.8f} : f32
    loop.for %b in {b}, %i in {m}, %j in {n} {{
      %acc = loop.reduce add %k in {k} -> f32 {{
        %a = loop.load %q[%b, %i, %k] : {_memref([b, m, k])}
        %c = loop.load %keys[%b, %j, %k] : {_memref([b, n, k])}
        %p = arith.mulf %a, %c : f32
        loop.yield %p : f32
      }}
      %d = arith.divf %acc, %root : f32
      %e = loop.load %mask[%i, %j] : {_memref([m, n])}
      %f = arith.addf %d, %e : f32
      loop.store %f, %y[%b, %i, %j] : {_memref([b, m, n])}
    }}"""
    inputs = {"q": q, "keys": keys, "mask": mask}
    return Case(
        f"scores_{b}x{m}x{n}x{k}",
        _module("scores", inputs, {"y": [b, m, n]}, body),
        tuple(inputs.values()),
        lambda q, k, m: [q @ k.swapaxes(1, 2) / k.shape[-1] ** 0.5 + m],
        k,
    )


def attention(heads: int, groups: int, s: int, d: int) -> Case:
    """
    Causal attention of several heads for each pair of keys and values, in two kernels: the softmax
    of scores, each of which is a reduce in a reduce, and the product with the values.
    """
    q, k, v = _normal(1, heads, s, d), _normal(2, groups, s, d), _normal(3, groups, s, d)
    share, seen = heads // groups, "where (%row - %c >= 0)"
    score = f"""
          %dot = loop.reduce add %k in {d} -> f32 {{
            %a = loop.load %q[%h, %row, %k] {seen} : {_memref(q.shape)}
            %b = loop.load %keys[%h floordiv {share}, %c, %k] {seen} : {_memref(k.shape)}
            %product = arith.mulf %a, %b : f32
            loop.yield %product : f32
          }}
          %scaled = arith.mulf %dot, %scale : f32
          %score = loop.select %scaled {seen} else %none : f32"""
    probabilities, y = _memref([heads, s, s]), _memref(q.shape)
    text = f"""
func.func @main(%q: tensor<{heads}x{s}x{d}xf32>, %keys: tensor<{groups}x{s}x{d}xf32>,
    %v: tensor<{groups}x{s}x{d}xf32>) -> tensor<{heads}x{s}x{d}xf32> {{
  %p = loop.kernel @probabilities(%q: {y} = %q, %keys: {_memref(k.shape)} = %keys)
      -> (%p: {probabilities}) {{
    %none = arith.constant 0xff800000 : f32
    %scale = arith.constant {d**-0.5:.8f} : f32
    loop.for %h in {heads}, %row in {s} {{
      %max = loop.reduce max %c in {s} -> f32 {{ {score}
          loop.yield %score : f32
      }}
      %sum = loop.reduce add %c in {s} -> f32 {{ {score}
          %shifted = arith.subf %score, %max : f32
          %exp = math.exp %shifted : f32
          loop.yield %exp : f32
      }}
      loop.for %c in {s} {{ {score}
          %shifted = arith.subf %score, %max : f32
          %exp = math.exp %shifted : f32
          %r = arith.divf %exp, %sum : f32
          loop.store %r, %p[%h, %row, %c] : {probabilities}
      }}
    }}
  }}
  %y = loop.kernel @values(%p: {probabilities} = %p, %v: {_memref(v.shape)} = %v) -> (%y: {y}) {{
    loop.for %h in {heads}, %i in {s}, %j in {d} {{
      %acc = loop.reduce add %k in {s} -> f32 {{
        %a = loop.load %p[%h, %i, %k] : {probabilities}
        %b = loop.load %v[%h floordiv {share}, %k, %j] : {_memref(v.shape)}
        %c = arith.mulf %a, %b : f32
        loop.yield %c : f32
      }}
      loop.store %acc, %y[%h, %i, %j] : {y}
    }}
  }}
  func.return %y : tensor<{heads}x{s}x{d}xf32>
}}
"""

    def expected(q: Array, k: Array, v: Array) -> list[Array]:
        scores = q @ np.repeat(k, share, 0).swapaxes(1, 2) / d**0.5
        p = np.exp(np.where(np.tri(s, dtype=bool), scores, -np.inf))
        return [p / p.sum(axis=2, keepdims=True) @ np.repeat(v, share, 0)]

    return Case(f"attention_{heads}x{groups}x{s}x{d}", text, (q, k, v), expected, max(s, d))


def window(heads: int, s: int, d: int, width: int) -> Case:
    """
    Attention of heads to as many keys as a window has, in one reduce of the largest score and sums
    relative to it.
    """
    q, k, v = (_normal(n, heads, s, d) for n in (1, 2, 3))
    memref = _memref(q.shape)
    body = f"""
    %none = arith.constant 0xff800000 : f32
    %one = arith.constant 1.000000e+00 : f32
    %scale = arith.constant {d**-0.5:.8f} : f32
    loop.for %h in {heads}, %row in {s}, %c in {d} {{
      %max, %sum, %o = loop.reduce expsum %j in {s} -> (f32, f32, f32) {{
        %dot = loop.reduce add %k in {d} -> f32 {{
          %a = loop.load %q[%h, %row, %k] : {memref}
          %b = loop.load %keys[%h, %j, %k] : {memref}
          %product = arith.mulf %a, %b : f32
          loop.yield %product : f32
        }}
        %scaled = arith.mulf %dot, %scale : f32
        %score = loop.select %scaled where (%row - %j >= 0, %j - %row >= {1 - width}) else %none
            : f32
        %value = loop.load %v[%h, %j, %c] : {memref}
        loop.yield %score, %one, %value : f32, f32, f32
      }}
      %y_row = arith.divf %o, %sum : f32
      loop.store %y_row, %y[%h, %row, %c] : {memref}
    }}"""
    text = _module("window", {"q": q, "keys": k, "v": v}, {"y": list(q.shape)}, body)

    def expected(q: Array, k: Array, v: Array) -> list[Array]:
        far = np.arange(s)[:, None] - np.arange(s)
        scores = np.where((far >= 0) & (far < width), q @ k.swapaxes(1, 2) / d**0.5, -np.inf)
        p = np.exp(scores - scores.max(axis=2, keepdims=True))
        return [p / p.sum(axis=2, keepdims=True) @ v]

    return Case(f"window_{heads}x{s}x{d}_{width}", text, (q, k, v), expected, max(s, d))


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


def rms_norm(rows: int, columns: int) -> Case:
    """Rows over the root of their mean square, times weights."""
    x, w = _normal(1, rows, columns), _normal(2, columns)
    type = _memref([rows, columns])
    body = f"""
    %n = arith.constant {columns}.0 : f32
    %eps = arith.constant 1.0e-6 : f32
    loop.for %row in {rows} {{
      %sum = loop.reduce add %k in {columns} -> f32 {{
        %a = loop.load %x[%row, %k] : {type}
        %q = arith.mulf %a, %a : f32
        loop.yield %q : f32
      }}
      %mean = arith.divf %sum, %n : f32
      %more = arith.addf %mean, %eps : f32
      %r = math.rsqrt %more : f32
      loop.for %c in {columns} {{
        %a = loop.load %x[%row, %c] : {type}
        %b = loop.load %w[%c] : {_memref([columns])}
        %s = arith.mulf %a, %r : f32
        %t = arith.mulf %s, %b : f32
        loop.store %t, %y[%row, %c] : {type}
      }}
    }}"""
    text = _module("rms_norm", {"x": x, "w": w}, {"y": [rows, columns]}, body)
    return Case(
        f"rms_norm_{rows}x{columns}",
        text,
        (x, w),
        lambda x, w: [x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * w],
        columns,
    )


def row_norm(rows: int, columns: int) -> Case:
    """Each row over its largest element."""
    x = _normal(8, rows, columns)
    type = _memref([rows, columns])
    body = f"""
    loop.for %row in {rows} {{
      %m = loop.reduce max %k in {columns} -> f32 {{
        %a = loop.load %x[%row, %k] : {type}
        loop.yield %a : f32
      }}
      loop.for %c in {columns} {{
        %a = loop.load %x[%row, %c] : {type}
        %q = arith.divf %a, %m : f32
        loop.store %q, %y[%row, %c] : {type}
      }}
    }}"""
    text = _module("row_norm", {"x": x}, {"y": [rows, columns]}, body)
    return Case(
        f"row_norm_{rows}x{columns}",
        text,
        (x,),
        lambda x: [x / x.max(axis=1, keepdims=True)],
        columns,
    )


def silu_mul(rows: int, columns: int) -> Case:
    """silu(g) * u, point by point."""
    g, u = _normal(1, rows, columns), _normal(2, rows, columns)
    type = _memref([rows, columns])
    body = f"""
    %one = arith.constant 1.0 : f32
    loop.for %i in {rows}, %j in {columns} {{
        %a = loop.load %g[%i, %j] : {type}
        {_SILU}
        %b = loop.load %u[%i, %j] : {type}
        %p = arith.mulf %silu, %b : f32
        loop.store %p, %y[%i, %j] : {type}
    }}"""
    text = _module("silu_mul", {"g": g, "u": u}, {"y": [rows, columns]}, body)
    return Case(
        f"silu_mul_{rows}x{columns}", text, (g, u), lambda g, u: [g / (1 + np.exp(-g)) * u], 1
    )


def strided_pointwise(rows: int, columns: int) -> Case:
    """The sum of a transposed input and one whose rows are apart."""
    x, z = _normal(1, columns, rows).T, _normal(2, rows, columns + 5)[:, :columns]
    body = f"""
    loop.for %i in {rows}, %j in {columns} {{
      %a = loop.load %x[%i, %j] : {_memref_of(x)}
      %b = loop.load %z[%i, %j] : {_memref_of(z)}
      %s = arith.addf %a, %b : f32
      loop.store %s, %y[%i, %j] : {_memref([rows, columns])}
    }}"""
    text = _module("strided", {"x": x, "z": z}, {"y": [rows, columns]}, body)
    return Case(f"strided_{rows}x{columns}", text, (x, z), lambda x, z: [x + z], 1)


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


def power_sums(rows: int, columns: int) -> Case:
    """Of each row the largest x, and sums of e^x and w·e^x relative to it, in one reduce."""
    x, w = 9 * _normal(1, rows, columns), _normal(2, columns)
    x[:1].sort(axis=1)  # each is the largest so far
    x[-1:, : columns // 2] = -np.inf
    body = f"""
    %one = arith.constant 1.000000e+00 : f32
    loop.for %row in {rows} {{
      %m, %s, %t = loop.reduce expsum %k in {columns} -> (f32, f32, f32) {{
        %a = loop.load %x[%row, %k] : {_memref([rows, columns])}
        %b = loop.load %w[%k] : {_memref([columns])}
        loop.yield %a, %one, %b : f32, f32, f32
      }}
      loop.store %m, %largest[%row] : {_memref([rows])}
      loop.store %s, %sum[%row] : {_memref([rows])}
      loop.store %t, %weighted[%row] : {_memref([rows])}
    }}"""

    def expected(x: Array, w: Array) -> list[Array]:
        largest = x.max(axis=1)
        powers = np.exp(x - largest[:, None])
        return [largest, powers.sum(axis=1), powers @ w]

    names = ("largest", "sum", "weighted")
    text = _module("power_sums", {"x": x, "w": w}, {name: [rows] for name in names}, body)
    return Case(f"power_sums_{rows}x{columns}", text, (x, w), expected, columns)


def deviations(rows: int, columns: int) -> Case:
    """Of each row the number of elements, their mean, and the sum of squared distances from it."""
    x = _normal(1, rows, columns)
    body = f"""
    %zero = arith.constant 0.000000e+00 : f32
    %one = arith.constant 1.000000e+00 : f32
    loop.for %row in {rows} {{
      %n, %m, %q = loop.reduce moments %k in {columns} -> (f32, f32, f32) {{
        %a = loop.load %x[%row, %k] : {_memref([rows, columns])}
        loop.yield %one, %a, %zero : f32, f32, f32
      }}
      loop.store %n, %count[%row] : {_memref([rows])}
      loop.store %m, %mean[%row] : {_memref([rows])}
      loop.store %q, %spread[%row] : {_memref([rows])}
    }}"""

    def expected(x: Array) -> list[Array]:
        mean = x.mean(axis=1)
        return [np.full(rows, float(columns)), mean, ((x - mean[:, None]) ** 2).sum(axis=1)]

    names = ("count", "mean", "spread")
    text = _module("deviations", {"x": x}, {name: [rows] for name in names}, body)
    return Case(f"deviations_{rows}x{columns}", text, (x,), expected, columns)


def moments(rows: int, columns: int) -> Case:
    """Of each row the sum, the sum of squares and the integer sum of numbers, in one reduce."""
    x = _normal(1, rows, columns)
    body = f"""
    loop.for %row in {rows} {{
      %s, %q, %n = loop.reduce add %k in {columns} -> (f32, f32, i64) {{
        %a = loop.load %x[%row, %k] : {_memref([rows, columns])}
        %b = arith.mulf %a, %a : f32
        %k0 = loop.index %k
        %k1 = arith.index_cast %k0 : index to i64
        loop.yield %a, %b, %k1 : f32, f32, i64
      }}
      loop.store %s, %y[%row] : {_memref([rows])}
      loop.store %q, %z[%row] : {_memref([rows])}
      loop.store %n, %count[%row] : {_memref([rows], "i64")}
    }}"""
    outputs = {"y": [rows], "z": [rows], "count": _memref([rows], "i64")}
    numbers = np.full(rows, columns * (columns - 1) // 2)
    return Case(
        f"moments_{rows}x{columns}",
        _module("moments", {"x": x}, outputs, body),
        (x,),
        lambda x: [x.sum(axis=1), (x * x).sum(axis=1), numbers],
        columns,
    )


def running_sums(rows: int, columns: int) -> Case:
    """The sums so far of what each row is below its maximum, and of numbers, in one scan."""
    x = _normal(1, rows, columns)
    type, count = _memref([rows, columns]), _memref([rows, columns], "i64")
    body = f"""
    loop.for %row in {rows} {{
      %m = loop.reduce max %k in {columns} -> f32 {{
        %a = loop.load %x[%row, %k] : {type}
        loop.yield %a : f32
      }}
      loop.for %c in {columns} {{
        %a = loop.load %x[%row, %c] : {type}
        %d = arith.subf %a, %m : f32
        %c0 = loop.index %c
        %c1 = arith.index_cast %c0 : index to i64
        %s, %n = loop.scan add %d, %c1 along %c : f32, i64
        loop.store %s, %y[%row, %c] : {type}
        loop.store %n, %count[%row, %c] : {count}
      }}
    }}"""
    numbers = np.cumsum(np.arange(columns))[None].repeat(rows, 0)
    return Case(
        f"running_sums_{rows}x{columns}",
        _module("running_sums", {"x": x}, {"y": [rows, columns], "count": count}, body),
        (x,),
        lambda x: [(x - x.max(axis=1, keepdims=True, initial=-np.inf)).cumsum(axis=1), numbers],
        columns,
    )


def running_best(rows: int, columns: int) -> Case:
    """The largest element so far of each column, and the first row where it is."""
    x = _normal(1, rows, columns).round(1)  # with ties
    type, at = _memref([rows, columns]), _memref([rows, columns], "i64")
    body = f"""
    loop.for %j in {columns} {{
      loop.for %k in {rows} {{
        %a = loop.load %x[%k, %j] : {type}
        %k0 = loop.index %k
        %k1 = arith.index_cast %k0 : index to i64
        %m, %i = loop.scan argmax %a, %k1 along %k : f32, i64
        loop.store %m, %y[%k, %j] : {type}
        loop.store %i, %at[%k, %j] : {at}
      }}
    }}"""

    def expected(x: Array) -> list[Array]:
        best = np.maximum.accumulate(x)
        new = np.vstack((np.ones((1, columns), bool), best[1:] > best[:-1]))[:rows]
        return [best, np.maximum.accumulate(np.where(new, np.arange(rows)[:, None], 0))]

    text = _module("running_best", {"x": x}, {"y": [rows, columns], "at": at}, body)
    return Case(f"running_best_{rows}x{columns}", text, (x,), expected, rows)


def running_product(n: int) -> Case:
    """The products of all elements so far, which are near 1."""
    x = 1 + _normal(1, n) / 100
    body = f"""
    loop.for %k in {n} {{
      %a = loop.load %x[%k] : {_memref([n])}
      %p = loop.scan mul %a along %k : f32
      loop.store %p, %y[%k] : {_memref([n])}
    }}"""
    text = _module("running_product", {"x": x}, {"y": [n]}, body)
    return Case(f"running_product_{n}", text, (x,), lambda x: [x.cumprod()], n)


def sorted_rows(rows: int, columns: int, count: int | None = None) -> Case:
    """
    Each row in order, or what comes first of it, its numbers with where they were: few different
    ones.
    """
    x = np.random.default_rng(1).integers(-3, 4, (rows, columns)).astype(np.float32)
    first, where, kept = "", "", columns
    if count is not None:
        first, where, kept = (
            f"first {1 << (count - 1).bit_length()} ",
            f" where (%k < {count})",
            count,
        )
    type, to, at = (
        _memref([rows, n], element)
        for n, element in ((columns, "f32"), (kept, "f32"), (kept, "i64"))
    )
    body = f"""
    loop.for %row in {rows} {{
      loop.for %k in {columns} {{
        %a = loop.load %x[%row, %k] : {type}
        %n = arith.fptosi %a : f32 to i32
        %k0 = loop.index %k
        %k1 = arith.index_cast %k0 : index to i64
        %s, %i = loop.sort {first}%n, %k1 along %k : i32, i64
        %f = arith.sitofp %s : i32 to f32
        loop.store %f, %y[%row, %k]{where} : {to}
        loop.store %i, %at[%row, %k]{where} : {at}
      }}
    }}"""
    text = _module("sorted_rows", {"x": x}, {"y": [rows, kept], "at": at}, body)
    order = x.argsort(axis=1, kind="stable")[:, :kept]
    expected = [np.take_along_axis(x, order, 1), order]
    name = (
        f"sorted_rows_{rows}x{columns}" if count is None else f"first_{count}_of_{rows}x{columns}"
    )
    return Case(name, text, (x,), lambda x: expected, columns)


def merged_rows(rows: int, columns: int) -> Case:
    """Rows that rise up to some number and fall from there, in order, with where numbers were."""
    generator = np.random.default_rng(1)
    numbers = np.arange(columns, dtype=np.float32)
    x = np.empty((rows, columns), np.float32)
    for row in x:
        first = generator.random(columns) < generator.random()
        row[:] = np.concatenate([numbers[first], numbers[~first][::-1]])
    text = sorted_rows(rows, columns).text.replace("loop.sort", "loop.sort bitonic")
    text = text.replace("@sorted_rows", "@merged_rows")
    expected = [np.sort(x), x.argsort(axis=1)]
    return Case(f"merged_rows_{rows}x{columns}", text, (x,), lambda x: expected, columns)


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


def counted(points: int, places: int) -> Case:
    """How many of some points are at each place; some are at none."""
    at = np.random.default_rng(3).integers(-1, places, points)
    type = _memref([places], "i64")
    body = f"""
    %one = arith.constant 1 : i64
    loop.for %i in {points} {{
      %r = loop.load %at[%i] : {_memref([points], "i64")}
      %p = arith.index_cast %r : i64 to index
      loop.atomic_add %one, %y[%p] where (%p >= 0) : {type}
    }}"""
    text = _module("counted", {"at": at}, {"y": type}, body)
    text = text.replace(f"-> (%y: {type})", f"-> (%y: {type} zeroed)")

    def expected(at: Array) -> list[Array]:
        return [np.bincount(at[at >= 0], minlength=places)]

    return Case(f"counted_{points}_{places}", text, (at,), expected, 1)


def added(rows: int, columns: int, places: int) -> Case:
    """Rows added at places that are data, the largest numbers among them, whose sums wrap."""
    at = np.random.default_rng(4).integers(-1, places, rows)
    x = np.random.default_rng(5).integers(-(2**31), 2**31, (rows, columns), dtype=np.int32)
    type = _memref([places, columns], "i32")
    body = f"""
    loop.for %i in {rows}, %j in {columns} {{
      %r = loop.load %at[%i] : {_memref([rows], "i64")}
      %p = arith.index_cast %r : i64 to index
      %a = loop.load %x[%i, %j] : {_memref([rows, columns], "i32")}
      loop.atomic_add %a, %y[%p, %j] where (%p >= 0) : {type}
    }}"""
    text = _module("added", {"at": at, "x": x}, {"y": type}, body)
    text = text.replace(f"-> (%y: {type})", f"-> (%y: {type} zeroed)")

    def expected(at: Array, x: Array) -> list[Array]:
        sums = np.zeros((places, columns), np.int32)
        np.add.at(sums, at[at >= 0], x[at >= 0])
        return [sums]

    return Case(f"added_{rows}x{columns}_{places}", text, (at, x), expected, 1)


_LOAD = re.compile(r"(\s*)(%\w+) = (loop\.load .* : memref<.*)f32(.*>)$")
_STORE = re.compile(r"(\s*)loop\.store (%\w+), (.* : memref<.*)f32(.*>)$")


def halves(case: Case) -> Case:
    """A case whose tensors of f32 are of f16: loads without a default widen, stores round."""
    lines: list[str] = []
    for line in case.text.splitlines():
        if load := _LOAD.match(line):
            indent, name, what, layout = load.groups()
            lines.append(f"{indent}{name}_h = {what}f16{layout}")
            lines.append(f"{indent}{name} = arith.extf {name}_h {{storage}} : f16 to f32")
        elif store := _STORE.match(line):
            indent, name, where, layout = store.groups()
            lines.append(f"{indent}{name}_h = arith.truncf {name} {{storage}} : f32 to f16")
            lines.append(f"{indent}loop.store {name}_h, {where}f16{layout}")
        else:
            lines.append(re.sub(r"((?:tensor|memref)<[\dx]*)f32", r"\1f16", line))
    inputs = tuple(
        x.astype(np.float16, copy=False) if x.dtype == np.float32 else x for x in case.inputs
    )
    text = "\n".join(lines)
    return Case(f"half_{case.name}", text, inputs, case.expected, case.longest)


SMALL = (
    gemm(37, 50, 40),
    gemm(20, 70, 33, transposed=True),
    batched(3, 17, 9, 21),
    softmax(6, 100),
    softmax(40, 7),
    column_sum(50, 33),
    total(1000),
    argmax(5, 77),
    power_sums(5, 77),
    deviations(5, 77),
    pad_pointwise(9, 70),
    gather(11, 40, 13),
)
"""Every family once, ragged everywhere."""
