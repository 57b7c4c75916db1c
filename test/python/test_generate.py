"""dlc generate: tokens as transformers makes them, whatever the batch; draws; the command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_llama import train
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

import dlc
from dlc.backend.host.host_backend import HostBackend
from dlc.cli import dlc_cli
from dlc.diagnostics import UsageError
from dlc.frontend.source import ImportFailure
from dlc.generation.generator import Generator, generate, power_from, sizes_for
from dlc.generation.sampling import Sampling, choose, sortable, threshold, uniform

COMMON = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "head_dim": 8,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
KINDS: dict[str, dict[str, Any]] = {
    "gemma2": {"sliding_window": 6, "query_pre_attn_scalar": 8},  # capped scores, windows
    "gpt2": {
        "num_hidden_layers": 1,
        "n_embd": 32,
        "n_head": 4,
        "n_positions": 128,
    },  # learned positions
    "qwen3": {"num_hidden_layers": 1},  # norms of queries and keys
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny_llama")
    train(directory)
    return directory


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one layer, which speaks, too: for what the command does with any."""
    directory = tmp_path_factory.mktemp("small_llama")
    train(directory, layers=1)
    return directory


@pytest.fixture(scope="module")
def model(directory: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(directory).eval()


@pytest.fixture(scope="module")
def pair(model: LlamaForCausalLM) -> Generator:
    """Of two rows of up to 64 tokens, which end with the fourth token behind `text(20, 0)`."""
    end = by_transformers(model, text(20, 0), 4)[3]
    return Generator(model, 2, 64, ends=[end, 383], backend="host")


def test_graphs_read_and_write_what_calls_do(
    model: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, with a graph that does its launches when it is replayed, and not before."""
    generator = Generator(shallow(model), 2, 64, chunk=4, ends=[], backend="host")
    prompts = prompts_of([7, 3])
    called = generator(prompts, 4)
    monkeypatch.setattr(HostBackend, "capture", lambda self, run: (run, []), raising=False)
    generator.graphed, generator.ahead = True, 3  # with looks in the midst of a text
    assert generator(prompts, 4) == called
    assert generator(prompts[::-1], 4) == called[::-1]


def shallow(model: LlamaForCausalLM) -> LlamaForCausalLM:
    """Its first layer, between what is before and after all of them."""
    first: dict[str, Any] = model.config.to_dict() | {"num_hidden_layers": 1}
    copied = LlamaForCausalLM(LlamaConfig(**first))
    copied.load_state_dict(model.state_dict(), strict=False)
    return copied.eval()


def by_transformers(model: Any, prompt: list[int], new: int) -> list[int]:
    with torch.no_grad():
        found = model.generate(
            torch.tensor([prompt]), max_new_tokens=new, do_sample=False, pad_token_id=0
        )
    return found[0, len(prompt) :].tolist()


def prompts_of(lengths: list[int], vocabulary: int = 128) -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(3, vocabulary, (n,), generator=generator).tolist() for n in lengths]


def text(length: int, start: int) -> list[int]:
    """Some of what the small model was trained on."""
    written = (Path(__file__).parents[2] / "docs" / "architecture.md").read_bytes()
    start %= len(written) - 64
    return [byte + 3 for byte in written[start : start + length]]


def test_prompts_of_mixed_lengths_batched_and_alone(model: LlamaForCausalLM) -> None:
    """
    Also in chunks, up to, at and beyond their ends, and in a batch with empty rows; no length
    compiles anything.
    """
    model = shallow(model)
    lengths = [1, 17, 61, 16, 2, 33, 15, 48, 32, 18, 49, 34]
    prompts = [text(length, 131 * row) for row, length in enumerate(lengths)]
    expected = [by_transformers(model, prompt, 4) for prompt in prompts]
    together = Generator(model, len(prompts), 80, chunk=16, backend="host")
    assert together(prompts, 4) == expected
    assert together(prompts[:5], 4) == expected[:5]
    alone = Generator(model, 1, 80, chunk=64, backend="host")
    assert [alone([prompt], 4)[0] for prompt in prompts] == expected
    assert [len(program.variants) for program in alone.programs.values()] == [1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_architectures(kind: str) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **(COMMON | KINDS[kind]))
    model = AutoModelForCausalLM.from_config(config).eval()
    prompts = prompts_of([9, 1, 20])
    chosen = model.config._attn_implementation
    expected = [by_transformers(model, prompt, 6) for prompt in prompts]
    assert dlc.generate(model, prompts, 6, backend="host") == expected
    assert model.config._attn_implementation == chosen


def test_a_step_writes_in_place(pair: Generator) -> None:
    """What the products of keys and values store is a row's new place; nothing copies a cache."""
    token = pair.programs["token"]
    given = re.findall(r"host\.launch .* -> \((.*?)\)", token.ir("kernel"))
    updated = [re.findall(r"%rows_(keys|values)", outputs) for outputs in given]
    assert [names for names in updated if names] == [["keys", "values"]] * 2
    kernels = token.ir("loop").split("loop.kernel ")
    writers = [k for k in kernels if re.search("updates %rows_(keys|values)", k)]
    assert len(writers) == 4  # each computes the norm before it, that of the first layer of others
    for writer in writers:
        assert " in 64" not in re.sub(r"loop\.reduce .*", "", writer)  # the capacity
    assert not any("hit" in kernel.name for kernel in token.kernels)


def test_ends(model: LlamaForCausalLM, pair: Generator) -> None:
    prompt = text(20, 0)
    whole = by_transformers(model, prompt, 12)
    first, generator = whole.index(whole[3]), pair
    assert generator([prompt, prompt[:5]], 12)[0] == whole[: first + 1]
    assert generator([prompt], 0) == [[]]
    assert generator([prompt], 2) == [whole[: min(2, first + 1)]]
    grown = list(generator.stream([prompt], 12))
    assert [g.is_done for g in grown] == [False] * first + [True]
    assert generator.times.steps == generator.times.tokens == first + 1


def test_draws_do_not_depend_on_the_batch(model: LlamaForCausalLM) -> None:
    """
    They are those of the same program in eager PyTorch, and others for another seed. A layer is
    enough: what draws has the logits, however many made them.
    """
    model = shallow(model)
    sampling = Sampling(temperature=1.0, top_k=40, top_p=0.9, min_p=0.01, seed=7)
    prompts = [text(9, 0), text(17, 60), text(1, 5)]
    together = Generator(model, 3, 64, sampling=sampling, backend="host")
    found = together(prompts, 6)
    alone = Generator(model, 1, 64, sampling=sampling, backend="host")
    assert [alone([prompt], 6)[0] for prompt in prompts] == found
    programs = alone.programs
    alone._read, alone._make = (p.function for p in programs.values())  # type: ignore[assignment]
    assert [alone([prompt], 6)[0] for prompt in prompts] == found
    alone._make.sampling = Sampling(temperature=1.0, seed=2**40)  # type: ignore[attr-defined]
    assert [alone([prompt], 6)[0] for prompt in prompts] != found


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_the_fewest_that_hold_a_share(share: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 50) * 4
    logits[2, :40] = -torch.inf
    shares = logits.softmax(-1)
    least = threshold(sortable(logits), shares, shares.sum(-1) * share)
    kept = sortable(logits) >= least[:, None]
    ordered, _ = shares.double().sort(descending=True)
    for row in range(3):
        count = int((ordered[row].cumsum(0) < share * (1 - 1e-6)).sum()) + 1
        assert abs(int(kept[row].sum()) - count) <= (share == 1.0) * 50
        assert shares[row][kept[row]].sum() >= share * (1 - 1e-5)


def test_the_likeliest() -> None:
    k = 7
    torch.manual_seed(0)
    logits = torch.randn(4, 100)
    logits[1] = torch.tensor([0.0, -0.0]).repeat(50)
    ones = torch.ones_like(logits)
    least = threshold(sortable(logits), ones, ones[:, 0] * k)
    assert ((sortable(logits) >= least[:, None]).sum(-1) == torch.tensor([k, 50, k, k])).all()
    order = sortable(logits[0]).argsort()
    assert (logits[0][order].diff() >= 0).all()


def test_draws_follow_the_distribution() -> None:
    """20,000 positions, eight tokens: within five standard deviations of what is expected."""
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 3.0, -20.0, 0.5, -torch.inf])
    count = 20000
    for sampling, kept in (
        (Sampling(temperature=1.0), 8),
        (Sampling(temperature=1.0, top_k=3), 3),
        (Sampling(temperature=2.0, min_p=0.2), 5),
        (Sampling(temperature=1.0, top_p=0.5), 1),
    ):
        drawn = choose(logits.expand(count, 8), torch.arange(count), sampling)
        shares = (logits / sampling.temperature).softmax(-1).double()
        ordered = shares.sort(descending=True)
        shares[ordered.indices[kept:]] = 0
        shares /= shares.sum()
        expected, found = shares * count, torch.bincount(drawn, minlength=8)
        deviation = (expected * (1 - shares)).sqrt()
        assert ((found - expected).abs() <= 5 * deviation + 1e-9).all(), sampling


