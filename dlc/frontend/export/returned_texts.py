"""Texts that a program returns: they are constants, and must not be made of what tensors hold."""

from __future__ import annotations

import re

import torch
from torch._guards import detect_fake_mode
from torch.utils._pytree import tree_leaves

from dlc.frontend.source import ImportFailure

OF_A_TENSOR = re.compile(r"\b(Fake|Functional)Tensor\(")


def check_texts(exported: torch.export.ExportedProgram) -> None:
    """
    ImportFailure for a text in the output that holds the name of a symbol, for a number that comes
    from a tensor or a size that may change, or of what stands for a tensor in an export.
    """
    (returned,) = exported.graph.output_node().args
    texts = [leaf for leaf in tree_leaves(returned) if isinstance(leaf, str)]
    texts.append(str(exported.call_spec.out_spec))  # with the keys of dicts
    symbols = None
    for text in texts:
        made = OF_A_TENSOR.search(text) is not None
        if words := re.findall(r"\b[a-z]+\d+\b", text):
            symbols = _symbols(exported) if symbols is None else symbols
            made = made or not symbols.isdisjoint(words)
        if made:
            raise ImportFailure(
                "the program returns a text that it makes of a tensor, whose values are not known "
                "when it is compiled; return the tensor or the number, and make the text outside"
            )


def _symbols(exported: torch.export.ExportedProgram) -> set[str]:
    """The names of all symbols that there were in an export, also in what nothing has used."""
    placeholders = exported.graph.find_nodes(op="placeholder")
    mode = detect_fake_mode([node.meta.get("val") for node in placeholders])
    environment = None if mode is None else mode.shape_env
    return set() if environment is None else {str(s) for s in environment.var_to_range}
