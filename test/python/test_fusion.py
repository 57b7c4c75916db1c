"""What `fuse-loops` makes of real programs, and that what it makes gives the right numbers."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from verified import verify
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.utils.exceptions import DiagnosticException

sys.path.insert(0, str(Path(__file__).parent))
import loop_interpreter

import dlc
from dlc.analysis.loop.contraction import contractions
from dlc.dialects.kernel import LaunchOp
from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp
from dlc.frontend.export.fx import import_program
from dlc.registry import parse_pipeline, register
from dlc.remarks import collect
from dlc.schedule.kernel_table import kernel_table
from dlc.target import get_target
from dlc.transforms.loop.fusion import fusing, merging
from dlc.transforms.loop.fusion.chaining import chain_into
from dlc.transforms.loop.fusion.inline import inline_producer
from dlc.transforms.loop.fusion.merging import MAX_COPIED

TO_LOOPS = (
    "decompose-torch,compose-index-maps,fold-constants,lift-to-loops,"
    "canonicalize-loops,hoist-invariants,join-reduces,nest-loops,sink-epilogues"
)


class LayerNorm(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(n))
        self.b = nn.Parameter(torch.randn(n))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        var = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-5) * self.w + self.b


class MLP(nn.Module):
    def __init__(self, hidden: int, inner: int, device: str | None = None) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, inner, bias=False, device=device)
        self.up = nn.Linear(hidden, inner, bias=False, device=device)
        self.down = nn.Linear(inner, hidden, bias=False, device=device)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def matmul_relu(x: Tensor, bias: Tensor, w: Tensor) -> Tensor:
    return torch.relu(torch.matmul(x + bias, w))


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) / 8.0 + mask, -1) @ v


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Rotated(nn.Module):
    """Scores of rotated queries and keys, as many heads of keys as there are groups of queries."""

    def __init__(
        self, hidden: int, heads: int, groups: int, device: str | None = None, size: int = 64
    ) -> None:
        super().__init__()
        self.size, self.repeats = size, heads // groups
        self.q = nn.Linear(hidden, heads * size, device=device)
        self.k = nn.Linear(hidden, groups * size, device=device)

    def heads(self, product: nn.Linear, x: Tensor) -> Tensor:
        shape = (len(x), product.out_features // self.size, self.size)
        return product(x).view(shape).transpose(0, 1)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k = (rope(self.heads(p, x), cos, sin) for p in (self.q, self.k))
        k = k.unsqueeze(1).expand(-1, self.repeats, -1, -1).reshape(q.shape)
        return q @ k.transpose(-1, -2)


def epilogue(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
    return F.gelu(x @ w + b) + r


def loops(
    f: Callable[..., Tensor], *shapes: tuple[int, ...], type: torch.dtype = torch.float32
) -> ModuleOp:
    """The kernels of a program before fusion; nothing is computed."""
    args = tuple(torch.empty(s, dtype=type, device="meta") for s in shapes)
    program = import_program(f, args)
    run(program.module, TO_LOOPS)
    return program.module


def run(module: ModuleOp, pipeline: str) -> list[str]:
    ctx = register(Context())
    with collect() as remarks:
        for step in parse_pipeline(pipeline):
            step.apply(ctx, module)
            verify(module)
    return [str(r) for r in remarks]


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def outline(kernel: KernelOp) -> str:
    """The loops of a kernel: `for(row){add;max;for(c){}}`."""

    def body(ops: object) -> str:
        parts: list[str] = []
        for op in ops:  # pyright: ignore[reportGeneralTypeIssues]
            if isinstance(op, ForOp):
                names = ",".join(str(a.name_hint) for a in op.axes)
                parts.append(f"for({names}){{{body(op.body.block.ops)}}}")
            elif isinstance(op, ReduceOp):
                inner = body(op.body.block.ops)
                parts.append(op.monoid_name.data + (f"{{{inner}}}" if inner else ""))
        return ";".join(parts)

    return body(kernel.body.block.ops)


@pytest.mark.parametrize(
    ("f", "shapes", "expected"),
    [
        (matmul_relu, [(16, 64), (64,), (64, 16)], ["for(i,j){add}"]),
        (nn.RMSNorm(2048), [(1, 32, 2048)], ["for(row){add;for(c){}}"]),
        (LayerNorm(64), [(32, 64)], ["for(row){add;add;for(c){}}"]),
        (nn.Softmax(-1), [(1, 28, 256, 256)], ["for(h,row){max;add;for(c){}}"]),
        (MLP(2048, 5632, "meta"), [(1, 128, 2048)], ["for(i,j){add}"] * 2),
        (Rotated(512, 8, 2, "meta"), [(128, 512), *[(128, 64)] * 2], ["for(h,i,j){add}"] * 3),
        (
            attention,
            [(1, 32, 256, 64)] * 3 + [(256, 256)],
            ["for(h,row,c){expsum{add}}"],
        ),
        (rope, [(1, 32, 128, 64), (128, 64), (128, 64)], ["for(h,i,j){}"]),
        (epilogue, [(128, 512), (512, 256), (256,), (128, 256)], ["for(i,j){add}"]),
        (lambda x: x.sum(), [(100, 50)], ["add"]),
        (lambda x: (x * x).sum(), [(100, 50)], ["add"]),
        (lambda x: torch.cat([(x + 1).sin(), (x + 1).cos()]), [(512, 512)], ["for(i,j){}"]),
        (
            lambda x, w: torch.softmax(x @ w, -1),
            [(512, 512), (512, 512)],
            ["for(i,j){add}", "for(row){max;add;for(c){}}"],
        ),
        (
            lambda x, w: F.max_pool2d(F.conv2d(x, w), 2),
            [(8, 3, 130, 130), (64, 3, 3, 3)],
            ["for(b,h,i,j){add}"],
        ),
        (
            lambda x, w: F.max_pool2d(F.conv2d(x, w), 3, 2),  # windows that overlap
            [(8, 3, 130, 130), (64, 3, 3, 3)],
            ["for(b,h,i,j){add}", "for(b,h,i,j){max}"],
        ),
    ],
)
def test_outline(
    f: Callable[..., Tensor], shapes: list[tuple[int, ...]], expected: list[str]
) -> None:
    if isinstance(f, nn.Module):
        f.to("meta")
    module = loops(f, *shapes)
    run(module, "fuse-loops")
    assert [outline(k) for k in kernels(module)] == expected


def test_epilogues_stand_in_the_kernels_of_contractions() -> None:
    module = loops(MLP(2048, 5632, "meta"), (1, 128, 2048))
    remarks = run(module, "fuse-loops")
    found = [[op.name for op in k.walk() if op.name.startswith("math.")] for k in kernels(module)]
    assert found == [["math.sigmoid"], []]
    for kernel in kernels(module):
        (c,) = contractions(kernel)
        assert [a.name_hint for a in (*c.rows, *c.columns)] == ["i", "j"]
        assert not c.batch
    assert any("kept apart: merged @" in r for r in remarks)


@pytest.mark.parametrize(("rows", "fused"), [(32, True), (256, False), (512, False)])
def test_an_expensive_operand(rows: int, fused: bool) -> None:
    """It is computed again for each column of blocks, which is free only while memory is slower."""

    def f(g: Tensor, u: Tensor, w: Tensor) -> Tensor:
        return (F.silu(g) * u) @ w

    module = loops(f, (rows, 5632), (rows, 5632), (5632, 2048))
    remarks = run(module, "fuse-loops")
    expected = ["for(i,j){add}"] if fused else ["for(i,j){}", "for(i,j){add}"]
    assert [outline(k) for k in kernels(module)] == expected
    assert any("into @matmul" in r for r in remarks)


class Layer(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(hidden)
        self.mlp = MLP(hidden, inner)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm(x))


class Layers(nn.Module):
    def __init__(self, count: int, hidden: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(hidden, inner) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_layers_are_compiled_once() -> None:
    """A residual sits in an epilogue: no kernel reads those of all layers before."""
    module = loops(Layers(4, 512, 1408).to("meta"), (1, 128, 512))
    run(module, "fuse-loops,share-kernels")
    names = [k.name_ for k in kernels(module)]
    assert names == ["rms_norm", "linear_silu_mul", "linear_add"]
    launched = [str(op.kernel.string_value()) for op in module.walk() if isinstance(op, LaunchOp)]
    assert launched == names * 3
    named = {ref.name_hint for kernel in kernels(module) for ref in kernel.input_refs}
    assert named >= {"norm_weight", "mlp_gate_weight", "mlp_down_weight"}
    assert "3 kernels, launched 12 times" in kernel_table(module, get_target("sm_90"))


def test_layers_compute_what_they_do_apart() -> None:
    torch.manual_seed(0)
    layers = Layers(3, 24, 20)
    x = torch.randn(5, 24)
    with torch.no_grad():
        found = dlc.compile(layers, (x,), backend="host")(x)
        exact = layers.double()(x.double())
    assert (found - exact).abs().max() <= 1e-6 * exact.abs().max()


def test_every_reduce_is_computed_once() -> None:
    module = loops(nn.Softmax(-1), (4, 64, 64))
    run(module, "fuse-loops")
    (kernel,) = kernels(module)
    assert sum(isinstance(op, ReduceOp) for op in kernel.walk()) == 2
    for reduce in kernel.walk():
        if isinstance(reduce, ReduceOp):
            assert not any(isinstance(o, ReduceOp) for o in reduce.body.walk())
            assert sum(isinstance(o, LoadOp) for o in reduce.body.walk()) == 1


def test_the_attribute_forbids_and_forces() -> None:
    module = loops(matmul_relu, (16, 64), (64,), (64, 16))
    add = kernels(module)[0]
    add.attributes["fuse"] = StringAttr("never")
    remarks = run(module, "fuse-loops")
    assert len(kernels(module)) == 2
    assert "fuse-loops: add: kept apart: the attribute `fuse` forbids it" in remarks

    module = loops(MLP(2048, 5632, "meta"), (1, 128, 2048))
    for kernel in kernels(module):
        kernel.attributes["fuse"] = StringAttr("always")
    run(module, "fuse-loops")
    assert len(kernels(module)) == 1

    add = kernels(module)[0]
    add.attributes["fuse"] = StringAttr("sometimes")
    wrong = loops(matmul_relu, (16, 64), (64,), (64, 16))
    kernels(wrong)[0].attributes["fuse"] = StringAttr("sometimes")
    with pytest.raises(DiagnosticException, match='expected `fuse` to be "always" or "never"'):
        run(wrong, "fuse-loops")


def test_a_result_of_main_stays_a_kernel() -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.exp()
        return y, y.sum(-1)

    module = loops(f, (64, 64))  # pyright: ignore[reportArgumentType]
    run(module, "fuse-loops")
    assert [outline(k) for k in kernels(module)] == ["for(i,j){}", "for(i){add}"]


@pytest.mark.parametrize("size", [7, 1, 0])
@pytest.mark.parametrize(
    "f",
    [nn.RMSNorm(13), LayerNorm(13), nn.Softmax(-1), nn.Softmax(0), MLP(13, 11), lambda x: x.sum()],
)
def test_numbers(f: Callable[..., Tensor], size: int) -> None:
    x = torch.randn(1, size, 13)
    check(f, (x,), always=False)
    if size:
        x.view(-1)[3], x.view(-1)[-1] = float("-inf"), float("nan")
    check(f, (x,), always=True)


def _pool_twice(x: Tensor, size: int) -> Tensor:
    return F.max_pool2d(F.avg_pool2d(x, (1, size)), (size, 1))


@pytest.mark.parametrize("size", [11, 5, 4])
@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d, _pool_twice])
def test_numbers_of_pooled_sums(pool: Callable[..., Tensor], size: int) -> None:
    """Windows that share no point are written out, and their sums are one reduce."""
    torch.manual_seed(1)
    x, w = torch.randn(2, 3, size, size), torch.randn(5, 3, 3, 3)
    x[0, 0, 3, 1], x[1, 2, 0, 3] = float("-inf"), float("nan")
    check(lambda x, w: pool(F.conv2d(x, w, padding=1).sigmoid(), 2), (x, w), always=True)


@pytest.mark.parametrize("size", [5, 1, 0])
def test_numbers_of_attention_and_rope(size: int) -> None:
    q, k, v = torch.randn(3, 1, 2, size, 8)
    causal = torch.full((size, size), float("-inf")).triu(1)
    check(attention, (q, k, v, causal), always=True)
    check(rope, (q, torch.randn(size, 8), torch.randn(size, 8)), always=True)


@pytest.mark.parametrize(("rows", "size"), [(7, 6), (1, 2), (0, 4)])
def test_numbers_of_rotated_products(rows: int, size: int) -> None:
    """Heads of which halves change places: the products are folded for both halves at once."""
    torch.manual_seed(1)
    rotated, x = Rotated(13, 6, 3, size=size), torch.randn(rows, 13)
    angles = torch.randn(rows, size)
    if rows:
        x[0, 3], x[rows // 2, 4] = float("-inf"), float("nan")
    check(rotated, (x, angles.cos(), angles.sin()), always=True)


def test_a_rotation_is_the_epilogue_of_its_product() -> None:
    """At any length, queries and keys are rotated where they are computed, in two sums."""
    for rows in (32, 512):
        module = loops(Rotated(512, 8, 2).to("meta"), (rows, 512), (rows, 64), (rows, 64))
        remarks = run(module, "fuse-loops")
        q, k, scores = kernels(module)
        for kernel in (q, k):
            (c,) = contractions(kernel)
            assert len(c.reduce.results) == 2
            assert [c.reduce.extent(a) for a in c.reduce.axes] == [512]
            assert sorted([len(c.row_loads), len(c.column_loads)]) == [1, 2]
        assert not any("sin" in ref.name_hint for ref in scores.input_refs if ref.name_hint)
        rotation = re.compile(r": merged @\w*linear\w* into @mul_neg_add")
        assert len([r for r in remarks if rotation.search(r)]) == 2


def test_a_rotation_on_the_host() -> None:
    torch.manual_seed(0)
    rotated, x = Rotated(13, 6, 3, size=6), torch.randn(7, 13)
    angles = torch.randn(7, 6)
    with torch.no_grad():
        compiled = dlc.compile(rotated, (x, angles.cos(), angles.sin()), backend="host")
        found = compiled(x, angles.cos(), angles.sin())
        exact = rotated.double()(x.double(), angles.double().cos(), angles.double().sin())
    assert len(compiled.kernels) <= 3
    assert (found - exact).abs().max() <= 1e-6 * exact.abs().max()


def test_numbers_of_gathers_and_conditions() -> None:
    def f(table: Tensor, index: Tensor) -> Tensor:
        rows = F.embedding(index, table.sin())
        return F.pad(F.layer_norm(rows, (6,)), (2, -1), value=2.0).flip(0)

    check(f, (torch.randn(9, 6), torch.randint(0, 9, (3, 2))), always=True)


def check(f: Callable[..., Tensor], args: tuple[Tensor, ...], *, always: bool) -> None:
    with torch.no_grad():
        program = import_program(f, args)
        inputs = [t.detach().numpy() for t in program.bind(args, {})]
        double = f.to(torch.float64) if isinstance(f, nn.Module) else f
        want = double(*(a.double() if a.is_floating_point() else a for a in args)).numpy()
        if isinstance(f, nn.Module):
            f.to(torch.float32)
    run(program.module, TO_LOOPS)
    (before,) = loop_interpreter.run(program.module, inputs)
    np.testing.assert_allclose(before, want, rtol=1e-4, atol=1e-5)
    if always:
        for kernel in kernels(program.module):
            kernel.attributes["fuse"] = StringAttr("always")
    run(program.module, "fuse-loops")
    (after,) = loop_interpreter.run(program.module, inputs)
    np.testing.assert_allclose(after, want, rtol=1e-4, atol=1e-5)


def test_same_input_same_text() -> None:
    texts: set[str] = set()
    for _ in range(2):
        module = loops(attention, *[(1, 32, 128, 64)] * 3, (128, 128))
        run(module, "fuse-loops")
        texts.add(str(module))
    assert len(texts) == 1


def residual_norm(x: Tensor, y: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    h = x + y
    return h * torch.rsqrt((h * h).mean(-1, keepdim=True) + 1e-5) * w, h


def test_what_others_read_is_stored_by_its_first_reader() -> None:
    module = loops(residual_norm, (512, 1024), (512, 1024), (1024,))  # pyright: ignore[reportArgumentType]
    remarks = run(module, "fuse-loops")
    (kernel,) = kernels(module)
    assert len(kernel.results) == 2
    assert any("the result of @add stored, too" in text for text in remarks)


def heat(x: Tensor) -> Tensor:
    """Steps that each read the one before at five places."""
    for _ in range(3):
        x = x + 0.1 * (x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1) - 4 * x)
    return x


def test_what_reads_several_places_is_whole_before_what_it_reads_is_computed_again() -> None:
    module = loops(heat, (2048, 2048))
    run(module, "fuse-loops")
    assert len(kernels(module)) == 3  # two steps in one would be 25 loads: 44 us, not 2 x 16


def overlap(x: Tensor, y: Tensor) -> Tensor:
    """Three sums of a row, of which two share what they load with the third."""
    p = torch.sigmoid(x)
    return 2 * (p * y).sum(-1) / (p.sum(-1) + y.sum(-1))


@pytest.mark.parametrize("shape", [(3, 129), (2, 5000), (4, 3)])
def test_sums_that_share_what_they_load_are_one_sweep(shape: tuple[int, ...]) -> None:
    args = torch.randn(shape), torch.rand(shape)
    program = dlc.compile(overlap, args, target="sm_90", backend="host")
    assert re.findall(r"loop.reduce add .*-> (.*) {", program.ir("loop")) == ["(f32, f32, f32)"]
    exact = overlap(*(a.double() for a in args))
    torch.testing.assert_close(program(*args).double(), exact, rtol=1e-5, atol=1e-6)
    assert {verdict.answer for verdict in program.check()} <= {"clean"}


def running_norm(x: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As a batch norm while training: a mean has three readers, the variance two."""
    v, m = torch.var_mean(x, (0, 2))
    scaled = (x - m[:, None]) * torch.rsqrt(v[:, None] + 1e-5)
    return scaled, mean * 0.9 + m * 0.1, var * 0.9 + v * 0.1


