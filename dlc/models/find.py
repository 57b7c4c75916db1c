"""Finds the model of a name: its configuration, and the place of its weights."""

from __future__ import annotations

import importlib.util
import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlc.diagnostics import UsageError, with_hint
from dlc.frontend.source import ImportFailure

CONFIGS = Path(__file__).parent / "configs"
"""Published configurations that ship with dlc, `/` in their names written `--`."""

TIMEOUT = 5
"""Seconds to wait for an answer of the hub."""


@dataclass(frozen=True)
class Found:
    """A model: the file of its configuration, and what its weights are loaded from."""

    name: str
    file: Path
    weights: str | None
    """A directory or an id of the hub; None where there is a configuration only."""


def shipped() -> dict[str, Path]:
    """The configurations that ship with dlc, by id."""
    return {path.stem.replace("--", "/"): path for path in sorted(CONFIGS.glob("*.json"))}


def find(name: str) -> Found:
    """
    The model of a name: a directory, a configuration file, an id whose configuration ships with
    dlc, or an id of the Hugging Face hub, from its local cache if it is there. ImportFailure, at
    once if there is no network, where that is not to be had.
    """
    require("huggingface_hub", "transformers", "safetensors")
    path = Path(name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ImportFailure(f"expected a model, found no config.json in the directory '{name}'")
        return Found(name, path / "config.json", name)
    if path.is_file():
        return Found(name, path, None)
    if name.endswith(".json") or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ImportFailure(f"there is no file or directory '{name}'")
    known = {id.lower(): (id, file) for id, file in shipped().items()}
    if name.lower() in known:
        id, file = known[name.lower()]
        return Found(id, file, id)
    return Found(name, fetch(name, "config.json"), name)


def require(*packages: str) -> None:
    """UsageError for a package that is not installed; none is imported."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise with_hint(
                UsageError(f"models need the package {package}, which is not installed"),
                "pip install 'dlc[models]'",
            )


def read_config(path: Path) -> Any:
    """The configuration in a file; ImportFailure if it is none, or of an unknown architecture."""
    from transformers import AutoConfig

    try:
        stated = json.loads(path.read_text())
        kind = stated["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ImportFailure(
            f"expected a configuration with a model_type in '{path}': {_why_not(error)}"
        ) from None
    if "auto_map" in stated and not _is_known(kind):
        raise ImportFailure(
            f"the model_type '{kind}' of '{path}' is defined by code of the model's own, which dlc "
            "does not run; build the model in a script and compile that"
        )
    if not _is_known(kind):
        import transformers

        raise ImportFailure(
            f"transformers {transformers.__version__} knows no model_type '{kind}', which "
            f"'{path}' has; install a newer transformers"
        )
    try:
        return AutoConfig.for_model(**stated)
    except Exception as error:
        first = str(error).split("\n")[0]
        raise ImportFailure(f"transformers does not take '{path}': {first}") from error


def _why_not(error: Exception) -> str:
    """Why a file is no configuration."""
    match error:
        case json.JSONDecodeError():
            return f"it is no JSON: {error.msg[:1].lower()}{error.msg[1:]} in line {error.lineno}"
        case OSError():
            return (error.strerror or str(error)).lower()
        case UnicodeDecodeError():
            return "it is not text"
        case _:
            return "it has none"


def _is_known(kind: object) -> bool:
    from transformers import CONFIG_MAPPING

    return kind in CONFIG_MAPPING


def fetch(id: str, file: str) -> Path:
    """A file of a model of the hub, from the local cache or else the network."""
    from huggingface_hub import errors, hf_hub_download

    try:
        return Path(hf_hub_download(id, file, local_files_only=True))
    except errors.HFValidationError:
        raise ImportFailure(
            f"expected a file, a directory or a Hugging Face id such as Qwen/Qwen2.5-7B, found "
            f"'{id}'"
        ) from None
    except (OSError, ValueError):
        pass
    if (reason := unreachable()) is not None:
        raise ImportFailure(
            f"the model '{id}' is not on this machine, and the Hugging Face hub cannot be reached "
            f"({reason}); give a directory with its config.json and safetensors, or one of "
            f"{', '.join(shipped())} with --random-weights"
        )
    try:
        return Path(hf_hub_download(id, file, etag_timeout=TIMEOUT))
    except Exception as error:
        raise refused(id, file, error) from error


def refused(id: str, file: str, error: Exception) -> ImportFailure:
    """The error for the user that an answer of the hub means."""
    from huggingface_hub import errors

    match error:
        case errors.GatedRepoError():
            why = f"asks for consent; accept its terms at https://huggingface.co/{id} and log in "
            why += "with `hf auth login`"
        case errors.RepositoryNotFoundError():
            why = "does not exist, or is private; check the name, or log in with `hf auth login`"
        case errors.EntryNotFoundError():
            why = f"has no file {file}; dlc takes models with a config.json and safetensors"
        case _:
            first = (str(error).splitlines() or ["no message"])[0]
            why = f"could not be fetched: {type(error).__name__}: {first}"
    return ImportFailure(f"the model '{id}' on the Hugging Face hub {why}")


def unreachable() -> str | None:
    """The reason, found within seconds, why the hub does not answer; None if it does."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or os.environ.get("TRANSFORMERS_OFFLINE") in ("1", "true"):
        return "HF_HUB_OFFLINE is set"
    try:
        request = urllib.request.Request(constants.ENDPOINT, method="HEAD")
        urllib.request.urlopen(request, timeout=TIMEOUT).close()
    except urllib.error.HTTPError:
        return None  # it answered
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))
    return None
