"""The same program gives the same bytes in every process, whatever its seed of hashes."""

from __future__ import annotations

import os
import subprocess
import sys

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
for target in ("sm_80", "sm_90"):
    for f, args in ((attention, (q, q, q, mask)), (layer, (x, torch.zeros(40), square, square))):
        program = dlc.compile(f, args, target=target, backend="host")
        for ir in ("torch", "tensor", "loop", "tile", "kernel", "cuda"):
            text = program.ir(ir)
            print(target, f.__name__, ir, len(text), hashlib.sha256(text.encode()).hexdigest())
"""


def test_every_ir_is_the_same_bytes() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAMS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "1")
    ]
    printed = [process.communicate()[0] for process in running]
    assert printed[0].count("\n") == 24
    assert printed[0] == printed[1]
