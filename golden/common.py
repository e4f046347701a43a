"""What all the makers share: random inputs that f32 holds exactly, and compact JSON."""

import json
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent


def randoms(*shape, scale=1.0, grid=256, dtype=torch.float64):
    """Normal numbers rounded to multiples of 1/grid: short in JSON and the same in f32 and f64."""
    return (torch.randn(shape, dtype=dtype) * scale * grid).round() / grid


def positives(*shape, low=0.25, high=4.0, grid=256):
    """Numbers in [low, high] on the same grid, for log, sqrt, pow and divisors."""
    return ((torch.rand(shape, dtype=torch.float64) * (high - low) + low) * grid).round() / grid


def values(tensor):
    """A tensor's numbers as a flat list, row-major, each with the fewest digits that give it back."""
    flat = tensor.detach().contiguous().flatten()
    if flat.dtype == torch.float32:
        return [float(str(np.float32(x))) for x in flat.tolist()]
    if flat.dtype == torch.bool:
        flat = flat.to(torch.int64)  # 0 or 1
    return flat.tolist()


def pack(tensor):
    """`{"shape": [...], "data": [...]}`; None stays null."""
    return None if tensor is None else {"shape": list(tensor.shape), "data": values(tensor)}


def settings(optimizer):
    """All of an optimiser's settings that are mathematics rather than implementation, defaults included."""
    names = ("lr", "momentum", "dampening", "nesterov", "weight_decay", "alpha", "eps", "centered", "betas")
    return {name: optimizer.defaults[name] for name in names if name in optimizer.defaults}


def write(name, content):
    """One line per key and one per case, so that a regenerated file gives a readable diff."""
    path = HERE / f"{name}.json"
    fields = [f"{json.dumps(key)}:{lines(value)}" for key, value in content.items()]
    path.write_text("{\n" + ",\n".join(fields) + "\n}\n")
    print(f"{path.name}: {path.stat().st_size:,} bytes")


def lines(value):
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(compact(case) for case in value) + "\n]"
    return compact(value)


def compact(value):
    # NaN and infinities are not JSON: a case that makes one is a mistake in its inputs.
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
