"""
The attention that models are exported with: scaled_dot_product_attention, one operation.

A prompt without padding needs no mask where the model's mask is the causal one, which the operation
has a flag for, or lets every token see every other. transformers leaves such a mask out when it
runs, but not while it is traced, since a trace may be run with padding; what is traced here is not.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

UNPADDED = "dlc_unpadded"
"""What `attn_implementation` is where no input is padded."""


def unpadded_mask(
    *, q_length: int, attention_mask: Any = None, local_size: int | None = None, **given: Any
) -> torch.Tensor | None:
    """
    The mask (batch, 1, q_length, kv_length) of booleans for tokens without padding, or None where
    the model allows that and no window is shorter than the prompt. The padding mask is all ones.
    """
    skips = (given.pop(f"allow_is_{kind}_skip", False) for kind in ("causal", "bidirectional"))
    if any(list(skips)) and (local_size is None or q_length <= local_size):
        return None
    return sdpa_mask(q_length=q_length, allow_is_causal_skip=False, **given)


def attention_of(config: Any, padded: bool) -> str:
    """
    The name, among transformers' attentions, of the one to export a model with. Scores that are
    capped are no scaled_dot_product_attention: such a model takes its attention apart itself.
    """
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return "eager"
    if padded:
        return "sdpa"
    AttentionInterface.register(UNPADDED, sdpa_attention_forward)
    AttentionMaskInterface.register(UNPADDED, unpadded_mask)
    return UNPADDED
