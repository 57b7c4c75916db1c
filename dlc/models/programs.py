"""The parts of models that are compiled: all of a decoder, one of its layers, or an encoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from dlc.frontend.scripts.program_module import CalledModule
from dlc.frontend.source import ImportFailure


class CausalLM(CalledModule):
    """input_ids (batch, length) -> logits (batch, length, vocabulary): a prompt, uncached."""

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        (model,) = self.called
        mask = _no_padding(input_ids.shape, input_ids)
        return model(input_ids, attention_mask=mask, use_cache=False).logits


class Encoder(CalledModule):
    """input_ids, attention_mask (batch, length) -> last_hidden_state (batch, length, width)."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        (model,) = self.called
        return model(input_ids, attention_mask=attention_mask).last_hidden_state


class DecoderLayer(CalledModule):
    """
    hidden_states (batch, length, width) -> the same after one layer. The model computes rotary
    embeddings and masks as it does for all of its layers; `decoder` is the part of it that has
    them, without embeddings, final norm and the other layers (`only_layer`).
    """

    def __init__(self, model: nn.Module, decoder: nn.Module) -> None:
        super().__init__(model)
        self.decoder = (decoder,)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        (decoder,) = self.decoder
        mask = _no_padding(hidden_states.shape[:2], hidden_states)
        called = decoder(inputs_embeds=hidden_states, attention_mask=mask, use_cache=False)
        return called.last_hidden_state


class OneLayer(nn.ModuleList):
    """The list of a decoder's layers with all but one left out; that one keeps its number."""

    def __init__(self, number: int, layer: nn.Module) -> None:
        super().__init__()
        self.add_module(str(number), layer)

    def __getitem__(self, index: Any) -> Any:
        return list(self._modules.values())[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())


def only_layer(model: nn.Module, number: int) -> DecoderLayer:
    """
    The program of layer `number` of a causal LM, whose other layers, final norm and head are taken
    out of it. ImportFailure where there is no such layer, and for a model of another structure.
    """
    decoder: Any = getattr(model, "base_model", None)
    layers, norm = getattr(decoder, "layers", None), getattr(decoder, "norm", None)
    if not isinstance(layers, nn.ModuleList) or not isinstance(norm, nn.Module):
        raise ImportFailure(
            f"expected a decoder with layers and a final norm, such as Llama's, found "
            f"{type(model).__name__}; leave out --layer and --block to compile all of it"
        )
    if not 0 <= number < len(layers):
        raise ImportFailure(f"expected a layer from 0 to {len(layers) - 1}, found {number}")
    decoder.layers = OneLayer(number, layers[number])
    decoder.norm = nn.Identity()
    decoder.config.num_hidden_layers = 1
    if kinds := getattr(decoder.config, "layer_types", None):
        decoder.config.layer_types = [kinds[number]]
    for owner, name in ((decoder, "embed_tokens"), (model, "lm_head")):
        if hasattr(owner, name):
            setattr(owner, name, nn.Identity())
    return DecoderLayer(model, decoder)


def _no_padding(shape: Any, like: torch.Tensor) -> torch.Tensor:
    """A padding mask of ones; without one, models look for several prompts in a row."""
    return torch.ones(tuple(shape), dtype=torch.bool, device=like.device)
