"""An imported program: what `@main` takes and returns, in terms of the user's own call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from xdsl.dialects.builtin import ModuleOp

from dlc.dialects.user_outputs import Constant, Leaf
from dlc.frontend.ambient import Ambient
from dlc.frontend.constants import same_constant
from dlc.frontend.free_variables import FreeVariables
from dlc.frontend.function_module import FunctionModule
from dlc.frontend.module_attributes import ModuleAttributes
from dlc.frontend.pairs import is_lazy, pairs_of, resolved
from dlc.frontend.source import ImportFailure
from dlc.target import WIDEST_ACCESS

_WITH_MEMORY = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors whose address is their elements'; that of a meta tensor is 0."""
_LEAVES = (*_WITH_MEMORY, int, float, bool, str, type(None))
"""Types of arguments that have no structure."""


@dataclass(frozen=True)
class Guard:
    """The properties of one tensor that code relies on; strides in elements, alignment in bytes."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...]
    align: int
    requires_grad: bool | None = None
    """None where the program does not ask for it."""

    @staticmethod
    def of(tensor: torch.Tensor, asked: bool = False) -> Guard:
        """`asked` says that the program asks whether a tensor requires a gradient."""
        require = tensor.requires_grad if asked else None
        shape, strides = tuple(tensor.shape), tensor.stride()
        return Guard(shape, tensor.dtype, strides, alignment(tensor), require)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Shapes and dtypes are equal, strides where the extent exceeds 1, alignment suffices."""
        if tensor.dtype != self.dtype or tensor.shape != self.shape:
            return False
        if self.requires_grad is not None and tensor.requires_grad != self.requires_grad:
            return False
        if tensor.layout is not torch.strided:
            return False
        strides = tensor.stride()
        if strides != self.strides and any(
            extent > 1 and here != there
            for extent, here, there in zip(self.shape, strides, self.strides, strict=True)
        ):
            return False
        if type(tensor) in _WITH_MEMORY:
            return tensor.data_ptr() % self.align == 0
        return alignment(tensor) >= self.align


def alignment(tensor: torch.Tensor) -> int:
    """The largest power of two up to the widest access that divides the address."""
    if tensor.device.type == "meta" or isinstance(tensor, torch._subclasses.FakeTensor):
        return WIDEST_ACCESS
    address = tensor.data_ptr()
    return min(address & -address, WIDEST_ACCESS) if address else WIDEST_ACCESS


@dataclass(frozen=True)
class Held:
    """Finds the one tensor that modules have under such names; None if they have several now."""

    places: tuple[tuple[torch.nn.Module, str], ...]

    def __call__(self) -> torch.Tensor | None:
        owner, name = self.places[0]
        tensor = getattr(owner, name, None)
        tied = all(getattr(module, name, None) is tensor for module, name in self.places[1:])
        if not tied:
            return None
        return resolved(tensor) if isinstance(tensor, torch.Tensor) else tensor

    @contextmanager
    def put(self, tensor: torch.Tensor) -> Iterator[None]:
        """It is the modules' tensor in here, whatever type of tensor it is."""
        with ExitStack() as stack:
            for module, name in self.places:
                binding = module.tensors.get(name) if isinstance(module, FunctionModule) else None
                if binding is not None:
                    stack.callback(binding.bind, binding.value)
                    binding.bind(tensor)
                own = module.__dict__
                registries = own["_parameters"], own["_buffers"]
                place = next((place for place in registries if name in place), own)
                if name in place:
                    stack.callback(place.__setitem__, name, place[name])
                else:
                    stack.callback(place.pop, name)
                place[name] = tensor
            yield


Kind: TypeAlias = Literal["input", "parameter", "buffer", "constant", "random"]


@dataclass(frozen=True)
class Argument:
    """
    Argument `index` of `@main`. An input is leaf `leaf` of the flattened call; the others are
    tensors of the module, where `fetch` finds the present one by its qualified name. One that is
    `random`, always the last, holds seed and offset of random numbers: `fetch` draws it.
    """

    index: int
    name: str
    kind: Kind
    guard: Guard
    leaf: int | None = None
    fetch: Callable[[], torch.Tensor | None] | None = None

    @property
    def tensor(self) -> torch.Tensor | None:
        """The module's tensor, shared with it; None for an input."""
        return None if self.fetch is None else self.fetch()


@dataclass(frozen=True)
class Result:
    """Result `index` of `@main`: an output, or the new value of the argument called `name`."""

    index: int
    name: str
    kind: Literal["output", "mutation"]
    argument: int | None = None
    """The index of the mutated argument."""


