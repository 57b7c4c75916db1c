"""The tokenizer that belongs to a model, and the tokens at which its texts end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dlc.frontend.source import ImportFailure
from dlc.models.find import Found, unreachable
from dlc.models.load import quiet


def tokenizer_of(found: Found) -> Any:
    """transformers' tokenizer of a model; ImportFailure where that is not to be had."""
    from transformers import AutoTokenizer

    place = found.weights
    if place is None:
        raise ImportFailure(
            f"'{found.name}' is a configuration without a tokenizer; give prompts as numbers, by "
            "--tokens 1,15043"
        )
    with quiet():
        try:
            return AutoTokenizer.from_pretrained(place, local_files_only=True)
        except (OSError, ValueError, ImportError) as error:
            reason = error
        if not Path(place).is_dir() and unreachable() is None:
            try:
                return AutoTokenizer.from_pretrained(place)
            except (OSError, ValueError, ImportError) as error:
                reason = error
    first = (str(reason).splitlines() or ["no message"])[0]
    raise ImportFailure(
        f"the model '{found.name}' has no tokenizer on this machine ({first}); give prompts as "
        "numbers, by --tokens 1,15043"
    )


def ends_in(found: Found) -> list[int] | None:
    """What the generation_config.json of a directory says that texts end at, if it does."""
    path = Path(found.weights or "") / "generation_config.json"
    if found.weights is None or not path.is_file():
        return None
    try:
        ends = json.loads(path.read_text()).get("eos_token_id")
    except (OSError, ValueError) as error:
        raise ImportFailure(f"expected a configuration in '{path}': {error}") from None
    return None if ends is None else [ends] if isinstance(ends, int) else list(ends)
