"""
Import of PyTorch programs. Where numbers matter, the Torch IR is executed with PyTorch itself, op
by op, from what the IR says and nothing else, and compared with eager bit for bit.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Container
from io import StringIO
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_flatten
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, DenseArrayBase, FileLineColLoc, ModuleOp
from xdsl.dialects.func import Func, FuncOp, ReturnOp
from xdsl.parser import Parser
from xdsl.printer import Printer

from dlc import dynamo
from dlc.dialects.torch import AtenOp, Torch
from dlc.dialects.user_outputs import outputs_of
from dlc.frontend.export.fx import import_program, import_sized
from dlc.frontend.export.imported import ImportedProgram
from dlc.frontend.export.sized_program import SizedProgram
from dlc.frontend.scripts.capture import capture_script, capture_text
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.ir.leaves import Output, View
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

LAYER_NORM = """
class LayerNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.w = nn.Parameter(torch.ones(size))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) * torch.rsqrt(var + 1e-5) * self.w
"""


def text_of(module: ModuleOp, generic: bool = False) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def main_of(program: ImportedProgram) -> FuncOp:
    (main,) = program.module.body.ops
    assert isinstance(main, FuncOp)
    return main


def aten_ops(program: ImportedProgram) -> list[AtenOp]:
    return [op for op in main_of(program).body.block.ops if isinstance(op, AtenOp)]


def overloads(program: ImportedProgram) -> list[str]:
    return [op.overload.data for op in aten_ops(program)]


def check_round_trip(module: ModuleOp) -> None:
    context = Context()
    for dialect in (Builtin, Func, Torch):
        context.load_dialect(dialect)
    expected = text_of(module)
    for generic in (False, True):
        parsed = Parser(context, text_of(module, generic)).parse_module()
        parsed.verify()
        assert text_of(parsed) == expected


def execute(program: ImportedProgram, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Runs `@main` with PyTorch's ATen ops on contiguous tensors; results have their strides."""
    block = main_of(program).body.block
    contiguous = [tensor.contiguous() for tensor in inputs]
    env: dict[Any, torch.Tensor] = dict(zip(block.args, contiguous, strict=True))
    for op in block.ops:
        if isinstance(op, ReturnOp):
            results = [env[value] for value in op.operands]
            attributes = main_of(program).res_attrs
            for i, strides in enumerate(a.data.get("dlc.strides") for a in attributes or ()):
                if isinstance(strides, DenseArrayBase):
                    strided = torch.empty_strided(results[i].shape, strides.get_values())
                    results[i] = strided.copy_(results[i])
            return results
        assert isinstance(op, AtenOp)
        name, _, overload = op.overload.data.partition(".")
        target = getattr(getattr(torch.ops.aten, name), overload)
        kwargs: dict[str, Any] = {}
        for argument in target._schema.arguments:
            if (operand := op.operand(argument.name)) is not None:
                kwargs[argument.name] = env[operand]
            elif items := op.operand_list(argument.name):
                kwargs[argument.name] = [None if v is None else env[v] for v in items]
            elif argument.name in op.arguments.data:
                value = op.argument(argument.name)
                is_dtype = argument.name == "dtype"
                kwargs[argument.name] = getattr(torch, str(value)) if is_dtype else value
        results = target(**kwargs)
        if isinstance(results, torch.Tensor):
            results = [results]
        for value, result in zip(op.results, results, strict=True):
            assert list(result.shape) == list(value.type.get_shape())  # type: ignore[attr-defined]
            env[value] = result.contiguous()
    raise AssertionError("@main does not return")


def same(actual: Any, expected: Any, *, to_the_bit: bool = True) -> bool:
    """True if results are equal; or if floats are as close as other operations may bring them."""
    leaves, spec = tree_flatten(actual)
    wanted, wanted_spec = tree_flatten(expected)
    return spec == wanted_spec and all(
        (torch.equal(a, w) or (not to_the_bit and torch.allclose(a, w, 1e-6, 1e-6)))
        and a.dtype == w.dtype
        and a.shape == w.shape
        if isinstance(w, torch.Tensor)
        else a == w
        for a, w in zip(leaves, wanted, strict=True)
    )


