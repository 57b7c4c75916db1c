"""Weights of a checkpoint: a directory of safetensors, or a model of the Hugging Face hub."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dlc.frontend.source import ImportFailure
from dlc.models.find import Found, fetch

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"


def load_whole(skeleton: Any, found: Found) -> nn.Module:
    """
    The model of a checkpoint, with the class, configuration and dtype of `skeleton`, which has no
    memory. transformers maps old names of weights to those of the model. ImportFailure for a weight
    that the checkpoint lacks.
    """
    from safetensors import SafetensorError

    if not (checkpoint_file(found, INDEX) or checkpoint_file(found, SINGLE)):
        raise no_checkpoint(found)
    try:
        model, report = type(skeleton).from_pretrained(
            found.weights,
            config=skeleton.config,
            dtype=skeleton.dtype,
            use_safetensors=True,
            output_loading_info=True,
        )
    except SafetensorError as error:
        raise ImportFailure(
            f"cannot read the weights of '{found.name}': {error}; fetch them again"
        ) from None
    except (OSError, ValueError, RuntimeError) as error:
        first = (str(error).splitlines() or ["no message"])[0]
        raise ImportFailure(f"cannot load the weights of '{found.name}': {first}") from error
    # The pooler of an encoder is not part of what is compiled.
    missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    refuse_missing(missing, found)
    return model.eval()


def load_layer(program: nn.Module, found: Found) -> None:
    """
    Gives the parameters of `program`, part of a model, their values, by name, and reads nothing
    else. ImportFailure for a weight that the checkpoint lacks or has in another shape.
    """
    wanted = dict(program.named_parameters())
    for file, names in files_of(found, wanted).items():
        for name, tensor in read(file, names):
            like = wanted[name]
            if tensor.shape != like.shape:
                raise ImportFailure(
                    f"expected the weight '{name}' of '{found.name}' to be {list(like.shape)}, as "
                    f"its configuration says, found {list(tensor.shape)}"
                )
            owner, _, leaf = name.rpartition(".")
            value = nn.Parameter(tensor.to(like.dtype), requires_grad=False)
            setattr(program.get_submodule(owner), leaf, value)


def files_of(found: Found, names: Iterable[str]) -> Mapping[Path, list[str]]:
    """The files of a checkpoint, each with the weights that it has."""
    files: dict[Path, list[str]] = defaultdict(list)
    index = checkpoint_file(found, INDEX)
    if index is None:
        single = checkpoint_file(found, SINGLE)
        if single is None:
            raise no_checkpoint(found)
        return {single: list(names)}
    shards: Mapping[str, str] = json.loads(index.read_text())["weight_map"]
    refuse_missing([name for name in names if name not in shards], found)
    for name in names:
        file = checkpoint_file(found, shards[name])
        if file is None:
            raise ImportFailure(f"'{found.name}' lacks the file {shards[name]} of its checkpoint")
        files[file].append(name)
    return files


def checkpoint_file(found: Found, file: str) -> Path | None:
    """A file of the checkpoint, fetched if need be; None if it has none of that name."""
    assert found.weights is not None
    directory = Path(found.weights)
    if directory.is_dir():
        path = directory / file
        return path if path.is_file() else None
    try:
        return fetch(found.weights, file)
    except ImportFailure as error:
        from huggingface_hub import errors

        if isinstance(error.__cause__, errors.EntryNotFoundError):
            return None
        raise


def read(file: Path, names: Iterable[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of a safetensors file, one by one."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="pt") as tensors:
            known = set(tensors.keys())
            for name in names:
                if name not in known:
                    raise ImportFailure(f"'{file}' has no weight '{name}'")
                yield name, tensors.get_tensor(name)
    except SafetensorError as error:
        raise ImportFailure(f"cannot read '{file}': {error}; fetch it again") from None


def no_checkpoint(found: Found) -> ImportFailure:
    return ImportFailure(
        f"expected a checkpoint in safetensors, '{found.name}' has none; run it with "
        "--random-weights"
    )


def refuse_missing(missing: list[str], found: Found) -> None:
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ImportFailure(
            f"the checkpoint of '{found.name}' lacks {', '.join(missing[:3])}{more}, which its "
            "configuration asks for; run it with --random-weights"
        )
