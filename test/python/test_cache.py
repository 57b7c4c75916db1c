"""Entries of the cache outlive killed processes, full disks and damage."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from dlc.backend import BackendError
from dlc.backend.cache import (
    UNUSED_DAYS,
    cache_directory,
    content_key,
    lookup,
    lookup_or_build,
)

KILLED = """
import os, signal
from dlc.backend.cache import lookup_or_build

def build(directory):
    (directory / "object").write_text("half of it")
    os.kill(os.getpid(), signal.SIGKILL)

lookup_or_build("test", "key", "object", build)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    return tmp_path


def build(directory: Path) -> dict[str, int]:
    (directory / "object").write_text("all of it")
    return {"size": 9}


def assert_whole() -> None:
    entry = lookup("test", "key", "object")
    assert entry is not None
    assert (entry.path.read_text(), entry.info) == ("all of it", {"size": 9})


def test_a_killed_build_leaves_no_entry(cache: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED], env={**os.environ})
    assert ended.returncode == -signal.SIGKILL
    assert lookup("test", "key", "object") is None
    lookup_or_build("test", "key", "object", build)
    assert_whole()


def test_what_killed_builds_left_is_removed_after_a_day(cache: Path) -> None:
    for name, age in (("build-test-old", 25), ("damaged-old", 25), ("build-test-new", 1)):
        (cache / name).mkdir()
        (cache / name / "object").touch()
        then = time.time() - age * 3600
        os.utime(cache / name, (then, then))
    lookup_or_build("test", "key", "object", build)
    assert sorted(p.name for p in cache.iterdir()) == ["build-test-new", "test-key"]


def test_what_nobody_uses_is_removed(cache: Path) -> None:
    old, used, other = content_key("old"), content_key("used"), "mine-of-somebody"
    for name in (f"test-{old}", f"test-{used}", other):
        (cache / name).mkdir()
        then = time.time() - (UNUSED_DAYS * 24 + 1) * 3600
        os.utime(cache / name, (then, then))
    (cache / "schedules.sqlite").touch()
    lookup("test", used, "object")
    lookup_or_build("test", "key", "object", build)
    left = {path.name for path in cache.iterdir()}
    assert left == {f"test-{used}", "test-key", other, "schedules.sqlite"}


def test_a_full_disk_leaves_no_entry(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:

        def build_on_a_full_disk(directory: Path) -> dict[str, int]:
            info = build(directory)
            patch.setattr(Path, "write_text", full)
            return info

        with pytest.raises(BackendError, match=r"No space left on device.*make room"):
            lookup_or_build("test", "key", "object", build_on_a_full_disk)
    assert not [*cache.iterdir()]
    lookup_or_build("test", "key", "object", build)
    assert_whole()


@pytest.mark.parametrize("name", ["object", "entry.json"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{}", b'{"sha256": 1, "info": []}'])
def test_damaged_entries_are_built_again(cache: Path, name: str, content: bytes) -> None:
    lookup_or_build("test", "key", "object", build)
    (cache / "test-key" / name).write_bytes(content)
    lookup_or_build("test", "key", "object", build)
    assert_whole()


@pytest.mark.parametrize("name", ["object", "object.log", "entry.json"])
def test_every_byte_of_an_entry_is_looked_at(cache: Path, name: str) -> None:
    def build_with_log(directory: Path) -> dict[str, int]:
        (directory / "object.log").write_text("a line")
        return build(directory)

    lookup_or_build("test", "key", "object", build_with_log)
    path = cache / "test-key" / name
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert lookup("test", "key", "object") is None, at
    path.write_bytes(whole)
    assert_whole()
    path.unlink()
    lookup_or_build("test", "key", "object", build_with_log)
    assert path.read_bytes() == whole


def test_keys_know_where_parts_end() -> None:
    assert content_key("ab", "c") != content_key("a", "bc")


def test_without_a_home_the_cache_is_a_temporary_directory_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("DLC_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    for number, name in enumerate(("HOME", "XDG_CACHE_HOME")):
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv(name, str(tmp_path / "file" / "home"))
        assert cache_directory() == tmp_path / f"dlc-cache-{os.getuid()}"
        assert cache_directory().stat().st_mode & 0o777 == 0o700
        assert len(caplog.records) == number + 1
        assert "machine code is kept in" in caplog.text
    lookup_or_build("test", "key", "object", build)
    assert_whole()
    cache_directory().chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "other"))
    with pytest.raises(BackendError, match="is not a directory of one's own"):
        cache_directory()