def test_numbers_are_philox() -> None:
    """By the known answer of its authors for counter and key of zeros; never 0 or 1."""
    assert int(uniform(0, torch.zeros(1, dtype=torch.int64), 1)[0, 0] * 2**23) == 0x6627E8D5 >> 9
    many = uniform(3, torch.arange(200), 1000)
    assert 0 < float(many.min()) < 1e-4
    assert 1 - 1e-4 < float(many.max()) < 1


def test_sizes() -> None:
    assert [power_from(n) for n in (0, 1, 2, 3, 64, 65)] == [1, 1, 2, 4, 64, 128]
    room = sizes_for(100, 60, None, None)
    assert (room.capacity, room.chunk) == (256, 128)
    assert sizes_for(100, 60, None, 200).capacity == 200
    assert sizes_for(3000, 60, 4096, None).chunk == 512


@pytest.mark.parametrize(
    ("prompts", "new", "said"),
    [
        ([], 1, "expected 1 to 2 prompts, found 0"),
        ([[1], [2], [3]], 1, "expected 1 to 2 prompts, found 3"),
        ([[]], 1, "expected a token or more in prompt 0, found none"),
        ([[1], [5] * 60], 8, "prompt 1 has 60 tokens: with 8 new ones it does not fit into 64"),
        ([[384]], 1, "expected tokens from 0 to 383 in prompt 0, found 384"),
    ],
)
def test_prompts_that_are_refused(
    pair: Generator, prompts: list[list[int]], new: int, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        pair(prompts, new)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"temperature": -1.0}, "expected a temperature from 0 up, found -1.0"),
        ({"temperature": 1.0, "top_k": 0}, "expected a top k from 1 up, found 0"),
        ({"temperature": 1.0, "min_p": 1.5}, "expected a min p above 0 and at most 1, found 1.5"),
        ({"top_p": 0.5}, "need a temperature above 0"),
    ],
)
def test_sampling_that_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Sampling(**given)


