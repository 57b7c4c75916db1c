"""An imported program: what `@main` takes and returns, in terms of the user's own call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.utils._pytree import TreeSpec, tree_unflatten

from dlc.frontend.arguments import Argument, check_overlaps, tensor_of
from dlc.frontend.calls import Calls
from dlc.frontend.guard import Guard
from dlc.frontend.pairs import pairs_of
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.ambient import Ambient
from dlc.frontend.state.constants import same_constant
from dlc.frontend.state.free_variables import FreeVariables
from dlc.frontend.state.function_module import FunctionModule
from dlc.frontend.state.held_tensors import Held, HeldTensors
from dlc.frontend.state.module_attributes import ModuleAttributes
from dlc.ir.leaves import Leaf, returned_leaves

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Result:
    """Result `index` of `@main`: an output, or the new value of the argument called `name`."""

    index: int
    name: str
    kind: Literal["output", "mutation"]
    argument: int | None = None
    """The index of the mutated argument."""
    device: str | None = None
    """Where it is whatever the call's tensors are on; None for where those are."""


@dataclass(frozen=True, eq=False)
class ImportedProgram:
    """
    A module with the Torch IR of a program as `@main`, and how the user's calls map to it.

    `@main`'s arguments carry `dlc.name` (the name in the source, or the qualified name of a
    parameter, buffer or constant), `dlc.kind`, `dlc.draws` (how many places of the generator a
    call takes, where it is seed and offset), `dlc.strides` (of all dimensions, in elements) where
    the tensor is not contiguous, `dlc.align` (bytes) where the address is not a multiple of 16, and
    `dlc.bounds` (the least and the largest, and others beside) where the elements are indices.
    Its results carry `dlc.strides` where eager's tensor is not contiguous, and `dlc.mutates` (the
    index of the argument) where the result is to be written back. `dlc.outputs` says what the user
    gets where that is not just the other results: see `dlc/dialects/user_outputs.py`.
    """

    module: ModuleOp
    arguments: list[Argument]
    results: list[Result]
    outputs: list[Leaf]
    """The leaves of the user's output."""
    output_spec: TreeSpec
    input_spec: TreeSpec
    constants: Mapping[int, object]
    """The leaves of the call that are no tensors: the program is specialised to their values."""
    calls: Calls
    eager: Callable[..., Any]
    """The program as PyTorch runs it."""
    attributes: ModuleAttributes
    """What the code of the modules has read of them: the program is specialised to it."""
    free: FreeVariables
    """The constants among what its code finds in closures and globals."""
    ambient: Ambient
    """PyTorch's own state, to which it is specialised, too."""
    root: torch.nn.Module
    """The module that was exported, by whose names tensors are known."""

    @contextmanager
    def as_called(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        """
        What the program reads beside its inputs is in here what it was specialised to: PyTorch's
        state, attributes of modules, and their tensors, which are those of `tensors`.
        ImportFailure where an attribute cannot be set.
        """
        with ExitStack() as stack:
            stack.enter_context(self.ambient.restored())
            stack.enter_context(self.attributes.restored())
            stack.enter_context(self.free.restored())
            if isinstance(self.root, FunctionModule):
                self.root.follow()
            for argument, tensor in zip(self.arguments, tensors, strict=True):
                held = argument.fetch
                if isinstance(held, Held) and held() is not tensor:
                    stack.enter_context(held.put(tensor))
            yield

    def call_of(self, inputs: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The user's call with such tensors, in the order of `@main`, which takes others, too."""
        leaves = dict(self.constants)
        for argument, tensor in zip(self.arguments, inputs, strict=True):
            if argument.leaf is not None:
                leaves[argument.leaf] = tensor
        return tree_unflatten([leaves[n] for n in range(len(leaves))], self.input_spec)

    @property
    def call(self) -> str:
        """The sizes of its first inputs, and its numbers."""
        inputs, most = [a for a in self.arguments if a.kind == "input"], 6
        words = [f"{a.name} {list(a.guard.shape)}" for a in inputs[:most]]
        words += ["…"] if len(inputs) > most else []
        return ", ".join([*words, *(repr(value) for value in self.constants.values())])

    @property
    def guards(self) -> dict[str, Guard]:
        """The guard of every tensor input, by name."""
        return {a.name: a.guard for a in self.arguments if a.kind == "input"}

    def matches(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> bool:
        """True if the program was specialised to calls with such arguments."""
        return self.tensors_of(args, kwargs) is not None

    def is_present(self) -> bool:
        """True if the modules have the attributes and tensors that the program is for."""
        return self.attributes.hold() and self.free.hold() and self._held.tensors() is not None

    def tensors_of(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> list[torch.Tensor] | None:
        """
        The tensors of `@main`'s arguments for a call: inputs from the call, the others from the
        module as they are now. None if the program was not specialised to what such a call means;
        cheap enough per call.
        """
        leaves, spec = self.calls.flatten(args, kwargs)
        if spec != self.input_spec or not self.ambient.holds():
            return None
        for leaf, value in self.constants.items():
            if not same_constant(leaves[leaf], value):
                return None
        if not self.attributes.hold() or not self.free.hold():
            return None
        if isinstance(self.root, FunctionModule):
            self.root.follow()
        held = self._held.tensors()
        if held is None:
            return None
        bound: list[torch.Tensor] = []
        for argument in self.arguments:
            if (tensor := held.get(argument.index)) is None:
                tensor = tensor_of(argument, leaves, self.written)
                if not isinstance(tensor, torch.Tensor) or not argument.guard.holds(tensor):
                    return None
                tensor = pairs_of(tensor)
            bound.append(tensor)
        return bound

    @cached_property
    def _held(self) -> HeldTensors:
        """What `tensors_of` finds without the call."""
        held = [a for a in self.arguments if isinstance(a.fetch, Held)]
        return HeldTensors({a.index: (a.fetch, a.guard) for a in held if isinstance(a.fetch, Held)})

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> list[torch.Tensor]:
        """
        The same without a look at what the program was specialised to. ImportFailure if the call
        has another structure than the imported one, or as `check_overlaps` says.
        """
        bound = [pairs_of(tensor) for tensor in self.user_tensors(args, kwargs)]
        self.check_overlaps(bound)
        return bound

    def user_tensors(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> list[torch.Tensor]:
        """The tensors that a call and the module have for the arguments, complex ones as such."""
        leaves, spec = self.calls.flatten(args, kwargs)
        if spec != self.input_spec:
            raise ImportFailure(
                f"expected a call with arguments of the structure {self.input_spec}, found {spec}"
            )
        return [tensor_of(argument, leaves, self.written) for argument in self.arguments]

    def check_overlaps(self, bound: Sequence[torch.Tensor]) -> None:
        """ImportFailure if a tensor that is written to overlaps another."""
        check_overlaps(self.arguments, self.written, bound)

    @cached_property
    def written(self) -> list[int]:
        """The arguments that the program writes to."""
        return [result.argument for result in self.results if result.argument is not None]

    @cached_property
    def _elsewhere(self) -> Mapping[int, torch.device]:
        """The devices of results that do not follow the call's tensors."""
        return {r.index: torch.device(r.device) for r in self.results if r.device is not None}

    def unflatten(self, results: Sequence[torch.Tensor], bound: Sequence[torch.Tensor]) -> Any:
        """The user's output from `@main`'s results; writes mutated arguments back first."""
        if any(result.argument is not None for result in self.results):
            with torch.no_grad():
                for result in self.results:
                    if result.argument is not None:
                        mutated, made = bound[result.argument], results[result.index]
                        if mutated.data_ptr() == made.data_ptr():
                            torch.autograd.graph.increment_version(mutated)  # updated in place
                        else:
                            mutated.copy_(made)
        if self._elsewhere:
            results = list(results)
            for number, device in self._elsewhere.items():
                results[number] = results[number].to(device)
        leaves = returned_leaves(self.outputs, results, bound)
        return tree_unflatten(leaves, self.output_spec)