def check(function: Any, *args: Any, **kwargs: Any) -> ImportedProgram:
    """
    Imports, round-trips and executes; outputs and mutated inputs must be eager's: with PyTorch's
    own operations, and taken apart as far as dlc wants them.
    """
    check_import(*copy.deepcopy((function, args, kwargs)), DECOMPOSITIONS)
    return check_import(function, args, kwargs, None)


def check_import(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], whole: Container[str] | None
) -> ImportedProgram:
    reference, theirs, their_kwargs = copy.deepcopy((function, args, kwargs))
    program = import_program(function, args, kwargs, whole=whole)
    check_round_trip(program.module)
    assert program.matches(args, kwargs)
    with torch.no_grad():
        expected = reference(*theirs, **their_kwargs)
        bound = program.bind(args, kwargs)
        actual = program.unflatten(execute(program, bound), bound)
    # Batch norm in training is taken apart.
    exactly = whole is None or not getattr(function, "training", False)
    assert same(actual, expected, to_the_bit=exactly)
    assert same((args, kwargs), (theirs, their_kwargs))
    if isinstance(function, nn.Module):
        states = dict(function.state_dict()), dict(reference.state_dict())
        assert same(*states, to_the_bit=exactly)
    return program


def capture(text: str) -> ImportedProgram:
    module, args = capture_text(text)
    return check(module, *args)


def names(program: ImportedProgram) -> list[tuple[str, str]]:
    return [(a.kind, a.name) for a in program.arguments]


# Programs


def test_rms_norm_is_one_op_with_its_attributes() -> None:
    program = check(nn.RMSNorm(8, eps=1e-6), torch.randn(1, 4, 8))
    (op,) = aten_ops(program)
    assert op.overload.data == "rms_norm.default"
    assert op.names == ["input", "weight"]
    assert op.argument("normalized_shape") == [8]
    assert op.argument("eps") == 1e-6
    assert op.argument("absent", 3) == 3
    assert op.operand("bias") is None
    assert names(program) == [("input", "x"), ("parameter", "weight")]


def test_mlp_keeps_qualified_names() -> None:
    class MLP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 16, bias=False)
            self.up = nn.Linear(8, 16, bias=False)
            self.down = nn.Linear(16, 8, bias=False)
            self.unused = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(nn.functional.silu(self.gate(x)) * self.up(x))

    program = check(MLP(), torch.randn(2, 8))
    assert overloads(program) == [
        "linear.default",
        "silu.default",
        "linear.default",
        "mul.Tensor",
        "linear.default",
    ]
    assert names(program) == [
        ("input", "x"),
        ("parameter", "gate.weight"),
        ("parameter", "up.weight"),
        ("parameter", "down.weight"),
    ]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_operations_are_those_of_the_exported_graph() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            a, b = torch.split(x, 2, dim=1)
            y = torch.cat([a, b[:, :1]], dim=1)[i]
            y = torch.einsum("ij,kj->ik", y, y).square_().reshape(4) @ x.new_ones(4, 6)
            y = nn.functional.group_norm(nn.functional.rms_norm(y, (6,)).view(1, 2, 3), 2)
            return nn.functional.gelu(y, approximate="tanh").softmax(-1).clip_(0, 1)

    args = (torch.randn(3, 4), torch.tensor([0, 2]))
    with torch.no_grad():
        exported = torch.export.export(Model(), args).run_decompositions({})
    expected = [
        str(node.target).removeprefix("aten.")
        for node in exported.graph.nodes
        if node.op == "call_function" and node.target is not operator.getitem
    ]
    assert overloads(check(Model(), *args)) == expected


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: torch.softmax(x, -1), (torch.randn(2, 3),)),
        (lambda x: x[:, [2, 0]], (torch.randn(2, 3),)),
        (lambda x: x[..., None, 1:] * float("inf"), (torch.rand(2, 3) + 1,)),
        (lambda x: torch.where(x > 0, x, -torch.inf), (torch.randn(4),)),
        (lambda x: (x.min(dim=0), x.argmax()), (torch.randn(4, 2),)),
        (lambda x, m: x.masked_fill(~m, 0), (torch.randn(4), torch.tensor([True, False] * 2))),
        (lambda x: x.to(torch.bfloat16) * 3, (torch.randn(4),)),
        (lambda x: x // 2 + True, (torch.arange(4, dtype=torch.uint8),)),
        (lambda x: x + torch.arange(3) + torch.full((3,), 0.1), (torch.randn(3),)),
        (lambda x: torch.tril(torch.ones(3, 3)) @ x, (torch.randn(3, 2),)),
        (lambda x: nn.functional.pad(x, (1, 2), value=-1.0), (torch.randn(2, 3),)),
        (lambda x: torch.clamp(x, max=0.5), (torch.randn(3),)),
        (lambda x: torch.stack([x, x * 2]).sum(), (torch.randn(0, 3),)),
        (lambda x: x + torch.tensor([1.0, 2.0]), (torch.randn(2),)),
        (
            lambda x, w: nn.functional.conv1d(x, w, padding=1),
            (torch.ones(1, 2, 5), torch.ones(3, 2, 3)),
        ),
        (lambda x: torch.einsum("ij,kj->ik", x, x), (torch.ones(2, 3),)),
        (lambda x: x.split([1, 2], dim=0)[1].unbind(0), (torch.randn(3, 2),)),
        (eval("lambda x: x + 1", {}), (torch.randn(3),)),  # of no module
    ],
)
def test_functions(function: Any, args: tuple[Any, ...]) -> None:
    check(function, *args)