@dataclass(frozen=True, eq=False)
class ImportedProgram:
    """
    A module with the Torch IR of a program as `@main`, and how the user's calls map to it.

    `@main`'s arguments carry `dlc.name` (the name in the source, or the qualified name of a
    parameter, buffer or constant), `dlc.kind`, `dlc.draws` (how many places of the generator a
    call takes, where it is seed and offset), `dlc.strides` (of all dimensions, in elements) where
    the tensor is not contiguous, `dlc.align` (bytes) where the address is not a multiple of 16, and
    `dlc.bounds` (the least and the largest) where the elements are indices.
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
    signature: inspect.Signature
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
    def guards(self) -> dict[str, Guard]:
        """The guard of every tensor input, by name."""
        return {a.name: a.guard for a in self.arguments if a.kind == "input"}

    def matches(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> bool:
        """True if the program was specialised to calls with such arguments."""
        return self.tensors_of(args, kwargs) is not None

    def is_present(self) -> bool:
        """True if the modules have the attributes and tensors that the program is for."""
        held = [a for a in self.arguments if a.fetch is not None and a.kind != "random"]
        return (
            self.attributes.hold()
            and self.free.hold()
            and all(
                argument.tensor is not None and argument.guard.holds(argument.tensor)
                for argument in held
            )
        )

    def tensors_of(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> list[torch.Tensor] | None:
        """
        The tensors of `@main`'s arguments for a call: inputs from the call, the others from the
        module as they are now. None if the program was not specialised to what such a call means;
        cheap enough per call.
        """
        leaves, spec = flatten_call(self.signature, args, kwargs)
        if spec != self.input_spec or not self.ambient.holds():
            return None
        for leaf, value in self.constants.items():
            if not same_constant(leaves[leaf], value):
                return None
        if not self.attributes.hold() or not self.free.hold():
            return None
        if isinstance(self.root, FunctionModule):
            self.root.follow()
        bound: list[torch.Tensor] = []
        for argument in self.arguments:
            tensor = self._tensor_of(argument, leaves)
            if not isinstance(tensor, torch.Tensor) or not argument.guard.holds(tensor):
                return None
            bound.append(pairs_of(tensor))
        return bound

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
        leaves, spec = flatten_call(self.signature, args, kwargs)
        if spec != self.input_spec:
            raise ImportFailure(
                f"expected a call with arguments of the structure {self.input_spec}, found {spec}"
            )
        return [self._tensor_of(argument, leaves) for argument in self.arguments]

    def check_overlaps(self, bound: Sequence[torch.Tensor]) -> None:
        """ImportFailure if a tensor that is written to overlaps another."""
        for result in self.results:
            if result.argument is not None:
                self._check_overlap(result.argument, bound)

    def _tensor_of(self, argument: Argument, leaves: Sequence[Any]) -> Any:
        if argument.leaf is not None:
            return self._resolved(argument, leaves[argument.leaf])
        assert argument.fetch is not None
        return argument.fetch()

    def _resolved(self, argument: Argument, leaf: Any) -> Any:
        """A leaf of a call as it is in memory; ImportFailure where it would be written to."""
        if not isinstance(leaf, torch.Tensor) or not is_lazy(leaf):
            return leaf
        if any(result.argument == argument.index for result in self.results):
            raise ImportFailure(
                f"the program writes to '{argument.name}', whose memory holds its conjugates or "
                "negatives; pass x.resolve_conj().resolve_neg() of it"
            )
        return resolved(leaf)

    def _check_overlap(self, mutated: int, bound: Sequence[torch.Tensor]) -> None:
        begin, end = _byte_range(bound[mutated])
        for i, other in enumerate(bound):
            lo, hi = _byte_range(other)
            if i != mutated and lo < end and begin < hi:
                raise ImportFailure(
                    f"the program writes to '{self.arguments[mutated].name}', which shares memory "
                    f"with '{self.arguments[i].name}'; pass a clone of one of them"
                )

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
        leaves = [
            leaf.value if isinstance(leaf, Constant) else leaf.tensor(results, bound)
            for leaf in self.outputs
        ]
        return tree_unflatten(leaves, self.output_spec)


def signature_of(program: torch.nn.Module | Callable[..., Any]) -> inspect.Signature:
    """The signature of a program; one written in C takes what it gets, by position or name."""
    function = program.forward if isinstance(program, torch.nn.Module) else program
    try:
        return inspect.signature(function)
    except ValueError:
        return inspect.signature(lambda *args, **kwargs: None)


def flatten_call(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> tuple[list[Any], TreeSpec]:
    """The leaves of a call and its structure, the same however its arguments were passed."""
    if not kwargs and all(type(argument) in _LEAVES for argument in args):
        return list(args), _flat_spec(len(args))
    return tree_flatten(canonical_call(signature, args, kwargs))


@cache
def _flat_spec(count: int) -> TreeSpec:
    """The structure of a call with arguments that have none."""
    return tree_flatten(((None,) * count, {}))[1]


def canonical_call(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Passes by position what can be passed so, and the rest in the order of the signature."""
    if not kwargs:
        return tuple(args), {}
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ImportFailure(f"the program was called with other arguments: {error}") from None
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and name in bound.arguments:
            bound.arguments[name] = dict(sorted(bound.arguments[name].items()))
    return bound.args, bound.kwargs


def _byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses [begin, end) between which a tensor's elements lie; empty for a meta tensor."""
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return 0, 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
