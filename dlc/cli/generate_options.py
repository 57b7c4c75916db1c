"""The options of `dlc generate`."""

from __future__ import annotations

import argparse

from dlc import plugins
from dlc.cli.model_options import DTYPES, at_least

SUMMARY = "write what a language model makes of a prompt"
DESCRIPTION = """
A causal language model of transformers reads prompts and goes on, a token at a time. Two programs
are compiled, whatever the lengths: one for a chunk of all prompts, one for a token of each.
"""


def add_generate_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "file", metavar="MODEL", help="a Hugging Face id, or a directory with config.json"
    )
    prompts = command.add_mutually_exclusive_group(required=True)
    prompts.add_argument(
        "--prompt", action="append", metavar="TEXT", help="may be given several times: a batch"
    )
    prompts.add_argument("--batch-file", metavar="FILE", help="a prompt a line")
    prompts.add_argument(
        "--tokens", action="append", metavar="N,N", help="a prompt as numbers, without a tokenizer"
    )
    command.add_argument(
        "--max-new-tokens", type=at_least(0), default=64, metavar="N", help="of each prompt [64]"
    )
    command.add_argument(
        "--cache", type=at_least(1), metavar="N", help="tokens of a prompt and what follows [as "
        "many as are needed, rounded up to a power of two]",
    )  # fmt: skip
    command.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="0: the likeliest token [0]"
    )
    command.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest")
    command.add_argument(
        "--top-p", type=float, metavar="P", help="draw from the fewest that hold a share of P"
    )
    command.add_argument(
        "--min-p", type=float, metavar="P", help="draw from those P times as likely as the first"
    )
    command.add_argument("--seed", type=int, default=0, help="of draws, and of random weights [0]")
    command.add_argument("--dtype", choices=DTYPES, default="f32", help="of the weights [f32]")
    command.add_argument("--random-weights", action="store_true", help="made from --seed")
    command.add_argument(
        "--stats", action="store_true", help="say on stderr what it took: times, launches, bytes"
    )
    command.add_argument("--target", metavar="CHIP", help="such as sm_90 [the GPU at hand]")
    command.add_argument(
        "--backend", metavar="NAME", help="host or cuda, where it runs [cuda or host]"
    )
    command.add_argument(
        "--overlap", action="store_true", help="kernels begin before the ones ahead of them end"
    )
    command.add_argument(
        "--one-launch",
        action="store_true",
        help="no second kernel folds what up to 64 blocks share",
    )
    command.add_argument(
        plugins.OPTION, action="append", default=[], metavar="FILE.py", help="a plug-in"
    )
    command.add_argument("--debug", action="store_true", help="print tracebacks of errors")