def test_outputs_of_every_structure() -> None:
    def function(x: torch.Tensor, scale: float, opts: dict[str, Any]) -> Any:
        y = x * scale
        return {"y": y, "again": y, "none": None, "n": 3, "pair": (y.sum(), opts["b"] + 1)}

    program = check(function, torch.randn(3), 2.0, opts={"b": torch.zeros(2), "flag": True})
    assert [a.name for a in program.arguments] == ["x", "opts.b"]
    assert len(program.results) == 3
    assert not program.matches((torch.randn(3), 3.0, {"b": torch.zeros(2), "flag": True}))
    assert program.matches(
        (), {"opts": {"b": torch.zeros(2), "flag": True}, "x": torch.ones(3), "scale": 2.0}
    )
    with pytest.raises(ImportFailure, match="expected a call with arguments of the structure"):
        program.bind((torch.randn(3),))


# Mutation and aliasing


def test_inputs_are_written_back_and_alias_outputs() -> None:
    def function(x: torch.Tensor) -> Any:
        view = x.t()
        x.add_(2)
        view[0] *= 3
        return x, view[1:], x + 1

    x = torch.randn(3, 4)
    program = check(function, x)
    assert [(r.kind, r.name) for r in program.results] == [("mutation", "x"), ("output", "add_1")]
    outputs = [Output("0", "argument", 0), Output("1", "argument", 0, View((3, 3), (1, 4), 1))]
    assert program.outputs[:2] == outputs
    assert outputs_of(main_of(program)) == program.outputs
    bound = program.bind((x,))
    same_x, view, _ = program.unflatten(execute(program, bound), bound)
    assert same_x is x
    assert view.data_ptr() == x.data_ptr() + 4
    assert "dlc.mutates = 0" in text_of(program.module)


def test_a_graph_that_needs_no_decomposition_is_traced_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def traced_again(*args: Any) -> None:
        raise AssertionError("traced again")

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.silu(x.t().reshape(3, 4).flatten().to(torch.float32)).to("cpu", torch.float16)

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", traced_again)
    program = check_import(function, (torch.randn(3, 4),), {}, DECOMPOSITIONS)
    views = ["t.default", "reshape.default", "flatten.using_ints"]
    assert overloads(program) == [*views, "silu.default", "to.dtype"]
    several = check_import(lambda x: x.max(0), (torch.randn(3, 4),), {}, DECOMPOSITIONS)
    assert overloads(several) == ["max.dim"]
    with pytest.raises(ImportFailure, match="traced again"):
        import_program(lambda x: x.add_(1), (torch.randn(3),), whole=DECOMPOSITIONS)


