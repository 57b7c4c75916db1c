"""The blocks of a kernel with few of them share its reduce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from xdsl.dialects.builtin import ModuleOp

from dlc.analysis.tile.tile_state import tile_state
from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, SERIAL, THREAD, AxesOp
from dlc.registry import OptionError, PipelineError
from dlc.schedule.part_folds import combining
from dlc.target import MAX_CLUSTER, Target, target_of
from dlc.transforms.axes.combining import combine_after
from dlc.transforms.step import Decline, Misplaced, SchedulingPass, parse_schedule
from dlc.transforms.step_space import Domain, Situation, Value, powers
from dlc.transforms.tile.splitting.atomic_sums import split_atomically
from dlc.transforms.tile.splitting.reduce_split import split_of
from dlc.transforms.tile.splitting.second_kernel import split_in_two


@dataclass(frozen=True)
class SplitMatmulKPass(SchedulingPass):
    """
    A reduce is shared by several blocks: its outermost axis becomes a block axis times a shorter
    axis, the blocks store what they hold to a workspace, and a second kernel folds that.

    All that depends on the reduce moves to the second kernel, an update in place, too. A split
    beyond a ragged end stores the identity. Where the kernel is launched again, both are.

    *Legal when* the kernel has one reduce at the top and reads nothing that it stores: monoids are
    associative and commutative, and splits are folded in order, so that results do not depend on
    timing.
    *Faster because* free axes that make too few blocks leave multiprocessors idle. Where conditions
    skip the end of the axis, `deal=turns` gives each split as much to do; by default each is a run.

    With `combine=last`, no second kernel is made: what the parts of a point hold is folded, in the
    same order, by the last of their blocks, which does all that depends on the reduce: see
    `tile.combine`. A launch less, but one block reads the parts of its points.

    With `combine=cluster`, the blocks of a point are a thread block cluster, at most 8: each puts
    what it holds into its shared memory and folds its share of the block's points, in the same
    order, from that of all. A launch less, no memory for the parts, and no count of blocks; but the
    blocks of a point have to run at the same time.

    With `combine=atomic`, the blocks add what they hold to an output that holds zeros before, in
    the order in which they come by: sums of floats differ by rounding from run to run. That takes
    an output whose elements are the sums themselves.

    ```
    %C = tile.kernel @mm(%A, %B, %bias) -> (%C) { tile.launch thread(%i in 100, %j in 64) {
      %acc = tile.reduce add serial(%ko in 128) -> f32 { … %ko … }
      %s = arith.addf %acc, %c : f32
    ```
    becomes, with `splits=3`,
    ```
    %acc_parts = tile.kernel @mm(%A, %B) -> (%acc_parts) {
      tile.launch block(%ks in 3) thread(%i in 100, %j in 64) {
        %acc = tile.reduce add serial(%ko in 43) -> f32 {
          … %ks * 43 + %ko …
          tile.yield %part where (%ks * 43 + %ko < 128) : f32
        }
        tile.store %acc, %acc_parts[%ks, %i, %j]
    %C = tile.kernel @mm_combine(%acc_parts, %bias) -> (%C) {
      tile.launch thread(%i in 100, %j in 64) {
        %acc = tile.reduce add serial(%ks in 3) -> f32 {
          %acc_part = tile.load %acc_parts[%ks, %i, %j]
          tile.yield %acc_part : f32
        }
        %s = arith.addf %acc, %c : f32
    ```
    with `splits=3 combine=last`,
    ```
    %C = tile.kernel @mm(%A, %B, %bias) -> (%C) {
      tile.launch block(%ks in 3) thread(%i in 100, %j in 64) {
        %acc_part = tile.reduce add serial(%ko in 43) -> f32 { … }
        %acc = tile.combine add %acc_part across(%ks) : f32
        %s = arith.addf %acc, %c : f32
    ```
    with `combine=cluster` the same but for `across(%ks) cluster`, and, without the addition of
    `%c`, with `splits=3 combine=atomic`,
    ```
    %C = tile.kernel @mm(%A, %B) -> (%C: … zeroed) {
      tile.launch block(%ks in 3) thread(%i in 100, %j in 64) {
        %acc = tile.reduce add serial(%ko in 43) -> f32 { … }
        tile.atomic_add %acc, %C[%i, %j] across(%ks)
    ```
    """

    name = "split-matmul-k"

    splits: int | None = None
    """Parts of the reduce's outermost axis."""
    combine: Literal["workspace", "last", "cluster", "atomic"] = "workspace"
    """`workspace`, `last`, `cluster` or `atomic`."""
    deal: Literal["runs", "turns"] = "runs"
    """`runs` or `turns`: `%ks * 43 + %ko` or `%ko * 3 + %ks`."""
    then: str = ""
    """The schedule of the kernel that combines; `tileify` alone if it is empty."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "splits": Domain(
            (2, 3, 4, 5, 8, 16, 32, 64, 128, 256, 512), least=1, narrowed=lambda s: _parts(s)
        ),
        "combine": Domain(
            ("workspace", "last", "cluster", "atomic"), narrowed=lambda s: _endings(s)
        ),
        "deal": Domain(("runs", "turns")),
        "then": Domain(("",), narrowed=lambda s: _combining(s)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            parse_schedule(self.then)
        except PipelineError as error:
            raise OptionError("then", f"in the schedule that it gives: {error.msg}") from None
        if self.combine != "workspace" and self.then:
            message = f"combine={self.combine} makes no second kernel for then to schedule"
            raise OptionError("then", message, "combine=workspace makes one")

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        assert self.splits is not None
        if self.splits == 1:
            raise Decline("one part is the whole reduce")
        in_turns = self.deal == "turns"
        split = split_of(_sole_reduce(kernel), self.splits, in_turns=in_turns)
        if split.reduce.is_size(split.axis) and not in_turns:
            message = f"runs of %{split.axis.name_hint} begin at multiples of what is no number"
            raise OptionError("deal", message, "deal=turns takes any size")
        done = str(split)
        if self.combine == "atomic":
            if kernel.updated_refs:
                message = "it updates its input in place, and blocks add to zeros"
                raise OptionError("combine", message, "combine=workspace takes any reduce")
            split_atomically(kernel, split)
            return f"{done}, added up atomically"
        if self.combine == "last":
            combine_after(split.reduce, split.deal(kernel.launch))
            return f"{done}, folded by the last block"
        if self.combine == "cluster":
            self._check_cluster(target_of(module))
            combine_after(split.reduce, split.deal(kernel.launch), cluster=True)
            return f"{done}, folded by the blocks of a cluster"
        split_in_two(kernel, split, module, self.then or "tileify")
        return done

    def _check_cluster(self, target: Target) -> None:
        """OptionError if so many blocks are no cluster on the chip."""
        assert self.splits is not None
        if not target.has("cluster"):
            raise OptionError("combine", target.lacking("cluster"), "combine=last takes any chip")
        if self.splits > MAX_CLUSTER:
            message = f"a cluster has at most {MAX_CLUSTER} blocks, found {self.splits} parts"
            raise OptionError("combine", message, "combine=last takes any number")


def _endings(s: Situation) -> tuple[str, ...]:
    """How parts may be combined to the same results whenever they are."""
    splits = s.given["splits"]
    assert isinstance(splits, int)
    fits = splits <= MAX_CLUSTER and s.target.has("cluster")
    return ("workspace", "last", "cluster") if fits else ("workspace", "last")


def _sole_reduce(kernel: tile.KernelOp) -> tile.ReduceOp:
    """The reduce to split."""
    launch = kernel.launch
    state = tile_state(launch)
    if state.is_partitioned or launch.axes_of(BLOCK):
        raise Misplaced("the launch is partitioned already", "run split-matmul-k before")
    if state.buffers:
        raise Misplaced("slabs are staged already", "run split-matmul-k before stage-inputs")
    loops = [op for op in launch.body.block.ops if isinstance(op, AxesOp)]
    reduces = [op for op in loops if isinstance(op, tile.ReduceOp)]
    others = [op for op in loops if op not in reduces]
    if any(isinstance(op, tile.ReduceOp) for other in others for op in other.body.walk()):
        raise Decline("a reduce of it stands in a loop")
    if len(reduces) != 1:
        raise Decline(f"it has {len(reduces)} reduces beside each other, not one")
    if kernel.zeroed_refs:
        raise Decline("it adds to its output atomically already")
    loads = [op for op in launch.walk() if isinstance(op, tile.LoadOp)]
    if any(op.ref in kernel.output_refs for op in loads):
        raise Decline("it reads what it stores")
    (reduce,) = reduces
    if max(map(reduce.most, reduce.axes_of(SERIAL)), default=0) < 2:
        raise Decline("its reduce has no serial axis of at least 2 points")
    return reduce


def _parts(s: Situation) -> list[Value]:
    """Powers of two up to the length of what is split."""
    reduce = _sole_reduce(s.kernel)
    longest = max(map(reduce.extent, reduce.axes_of(SERIAL)))
    return [n for n in powers(512, least=2) if n <= longest]


def _combining(s: Situation) -> list[Value]:
    """The default schedule of the kernel that combines so many parts."""
    splits, launch = s.given["splits"], s.kernel.launch
    assert isinstance(splits, int)
    if s.given["combine"] != "workspace":
        return [""]
    extents = [launch.extent(a) for a in launch.axes_of(THREAD)]
    return [combining(splits, extents, s.target, len(_sole_reduce(s.kernel).results))]
