"""Damaged files of saved programs: they are refused by a sentence, or are programs that run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from test_saved import Cached, call

import dlc
from dlc.backend import BackendError
from dlc.diagnostics import OpError
from dlc.frontend.source import ImportFailure
from dlc.saved.archive import read_archive, write_archive

OTHERS: tuple[Any, ...] = (
    None, True, -1, 0, 7, 2**70, 1.5, float("nan"), "", "x", "\ud800", [], [1], [[]], {}, {"a": 1},
)  # fmt: skip
REFUSALS = (BackendError, ImportFailure, OpError, TypeError)
"""What a call of a program raises that is not the one that was saved."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    args, kwargs = call()
    path = tmp_path_factory.mktemp("saved") / "p.dlc"
    model = Cached().requires_grad_(False)
    dlc.compile(model, args, backend="host", kwargs=kwargs).save(path)
    return path


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of a document with a key of it."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def refused_or_runs(path: Path) -> bool:
    """True if the file is refused; any other error than a sentence is raised."""
    try:
        program = dlc.load_program(path, "host")
    except BackendError:
        return True
    args, kwargs = call()
    try:
        program(*args, **kwargs)
    except REFUSALS:
        pass
    return False


def damaged_manifest(manifest: Any, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        container, key = rng.choice(list(places(manifest)))
        match rng.randrange(4):
            case 0:
                del container[key]
            case 1:
                container[key] = [container[key]]
            case 2 if isinstance(container[key], str) and container[key]:
                container[key] = container[key][: rng.randrange(len(container[key]))]
            case _:
                container[key] = rng.choice(OTHERS)


@pytest.mark.parametrize("seed", range(12))
def test_manifests_that_are_wrong(whole: Path, tmp_path: Path, seed: int) -> None:
    files, rng, path = read_archive(whole), random.Random(seed), tmp_path / "p.dlc"
    refused = 0
    for _ in range(12):
        manifest = json.loads(files["manifest.json"])
        damaged_manifest(manifest, rng)
        write_archive(path, files | {"manifest.json": json.dumps(manifest).encode()})
        refused += refused_or_runs(path)
    assert refused >= 6


def test_files_in_it_that_are_wrong(whole: Path, tmp_path: Path) -> None:
    files, path = read_archive(whole), tmp_path / "p.dlc"
    for name in files:
        if not name.endswith(".object"):
            text = files[name]
            for content in (None, b"", b"\xff\xfe", text[: len(text) // 2], text + b"}"):
                write_archive(path, {n: c for n, c in files.items() if n != name})
                if content is not None:
                    write_archive(path, files | {name: content})
                assert refused_or_runs(path), (name, content)
    for content in (b"", b"\x7fELF"):
        objects = {name: content for name in files if name.endswith(".object")}
        write_archive(path, files | objects)
        args, kwargs = call()
        program = dlc.load_program(path)
        with pytest.raises(BackendError, match="cannot load machine code"):
            program(*args, **kwargs)


def test_bytes_that_are_wrong(whole: Path, tmp_path: Path) -> None:
    content, rng, path = whole.read_bytes(), random.Random(0), tmp_path / "p.dlc"
    for _ in range(60):
        damaged = bytearray(content)
        if rng.random() < 0.3:
            del damaged[rng.randrange(len(damaged)) :]
        else:
            for _ in range(rng.choice((1, 3, 100))):
                damaged[-rng.randrange(1, 2000)] = rng.randrange(256)
        path.write_bytes(damaged)
        if damaged != content:
            refused_or_runs(path)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("target",), "sm_1", "expected target to be one of .*, found 'sm_1'"),
        (("variants",), {}, "expected variants to be a list, found {}"),
        (("variants", 0, "arguments", 1, "shape", 0), -3, r"expected variants\[0\].arguments\[1\]"),
        (("variants", 0, "arguments", 0, "align"), 0, "align to be one of 1, 2, 4, 8, 16, found 0"),
        (("variants", 0, "output_spec"), "[1]", "output_spec to be a structure of PyTorch"),
        (
            ("variants", 0, "signature", 0, "name"),
            "a b",
            r"signature\[0\].name to be the name of",
        ),
    ],
)
def test_a_wrong_entry_is_named(
    whole: Path, tmp_path: Path, place: tuple[Any, ...], value: Any, words: str
) -> None:
    files = read_archive(whole)
    manifest = container = json.loads(files["manifest.json"])
    for key in place[:-1]:
        container = container[key]
    container[place[-1]] = value
    path = tmp_path / "p.dlc"
    write_archive(path, files | {"manifest.json": json.dumps(manifest).encode()})
    with pytest.raises(BackendError, match=words):
        dlc.load_program(path)
    assert torch.is_grad_enabled()