def test_it_is_stored_by_the_reader_with_which_it_pays_most() -> None:
    module = loops(running_norm, (64, 16, 65536), (16,), (16,))  # pyright: ignore[reportArgumentType]
    remarks = run(module, "fuse-loops")
    reading = [k for k in kernels(module) if any(shape_of(v.type)[1:] for v in k.inputs)]
    assert len(reading) == 2  # one sweep for both moments, and what needs them
    assert any("in one sweep of moments" in text for text in remarks)


@pytest.mark.parametrize("shape", [(5, 7, 33), (2, 3, 1), (4, 1, 100)])
def test_numbers_of_moments_that_several_read(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)  # of two numbers the variance may be anything, which then divides
    args = torch.randn(shape) + 100, torch.randn(shape[1]), torch.rand(shape[1])
    program = dlc.compile(running_norm, args, target="sm_90", backend="host")
    for found, exact in zip(program(*args), running_norm(*(a.double() for a in args))):
        torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4, equal_nan=True)
    assert {verdict.answer for verdict in program.check()} <= {"clean"}


@pytest.mark.parametrize("rows", [512, 3, 1, 0])
def test_numbers_of_what_is_stored_for_others(rows: int) -> None:
    args = (torch.randn(rows, 70), torch.randn(rows, 70), torch.randn(70))
    if rows:
        args[0][-1, 3] = float("nan")
    program = dlc.compile(residual_norm, args, target="sm_90", backend="host")
    for found, exact in zip(program(*args), residual_norm(*(a.double() for a in args))):
        torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5, equal_nan=True)
    assert {verdict.answer for verdict in program.check()} <= {"clean"}


