"""A program as a directory that needs neither dlc nor Python: `python examples/export.py DIR`."""

import subprocess
import sys

DIRECTORY = sys.argv[1] if len(sys.argv) > 1 else "exported"
TEXT = "nn.Linear(64, 32)(torch.randn(8, 64)).softmax(-1)"

command = ["dlc", "compile", "-c", TEXT, "--with-weights", "-o", f"{DIRECTORY}/"]
subprocess.run(command, check=True)
subprocess.run(["make", "-s", "-C", DIRECTORY, "HOST=1"], check=True)
subprocess.run([f"{DIRECTORY}/run", "--help"], check=True)
