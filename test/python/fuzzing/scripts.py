"""
Random scripts: tensors made at random, and what people do with such at the top of a file and in
functions: branches, loops, contexts, early returns, updates in place, lists, prints, objects with
methods, generators, try. What a script computes last is `r`. Its program must give it for other
random numbers, too, or a sentence must say that it does not.
"""

from __future__ import annotations

import contextlib
import copy
import io
import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from dlc.frontend.export.torch_export import export
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.questions import Questions

SEEDS = (0, 1)
REFUSED = (
    "a statement changes ", "the program changes ", "what is computed here ", " keeps '",
    " computes of tensors that it makes at random is not seen", "unsupported format string",
)  # fmt: skip
"""
What is said of scripts that are right and refused: a late change, or one of what is shared, and
printing of numbers in a loop.
"""
PREAMBLE = """\
lin = nn.Linear(4, 4)
with torch.no_grad():
    lin.weight.copy_(torch.arange(16.).view(4, 4) / 50 - 0.1)
    lin.bias.fill_(0.25)
table = {'scale': 0.5, 'ones': torch.ones(4, 4)}
class Block(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.register_buffer('b', torch.full((4, 4), 0.1 * k))
    def forward(self, x, y=None):
        if y is None:
            return torch.tanh(x) + self.b
        return x * self.k - y
block = Block(3)
"""
CLASSES = """
import numpy as np
row, numbers = np.ones(3, np.float32), iter(range(1, 99))
class Sum:
    def __init__(self, t=None):
        self.t = torch.zeros(4, 4) if t is None else t
        self.n, self.l = 1, []
    def add(self, x):
        self.t = self.t + x
        self.n += 1
        return self.t
    def fill(self, x):
        self.t += x
    def put(self, x):
        self.l.append(x)
        return sum(self.l) * 0.5
    def read(self, x):
        return x * self.n - self.t
    def twice(self):
        return self.t * 2
    def draw(self):
        self.t = torch.randn(4, 4) * 0.5
    def __call__(self, x):
        self.n = 3 - self.n
        return x * self.n
class Of:
    __slots__ = ('s', 'k')
    count = 0
    def __init__(self, s):
        self.s, self.k = s, 2
    def add(self, x):
        self.k += 1
        return self.s.add(x) * self.k
def made(k):
    for i in range(k):
        yield torch.randn(4, 4)
"""
OBJECTS = """
{o} = Sum() | {o} = Sum({a}) | {o} = Sum({a} * 2) | {o} = Of(Sum()).s | {o} = Sum(torch.ones(4, 4))
"""
ACTS = """
{o}.add({a}) | {o}.fill({a}) | {o}.put({a}) | {o}.t = {a} | {o}.t = {a} * {n} | {o}.n += 1
{x} = {o}.add({a}) * {b} | {x} = {o}.put({a}) | {x} = {o}.read({a}) | {x} = {o}.t + {a}
{x} = {o}.twice() | {x} = {a} * {o}.n | {x} = {o}({a}) | {o}.draw() | {x} = Of({o}).add({a})
{x} = [p.add({a}) for p in (Of({o}), {o})][{i} % 2] | {x} = sum({o}.add({a} * j) for j in range(2))
for p in [{o}, Sum()]:;    p.add({a}) | for p in [{o}]:;    p.t = p.t * 2;    {x} = p.t
try:;    {x} = {o}.add({a});except ValueError:;    pass | for y in ({a}, {b}):;    {o}.add(y)
f = {o}.add;{x} = f({a}) | {x} = {o}.t;{o}.add({a}) | {o}.l = [{a}];{o}.put({b});{x} = {o}.l[0] * 2
q = {o};q.add({a});{x} = {o}.t * q.n | (lambda t: {o}.add(t))({a}) | {o}.l.append({a})
pair = [{o}, {a}];pair[0].add(pair[1]);{x} = pair[0].t | d = {{'o': {o}}};d['o'].fill({a})
for j in range(2):;    {o}.draw();    {x} = {o}.t * {a} | {x} = Sum({a}).add({b}) | {o}.new = {a}
{x} = {a} * next(numbers) | row[{i} % 3] += 1;{x} = {a} + float(row.sum())
for j in range(2):;    row[j] += next(numbers);    {x} = {a} * float(row[j])
while {o}.n < 4:;    {o}.add({a}) | if {o}.n > 1:;    {o}.add({a}) | assert {o}.n
"""
DRAWN = """
{x} = sum(t * {i} for t in made(2)) | for t in made(2):;    {o}.add(t) | {x} = sum(made(3))
{x} = [torch.randn(4, 4) * j for j in range(3)][{i} % 3] | {x}, _ = made(2)
try:;    {x} = torch.randn(4, 4);    {o}.add({x});except ValueError:;    pass
for j in range(2):;    {x} = torch.rand(4, 4);    {x}.mul_(2);    {o}.put({x})
for j in range(2):;    {o}.t = torch.rand(4, 4) | {o} = Sum(torch.randn(4, 4)) | {x} = next(made(1))
"""
STATE = """
import collections, functools, io, itertools
import random as dice
draws, bits, ring = dice.Random(3), np.random.default_rng(3), itertools.cycle([1, 2, 3])
words, memory, queue = io.StringIO('1 2 3 5 8 ' * 9), bytearray(b'abc'), collections.deque([1, 2])
math.turns, nn.Linear.turns, torch.turns, seen = 0, 0, [0], {'n': 0}
@functools.lru_cache
def half(n):
    return n * 0.5
def counter(n):
    def step(k=1):
        nonlocal n
        n += k
        return n
    return step
step = counter(1)
def counted():
    for n in range(1, 99):
        yield n
steps = counted()
def scaled(t):
    math.turns += 1
    return t * math.turns
def tallied(t):
    seen['n'] += 1
    return t + seen['n']
def spun(t):
    return t * next(ring) + draws.random()
def turned(t, q):
    q.rotate(1)
    return t * q[0]
"""
"""What has a state that no attribute of a variable says, and functions in which it goes on."""
HIDDEN = """
{x} = {a} * draws.random() | {x} = {a} + bits.normal() | {x} = {a} * next(ring)
{x} = {a} * float(words.read(2)) | {x} = {a} + next(steps) | {x} = {a} * step() | step({i})
memory[{i} % 3] += 1;{x} = {a} * memory[0] | queue.append({n});{x} = {a} * queue[-1] + len(queue)
{x} = {a} * half({i}) | {x} = {a} + half.cache_info().misses | half({i});{x} = {a} * {n}
math.turns += 1;{x} = {a} * math.turns | nn.Linear.turns += {i} | {x} = {a} * nn.Linear.turns
torch.turns[0] += 1 | {x} = {a} + torch.turns[0] | {x} = scaled({a}) | {x} = tallied({a})
{x} = spun({a}) + {b} | {x} = turned({a}, queue) | seen['n'] += {i};{x} = {a} * seen['n']
for j in range(2):;    {x} = {a} * draws.random() + next(ring)
for j in range(2):;    math.turns += 1;    {x} = {a} * math.turns
for j in range(2):;    {x} = spun({a}) | for j in range(2):;    {x} = tallied(scaled({a}))
for j in range(2):;    half(j);    {x} = {a} + half.cache_info().hits
for j in range(2):;    {x} = turned({a}, queue) * step() | {x} = sum(spun({a}) for j in range(2))
for j in range(2):;    {x} = torch.empty(4, 4).fill_(1.5) * step() + {a}
for j in range(2):;    {x} = torch.zeros(4, 4).uniform_(1, 1) * next(ring)
for j in range(2):;    {x} = torch.zeros(4, 4).uniform_(1, 1) * draws.random()
for j in range(2):;    nn.Linear.turns += 1;    {x} = torch.zeros(4, 4).uniform_(1, 1) * j
{x} = [{a} * next(ring) for j in range(2)][{i} % 2] | {x} = (lambda t: t * step())({a})
if next(ring) > 1:;    {x} = {a} * 2;else:;    {x} = {a} * 3 | assert step() > 0
try:;    {x} = {a} * next(steps);except StopIteration:;    {x} = {a}
while draws.random() < 0.5:;    math.turns += 1 | print(next(ring), {a}.sum())
l = [{a}, step()];{x} = l[0] * l[1] | words.seek(0) | {x} = {a} * (words.tell() + 1)
g = torch.Generator().manual_seed(3);{x} = {a} + torch.ones(4, 4) * draws.randint(1, 3)
"""
CONSTANT = "torch.ones(4, 4) * {n} | torch.eye(4) - {i}"
MADE = """
torch.randn(4, 4) | torch.rand(4, 4) - 0.5 | torch.randn(4, 4).t() | torch.randn(1, 4).expand(4, 4)
"""
COMPUTED = """
{a} + {b} | {a} * {b} | {a} * {n} | {a} - {i} | torch.relu({a}) | torch.tanh({a}) | {a} @ {b} * 0.1
{a}.t() | {a}.sum(0, True) + {b} | lin({a}) | block({a}) | block({a}, {b}) | block({a}, y={b})
torch.stack([{a}, {b}]).mean(0) | {a}[{i} % 4] + {b} | {a} * table['scale'] | {a} + table['ones']
sum([{a}, {b}]) | [{a} * j for j in range(3)][{i} % 3] | (lambda t: t * {n})({a}) | {a}
{a} if {i} > 1 else {b} | {a}.clone().add_({b}) | torch.cat([{a}[:2], {b}[2:]]) | max(1, {i}) * {a}
{a}.reshape(16).view(4, 4) | {a}[:, [3, 2, 1, 0]]
torch.where({a} > 0, {a}, {b})
"""
NESTED = """
if {i} > 2: | for i in range(3): | with torch.no_grad(): | for m in [lin, block]: | if {i} > 1:
while done and done.pop(): | with torch.enable_grad(): | for j in (1, 2):
"""
CHANGES = """
{v} += {b} | {v} *= {n} | {v} = {v} + {a} | {v}[{i} % 4] = {a}[0] | {v}.add_({a}) | {v}.mul_({n})
{v}[:, 1] += {n} | {v}.t().mul_({n}) | {v}[0].zero_() | {v} -= {v}.mean()
"""
NUMBERS = "{i} + 1 | {i} * 2 | len('ab') + {i} | int(3.7) | {i} % 3 | max({i}, 2)"
SHOWN = """
print({a}.shape) | print('a', {i}) | print(f'{{{a}.sum():.3f}}') | assert {a}.shape[0] == 4 | pass
"""