class DenseBlock(nn.Module):
    """Convolutions of all results before them."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        convolutions = (nn.Conv2d(16 + 8 * n, 8, 3, padding=1) for n in range(layers))
        self.layers = nn.ModuleList(convolutions)

    def forward(self, x: Tensor) -> Tensor:
        results = [x]
        for layer in self.layers:
            results.append(layer(F.relu(torch.cat(results, 1))))
        return torch.cat(results, 1)


def test_as_many_merges_are_tried_as_there_are_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer adds five at most, also where all layers after it read its result."""
    tried: list[KernelOp] = []

    def counting(producer: KernelOp, merged: KernelOp) -> None:
        tried.append(merged)
        inline_producer(producer, merged)

    monkeypatch.setattr(merging, "inline_producer", counting)
    counts: list[int] = []
    for layers in (4, 12):
        module = loops(DenseBlock(layers).to("meta"), (8, 16, 56, 56))
        tried.clear()
        run(module, "fuse-loops")
        counts.append(len(tried))
    assert 0 < counts[1] - counts[0] <= 5 * (12 - 4), counts


def test_a_long_chain_is_merged_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """It becomes the kernel that it becomes by one merge after the other."""

    def steps(x: Tensor, y: Tensor) -> Tensor:
        for n in range(16):
            x = torch.relu(torch.where(y > n, (y + 0.1 * n) * x, y.sum(0))).T - 0.3 * n
        return x

    merges: list[int] = []
    texts: list[str] = []
    for chain in (chain_into, lambda *_: []):
        monkeypatch.setattr(fusing, "chain_into", chain)
        module = loops(steps, (8, 8), (8, 8))
        merges.append(len([r for r in run(module, "fuse-loops") if ": merged" in r]))
        texts.append(str(module))
    assert texts[0] == texts[1]
    assert merges[0] <= merges[1] / 4, merges


