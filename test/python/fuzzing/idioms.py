"""
Random programs of what networks do together: norms whose statistics others read, several folds of
one tensor, tensors that are quantized, products of all these, sums at places that are data,
orderings and updates, all of a few shapes, so that one's result is another's argument.
"""

from __future__ import annotations

import random
import re

import torch

from fuzzing.programs import EXTENTS, HALVES, MOST, Program, Statement, random_text, value_of

FEW = (1, 1, 2, 3, 5, 8, 17, 33, 64)
MANY = (1, 2, 3, 7, 33, 100, 257, 1000)

ROWS = """
{x} + {y} | {x} * {w} | {x}.sin() | F.silu({x}) | {x}.sigmoid() | {x} - {r} | {x} * {r}
{x} * {y} | {x} / ({r}.abs() + 0.5) | ({x} - {r}).exp() | F.layer_norm({x}, [{C}], {w}, {w})
{x} + {w} | F.rms_norm({x}, [{C}], {w}, eps=1e-5) | {x}.softmax(-1) | F.normalize({x}, dim=-1)
{x}.softmax(0) | torch.native_layer_norm({x}, [{C}], {w}, {w}, 1e-5)[0]
{x} * ({x}.square().mean(-1, True) + 1e-5).rsqrt()
({x} / {x}.abs().amax(-1, True).clamp(min=0.01) * 127).round() | {q}.to({x}.dtype) * {r}
{x}.sort(-1)[0] | {x}.cumsum(-1) | {x}.flip(0) | {x}.masked_fill({x} > 1, {s})
torch.cat([-{x}[:, {C} // 2 :], {x}[:, : {C} // 2]], -1) | {x}.log_softmax(-1) | {x} - {x}.mean(0)
{x}.view({B}, {G}, -1).softmax(-1).view({B}, {C}) | F.group_norm({x}, {G}, {w}, {w})
{x}.view({B}, {G}, -1).mean(-1).repeat_interleave({C} // {G}, 1)
F.batch_norm({x}, None, None, training=True)
{x} - {x}.view({B}, {G}, -1).amax(-1).repeat_interleave({C} // {G}, 1)
{x} * {x}.norm(dim=-1, keepdim=True)
torch.var_mean({x}, -1, keepdim=True, correction=0)[1] * {x} | {x}.roll(1, -1)
{x}.clamp(-{r}.abs(), {r}.abs()) | {x}.add_({y}) | {x}.mul_({s}) | {x}.copy_({y}) | {x}.sub_({r})
{x}.sigmoid_() | {x} * 1 | ({x} > {r}).to({x}.dtype) | torch.where({x} > {y}, {x}, {r})
{x}.half().to({x}.dtype) | {p}[{b}] | {p}.index_select(0, {b}) * {x}
{x}.index_add(0, {b} % {B}, {y}) | {x}.scatter_add(0, ({b} % {B})[:, None].expand(-1, {C}), {y})
{x}.gather(-1, {x}.argsort(dim=-1, stable=True)) | {x} * ({x}.cumsum(0) > 0)
{h}.sum(-1, True) * {x} | ({h} @ {m}) | {x} - ({x} * {y}).sum(-1, True) * {y}
{x}.T.contiguous().T + {y}
"""
STATISTICS = """
{x}.amax(-1, True) | {x}.sum(-1, True) | {x}.mean(-1, True) | {x}.logsumexp(-1, True) | {r} * 2
{r}.sigmoid() | torch.native_layer_norm({x}, [{C}], {w}, {w}, 1e-5)[1]
torch.native_layer_norm({x}, [{C}], {w}, {w}, 1e-5)[2] | {x}.abs().amax(-1, True) / 127
{x}.std(-1, keepdim=True, correction=0) | {x}.norm(dim=-1, keepdim=True)
({x} * {y}).sum(-1, True) | {x}.median(-1, True)[0] | {x}.topk(1, -1)[0] | {x}.amin(-1)[:, None]
{x}.argmax(-1, True).to({x}.dtype) | {h}.amax(-1, True) | ({x} * {w}).sum(-1)[:, None]
{x}[:, :1] | {x}.square().mean(-1, True).add(1e-5).rsqrt() | {x}.kthvalue({C}, -1, True)[0]
{x}.var(-1, keepdim=True, correction=0)
"""
COLUMNS = """
{x}.sum(0) | ({x} * {y}).sum(0) | {x}.amax(0) | {x}.var(0, correction=0) | {x}.mean(0)
({x} * {r}).sum(0) | {w} * 2 | {w}.sigmoid() | {x}.square().sum(0) | {x}[0] | ({x} - {r}).sum(0)
{a}.sum(0) | {v}.sum(0) | {w}.add_(1)
"""
PRODUCTS = """
{x} @ {m}.mT | F.linear({x}, {m}) | ({x} @ {m}.mT) * {r}
F.linear(F.rms_norm({x}, [{C}], {w}), {m})
F.linear({x} * ({x}.square().mean(-1, True) + 1e-5).rsqrt() * {w}, {m})
F.linear(F.layer_norm({x}, [{C}]), {m}) | ({q}.int() @ {z}.int().mT).to({x}.dtype)
({q}.int() @ {z}.int().mT).float() * {r} | ({q}.float() @ {z}.float().mT) / 1000
({q}.int() @ {z}.int().mT) / 1000 | (({q}.half() / 64) @ ({z}.half() / 64).mT)
(F.linear({q}.to({x}.dtype), {m}) * {r}) | {x} @ ({z}.to({x}.dtype) * 0.01).mT | {h}.relu()
{h}.softmax(-1) | F.silu({x} @ {m}.mT) * ({x} @ {m}.mT)
F.normalize({x}, dim=-1) @ F.normalize({m}, dim=-1).mT | {h} * 0.5
F.linear({x} / {x}.norm(dim=-1, keepdim=True).clamp(min=0.01), {m}, {m}[:, 0])
({x} * {r}) @ {m}.mT | {h} + {h} | torch._int_mm({q}, {z}.t()) / 1000
({q}.short() @ {z}.short().mT).float() | ({q}.long() @ {z}.long().mT).float()
"""
BYTES = """
({x} / {x}.abs().amax(-1, True).clamp(min=0.01) * 127).round().to(torch.int8) | {q}.neg()
{q} // 2 | {q}.clamp(-5, 5) | ({x} / ({r}.abs() + 0.01)).round().clamp(-128, 127).to(torch.int8)
({x} > 0).to(torch.int8) | ({x} * 20).clamp(-100, 100).to(torch.int8)
"""
PLACES = """
torch.zeros_like({p}).index_add(0, {u}, {v}) | {p}.index_add(0, {u}, {v})
{p}.index_add_(0, {u}, {v}) | {p} * 0.5 | {p}.index_put(({u},), {v}, accumulate=True)
{p}.scatter_add(0, {u}[:, None].expand(-1, {C}), {v})
{p}.scatter_reduce(0, {u}[:, None].expand(-1, {C}), {v}, "amax")
aten.embedding_dense_backward({v}, {u}, {P}, -1, False)
{p}.scatter_reduce(0, {u}[:, None].expand(-1, {C}), {v}, "mean", include_self=False)
{p}.index_add(0, {u}, {v}, alpha=2)
{p}.scatter_reduce(0, {u}[:, None].expand(-1, {C}), {v}, "amin", include_self=False)
{p}.index_reduce(0, {u}, {v}, "mean") | {p}.index_reduce(0, {u}, {v} * 0.1 + 1, "prod")
aten.embedding_dense_backward({v}, {u}, {P}, 0, True) | F.embedding_bag({u}, {p}, {o}, mode="sum")
F.embedding_bag({u}, {p}, {o}, mode="mean") | F.embedding_bag({u}, {p}, {o}, mode="max")
F.embedding_bag({u}, {p}, {o}, mode="sum", per_sample_weights={v}[:, 0])
F.embedding_bag({u}, {p}, {o}, padding_idx=0)
torch.segment_reduce({v}, "sum", lengths=torch.zeros({P}, dtype=torch.int64).index_add(0, {u},
    {u} * 0 + 1)) | F.silu({p}) | {p} + {w} | {p}.softmax(-1)
torch.segment_reduce({v}, "mean", lengths=torch.zeros({P}, dtype=torch.int64).index_add(0, {u},
    {u} * 0 + 1), initial=0)
torch.segment_reduce({v}, "max", lengths=torch.zeros({P}, dtype=torch.int64).index_add(0, {u},
    {u} * 0 + 1), initial=0) | {p} / ({n}[:, None] + 1)
{p}.index_add(0, {u}, {v}) / (torch.zeros({P}, dtype=torch.int64).index_add(0, {u}, {u} * 0 +
    1)[:, None] + 1) | {p}.index_copy(0, {u}[:1], {v}[:1])
"""
COUNTS = """
torch.zeros({P}, dtype=torch.int64).index_add(0, {u}, {u} * 0 + 1)
torch.zeros({P}).scatter_add(0, {u}, {v}[:, 0].float())
torch.zeros({P}, dtype=torch.int64).scatter_add(0, {u}, torch.ones_like({u})) | {n} * 2
{n}.cumsum(0) | ({n} > 0).int()
torch.zeros({P}).index_put(({u},), {v}[:, -1].float(), accumulate=True)
torch.zeros({P}, dtype=torch.int32).index_add(0, {u}, {u}.int())
torch.zeros({P}, dtype=torch.bool).index_fill(0, {u}, True) | {p}.sum(-1)
torch.histc({u}.float(), {P}, 0, {P})
"""
UPDATES = """
{p}[{u}] | F.embedding({u}, {p}) | {p}.index_select(0, {u}) * {v} | {v} * 2 | {v}.sort(0)[0]
{v}.softmax(0) | {v}.cumsum(0) | {v}[{u}.argsort(stable=True)] | {v} - {p}[{u}] | ({v} * {w})
{v}.flip(0) | {v}.relu() | {v}.mul_(0.5) | ({v} - {v}.mean(0)) * {p}[{u}]
"""
NUMBERS = """
{u}.sort()[0] | ({u} * 3 + 1) % {P} | {u}.flip(0) | {u}.argsort(stable=True) % {P}
({v}[:, 0].abs() * 9).long() % {P} | {u} * 0 | {u}.cumsum(0) % {P} | {P} - 1 - {u}
"""
IMAGES = """
F.group_norm({t}, {G}) | F.group_norm({t}, {G}, {g}, {g})
F.batch_norm({t}, None, None, {g}, {g}, True) | {t} * {a}[:, :, None, None]
F.conv2d({t}, {f}, padding=1) | F.conv2d({t}, {f}, {g}, padding=1).relu() | F.silu({t})
{t} + {t} | {t} - {t}.mean((2, 3), True) | {t}.relu() | F.instance_norm({t}) | {t}.softmax(1)
F.avg_pool2d({t}, 3, 1, 1) | F.max_pool2d({t}, 3, 1, 1) | {t}.flip(-1) | {t} * {g}[:, None, None]
torch.native_group_norm({t}, {g}, {g}, {N}, {D}, {H} * {H}, {G}, 1e-5)[0]
{t} * {t}.sigmoid().mean((2, 3), True) | {t}.add_(1)
"""
PLANES = """
{t}.mean((2, 3)) | {t}.amax((2, 3)) | {t}.sum((2, 3)) | {t}.var((2, 3)) | {a}.sigmoid()
{a} * {g} | {t}[:, :, 0, 0]
torch.native_group_norm({t}, {g}, {g}, {N}, {D}, {H} * {H}, {G}, 1e-5)[1].repeat_interleave({D}
    // {G}, 1)
torch.native_group_norm({t}, {g}, {g}, {N}, {D}, {H} * {H}, {G}, 1e-5)[2].repeat_interleave({D}
    // {G}, 1) | F.conv2d({t}, {f}, padding=1).amax((2, 3))
"""
CHANNELS = """
{t}.mean((0, 2, 3)) | {t}.sum((0, 2, 3)) | ({t} * {t}).sum((0, 2, 3)) | {a}.sum(0) | {g} * 0.5
{t}.var((0, 2, 3)) | {t}.amax((0, 2, 3))
"""
TABLES = {
    "x": ROWS,
    "r": STATISTICS,
    "w": COLUMNS,
    "h": PRODUCTS,
    "q": BYTES,
    "p": PLACES,
    "n": COUNTS,
    "v": UPDATES,
    "u": NUMBERS,
    "t": IMAGES,
    "a": PLANES,
    "g": CHANNELS,
}
"""What makes a tensor of the shape that a letter stands for."""
FAMILIES = ("xrwhq", "xrwh", "xrw", "pnvuw", "pnvu", "tag", "xrwhqpnvu", "".join(TABLES))