def random_script(rng: random.Random) -> str:
    """The text of a script."""
    script = _Script(rng)
    text = "\n".join(script.text()) + "\n"
    return PREAMBLE + script.made_before() + text


def complaint(text: str) -> str:
    """What is wrong with the program that a script is; empty if nothing is."""
    try:
        wanted = [_run(text, seed) for seed in SEEDS]
    except Exception:
        return ""  # it is no script: it changes what is expanded, or was made too small
    if torch.equal(*wanted):
        return ""  # what is computed last takes no random numbers
    try:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            (module, args), (_, others) = (capture_text(text, seed=seed) for seed in SEEDS)
            _trace(module, args)
    except ImportFailure as error:
        why = str(error).split("error: ")[-1].splitlines()[0]
        return "" if any(words in why for words in REFUSED) else why
    for seed, given, right in zip(SEEDS, (args, others), wanted, strict=True):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
            found = module(*copy.deepcopy(given))
        if not torch.equal(torch.get_rng_state(), before):
            return ""  # it draws itself, in another order
        if not isinstance(found, torch.Tensor) or not torch.equal(found, right):
            noted = "numbers are read here" in said.getvalue()
            return "" if noted or not _exports(text) else f"wrong for seed {seed}"
    return ""


def _exports(text: str) -> bool:
    """False if an export refuses a script, such as one that changes a tensor that it is given."""
    try:
        module, args = capture_text(text, seed=SEEDS[0])
        export(module, args, {}, {}, Questions())
    except ImportFailure as error:
        return not any(words in str(error) for words in REFUSED)
    return True


