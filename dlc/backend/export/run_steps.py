"""The steps of an exported program in `run.cpp`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlc.analysis.kernel.tensor_maps import TensorMap
from dlc.backend.bound_program import Allocate, For, If, Launch, Select, Slice, Step, While, Zero
from dlc.backend.export.plan import ExportPlan, KernelFacts, row
from dlc.escapes import c_comment
from dlc.ir.elements import element


def steps_text(plan: ExportPlan, facts: Mapping[str, KernelFacts]) -> Iterator[str]:
    """Lines of C++; `facts` are of the kernels, by name."""
    return _Writer(plan, facts).block(plan.steps)


@dataclass(frozen=True)
class _Writer:
    plan: ExportPlan
    facts: Mapping[str, KernelFacts]

    def block(self, steps: Sequence[Step]) -> Iterator[str]:
        """Steps as the statements of a block, indented."""
        for step in steps:
            for line in self._step(step):
                yield f"  {line}"

    def _step(self, step: Step) -> Iterator[str]:
        names = self.plan.names
        match step:
            case Allocate():
                yield self._declared(step, f"program.allocate({step.layout.bytes})")
            case Slice():
                yield self._declared(step, f"{names[step.memory]} + {step.offset}")
            case Select():
                place = f"{names[step.whole]} + {names[step.index]} * {step.step}"
                yield self._declared(step, place)
            case Zero():
                yield f"program.zero({names[step.number]}, {step.size});"
            case Launch():
                yield from self._launch(step)
            case For():
                yield from self._for(step)
            case While():
                yield from self._while(step)
            case If():
                yield f"if (program.says({names[step.flag]})) {{"
                yield from self.block(step.then)
                yield "} else {"
                yield from self.block(step.otherwise)
                yield "}"
            case _:
                pass

    def _for(self, step: For) -> Iterator[str]:
        carry, counter = step.carry, self.plan.names[step.counter]
        yield from self._named(carry.names[0], carry.inits)
        yield f"for (long long {counter} = 0; {counter} < {step.count}; {counter}++) {{"
        yield from self.block(step.body)
        yield from self._changed(carry.names[0], carry.next)
        yield "}"
        yield from self._named(carry.results, carry.names[0])

    def _while(self, step: While) -> Iterator[str]:
        carry = step.carry
        yield from self._named(carry.names[0], carry.inits)
        yield "while (true) {"
        yield from self.block(step.before)
        yield f"  if (!program.says({self.plan.names[step.flag]})) break;"
        for line in self._named(carry.names[1], carry.names[0]):
            yield f"  {line}"
        yield from self.block(step.body)
        yield from self._changed(carry.names[0], carry.next)
        yield "}"
        yield from self._named(carry.results, carry.names[0])

    def _named(self, names: Sequence[int], buffers: Sequence[int]) -> Iterator[str]:
        """Gives buffers other names."""
        pairs = zip(self.plan.all_names(names), self.plan.all_names(buffers), strict=True)
        for name, buffer in pairs:
            yield f"char* {name} = {buffer};  {self._comment(name)}"

    def _changed(self, names: Sequence[int], buffers: Sequence[int]) -> Iterator[str]:
        """Has names stand for other buffers, all at once."""
        if names:
            given, taken = (", ".join(self.plan.all_names(ns)) for ns in (names, buffers))
            yield f"  std::tie({given}) = std::make_tuple({taken});"

    def _launch(self, launch: Launch) -> Iterator[str]:
        call = self.plan.call(launch)
        kernel = self.facts[call.kernel]
        if call.ops:
            ops = ", ".join(op.partition(" ")[2] for op in call.ops)
            yield f"// {c_comment(ops)}"
        if kernel.grid == 0:
            yield f"// {kernel.name} has no blocks: nothing is launched"
            return
        maps = [_map(call.buffers[n], m) for n, m in kernel.maps]
        sizes = f"{kernel.grid}, {kernel.block}, {kernel.dynamic_shared}"
        given = ", ".join([*maps, *call.buffers])
        yield f"program.launch(kernels::{kernel.name}, {sizes}, {given});"

    def _declared(self, step: Allocate | Slice | Select, value: str) -> str:
        name = self.plan.names[step.number]
        return f"char* {name} = {value};  {self._comment(name)}"

    def _comment(self, name: str) -> str:
        shape = ", ".join(map(str, self.plan.layouts[name].shape))
        return f"// {self.plan.dtype(name)}[{shape}]"


def _map(buffer: str, map: TensorMap) -> str:
    where = f"{buffer} + {map.offset}" if map.offset else buffer
    fields = ", ".join(row(values) for values in (map.extents, map.strides, map.box))
    data_type = element(map.element).tensor_map
    return (
        f"\n      exported::tensor_map({where}, DLC_DATA_TYPE({data_type}), {map.element_bytes}, "
        f"{fields}, {map.swizzle_bytes})"
    )
