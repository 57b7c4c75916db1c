"""A program as a directory that runs without dlc: kernels, manifest, launcher."""

from dlc.backend.export.check_directory import check_directory
from dlc.backend.export.directory import export_program

__all__ = ["check_directory", "export_program"]