@pytest.mark.parametrize(
    ("view", "aliases"),
    [
        (lambda x: x.reshape(-1), True),
        (lambda x: x.t().reshape(-1), False),
        (lambda x: x.flatten(), True),
        (lambda x: x[1].flatten(), True),
        (lambda x: x.t().flatten(), False),
        (lambda x: x.contiguous(), True),
        (lambda x: x.expand(2, 4, 6)[1, ::2, 1:5], True),
        (lambda x: x.to(torch.float64), False),
        (lambda x: x.chunk(2, dim=1)[1], True),
        (lambda x: x.clone().t(), False),
    ],
)
def test_views_of_inputs_stay_views(view: Any, aliases: bool) -> None:
    x = torch.randn(4, 6)
    program = check(view, x)
    bound = program.bind((x,))
    with torch.no_grad():
        result, expected = program.unflatten(execute(program, bound), bound), view(x)
    (output,) = program.outputs
    assert isinstance(output, Output)
    assert (output.of == "argument") == aliases
    assert (result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == aliases
    assert result.stride() == expected.stride()


def test_buffers_are_written_back() -> None:
    program = check(nn.BatchNorm1d(4), torch.randn(3, 4))
    mutated = {r.name for r in program.results if r.kind == "mutation"}
    assert mutated == {"running_mean", "running_var", "num_batches_tracked"}

    class Cache(nn.Module):
        cache: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(8, 4))

        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            self.cache[at] = x
            return self.cache.sum(0)

    check(Cache(), torch.randn(2, 4), torch.tensor([1, 5]))


def test_a_buffer_that_is_only_written() -> None:
    class Last(nn.Module):
        last: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last.copy_(x)
            return x * 2

    assert ("buffer", "last") in names(check(Last(), torch.randn(4)))


def test_mutated_memory_must_not_be_shared() -> None:
    program = import_program(lambda x, y: x.add_(y), (torch.ones(4), torch.ones(4)))
    x = torch.ones(6)
    with pytest.raises(ImportFailure, match="writes to 'x', which shares memory with 'y'"):
        program.bind((x[:4], x[2:]))


def test_weights_are_shared_with_the_module() -> None:
    layer = nn.Linear(2, 3)
    program = import_program(layer, (torch.ones(1, 2),))
    layer.weight = nn.Parameter(torch.full((3, 2), 7.0))
    assert program.bind((torch.ones(1, 2),))[1] is layer.weight
    assert program.arguments[1].tensor is layer.weight
    layer.weight = nn.Parameter(torch.zeros(4, 2))
    assert not program.matches((torch.ones(1, 2),))


def test_the_training_mode_is_guarded() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    program = import_program(model, (torch.ones(3, 2),))
    assert program.matches((torch.ones(3, 2),))
    model[1].train()
    assert not program.matches((torch.ones(3, 2),))


def test_a_tensor_passed_twice_is_two_arguments() -> None:
    x = torch.randn(3)
    program = check(lambda a, b: a * 2 + b, x, x)
    assert program.matches((torch.randn(3), torch.randn(3)))
    layer = nn.Linear(3, 3, bias=False)
    assert names(check(layer, layer.weight)) == [("input", "input"), ("parameter", "weight")]


def test_a_captured_program_can_be_copied_and_converted() -> None:
    module, (x,) = capture_text("nn.Linear(3, 2)(torch.randn(4, 3))")
    double = copy.deepcopy(module).double()
    with torch.no_grad():
        assert double(x.double()).dtype == torch.float64
        assert module(x).dtype == torch.float32


# Strides, alignment, guards


def test_strides_and_alignment_are_on_the_arguments() -> None:
    base = torch.randn(64)
    program = check(lambda x, y: (x + 1, y.sum()), torch.randn(4, 3).t(), base[1:5])
    text = text_of(program.module)
    assert '{dlc.name = "x", dlc.kind = "input", dlc.strides = array<i64: 1, 3>}' in text
    assert '{dlc.name = "y", dlc.kind = "input", dlc.align = 4 : i64}' in text
    assert "-> (tensor<3x4xf32> {dlc.strides = array<i64: 1, 3>}, tensor<f32>)" in text
    guard = program.guards["y"]
    assert (guard.shape, guard.strides, guard.align) == ((4,), (1,), 4)
    assert program.matches((torch.randn(4, 3).t(), base[:4]))
    assert not program.matches((torch.randn(3, 4), base[:4]))
    assert not program.matches((torch.randn(4, 3).t(), base[:8:2]))
    assert not program.matches((torch.randn(4, 3).t(), base[:4].double()))


