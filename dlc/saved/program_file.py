"""
The file of a compiled program: a zip archive in which nothing is pickled.

    manifest.json           format, the program's name, dlc's version, target, backend, chip; for
                            each variant, its call
    N/torch.mlir            Torch IR of variant N
    N/kernel.mlir           its Kernel IR
    N/KERNEL.object         machine code of a kernel, for `chip`
    N/INDEX.bytes           the memory of a parameter, buffer or constant: argument INDEX of `@main`
                            of variant N, and what is the same tensor in others
    checksum                SHA-256 over all of it

The checksum tells damage, not who wrote the file: loading one runs the machine code in it.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException, ParseError, PassFailedException

from dlc.backend import BACKENDS, BackendError
from dlc.backend.cache import content_key, lookup_or_build
from dlc.backend.executor import Backend
from dlc.backend.host_program import HostProgram
from dlc.backend.kernel_image import KernelImage
from dlc.dialects.kernel import FuncOp
from dlc.dialects.main_function import main_of
from dlc.frontend.export.imported import ImportedProgram
from dlc.pipeline import text_of
from dlc.saved.archive import read_archive, write_archive
from dlc.saved.call import (
    call_from_json,
    call_to_json,
    guard_of,
    tensor_of_bytes,
    tensor_to_bytes,
)
from dlc.saved.entries import Entry, EntryError
from dlc.target import TARGETS
from dlc.text import not_text

FORMAT = "dlc-saved-program"
MANIFEST = "manifest.json"


@runtime_checkable
class Portable(Protocol):
    """A backend whose machine code can be taken elsewhere."""

    @property
    def chip(self) -> str:
        """What machine code is for: it runs where this is the same."""
        ...

    def objects(self, funcs: Sequence[KernelImage]) -> list[Path]:
        """The files of machine code of kernels, compiled if they are not yet."""
        ...

    def load(self, objects: Mapping[KernelImage, Path]) -> None:
        """Takes such files in place of compiling the kernels."""
        ...


@dataclass(frozen=True)
class Saved:
    """A variant: its program and its Kernel IR."""

    program: ImportedProgram
    kernels: ModuleOp

    @property
    def funcs(self) -> list[KernelImage]:
        return [KernelImage.of(op) for op in self.kernels.ops if isinstance(op, FuncOp)]


def check_portable(backend: Backend) -> Portable:
    """BackendError for a backend whose machine code stays where it is."""
    if not isinstance(backend, Portable):
        raise BackendError(f"the backend '{backend.name}' has no machine code that can be saved")
    return backend


def save(
    path: Path, name: str, version: str, target: str, backend: Backend, variants: Sequence[Saved]
) -> None:
    """Writes a program with its variants. BackendError for what cannot be saved."""
    portable = check_portable(backend)
    files: dict[str, bytes] = {}
    names: dict[Hashable, str] = {}
    for number, variant in enumerate(variants):
        files[f"{number}/torch.mlir"] = text_of(variant.program.module).encode()
        files[f"{number}/kernel.mlir"] = text_of(variant.kernels).encode()
        for func, made in zip(variant.funcs, portable.objects(variant.funcs), strict=True):
            files[f"{number}/{func.name_}.object"] = made.read_bytes()
        for argument in variant.program.arguments:
            tensor = None if argument.kind == "random" else argument.tensor
            if tensor is not None:
                file = names.setdefault(_memory(tensor), f"{number}/{argument.index}.bytes")
                files.setdefault(file, tensor_to_bytes(tensor))
    manifest = {
        "format": FORMAT,
        "name": name,
        "version": version,
        "target": target,
        "backend": backend.name,
        "chip": portable.chip,
        "variants": [
            call_to_json(variant.program, lambda tensor: names[_memory(tensor)])
            for variant in variants
        ],
    }
    head = {MANIFEST: json.dumps(manifest, indent=1).encode()}
    write_archive(path, head | files)


def _memory(tensor: torch.Tensor) -> Hashable:
    """The same for tensors that are the same elements in memory."""
    place = tensor.device, tensor.data_ptr() or id(tensor)
    return *place, tensor.dtype, tuple(tensor.shape), tensor.stride()


@dataclass(frozen=True)
class ProgramFile:
    """What a file holds; BackendError if it is another dlc's, or no saved program."""

    path: Path
    name: str
    files: Mapping[str, bytes]
    manifest: Entry
    target: str
    backend: str
    """The name of the backend that it was saved with."""

    @staticmethod
    def read(path: Path, version: str) -> ProgramFile:
        files = read_archive(path)
        try:
            manifest = json.loads(files.get(MANIFEST, b"{}"))
        except (ValueError, RecursionError):
            manifest = {}
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise BackendError(f"cannot load the program '{path}': it is no saved program of dlc")
        with _reading(path):
            entry = Entry(manifest, "")
            stated = entry["version"].text()
            if stated != version:
                raise EntryError(f"dlc {stated} saved it, and this is dlc {version}; save it anew")
            target, backend = entry["target"].one_of(TARGETS), entry["backend"].one_of(BACKENDS)
            name = entry["name"].text()
            return ProgramFile(path, name, files, entry, target, backend)

    def load(self, ctx: Context, backend: Backend) -> list[Saved]:
        """The variants, their machine code given to a backend. BackendError for another chip."""
        portable = check_portable(backend)
        with _reading(self.path):
            if (chip := self.manifest["chip"].text()) != portable.chip:
                raise EntryError(
                    f"its machine code is for {chip}, and the backend '{backend.name}' is "
                    f"{portable.chip}"
                )
            calls = list(self.manifest["variants"])
            if not calls:
                self.manifest["variants"].fail("a list of variants")
            held: dict[str, torch.Tensor] = {}
            return [
                self._variant(number, call, ctx, backend, portable, held)
                for number, call in enumerate(calls)
            ]

    def _variant(
        self,
        number: int,
        call: Entry,
        ctx: Context,
        backend: Backend,
        to: Portable,
        held: dict[str, torch.Tensor],
    ) -> Saved:
        """A variant; `held` are the tensors of those before, by the names of their files."""
        module = self._module(ctx, f"{number}/torch.mlir")
        main = main_of(module)
        tensors: dict[int, torch.Tensor] = {}
        for given in call["arguments"]:
            if given["kind"].value not in ("input", "random"):
                guard, index = guard_of(given, main), given["index"].value
                if (name := given["bytes"].text()) not in held:
                    held[name] = tensor_of_bytes(self._file(name), guard, backend.device)
                tensors[index] = held[name]
                if not guard.holds(held[name]):
                    given["bytes"].fail("the file of a tensor as the argument is")
        program = call_from_json(call, module, tensors)
        saved = Saved(program, self._module(ctx, f"{number}/kernel.mlir"))
        bound = HostProgram.of(saved.kernels).bind()
        counts = len(program.arguments), len(program.results)
        if counts != (len(bound.arguments), len(bound.results)):
            raise EntryError(f"the two @main of variant {number} take and return different tensors")
        to.load({f: _unpacked(self._file(f"{number}/{f.name_}.object")) for f in saved.funcs})
        return saved

    def _file(self, name: str) -> bytes:
        if name not in self.files:
            raise EntryError(f"it holds no {name}")
        return self.files[name]

    def _module(self, ctx: Context, name: str) -> ModuleOp:
        try:
            text = self._file(name).decode()
        except UnicodeDecodeError as error:
            raise EntryError(not_text(name, error)) from None
        module = Parser(ctx, text, f"{self.path}/{name}").parse_module()
        module.verify()
        return module


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever is not as it is to be in a file becomes a BackendError that names the file."""
    try:
        yield
    except (EntryError, DiagnosticException, ParseError, PassFailedException) as error:
        raise BackendError(f"cannot load the program '{path}': {error}") from None


def _unpacked(content: bytes) -> Path:
    """Machine code as a file of the cache."""

    def build(directory: Path) -> dict[str, int]:
        (directory / "object").write_bytes(content)
        return {}

    return lookup_or_build("saved", content_key(content.hex()), "object", build).path
