"""A program as a directory that runs without dlc: kernels, manifest, launcher."""

from dlc.backend.export.directory import export_program

__all__ = ["export_program"]