def test_models_that_are_refused(model: LlamaForCausalLM) -> None:
    with pytest.raises(UsageError, match="at most 512 tokens, which the model is made for"):
        Generator(model, 1, 1024, backend="host")
    config = AutoConfig.for_model("bloom", hidden_size=32, n_layer=1, n_head=2, vocab_size=64)
    with pytest.raises(ImportFailure, match="takes its attention from outside"):
        Generator(AutoModelForCausalLM.from_config(config), 1, 64, backend="host")
    with pytest.raises(ImportFailure, match="as Llama does; Linear does not"):
        generate(torch.nn.Linear(4, 4), [[1, 2]], max_new_tokens=2, backend="host")


def run(*arguments: str) -> int:
    return dlc_cli.main(["generate", *arguments, "--backend", "host"])


def test_the_command(small: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(small).eval()
    prompt = "The passes of "
    tokens = [byte + 3 for byte in prompt.encode()]
    following = bytes(t - 3 for t in by_transformers(model, tokens, 8) if t > 2).decode()
    assert run(str(small), "--prompt", prompt, "--max-new-tokens", "8", "--stats") == 0
    out, err = capsys.readouterr()
    assert out == prompt + following + "\n"
    assert "a step" in err
    assert "launches" in err
    lines = tmp_path / "prompts"
    lines.write_text(f"{prompt}\n\nA kernel\n")
    assert run(str(small), "--batch-file", str(lines), "--max-new-tokens", "8") == 0
    out = capsys.readouterr().out
    assert f"[0] {prompt}{following}\n" in out
    assert "[1] A kernel" in out
    numbers = ",".join(map(str, tokens))
    assert run(str(small), "--tokens", numbers, "--max-new-tokens", "1") == 0
    assert capsys.readouterr().out.startswith(numbers + ",")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--prompt", "a", "--top-k", "3"], "need a temperature above 0"),
        (["--tokens", "1,x"], "expected numbers of tokens such as 1,15043, found '1,x'"),
        (["--batch-file", "/no/such"], "cannot read '/no/such'"),
        (["--prompt", "a", "--cache", "4"], "does not fit into 4"),
        (["--prompt", "a", "--target", "sm_1"], "unknown target 'sm_1'"),
    ],
)
def test_commands_that_are_refused(
    small: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(str(small), *arguments) == 2
    assert said in capsys.readouterr().err


def test_a_configuration_has_no_tokenizer(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(small / "config.json")
    assert run(config, "--prompt", "a", "--random-weights") == 1
    assert "is a configuration without a tokenizer" in capsys.readouterr().err
    assert run(config, "--tokens", "5,6", "--random-weights", "--max-new-tokens", "2") == 0
    assert capsys.readouterr().out.startswith("5,6,")
