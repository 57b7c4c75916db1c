"""How calls map to `@main`, and the tensors that a program holds, as JSON and bytes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from keyword import iskeyword
from typing import Any, Literal, NoReturn, cast, get_args

import torch
from torch.utils._pytree import TreeSpec, treespec_dumps, treespec_loads
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from dlc.backend import BackendError
from dlc.backend.dtypes import user_dtype, user_shape
from dlc.diagnostics import with_hint
from dlc.dialects.main_function import attributes_of, main_of
from dlc.dialects.user_outputs import outputs_of
from dlc.frontend.arguments import Argument, Kind
from dlc.frontend.aten.draws import fresh_state
from dlc.frontend.calls import Calls
from dlc.frontend.export.imported import ImportedProgram, Result
from dlc.frontend.guard import Guard
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.ambient import FLAGS, Ambient
from dlc.frontend.state.free_variables import FreeVariables
from dlc.frontend.state.module_attributes import ModuleAttributes
from dlc.ir.span import span
from dlc.saved.entries import Entry, EntryError
from dlc.target import WIDEST_ACCESS

PLAIN = (int, float, bool, str, type(None))
ALIGNMENTS = (1, 2, 4, 8, WIDEST_ACCESS)
PARAMETER_KINDS = tuple(kind.name for kind in type(inspect.Parameter.POSITIONAL_ONLY))


def call_to_json(
    program: ImportedProgram, file_of: Callable[[torch.Tensor], str]
) -> dict[str, Any]:
    """BackendError for a call or a result with what JSON has no form for."""
    try:
        specs = [treespec_dumps(spec) for spec in (program.input_spec, program.output_spec)]
    except (NotImplementedError, TypeError, ValueError) as error:
        raise BackendError(f"cannot save the structure of a call: {error}") from None
    if outputs_of(main_of(program.module)) != program.outputs:
        raise BackendError(
            "cannot save what the program returns: beside tensors it may be numbers, strings, None"
        )
    return {
        "arguments": [_argument_to_json(argument, file_of) for argument in program.arguments],
        "results": [asdict(result) for result in program.results],
        "input_spec": specs[0],
        "output_spec": specs[1],
        "constants": {str(leaf): _plain(value) for leaf, value in program.constants.items()},
        "default_dtype": str(program.ambient.default_dtype).removeprefix("torch."),
        "autocast": {
            device: str(dtype).removeprefix("torch.") for device, dtype in program.ambient.autocast
        },
        "answers": dict(program.ambient.answers),
        "signature": [
            {"name": p.name, "kind": p.kind.name, "optional": p.default is not p.empty}
            for p in program.calls.signature.parameters.values()
        ],
    }


def call_from_json(
    call: Entry, module: ModuleOp, tensors: Mapping[int, torch.Tensor]
) -> ImportedProgram:
    """
    The program, with `tensors` for the arguments that are no inputs, by their numbers. EntryError
    where an entry is not what it is to be, or does not fit `@main`.
    """
    main = main_of(module)
    outputs = outputs_of(main)
    input_spec, output_spec = _spec(call["input_spec"]), _spec(call["output_spec"])
    if output_spec.num_leaves != len(outputs):
        call["output_spec"].fail(f"the structure of {len(outputs)} outputs")
    leaves = input_spec.num_leaves
    signature = [_parameter(given) for given in call["signature"]]
    try:
        signed = inspect.Signature(signature)
    except ValueError as error:
        raise EntryError(f"expected {call['signature'].place} to be a signature: {error}") from None
    count = len(main.body.block.args)
    arguments = [_argument(given, main, leaves, tensors) for given in call["arguments"]]
    if [argument.index for argument in arguments] != list(range(count)):
        call["arguments"].fail(f"the {count} arguments of @main")
    results = [_result(given, len(arguments), main) for given in call["results"]]
    if len(results) != len(main.function_type.outputs):
        call["results"].fail(f"{len(main.function_type.outputs)} results")
    return ImportedProgram(
        module=module,
        arguments=arguments,
        results=results,
        outputs=outputs,
        output_spec=output_spec,
        input_spec=input_spec,
        constants=dict(_constant(*given, leaves) for given in call["constants"].members()),
        calls=Calls(signed),
        eager=absent,
        attributes=ModuleAttributes(),
        free=FreeVariables(),
        ambient=Ambient(
            tuple((device, _dtype(dtype)) for device, dtype in call["autocast"].members()),
            _dtype(call["default_dtype"]),
            tuple(_flag(*given) for given in call["answers"].members()),
        ),
        root=torch.nn.Module(),
    )


def _dtype(given: Entry) -> torch.dtype:
    dtype = getattr(torch, given.text(), None)
    if not isinstance(dtype, torch.dtype):
        given.fail("a dtype of PyTorch")
    return dtype


def _flag(name: str, answer: Entry) -> tuple[str, bool]:
    if name not in FLAGS:
        answer.fail(f"the answer of one of {', '.join(FLAGS)}")
    return name, answer.truth()


def _spec(given: Entry) -> TreeSpec:
    text = given.text()
    try:
        return treespec_loads(text)
    except Exception as error:  # PyTorch has no error of its own for a text that is no structure
        raise EntryError(f"expected {given.place} to be a structure of PyTorch: {error}") from None


def _constant(key: str, value: Entry, leaves: int) -> tuple[int, object]:
    if type(value.value) not in PLAIN:
        value.fail("a number, a text, true, false or null")
    if not key.isascii() or not key.isdigit() or int(key) >= leaves:
        raise EntryError(f"expected {value.place} to be the value of one of {leaves} leaves")
    return int(key), value.value


def _result(given: Entry, arguments: int, main: func.FuncOp) -> Result:
    number = given["index"].integer(len(main.function_type.outputs))
    kind = cast(Literal["output", "mutation"], given["kind"].one_of(("output", "mutation")))
    argument = given["argument"].optional_integer(arguments)
    if (argument is not None) != (kind == "mutation"):
        given["argument"].fail("the number of an argument of a mutation")
    return Result(number, given["name"].text(), kind, argument, _device(given["device"]))


def _device(given: Entry) -> str | None:
    if given.value is None:
        return None
    try:
        return str(torch.device(given.text()))
    except RuntimeError:
        given.fail("a device of PyTorch or null")


def absent(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for the PyTorch program that a loaded one was compiled from."""
    raise ImportFailure(
        "the program was loaded from a file, which holds its kernels and not its source: call it "
        "without gradients and outside of other programs, or compile it from its source"
    )


