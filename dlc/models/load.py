"""`load_model`: a model by name as a module and example inputs, which dlc then imports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dlc.frontend.source import ImportFailure
from dlc.models.find import Found, read_config

DEFAULT_LENGTH = 128
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

EXPERTS = "batched_mm"
"""
How transformers computes a mixture of experts: each token gathers the weights of its own. All
its shapes are static; the other ways loop over the experts that were chosen, or sort tokens by them
with an operation of transformers' own.
"""


@dataclass(frozen=True)
class ModelOptions:
    """The part of a model that is wanted, and its inputs."""

    layer: int | None = None
    """Only this decoder layer, from 0."""
    seq_len: int | None = None
    """Tokens of a prompt; by default 128, or the most that the model is made for."""
    batch: int = 1
    dtype: str = "f32"
    weights: bool = False
    """True if the program is to be run, and thus needs the values of its parameters."""
    random_weights: bool = False
    seed: int = 0


def load_model(found: Found, options: ModelOptions) -> tuple[nn.Module, tuple[Any, ...]]:
    """
    The program of a model (see `find`), and example inputs; without `options.weights` all of its
    tensors are on the meta device. ImportFailure for a model that cannot be had or taken apart so.
    """
    from dlc.models.checkpoint import load_layer, load_whole
    from dlc.models.weights import check_memory, fill_random

    with quiet():
        config = read_config(found.file)
        model = build(config, options)
        program = program_of(model, options)
        inputs = inputs_of(program, config, options)
    if not options.weights:
        return program.to("meta"), tuple(t.to("meta") for t in inputs)
    if found.weights is None and not options.random_weights:
        raise ImportFailure(
            f"'{found.name}' is a configuration without weights; run it with --random-weights"
        )
    check_memory(program, found.name)
    if options.random_weights:
        fill_random(program, options.seed)
    elif options.layer is not None:
        load_layer(program, found)
    else:
        with quiet():
            program = program_of(load_whole(model, found), options)
    return program, inputs


def build(config: Any, options: ModelOptions) -> nn.Module:
    """The model of a configuration, in eval mode, its parameters without memory."""
    from transformers import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
        AutoModel,
        AutoModelForCausalLM,
    )

    from dlc.models.model_attention import attention_of
    from dlc.models.weights import parameters_on_meta

    text = config.get_text_config()
    if config.is_encoder_decoder or not hasattr(text, "vocab_size"):
        raise ImportFailure(
            f"expected a decoder or an encoder of text, found a '{config.model_type}'; build it in "
            "a script, and compile the call of it there"
        )
    generates = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
    generates &= type(config) not in MODEL_FOR_MASKED_LM_MAPPING
    kind = AutoModelForCausalLM if generates else AutoModel
    with parameters_on_meta():
        try:
            model = kind.from_config(
                config,
                dtype=DTYPES[options.dtype],
                attn_implementation=attention_of(text, padded=not generates),
                experts_implementation=EXPERTS,
            )
        except (ValueError, TypeError, ImportError, AttributeError) as error:
            first = (str(error).splitlines() or ["no message"])[0]
            raise ImportFailure(
                f"transformers cannot build this '{config.model_type}': {first}"
            ) from error
    return model.eval()


def program_of(model: nn.Module, options: ModelOptions) -> nn.Module:
    """The part of the model that the options ask for."""
    from dlc.models import programs

    if options.layer is not None:
        return programs.only_layer(model, options.layer)
    if model.get_output_embeddings() is not None:  # pyright: ignore[reportCallIssue]
        return programs.CausalLM(model)
    if isinstance(getattr(model, "pooler", None), nn.Module):
        del model.pooler  # it computes what is not asked for, and checkpoints may lack it
        model.register_module("pooler", None)
    return programs.Encoder(model)


def length_of(text: Any, options: ModelOptions) -> int:
    """Tokens of a prompt; ImportFailure for more than a model has positions."""
    limit: int | None = getattr(text, "max_position_embeddings", None)
    if options.seq_len is None:
        return min(DEFAULT_LENGTH, limit or DEFAULT_LENGTH)
    if limit is not None and options.seq_len > limit:
        raise ImportFailure(
            f"expected a length of at most {limit}, which the model is made for, found "
            f"{options.seq_len}; lower --seq-len"
        )
    return options.seq_len


def inputs_of(program: nn.Module, config: Any, options: ModelOptions) -> tuple[torch.Tensor, ...]:
    """Random tokens, without padding; hidden states for a layer."""
    from dlc.models.programs import DecoderLayer, Encoder

    text = config.get_text_config()
    shape = options.batch, length_of(text, options)
    generator = torch.Generator().manual_seed(options.seed)
    if isinstance(program, DecoderLayer):
        states = torch.randn(*shape, text.hidden_size, generator=generator)
        return (states.to(DTYPES[options.dtype]),)
    tokens = torch.randint(0, text.vocab_size, shape, generator=generator)
    return (tokens, torch.ones_like(tokens)) if isinstance(program, Encoder) else (tokens,)


@contextmanager
def quiet() -> Iterator[None]:
    """Holds back transformers' progress bars and warnings; what matters is raised."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
