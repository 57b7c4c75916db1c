"""The options of `dlc compile MODEL` and `dlc run MODEL`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

DTYPES = ("f32", "f16", "bf16")


def add_model_options(command: argparse.ArgumentParser) -> None:
    """Adds what says which part of a model is wanted, and on what inputs."""
    group = command.add_argument_group(
        "models", "A Hugging Face id, a directory with config.json and safetensors, or a config."
    )
    part = group.add_mutually_exclusive_group()
    part.add_argument("--layer", type=at_least(0), metavar="N", help="only decoder layer N, from 0")
    part.add_argument(
        "--block", action="store_const", const=0, dest="layer", help="the same as --layer 0"
    )
    group.add_argument("--seq-len", type=at_least(1), metavar="S", help="tokens [128]")
    group.add_argument("--batch", type=at_least(1), metavar="B", help="prompts [1]")
    group.add_argument("--dtype", choices=DTYPES, help="of the weights and of what flows [f32]")
    group.add_argument(
        "--random-weights", action="store_true", help="run with random weights, made from --seed"
    )


def at_least(least: int) -> Callable[[str], int]:
    """The type, for argparse, of an option that is a whole number from `least` up."""

    def parse(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a number from {least} up, found '{text}'")
        return int(text)

    return parse
