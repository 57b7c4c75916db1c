"""The same program gives the same bytes in every process, whatever its seed of hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from caches import own_cache

PROGRAMS = """
import hashlib, sys
import torch, torch.nn.functional as F
import dlc

def attention(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-1, -2) / 4 + mask, -1) @ v

def layer(x, w, g, u):
    y = F.rms_norm(x, (40,), w)
    return x + F.silu(y @ g) * (y @ u), y.sum(0), y.argmax(-1)

q, mask = torch.zeros(2, 19, 16), torch.zeros(19, 19)
x, square = torch.zeros(37, 40), torch.zeros(40, 40)
for target, f, args in (("sm_80", attention, (q, q, q, mask)),
                        ("sm_90", layer, (x, torch.zeros(40), square, square))):
    program = dlc.compile(f, args, target=target, backend="host")
    for ir in ("torch", "tensor", "loop", "tile", "kernel", "cuda"):
        text = program.ir(ir)
        print(target, f.__name__, ir, len(text), hashlib.sha256(text.encode()).hexdigest())
"""

COMMANDS = """
import contextlib, hashlib, io, json, pathlib, sys
from dlc.cli.dlc_cli import main

config = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=31, hidden_size=16,
              intermediate_size=24, num_hidden_layers=2, num_attention_heads=2)
pathlib.Path("config.json").write_text(json.dumps(config))
layer = ["-c", "torch.nn.TransformerEncoderLayer(16, 2, 24).eval()(torch.randn(5, 3, 16))"]
for command in (["config.json", "--seq-len", "5"], [*layer, "-vv", "--explain"],
                [*layer, "--reproduce", "linear"], [*layer, "--with-weights", "-o", "out/"]):
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(["compile", *command])
    text = text.getvalue()
    print(command[-2:], code, len(text), hashlib.sha256(text.encode()).hexdigest(), said.getvalue())
for path in sorted(pathlib.Path("out").rglob("*")):
    if path.is_file():
        print(path, hashlib.sha256(path.read_bytes()).hexdigest())
"""


def outputs(script: str, tmp_path: Path) -> list[str]:
    """What a script prints in processes with different seeds of hashes, each in its directory."""
    running: list[subprocess.Popen[str]] = []
    for seed in ("0", "1"):
        (tmp_path / seed).mkdir()
        cache = own_cache(tmp_path / f"cache of {seed}")  # neither finds what the other has made
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "DLC_CACHE_DIR": str(cache)},
            cwd=tmp_path / seed,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
    return [process.communicate()[0] for process in running]


def test_all_that_is_emitted_is_the_same_bytes(tmp_path: Path) -> None:
    """Every IR; a model, explanations, diffs, a kernel's script, and a directory with weights."""
    printed = outputs(PROGRAMS + COMMANDS, tmp_path)
    assert printed[0].startswith("sm_80 attention torch "), printed[0]
    assert printed[0].count("\nsm_") == 11
    assert printed[0].count("] 0 ") == 4, printed[0]
    assert "weights" in printed[0]
    assert printed[0] == printed[1]
