"""Writes every reference file in this folder from PyTorch: `python golden/make.py [name ...]`.

Each module below makes the JSON of its own name: `ops.py` -> `ops.json`.
"""

import sys

sys.dont_write_bytecode = True  # no __pycache__ beside the references

import torch

import init
import layers
import losses
import models
import ops
import optimizers
import recurrent
import schedules
from common import write

FILES = {
    "ops": ops.make,
    "losses": losses.make,
    "optimizers": optimizers.make,
    "schedules": schedules.make,
    "layers": layers.make,
    "models": models.make,
    "init": init.make,
    "recurrent": recurrent.make,
}


def main():
    unknown = set(sys.argv[1:]) - FILES.keys()
    if unknown:
        sys.exit(f"no such file: {', '.join(sorted(unknown))}; known: {', '.join(FILES)}")
    torch.set_num_threads(1)  # the same sums in the same order everywhere
    for name in sys.argv[1:] or FILES:
        torch.manual_seed(0)
        write(name, FILES[name]())


if __name__ == "__main__":
    main()