def test_a_scan_in_a_chain_is_merged_alone() -> None:
    """What reads it at joined axes does not follow it point by point."""
    for function in (
        lambda x: (x > 0).flatten().cumsum(0).view(3, 4) * 2,
        lambda x: x.masked_scatter(x > 0, x.flatten()),
    ):
        x = torch.arange(12.0).view(3, 4) - 5
        assert torch.equal(dlc.compile(function, (x,), backend="host")(x), function(x))


@pytest.mark.parametrize("shape", [(5,), (3, 5), (1,), (0,)])
def test_scans_that_go_opposite_ways_stay_apart(shape: tuple[int, ...]) -> None:
    """The second would be one along the first's axis backwards."""
    x = torch.rand(shape) + 0.5
    for axis, function in itertools.product(
        range(len(shape)),
        (
            lambda x, a: x.cumsum(a) * x.flip(a).cumsum(a).flip(a),
            lambda x, a: x.cumsum(a).flip(a).cumsum(a),
            lambda x, a: x.cumprod(a).narrow(a, 0, x.shape[a]).cumsum(a),
        ),
    ):
        found = dlc.compile(lambda x, f=function, a=axis: f(x, a), (x,), backend="host")(x)
        torch.testing.assert_close(found, function(x, axis))


class Heat(nn.Module):
    """Steps of the equation of heat, each of which reads five neighbours of the one before."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, u: Tensor) -> Tensor:
        for _ in range(self.steps):
            p = F.pad(u, (1, 1, 1, 1))
            neighbours = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
            u = u + 0.1 * (neighbours - 4 * u)
        return u


def test_few_kernels_of_an_unrolled_stencil_are_priced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fewer than steps are added; and none is made that is too large by far."""
    counts: list[int] = []
    for steps in (8, 20):
        sizes: list[int] = []
        facts_of = merging.Merges._facts_of

        def counting(merges: merging.Merges, kernel: KernelOp) -> merging.Facts:
            facts = facts_of(merges, kernel)
            sizes.append(facts.size)
            return facts

        with monkeypatch.context() as patched:
            patched.setattr(merging.Merges, "_facts_of", counting)
            remarks = run(loops(Heat(steps), (256, 256)), "fuse-loops")
        assert any(re.search("merged, (a kernel would have )?[0-9]+ op", t) for t in remarks)
        assert max(sizes) <= MAX_COPIED, sizes
        counts.append(len(sizes))
    assert counts[1] - counts[0] < 20 - 8, counts