def test_less_alignment_does_not_match() -> None:
    program = import_program(lambda x: x + 1, (torch.zeros(8),))
    assert not program.matches((torch.zeros(9)[1:],))


def test_strides_of_extent_one_do_not_matter() -> None:
    program = import_program(lambda x: x + 1, (torch.zeros(1, 4).as_strided((1, 4), (99, 1)),))
    assert "dlc.strides" not in text_of(program.module)
    assert program.matches((torch.zeros(1, 4),))


# Names and places


def helper(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)  # the line of relu


def test_locations_are_the_users_innermost_lines() -> None:
    layer = nn.Linear(2, 2)

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad(), torch.autocast("cpu", enabled=False):
            y = layer(x)
        return helper(y)

    program = check(function, torch.randn(1, 2))
    lines = [op.location for op in aten_ops(program)]
    first = function.__code__.co_firstlineno
    assert all(isinstance(line, FileLineColLoc) for line in lines)
    places = {(loc.filename.data, loc.line.data, loc.column.data): 0 for loc in lines}  # type: ignore
    assert list(places) == [
        (__file__, first + 2, 13),
        (__file__, helper.__code__.co_firstlineno + 1, 5),
    ]
    assert names(program)[1:] == [("parameter", "layer.weight"), ("parameter", "layer.bias")]
    shown = import_program(function, (torch.randn(1, 2),), sources={__file__: "model.py"})
    assert aten_ops(shown)[0].location == FileLineColLoc.new(  # type: ignore[attr-defined]
        [lines[0].filename.__class__("model.py"), lines[0].line, lines[0].column]  # type: ignore
    )


def test_values_are_named_after_the_source() -> None:
    text = text_of(
        import_program(lambda x, y: torch.matmul(x, y).relu(), (torch.ones(2, 2),) * 2).module
    )
    assert "@main(%x: tensor<2x2xf32>" in text
    assert '%matmul = torch.aten "matmul.default"(self = %x, other = %y)' in text


# Errors


def test_all_unsupported_operations_are_named_with_their_lines() -> None:
    def function(x: torch.Tensor) -> Any:
        picked = x[x > 0]
        number = x.argmax().item()
        return picked, x.to(torch.float8_e5m2fnuz), x[:number]

    with pytest.raises(UnsupportedError) as caught:
        import_program(function, (torch.randn(3, 2),))
    text = str(caught.value)
    line = function.__code__.co_firstlineno
    assert text.startswith("error: the program has 3 operations that dlc cannot represent:\n")
    assert f"{__file__}:{line + 1}:9: aten.index.Tensor: its shape u0 depends on data" in text
    assert f"{__file__}:{line + 2}:9: aten.item.default: it returns a SymInt" in text
    assert f"{__file__}:{line + 3}:9: aten._to_copy.default: its dtype" in text
    assert "        picked = x[x > 0]\n        ^" in text


def test_a_step_of_an_optimizer() -> None:
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters())
    model.weight.grad = torch.ones(3, 3)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.step()
        return model(x)

    with pytest.raises(ImportFailure, match="the program steps an optimizer") as caught:
        import_program(step, (torch.ones(3),))
    assert caught.value.place is not None
    assert caught.value.place.text.strip() == "optimizer.step()"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("x * float(x.max())", "makes a Python number of a tensor, .* as x \\* x.max()"),
        ("[x for _ in range(x[0].int())]", "makes a Python number of a tensor"),
        ("x if x.sum() > 0 else -x", "branches on values of a tensor"),
        (
            "nn.LSTM(1, 2)(nn.utils.rnn.pack_padded_sequence(x[:, None, None], x[:1].int()))[0]",
            "as in packed sequences on lengths",
        ),
    ],
)
def test_values_of_a_tensor(line: str, sentence: str) -> None:
    module, args = capture_text(f"x = torch.ones(3)\n{line}")
    with pytest.raises(ImportFailure, match=sentence):
        import_program(module, args)


def test_what_depends_on_data_has_a_hint() -> None:
    with pytest.raises(UnsupportedError, match=r"error: aten.nonzero.default: .*") as caught:
        import_program(torch.nonzero, (torch.randn(3),))
    assert caught.value.__notes__[0].startswith("hint: keep all elements, as torch.where(mask, x")
    assert str(caught.value).count("error: ") == 1


