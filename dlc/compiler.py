"""`dlc.compile`: a PyTorch program as a callable that runs dlc's kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule
from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc import gradients
from dlc.backend import BackendError
from dlc.backend.executor import (
    Backend,
    BackendLike,
    default_target,
    get_backend,
)
from dlc.backend.memory_use import MemoryUse
from dlc.compile_options import CompileOptions, check_flag
from dlc.cuda_graph import GraphedCall, check_capturing
from dlc.diagnostics import with_hint
from dlc.frontend.exclusive import exclusive
from dlc.frontend.export.imported import ImportedProgram
from dlc.frontend.export.sized_program import Sizes
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.tracers import check_class, is_traced, leaves_of
from dlc.importing import Imports
from dlc.log import get_logger
from dlc.missing_attributes import TellsOfMissing
from dlc.notebook import program_html
from dlc.passes import PRINTED, Printed
from dlc.precision import Precision, default_precision, get_precision
from dlc.saved.call import absent, not_held
from dlc.saved.program_file import ProgramFile, Saved, save
from dlc.shared_kernels import ABOUT, SharedKernels, are_made_for
from dlc.stages import Kernel, Stages, compiler_context
from dlc.target import get_target
from dlc.text import counted
from dlc.variant import Variant
from dlc.version import VERSION

if TYPE_CHECKING:
    from dlc.simulator.checker import Verdict

MANY_VARIANTS = 5
"""The count of variants of a program from which it is said that there are many."""


class CompiledProgram(TellsOfMissing):
    """
    A program that runs dlc's kernels when it is called. A call with other shapes, dtypes, strides,
    alignment or constants than before compiles a variant of it; parameters are read where the
    module has them, arguments that the program writes to are written to.

    While gradients are recorded, results have those of arguments and parameters that require one:
    the backward runs the program again in eager PyTorch, with the attributes, modes, weights and
    buffers of the forward, and what it writes it writes to copies. A call raises ImportFailure for
    what PyTorch cannot export, for gradients of a program that draws random numbers or writes what
    has a gradient and for the tracers of torch.func, and BackendError where kernels cannot be
    compiled or run. Inside of a program that is exported it is the PyTorch one.

    Where the options ask for a graph, calls are replays of CUDA graphs, one for each variant; the
    tensors of a result are overwritten by the next call of the same variant.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        target: str,
        backend: Backend,
        options: CompileOptions | None = None,
    ) -> None:
        self.options = options = options or CompileOptions()
        if options.graph:
            check_capturing(backend)
        self.imports = Imports(function, options.dynamic_shapes)
        self.shared = SharedKernels()
        self.function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.target = get_target(target).name
        self.backend = backend
        self.variants: list[Variant] = []
        self._page = ""
        """Where `trace` wrote."""
        self.__wrapped__ = function

    def __repr__(self) -> str:
        of = f"<dlc program {self.name} for {self.target} on {self.backend.name}"
        if not self.variants:
            return f"{of}, not compiled yet>"
        more = f", {len(self.variants)} variants" if len(self.variants) > 1 else ""
        names = [func.name_ for func in self.variants[0].executor.funcs]
        shown = ", ".join([*names[:8], *["…"] * (len(names) > 8)])
        return f"{of}: {counted(len(names), 'kernel')} ({shown}){more}>"

    def _repr_html_(self) -> str:
        """
        What a notebook shows: kernels, their schedules, the first variant in all six IRs, and a
        link to the page that `trace` wrote.
        """
        if not self.variants:
            return program_html(repr(self), (), {})
        texts = {stage: self.ir(stage) for stage in PRINTED}
        return program_html(repr(self), self.kernels, texts, self._page)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_traced(args, kwargs):
            return self.function(*args, **kwargs)
        variant, bound = self.prepared(args, kwargs)
        compute = variant.replay if self.options.graph else variant.compute

        def run(bound: Sequence[torch.Tensor]) -> Any:
            return variant.finish(compute(bound), bound)

        if gradients.are_wanted(bound):
            return variant.gradients.call(run, bound)
        return run(bound)

    def graph(self, *args: Any, **kwargs: Any) -> GraphedCall:
        """
        Such a call in a CUDA graph: a callable that copies its tensors into those of the graph and
        replays it. The kernels run once beforehand; nothing is written to. BackendError where the
        backend has no graphs or a tensor is not on its device.
        """
        _refuse_gradients(args, kwargs)
        variant, bound = self.prepared(args, kwargs)
        return GraphedCall(variant.program, variant.capture(bound), variant.finish)

    def replayed(self, *args: Any, **kwargs: Any) -> GraphedCall:
        """
        As `graph`, but of the graph that calls replay where the program was compiled with `graph`:
        it is captured now if there is none for the module's parameters as they lie.
        """
        _refuse_gradients(args, kwargs)
        variant, bound = self.prepared(args, kwargs)
        return GraphedCall(variant.program, variant.graph(bound), variant.finish)

    @property
    def precision(self) -> Precision:
        """
        What products of f32 may be computed in at a call: what was asked for, or what PyTorch is
        told; of a loaded program what it was saved with.
        """
        if self.function is absent and self.variants:
            return self.variants[0].precision
        asked = self.options.precision
        return default_precision() if asked is None else get_precision(asked)

    def variant(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Variant:
        """The variant for such a call, compiled now if there is none yet."""
        with torch.random.fork_rng(devices=()):  # nothing is run, so nothing is drawn
            return self._bound(args, kwargs)[0]

    def prepared(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> tuple[Variant, list[torch.Tensor]]:
        """
        The variant for a call, compiled to machine code, and the tensors of `@main`. Where that
        fails of kernels for all sizes, those for the size of the call are compiled.
        """
        variant, bound = self._bound(args, kwargs)
        if variant.sizes:
            try:
                variant.executor.prepare()
            except BackendError as error:
                alone = Variant(variant.program, self.backend, self._stages(variant.program.module))
                alone.executor.prepare()
                self.shared.give_up(variant.stages, error)
                self.variants[self.variants.index(variant)] = variant = alone
        return variant, bound

    def _bound(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> tuple[Variant, list[torch.Tensor]]:
        """The variant for a call, and the tensors of `@main`."""
        if not isinstance(self.function, GraphModule):  # has what Dynamo saw operations do
            for leaf in leaves_of(args, kwargs or {}):
                check_class(leaf, "an argument")
        if (found := self._compiled(args, kwargs)) is not None:
            return found
        with exclusive():
            if (found := self._compiled(args, kwargs)) is not None:
                return found
            if self.function is absent:
                raise not_held([v.program for v in self.variants])
            with torch.random.fork_rng(devices=()):  # only the call itself draws
                program = self._compile(args, kwargs)
            return self.variants[-1], program.bind(args, kwargs)

    def _compile(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> ImportedProgram:
        """Adds a variant for such a call."""
        program = self.imports.program(args, kwargs)
        alone = self._stages(program.module)
        stages, sizes = self._of_all_sizes(args, kwargs) or (alone, None)
        self.variants.append(Variant(program, self.backend, stages, sizes))
        self._log()
        return program

    def _stages(self, module: ModuleOp) -> Stages:
        """What a program that was imported is compiled in."""
        return self.options.stages(module, self.target, self.precision, self.backend)

    def _of_all_sizes(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> tuple[Stages, Mapping[str, int]] | None:
        """The kernels for all sizes of such a call, and what they are told; None for none."""
        if (known := self.imports.sized_call(args, kwargs)) is None:
            return None
        sized, sizes = known
        found = self.shared.stages(sized, sizes, str(self.precision), self._stages)
        return found if found and are_made_for(found[0].module("kernel"), found[1]) else None

    def _compiled(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> tuple[Variant, list[torch.Tensor]] | None:
        """The same, if there is such a variant."""
        precision = self.precision
        for variant in self.variants:
            if variant.precision != precision:
                continue
            bound = variant.program.tensors_of(args, kwargs)
            if bound is not None:
                variant.program.check_overlaps(bound)
                return variant, bound
        return None

    def _log(self) -> None:
        """Says what the last variant is for, and once that there are many."""
        call = self.variants[-1].program.call
        log = get_logger("compile")
        log.info("variant %d, for %s", len(self.variants), call)
        count = sum(not variant.sizes for variant in self.variants)
        if count == MANY_VARIANTS and not self.variants[-1].sizes:
            log.warning(
                "a program has been compiled %d times, as each combination of sizes, dtypes, "
                "strides, alignments and numbers needs its own kernels; the last one is for %s",
                count,
                call,
            )

    def ir(self, stage: Printed) -> str:
        """The text of the first variant at a stage: torch, tensor, loop, tile, kernel or cuda."""
        return self.variants[0].stages.text(stage)

    def explain(self) -> str:
        """
        Which sizes have which kernels, and for each kernel of the first variant its schedule, what
        lost to it, and why.
        """
        told = self.shared.explain() or "\n".join(dict.fromkeys(map(_saved_about, self.variants)))
        parts = self.shared.obstacle, told, self.variants[0].stages.explain()
        return "\n\n".join(filter(None, parts))

    def trace(self, path: str | Path = "trace.html") -> None:
        """Writes the page of the first variant that `dlc trace` writes; it needs no network."""
        variant = self.variants[0]
        stages = Stages(variant.program.module) if variant.sizes else variant.stages
        Path(path).write_text(stages.trace(self.name), encoding="utf-8")
        self._page = str(path)

    def check(self) -> list[Verdict]:
        """What the simulator finds in each kernel of the first variant: see `Stages.check`."""
        return self.variants[0].bound.check()

    def with_schedule(self, schedules: Mapping[str, str]) -> CompiledProgram:
        """
        The program with schedules of the user's for some kernels, by name; those of other variants
        must have the same names. Errors as of `Stages`.
        """
        options = self.options.with_schedules(schedules)
        new = CompiledProgram(self.function, self.target, self.backend, options)
        new.imports, new.name = self.imports, self.name
        for variant in self.variants:
            stages = variant.stages.with_schedules(schedules)
            new.variants.append(Variant(variant.program, self.backend, stages, variant.sizes))
            stages.module("kernel")
        return new

    def save(self, path: str | Path) -> None:
        """
        Writes the program as it is compiled so far, its parameters and machine code included, to a
        file for `load_program`. There it stays as its modules and its precision are now: variants
        for other ones are left out. BackendError for what has no form there.
        """
        precision = self.precision
        present = [v for v in self.variants if v.program.is_present() and v.precision == precision]
        if not present:
            raise BackendError(
                "cannot save a program that is not compiled for what its modules are: call it first"
            )
        variants = [Saved(v.program, self._saved(v)) for v in present]
        save(Path(path), self.name, VERSION, self.target, self.backend, variants)

    def _saved(self, variant: Variant) -> ModuleOp:
        """The kernels of a variant as a file has them: they say which sizes have them."""
        kernels = variant.bound.module("kernel")
        if about := self.shared.about(variant.stages) or _saved_about(variant):
            kernels = kernels.clone()
            kernels.attributes[ABOUT] = StringAttr(about)
        return kernels

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, and what is unpickled, compiles anew; machine code is in the cache."""
        if self.function is absent:
            raise TypeError("a loaded program is not pickled or copied: load its file again")
        given = self.function, self.target, self.backend.name, getattr(self.backend, "sync", False)
        return _again, (*given, self.options)

    @property
    def sizes(self) -> Sizes:
        """The sizes of calls that share one import: names, ranges, and what holds of them."""
        return self.imports.sizes

    @property
    def memory(self) -> MemoryUse:
        """The memory that the first variant needs beside its arguments, in bytes."""
        return MemoryUse.of(self.variants[0].executor.program)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels of the first variant, in the order of their launches."""
        variant = self.variants[0]
        return [Kernel.of(func, variant.stages) for func in variant.executor.funcs]


def compile(
    f: Callable[..., Any],
    args: Sequence[Any],
    target: str | None = None,
    backend: BackendLike = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    graph: bool = False,
    sync: bool = False,
    schedules: Mapping[str, str] | None = None,
    tuned: bool = False,
    plan: str | None = None,
    precision: str | None = None,
    dynamic_shapes: Any = None,
    overlap: bool = False,
    freeze: bool = False,
    one_launch: bool = False,
) -> CompiledProgram:
    """
    Compiles a module or function as called with `args` and `kwargs`.

    What the program reads is followed: a call uses the parameters, buffers and tensors that modules
    and names are bound to by then, and compiles a variant where something else has changed that its
    code reads: an attribute of a module (`m.eps`, `m.training`), a global, a closure, a default, a
    method, a name in a Python module or a class, items of lists, tuples, dicts and sets; submodules
    and forward hooks; attributes that it names of objects of your own (`m.config.eps`); which
    weights are one; autocast, the default dtype, and the flags of PyTorch that it asks for, as
    whether gradients are enabled. Frozen is what is inside of objects of installed packages. A
    program that changes an attribute or a variable that it reads is an error.

    With `graph`, calls replay CUDA graphs: a call costs one launch, and its results are overwritten
    by the next one. With `sync`, each kernel is waited for, so that one that fails is named.
    `schedules` are lines of text for kernels by name, in place of the default ones:
    `f.kernels[0].schedule` is one to begin with. With `tuned`, other kernels get the schedules that
    `dlc.tune` has found for their like, by a measurement for this backend. `plan` says which
    kernels merge, where the estimate is not to decide: `exp,add+sum`.

    `precision` is what products of f32 may be computed in, where that is estimated to be faster:
    `f32`, `3xtf32` (three products on tensor cores, about as exact) or `tf32` (one, of 11 bits). By
    default it is what PyTorch is told at the call, `tf32` if `torch.set_float32_matmul_precision`
    or `torch.backends.cuda.matmul` allow that, else `f32`.

    `dynamic_shapes` is that of `torch.export.export`: sizes of the arguments that a `Dim` or
    `Dim.AUTO` marks may be others at a call, for which the program is not exported again. Where
    they can be, its kernels are compiled for all sizes, and again for a range of sizes, or for
    multiples where rows are as long, whose own are predicted to be faster; else they are for each
    size. `f.explain()` says which sizes have which, or why they have their own.
    `f.sizes` tells what the sizes are called, and what the program asks of them. Sizes of 0 and 1
    are programs of their own, as they are to PyTorch.

    With `overlap`, kernels begin before the ones ahead of them end, ask for weights meanwhile, and
    wait for what these write, where the chip can (sm_90 and later): the pass `overlap-launches`.

    With `one_launch`, sums that up to 64 blocks share end in their own launch, by a cluster or by
    the last of these, also where a second kernel that folds their parts is estimated to be
    faster.

    With `freeze` it is promised that parameters, buffers and tensors that the code reads are not
    written to after the first call, but for buffers that the program itself writes: what kernels
    compute of these alone, such as weights as blocks fetch them, is computed once and kept. What
    takes the place of one is seen, as what PyTorch counts in its version; a write to `p.data` is
    not.

    `target` is the chip that schedules are made for, such as `sm_90` (default: the GPU at hand,
    else sm_90); `backend` is where the kernels run: `cuda`, `host` or a `Backend` (default: `cuda`
    if there is a GPU that can, else `host`). Kernels are compiled to machine code at the first
    call. Raises ImportFailure and UnsupportedError for programs that cannot be imported, OpError
    for operations that cannot be compiled, ValueError for an unknown target, backend or precision,
    and TypeError for a class, arguments in no tuple, a dict in the place of a target, or a flag
    that is neither True nor False.
    """
    if not isinstance(args, tuple | list):
        error = TypeError(f"expected a tuple of arguments, found an object of {type(args)}")
        raise with_hint(error, "of one tensor: dlc.compile(f, (x,))")
    if isinstance(f, type) and issubclass(f, torch.nn.Module):
        error = TypeError(f"expected a module or a function, found the class {f.__name__}")
        raise with_hint(error, f"an object of it: dlc.compile({f.__name__}(...), args)")
    if isinstance(target, Mapping):
        error = TypeError(f"expected the name of a target, found an object of {type(target)}")
        raise with_hint(error, "arguments by name: dlc.compile(f, (x,), kwargs={'scale': s})")
    check_flag("sync", sync)
    if isinstance(dynamic_shapes, torch.export.ShapesCollection):  # which knows these tensors only
        dynamic_shapes = dynamic_shapes.dynamic_shapes(f, tuple(args), kwargs)
    options = CompileOptions(
        graph, schedules or {}, tuned, plan, precision, dynamic_shapes, overlap, freeze, one_launch
    )
    where = get_backend(backend, sync)
    program = CompiledProgram(f, target or default_target(), where, options)
    program.variant(tuple(args), kwargs).stages.prepare()
    return program


def load_program(
    path: str | Path, backend: BackendLike = None, *, graph: bool = False, sync: bool = False
) -> CompiledProgram:
    """
    A program that `CompiledProgram.save` wrote. It compiles nothing, takes the calls that it was
    saved with only, and owns its parameters and buffers, whose state all calls share. `backend`,
    `graph` and `sync` are those of `compile`;
    the default backend is the one that it was saved with. BackendError for a file that is damaged,
    or is of another version of dlc or another chip. The machine code in the file is run: load
    files from those only whose programs you would run.
    """
    file = ProgramFile.read(Path(path), VERSION)
    place = get_backend(backend or file.backend, sync)
    program = CompiledProgram(absent, file.target, place, CompileOptions(graph))
    program.name = file.name
    for saved in file.load(compiler_context(), place):
        stages = Stages(saved.program.module, kernels=saved.kernels)
        program.variants.append(Variant(saved.program, place, stages))
    return program


def _saved_about(variant: Variant) -> str:
    """What was said of the sizes of a variant where it was saved; empty if nothing was."""
    said = variant.module("kernel").attributes.get(ABOUT)
    return said.data if isinstance(said, StringAttr) else ""


def _again(
    function: Callable[..., Any],
    target: str,
    backend: str,
    sync: bool,
    options: CompileOptions,
) -> CompiledProgram:
    return CompiledProgram(function, target, get_backend(backend, sync), options)


def _refuse_gradients(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    if not torch.is_grad_enabled():
        return
    for leaf in leaves_of(args, kwargs):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            raise ImportFailure(
                f"dlc compiles forward passes only, and an argument of shape {list(leaf.shape)} "
                "requires a gradient; call the program under torch.no_grad()"
            )