def random_idioms(rng: random.Random) -> Program:
    """Three to nine statements, of which those that no other reads are results, and some more."""
    sizes = _sizes(rng)
    dtype = rng.choice((torch.float32,) * 6 + HALVES + (torch.float64,))
    shapes, letters = _shapes(sizes), list[str]()
    inputs = list[Statement]()
    for letter, shape in shapes.items():
        letters.append(letter)
        inputs.append(Statement(f"v{len(inputs)}", _input(letter, shape, sizes, dtype)))
    pool = Program(tuple(inputs), ()).values()
    kinds = {letter: [f"v{n}"] for n, letter in enumerate(letters)}
    kinds["y"] = kinds["x"]
    statements: list[Statement] = []
    family, wanted = rng.choice(FAMILIES), rng.randint(3, 9)
    for _ in range(10 * wanted):
        if len(statements) == wanted:
            break
        letter = rng.choice(family)
        text = _filled(rng, rng.choice(_entries(TABLES[letter])), kinds, sizes)
        value = value_of(text, pool)
        if value is None or value.shape != shapes[letter] or _other(value, pool[kinds[letter][0]]):
            continue
        name = f"v{len(pool)}"
        pool[name] = value
        kinds[letter].append(name)
        statements.append(Statement(name, text))
    used = set[str]().union(*(s.uses for s in statements))
    results = [s.name for s in statements if s.name not in used]
    while statements and rng.random() < 0.4:
        results.append(rng.choice(statements).name)
    if rng.random() < 0.1:
        results.append(inputs[0].name)
    return Program(tuple(inputs), tuple(statements), tuple(dict.fromkeys(results))).pruned()