def test_control_flow_on_data() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return x + 1

    with pytest.raises(ImportFailure, match="branches on values of a tensor") as caught:
        import_program(branch, (torch.randn(3),))
    assert caught.value.place is not None
    assert caught.value.place.line == branch.__code__.co_firstlineno + 1


def test_what_the_program_raises_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ImportFailure, match=r"RuntimeError: a and b must have same reduction dim"):
        import_program(lambda x: x @ x, (torch.randn(2, 3),))
    with pytest.raises(ImportFailure, match=r"other arguments: it takes no 'lft'") as caught:
        import_program(lambda x, left: x + left, (torch.ones(2),), {"lft": torch.ones(2)})
    assert caught.value.__notes__ == ["hint: did you mean left?"]
    with pytest.raises(ImportFailure, match=r"class numpy.ndarray, .* give torch.from_numpy"):
        import_program(lambda x: x, (torch.ones(2).numpy(),))
    for args in ((), (torch.ones(2), torch.ones(2))):
        with pytest.raises(ImportFailure, match=r"called with other arguments: (missing|too many)"):
            import_program(lambda x: x.exp(), args)
    with pytest.raises(UnsupportedError, match=r"input 'x': its dtype is torch.float8_e5m2fnuz"):
        import_program(lambda x: x.clone(), (torch.ones(2).to(torch.float8_e5m2fnuz),))
    assert capfd.readouterr() == ("", "")


def test_what_the_program_raises_is_told_at_the_operator() -> None:
    """The innermost operator, method or function of the user's that failed, also across lines."""
    for text, line, marked in (
        ("torch.randn(2, 2) + torch.randn(2, 3) @ torch.randn(4, 5)", 1, "@ torch"),
        ("torch.randn(3, 5).relu().view(7) + 1", 1, "view"),
        ("torch.randn(3).exp() + torch.cat([torch.randn(3, 5), torch.randn(3)])", 1, "torch.cat"),
        ("torch.randn(3, 5).relu()[:, 7]", 1, "[:"),
        ("é = torch.randn(3)\n(é.relu() +\n  (é.exp()\n   @ torch.randn(2)))", 4, "@ torch"),
        ("torch.randn(3).relu().rleu()", 1, "rleu"),
    ):
        with pytest.raises(ImportFailure) as caught:
            capture(text)
        place = caught.value.place
        assert place is not None
        assert place.line == line
        assert place.text[place.column - 1 :].startswith(marked), (text, place)
    with pytest.raises(ImportFailure) as caught:
        import_program(lambda é, x: (é + 1) * 2 + x.view(7), (torch.randn(3), torch.randn(3)))
    assert caught.value.place is not None
    assert caught.value.place.text[caught.value.place.column - 1 :].startswith("x.view(7)")
    # A function that dlc has a stand-in for.
    text = (
        "x = torch.randn(9, 2, 6)\nx.sum() + F.ctc_loss(x, torch.ones(3, 5).long(), [9, 9], [5, 4])"
    )
    with pytest.raises(ImportFailure) as caught:
        capture(text)
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (2, 11)


# Text and scripts


def test_text_of_one_module_call() -> None:
    program = capture("torch.nn.RMSNorm(8)(torch.randn(1, 4, 8))")
    assert overloads(program) == ["rms_norm.default"]
    assert names(program) == [("input", "x"), ("parameter", "weight")]
    location = aten_ops(program)[0].location
    assert isinstance(location, FileLineColLoc)
    assert (location.filename.data, location.line.data) == ("<command>", 1)
    assert names(capture("nn.Softmax(dim=-1)(torch.randn(2, 4))")) == [("input", "input")]


def test_text_of_an_expression() -> None:
    program = capture(
        "torch.relu(torch.matmul(torch.randn(16, 64) + torch.randn(64), torch.randn(64, 16)))"
    )
    assert overloads(program) == ["add.Tensor", "matmul.default", "relu.default"]
    assert names(program) == [("input", "x"), ("input", "y"), ("input", "z")]