def not_held(programs: Sequence[ImportedProgram]) -> ImportFailure:
    """The error of a call for which a loaded program has no kernels."""
    error = ImportFailure(
        "the program was loaded from a file, which has no kernels for such a call; call it as it "
        "was called before it was saved, with the same autocast, or compile it from its source"
    )
    most = 4
    calls = list(dict.fromkeys(map(_shown, programs)))
    shown = calls[:most] + ["…"] * (len(calls) > most)
    return with_hint(error, f"it was called with {'; or '.join(shown)}")


def _shown(program: ImportedProgram) -> str:
    inputs = [f"{a.name}: {a.guard}" for a in program.arguments if a.kind == "input"]
    return ", ".join([*inputs, *map(repr, program.constants.values())]) or "no arguments"


def tensor_to_bytes(tensor: torch.Tensor) -> bytes:
    """The memory from the first element to the last."""
    size = span(tensor.shape, tensor.stride())
    memory = tensor.detach().as_strided((size,), (1,)).cpu()
    return memory.view(torch.uint8).numpy().tobytes()


def tensor_of_bytes(content: bytes, guard: Guard, device: torch.device) -> torch.Tensor:
    """The tensor of the guard's shape, dtype and strides in such memory; EntryError if it is not
    of that size."""
    if len(content) != (expected := span(guard.shape, guard.strides) * guard.dtype.itemsize):
        raise EntryError(f"expected {expected} bytes for a tensor, found {len(content)}")
    memory = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0)
    return memory.to(device).view(guard.dtype).as_strided(guard.shape, guard.strides)


def _argument_to_json(argument: Argument, file_of: Callable[[torch.Tensor], str]) -> dict[str, Any]:
    guard = argument.guard
    tensor = None if argument.kind == "random" else argument.tensor  # which would be drawn
    return {
        "bytes": None if tensor is None else file_of(tensor),
        "index": argument.index,
        "name": argument.name,
        "kind": argument.kind,
        "leaf": argument.leaf,
        "shape": list(guard.shape),
        "dtype": str(guard.dtype).removeprefix("torch."),
        "strides": list(guard.strides),
        "align": guard.align,
        # What the program holds is in the file as it was.
        "requires_grad": guard.requires_grad if argument.kind == "input" else None,
        "device": str(guard.device) if argument.kind == "input" and guard.device else None,
        "offset": guard.offset if argument.kind == "input" else None,
    }


def guard_of(given: Entry, main: func.FuncOp) -> Guard:
    """The guard of an argument in JSON, which is that of `@main`; else EntryError."""
    number = given["index"].integer(len(main.body.block.args))
    type = main.body.block.args[number].type
    dtype = user_dtype(type, attributes_of(main)[number])
    stated = f"torch.{given['dtype'].text()}"
    shape, strides = given["shape"].integers(), given["strides"].integers()
    own = user_shape(type, dtype)
    if (shape, stated) != (own, str(dtype)) or len(strides) != len(shape):
        given.fail(f"{dtype} {list(own)}, as argument {number} of @main is")
    align = given["align"].integer()
    if align not in ALIGNMENTS:
        given["align"].fail(f"one of {', '.join(map(str, ALIGNMENTS))}")
    device = _device(given["device"])
    asked = None if device is None else torch.device(device)
    offset = None if (stated := given["offset"]).value is None else stated.integer()
    return Guard(shape, dtype, strides, align, _answer(given["requires_grad"]), asked, offset)


def _answer(given: Entry) -> bool | None:
    return None if given.value is None else given.truth()


def _argument(
    given: Entry, main: func.FuncOp, leaves: int, tensors: Mapping[int, torch.Tensor]
) -> Argument:
    guard, number = guard_of(given, main), given["index"].value
    name, kind = given["name"].text(), cast(Kind, given["kind"].one_of(get_args(Kind)))
    leaf = given["leaf"].optional_integer(leaves)
    if (leaf is not None) != (kind == "input"):
        given["leaf"].fail("the number of an input's leaf")
    fetch = None if kind == "input" else partial(tensors.__getitem__, number)
    if kind == "random":
        fetch = fresh_state
        if not guard.holds(torch.zeros(2, dtype=torch.int64)):
            given["kind"].fail("another kind of tensor, as seed and offset are two i64")
    return Argument(number, name, kind, guard, leaf, fetch)


def _parameter(given: Entry) -> inspect.Parameter:
    default = None if given["optional"].truth() else inspect.Parameter.empty
    kind = getattr(inspect.Parameter, given["kind"].one_of(PARAMETER_KINDS))
    name = given["name"].text()
    if not name.isidentifier() or iskeyword(name):
        given["name"].fail("the name of a parameter")
    return inspect.Parameter(name, kind, default=default)


def _plain(value: object) -> object:
    if type(value) not in PLAIN:
        raise BackendError(
            f"cannot save the value {value!r} of a call: expected a number, a string or None, "
            f"found an object of {type(value)}"
        )
    return value