def _other(value: torch.Tensor, like: torch.Tensor) -> bool:
    """True if one is of integers and the other is not, or a type that indices must have differs."""
    if like.dtype == torch.int64:
        return value.dtype.is_complex
    return value.is_floating_point() != like.is_floating_point()


def _entries(table: str) -> list[str]:
    text = table.replace("aten.", "torch.ops.aten.").replace("\n    ", " ")
    return [entry.strip() for line in text.strip().splitlines() for entry in line.split(" | ")]


def _sizes(rng: random.Random) -> dict[str, int]:
    groups = rng.choice((1, 2, 3, 4))
    sizes = {
        "B": rng.choice(EXTENTS),
        "C": groups * rng.choice((*EXTENTS, 100, 257)),
        "K": rng.choice(FEW),
        "P": rng.choice((*FEW, 33, 100)),
        "U": rng.choice(MANY),
        "G": groups,
        "N": rng.choice((1, 2, 3)),
        "D": groups * rng.choice((1, 2, 3, 5)),
        "H": rng.choice((1, 2, 3, 5, 8)),
    }
    if rng.random() < 0.03:
        sizes[rng.choice("BCPUN")] = 0
    sizes["B"] = min(sizes["B"], MOST // max(sizes["C"], 1))
    sizes["U"] = min(sizes["U"], max(MOST // max(sizes["C"], 1), 1))
    sizes["P"] = min(sizes["P"], max(MOST // max(sizes["C"], 1), 1))
    return sizes


def _shapes(sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    b, c, k, p, u, _, n, d, h = sizes.values()
    return {
        "x": (b, c), "r": (b, 1), "w": (c,), "h": (b, k), "q": (b, c), "p": (p, c), "n": (p,),
        "v": (u, c), "u": (u,), "t": (n, d, h, h), "a": (n, d), "g": (d,), "m": (k, c),
        "z": (k, c), "o": (p,), "b": (b,), "f": (d, d, 3, 3),
    }  # fmt: skip


def _input(letter: str, shape: tuple[int, ...], sizes: dict[str, int], dtype: torch.dtype) -> str:
    made = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
    places, updates = sizes["P"], sizes["U"]
    match letter:
        case "u" | "b":
            return f"torch.randint(0, {max(places, 1)}, {made})"
        case "o":
            begins = f"torch.randint(0, {updates + 1}, {made}).sort()[0]"
            return f"{begins} * (torch.arange({places}) > 0)"
        case "q" | "z":
            return f"torch.randint(-128, 128, {made}, dtype=torch.int8)"
        case _:
            return random_text(torch.empty(shape, dtype=dtype))


def _filled(
    rng: random.Random, entry: str, kinds: dict[str, list[str]], sizes: dict[str, int]
) -> str:
    names = {**{k: str(n) for k, n in sizes.items()}, "s": str(rng.choice((0.5, -1.25, 3.0)))}

    def one(match: re.Match[str]) -> str:
        letter = match[1]
        if letter in names:
            return names[letter]
        some = kinds[letter]
        chosen = rng.choice(some[-2:] if rng.random() < 0.6 else some)
        return names.setdefault(letter, chosen)

    return re.sub(r"{(\w)}", one, entry)