def test_text_with_a_class() -> None:
    program = capture(LAYER_NORM + "\nLayerNorm(16)(torch.randn(2, 16))")
    assert names(program) == [("input", "x"), ("parameter", "w")]
    lines = {op.location.line.data for op in aten_ops(program)}  # type: ignore[attr-defined]
    assert lines == {8, 9, 10}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mlp = nn.Linear(4, 3)\nmlp(torch.randn(2, 4)) + 1", ["input", "mlp.weight", "mlp.bias"]),
        ("nn.Linear(4, 3)(torch.randn(2, 4)).sum()", ["input", "linear.weight", "linear.bias"]),
        (
            "m = nn.Sequential(nn.Linear(4, 3))\nm[0](torch.randn(4))",
            ["input", "m.0.weight", "m.0.bias"],
        ),
        (
            "m = nn.Linear(4, 4).eval()\nm.eval()(m(torch.randn(4)))",
            ["input", "m.weight", "m.bias"],
        ),
        (
            "nn.Bilinear(3, 4, 5)(input2=torch.randn(4), input1=torch.randn(3))",
            ["input2", "input1", "weight", "bias"],
        ),
        ("def f(a, *, b): return a * b\nf(torch.randn(3), b=torch.randn(3))", ["a", "b"]),
        ("(lambda p, q: p @ q)(torch.randn(3), torch.randn(3))", ["p", "q"]),
        (
            "m = nn.Linear(2, 2)\nw = torch.ones(2)\ndef f(x): return m(x) + w\nf(torch.randn(2))",
            ["x", "m.weight", "m.bias", "w"],
        ),
        (
            "w = nn.Parameter(torch.randn(2))\nc = torch.arange(2)\nx = torch.randn(2)\nx * w + c",
            ["x", "w", "c"],
        ),
        ("d = {'a': torch.randn(2), 'n': 3}\ndef f(a, n): return a * n\nf(**d)", ["d.a"]),
        ("d = {'a': torch.randn(2)}\nd['a'].sum()", ["d_a"]),
        ("xs = [torch.randn(2), torch.randn(2)]\ntorch.cat([x + 1 for x in xs])", ["xs.0", "xs.1"]),
        ("torch.cat([torch.randn(2) for _ in range(2)])", ["x.0", "x.1"]),
        ("x = torch.randn(3)\nx + torch.randn_like(x)", ["x", "y"]),
        ("F.embedding(torch.randint(0, 5, (2,)), torch.randn(5, 4))", ["input", "weight"]),
        ("torch.zeros(3) + torch.tril(torch.ones(3, 3))", ["x", "y"]),
        ("x = torch.randn(3)\n{'sum': x.sum(), 'pair': (x + 1, x.numel(), None)}", ["x"]),
        ("torch.testing.make_tensor((2,), dtype=torch.int32, device='cpu') + 1", ["x"]),
        ("x = torch.randn(4)\nx.add_(1)", ["x"]),
        ("import math as m\nx = torch.randn(4)\nx * m.pi if x.dim() else x", ["x"]),
        ("torch.randn(4, 8).t()", ["x"]),
        (
            "torch.nn.BatchNorm1d(2)(torch.randn(3, 2))",
            ["input", "num_batches_tracked", "weight", "bias", "running_mean", "running_var"],
        ),
    ],
)
def test_inputs_and_held_tensors_have_the_names_of_the_text(text: str, expected: list[str]) -> None:
    assert [a.name for a in capture(text).arguments] == expected


def test_deterministic_creation_stays_in_the_graph() -> None:
    program = capture("torch.where(torch.ones(3, 3).tril().bool(), torch.randn(3, 3), -math.inf)")
    assert overloads(program) == [
        "ones.default",
        "tril.default",
        "_to_copy.default",
        "where.ScalarOther",
    ]
    assert len(program.arguments) == 1


def test_layout_of_a_creation_belongs_to_the_input() -> None:
    program = capture("torch.randn(8, 4).t()[1:].relu()")
    assert overloads(program) == ["relu.default"]
    assert program.guards["x"].strides == (1, 4)
    program = capture("x = torch.randn(8, 4)\nx.t().relu() + x.T")
    assert overloads(program) == ["t.default", "relu.default", "permute.default", "add.Tensor"]