def _trace(module: torch.nn.Module, args: Any) -> None:
    """Runs a program without data, as an export does; ImportFailure where it changes what was."""
    with (
        FakeTensorMode(allow_non_fake_inputs=True) as mode,
        torch.no_grad(),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        given = tree_map_only(torch.Tensor, mode.from_tensor, args)
        with contextlib.suppress(RuntimeError, TypeError, AssertionError):
            module(*given)


def shrunk(text: str, fails: Callable[[str], bool]) -> str:
    """A text of fewer lines that fails, too."""
    lines, size = text.splitlines(), len(text.splitlines()) // 2
    while size:
        for start in reversed(range(0, len(lines), size)):
            fewer = lines[:start] + lines[start + size :]
            if fails("\n".join(fewer)):
                lines = fewer
        size //= 2
    return "\n".join(lines)


def _run(text: str, seed: int) -> Any:
    scope: dict[str, Any] = {"torch": torch, "nn": torch.nn, "math": math, "__name__": "__main__"}
    torch.manual_seed(seed)
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        exec(text, scope)
    return scope["r"]


class _Script:
    """Writes a script; names of what is there are kept by scope."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0
        self.functions: list[tuple[str, int, bool, bool]] = []
        """
        Names of functions that were defined, how many tensors they take, whether a number, too, and
        whether they return two tensors.
        """
        self.objects: list[str] = ["o1", "o2"] if rng.random() < 0.6 else []
        """The names of objects, which are there from the first statement on."""
        self.hides = rng.random() < 0.4
        """True if there is what has a hidden state."""
        self.draws = True
        """False in loops and functions of tensors, where the program itself draws when it runs."""

    def made_before(self) -> str:
        """The classes and the values that the statements use."""
        classes = CLASSES if self.objects or self.hides else ""
        return classes + (STATE if self.hides else "")

    def text(self) -> list[str]:
        lines: list[str] = []
        for _ in range(self.rng.randrange(4)):
            lines += self.function()
        if self.rng.random() < 0.3:
            lines += ["def main():", *_indented(self.body([], ["1"], ends=True)), ""]
            if self.rng.random() < 0.5:
                return [*lines, "if __name__ == '__main__':", "    r = main()"]
            return [*lines, "r = main()"]
        tensors, numbers = [], ["2"]
        if self.objects:
            lines.append(f"{self.new(tensors)} = {self.made(numbers)}")
            lines += self.act(OBJECTS, "o1", tensors, numbers)
            lines += self.act(OBJECTS, "o2", tensors, numbers)
        lines += self.statements(tensors, numbers, 0, self.rng.randrange(3, 9))
        lines.append(f"r = torch.sin({self.computed(tensors, numbers)})")
        return lines + self.rng.choice(([], ["r"], ["print(r)"], ["print('done', r.sum().item())"]))

    def function(self) -> list[str]:
        """A function of some tensors, or of none, which makes its own."""
        rng = self.rng
        taken, counts, pair = rng.choice((0, 0, 1, 2)), rng.random() < 0.5, rng.random() < 0.2
        self.count += 1
        name, given = f"f{self.count}", [f"t{n}" for n in range(taken)]
        parameters = [*given, "n=2"] if counts else given
        decorator = ["@torch.no_grad()"] if rng.random() < 0.1 else []
        self.draws = taken == 0
        body = self.body(given, ["n"] if counts else ["3"], pair=pair)
        self.draws = True
        self.functions.append((name, taken, counts, pair))
        return [*decorator, f"def {name}({', '.join(parameters)}):", *_indented(body), ""]

    def body(
        self, given: list[str], numbers: list[str], ends: bool = False, pair: bool = False
    ) -> list[str]:
        """The statements of a function; `ends` says that it computes what the script does."""
        rng, tensors = self.rng, [*given]
        lines: list[str] = []
        if rng.random() < 0.15:
            lines += ["def inner(t, *more):", f"    return {self.fill(COMPUTED, ['t'], numbers)}"]
            self.functions.append(("inner", 1, False, False))
        early = not ends and not pair
        lines += self.statements(tensors, numbers, 1, rng.randrange(1, 5), early)
        value = self.computed(tensors, numbers)
        end = f"return torch.sin({value})" if ends else f"return {value}"
        if pair:
            end += f", {self.computed(tensors, numbers)}"
        self.functions = [f for f in self.functions if f[0] != "inner"]
        return (
            [*lines, "with torch.no_grad():", f"    {end}"]
            if rng.random() < 0.15
            else [*lines, end]
        )

    def statements(
        self, tensors: list[str], numbers: list[str], depth: int, most: int, returns: bool = False
    ) -> list[str]:
        """Some statements, which may add to the names of tensors and of numbers."""
        lines: list[str] = []
        for _ in range(most):
            lines += self.statement(tensors, numbers, depth, returns)
        return lines

    def statement(
        self, tensors: list[str], numbers: list[str], depth: int, returns: bool
    ) -> list[str]:
        rng = self.rng
        draw = rng.random()
        if tensors and self.hides and depth == 0 and rng.random() < 0.4:
            return self.act(HIDDEN, "o1", tensors, numbers)
        if tensors and self.objects and depth == 0 and rng.random() < 0.5:
            templates = DRAWN if rng.random() < 0.15 else ACTS
            return self.act(templates, rng.choice(self.objects), tensors, numbers)
        if not tensors or draw < 0.2:
            return [f"{self.new(tensors)} = {self.made(numbers)}"]
        if draw < 0.5:
            value = self.computed(tensors, numbers)
            old = rng.random() < 0.25
            return [f"{rng.choice(tensors) if old else self.new(tensors)} = {value}"]
        if draw < 0.62:
            return [self.fill(CHANGES, tensors, numbers)]
        if draw < 0.68:
            value = self.fill(NUMBERS, tensors, numbers)
            return [f"{self.new(numbers)} = {value}"]
        if draw < 0.74:
            return [self.fill(SHOWN, tensors, numbers)]
        if depth < 3 and draw < 0.96:
            return self.nested(tensors, numbers, depth, returns)
        pairs = [f for f in self.functions if f[3] and f[1] == 0] if self.draws else []
        if pairs:
            return [f"{self.new(tensors)}, {self.new(tensors)} = {rng.choice(pairs)[0]}()"]
        x, y = self.computed(tensors, numbers), self.computed(tensors, numbers)
        return [f"{self.new(tensors)}, {self.new(tensors)} = {x}, {y}"]

    def nested(
        self, tensors: list[str], numbers: list[str], depth: int, returns: bool
    ) -> list[str]:
        rng = self.rng
        head = self.fill(NESTED, tensors, numbers)
        inner, counted = [*tensors], [*numbers]
        if head.startswith("for") and "m in" not in head:
            counted.append(head.split()[1])
        if head.startswith("while"):
            self.count += 1
            head = head.replace("done", f"done{self.count}")
        drew, self.draws = self.draws, self.draws and head.startswith(("if", "with"))
        body = self.statements(inner, counted, depth + 1, rng.randrange(1, 3), False)
        self.draws = drew
        if head.startswith("if"):
            if returns and rng.random() < 0.4:
                body.append(f"return {self.computed(inner, counted)}")
            lines = [head, *_indented(body)]
            if rng.random() < 0.5:
                other = self.statements([*tensors], [*numbers], depth + 1, 1, False)
                lines += ["else:", *_indented(other)]
            return lines
        if "m in" in head:
            body.append(f"{rng.choice(tensors)} = m({rng.choice(tensors)})")
        if head.startswith("while"):
            return [f"{head.split()[1]} = [2, 1]", head, *_indented(body)]
        if head.startswith("with"):
            tensors += [name for name in inner if name not in tensors]
            numbers += [name for name in counted if name not in numbers]
        return [head, *_indented(body)]

    def act(self, templates: str, o: str, tensors: list[str], numbers: list[str]) -> list[str]:
        """Statements with an object, one of some templates."""
        pieces = templates.strip().replace("\n", " | ").split(" | ")
        pick, piece = self.rng.choice, self.rng.choice(pieces)
        a, b, n, i = pick(tensors), pick(tensors), pick((*numbers, "0.5")), pick(numbers)
        x = self.new(tensors) if "{x}" in piece else ""
        return piece.format(o=o, a=a, b=b, n=n, i=i, x=x).split(";")

    def computed(self, tensors: list[str], numbers: list[str]) -> str:
        """An expression, mostly of tensors that are there."""
        rng = self.rng
        if self.functions and rng.random() < 0.3:
            name, taken, counts, pair = rng.choice(self.functions)
            if tensors if taken else self.draws:
                given = [rng.choice(tensors) for _ in range(taken)]
                given += [f"n={rng.choice(numbers)}"] if counts and rng.random() < 0.5 else []
                call = f"{name}({', '.join(given)})" + (f"[{rng.randrange(2)}]" if pair else "")
                return call if rng.random() < 0.6 else f"{call} * {rng.choice(numbers)}"
        return self.fill(COMPUTED, tensors, numbers) if tensors else self.made(numbers)

    def made(self, numbers: list[str]) -> str:
        return self.fill(MADE if self.draws and self.rng.random() < 0.8 else CONSTANT, [], numbers)

    def fill(self, templates: str, tensors: list[str], numbers: list[str]) -> str:
        """One of some templates, its names filled in."""
        pieces = templates.strip().replace("\n", " | ").split(" | ")
        pick = self.rng.choice
        a, b, v = (pick(tensors or ["none"]) for _ in range(3))
        n = pick((*numbers, "0.5", "2"))
        return pick(pieces).format(a=a, b=b, v=v, n=n, i=pick(numbers))

    def new(self, names: list[str]) -> str:
        self.count += 1
        name = f"x{self.count}"
        names.append(name)
        return name


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
