"""How calls map to `@main`, and the tensors that a program holds, as JSON and bytes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NoReturn

import torch
from torch.utils._pytree import treespec_dumps, treespec_loads
from xdsl.dialects.builtin import ModuleOp

from dlc.backend import BackendError
from dlc.dialects.host import main_of
from dlc.dialects.user_outputs import outputs_of
from dlc.frontend.imported import Argument, Guard, ImportedProgram, Result
from dlc.frontend.module_attributes import ModuleAttributes
from dlc.frontend.source import ImportFailure

PLAIN = (int, float, bool, str, type(None))


def call_to_json(program: ImportedProgram) -> dict[str, Any]:
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
        "arguments": [_argument_to_json(argument) for argument in program.arguments],
        "results": [asdict(result) for result in program.results],
        "input_spec": specs[0],
        "output_spec": specs[1],
        "constants": {str(leaf): _plain(value) for leaf, value in program.constants.items()},
        "signature": [
            {"name": p.name, "kind": p.kind.name, "optional": p.default is not p.empty}
            for p in program.signature.parameters.values()
        ],
    }


def call_from_json(
    call: Mapping[str, Any], module: ModuleOp, tensors: Mapping[int, torch.Tensor]
) -> ImportedProgram:
    """The program, with `tensors` for the arguments that are no inputs, by their numbers."""
    return ImportedProgram(
        module=module,
        arguments=[_argument(given, tensors.get(given["index"])) for given in call["arguments"]],
        results=[Result(**result) for result in call["results"]],
        outputs=outputs_of(main_of(module)),
        output_spec=treespec_loads(call["output_spec"]),
        input_spec=treespec_loads(call["input_spec"]),
        constants={int(leaf): value for leaf, value in call["constants"].items()},
        signature=inspect.Signature([_parameter(given) for given in call["signature"]]),
        eager=absent,
        attributes=ModuleAttributes(),
    )


def absent(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for the PyTorch program that a loaded one was compiled from."""
    raise ImportFailure(
        "the program was loaded from a file, which holds kernels for the calls that it was saved "
        "with only: call it so, without gradients, or compile it from its source"
    )


def tensor_to_bytes(tensor: torch.Tensor) -> bytes:
    """The memory from the first element to the last."""
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    memory = tensor.detach().as_strided((span if tensor.numel() else 0,), (1,)).cpu()
    return memory.view(torch.uint8).numpy().tobytes()


def tensor_of_bytes(content: bytes, guard: Guard, device: torch.device) -> torch.Tensor:
    """The tensor of the guard's shape, dtype and strides in such memory."""
    memory = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0)
    return memory.to(device).view(guard.dtype).as_strided(guard.shape, guard.strides)


def _argument_to_json(argument: Argument) -> dict[str, Any]:
    guard = argument.guard
    return {
        "index": argument.index,
        "name": argument.name,
        "kind": argument.kind,
        "leaf": argument.leaf,
        "shape": list(guard.shape),
        "dtype": str(guard.dtype).removeprefix("torch."),
        "strides": list(guard.strides),
        "align": guard.align,
    }


def guard_of(given: Mapping[str, Any]) -> Guard:
    """The guard of an argument in JSON."""
    dtype = getattr(torch, given["dtype"], None)
    if not isinstance(dtype, torch.dtype):
        raise BackendError(f"expected a dtype of torch, found '{given['dtype']}'")
    return Guard(tuple(given["shape"]), dtype, tuple(given["strides"]), given["align"])


def _argument(given: Mapping[str, Any], tensor: torch.Tensor | None) -> Argument:
    fetch: Callable[[], torch.Tensor] | None = None if tensor is None else lambda: tensor
    kind, leaf = given["kind"], given["leaf"]
    return Argument(given["index"], given["name"], kind, guard_of(given), leaf, fetch)


def _parameter(given: Mapping[str, Any]) -> inspect.Parameter:
    default = None if given["optional"] else inspect.Parameter.empty
    kind = getattr(inspect.Parameter, given["kind"])
    return inspect.Parameter(given["name"], kind, default=default)


def _plain(value: object) -> object:
    if type(value) not in PLAIN:
        raise BackendError(
            f"cannot save the value {value!r} of a call: expected a number, a string or None, "
            f"found an object of {type(value)}"
        )
    return value