def test_text_runs_under_a_seed() -> None:
    _, (first,) = capture_text("torch.randn(4).relu()")
    _, (second,) = capture_text("torch.randn(4).relu()")
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "torch.relu(",
            r"<command>:1:11: error: SyntaxError: '\(' was never closed\ntorch.relu\(\n {10}\^$",
        ),
        (
            "x = 1\ny = x / 0\ny",
            r"<command>:2:7: error: ZeroDivisionError: division by zero\ny = x / 0\n {6}\^$",
        ),
        (
            "torch.relu(undefined)",
            r"<command>:1:12: error: NameError: name 'undefined' is not defined",
        ),
        ("", "expected a program: an expression that computes tensors, found no statement"),
        (
            "x = torch.randn(3)",
            "expected statements that compute tensors from tensors, such as .*; found none",
        ),
        (
            "nn.Linear(2, 3)",
            "expected the last expression to compute .*, found a module, Linear; call it",
        ),
        ("torch.randn(3)", "found only tensors that are made at random; apply an operation"),
        ("3 + 4", "found a value of type int"),
        ("def f(): return torch.randn(3)\nf()", "found only tensors that are made at random"),
    ],
)
def test_errors_in_text(text: str, message: str) -> None:
    with pytest.raises(ImportFailure, match=message):
        capture_text(text)


def test_errors_in_the_program_point_into_the_text() -> None:
    module, args = capture_text("def f(x):\n    return x.undefined\nf(torch.randn(3))")
    with pytest.raises(ImportFailure, match=r"<command>:2:12: error: .*AttributeError"):
        import_program(module, args)


def test_scripts(tmp_path: Any) -> None:
    path = tmp_path / "norm.py"
    path.write_text(
        f"import torch\nimport torch.nn as nn\n{LAYER_NORM}\n"
        "norm = LayerNorm(4)\nnorm(torch.randn(2, 4))\n"
    )
    module, args = capture_script(path)
    program = check(module, *args)
    location = aten_ops(program)[0].location
    assert isinstance(location, FileLineColLoc)
    assert (location.filename.data, location.line.data) == (str(path), 10)
    with pytest.raises(ImportFailure, match="expected a Python script: cannot read"):
        capture_script(tmp_path / "absent.py")


# torch.compile


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[ImportedProgram]:
    """The programs that dlc imports to compile them."""
    from dlc import importing

    programs: list[ImportedProgram] = []

    def import_one(*args: Any, **options: Any) -> ImportedProgram:
        programs.append(import_program(*args, **options))
        return programs[-1]

    def import_many(*args: Any, **options: Any) -> ImportedProgram | SizedProgram:
        program = import_sized(*args, **options)
        programs.append(program.general if isinstance(program, SizedProgram) else program)
        return program

    monkeypatch.setattr(importing, "import_program", import_one)
    monkeypatch.setattr(importing, "import_sized", import_many)
    torch._dynamo.reset()
    return programs


class Step(nn.Module):
    last: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 8, bias=False)
        self.norm = nn.RMSNorm(8)
        self.register_buffer("last", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> Any:
        y = self.norm(nn.functional.silu(self.gate(x)))
        y += 1
        self.last.copy_(y[0])
        return y, x.shape[0]


def test_torch_compile_follows_shapes_and_strides(imported: list[ImportedProgram]) -> None:
    model = Step()
    reference = copy.deepcopy(model)
    compiled = torch.compile(model, backend=dynamo.backend)
    inputs = [torch.randn(2, 4), torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 4)]
    inputs += [torch.randn(4, 5).t(), torch.randn(21)[1:].view(5, 4)]
    with torch.no_grad():
        for x in inputs:
            torch.testing.assert_close(compiled(x), reference(x))  # another order of summation
            torch.testing.assert_close(model.last, reference.last)
    assert len(imported) == 4
    assert "rms_norm.default" in overloads(imported[0])
    assert set(imported[0].guards) == {"gate_weight", "x", "norm_weight", "last"}
    location = aten_ops(imported[0])[0].location
    assert isinstance(location, FileLineColLoc)
    assert location.filename.data == __file__


def test_torch_compile_with_a_graph_break(imported: list[ImportedProgram]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    x = torch.randn(3)
    assert torch.equal(torch.compile(function, backend=dynamo.backend)(x), x * 2 + 1)
    assert [overloads(program) for program in imported] == [["mul.Tensor"], ["add.Tensor"]]
