#!/usr/bin/env python3
"""What the time ledger costs, and whether it adds up.

    python3 bench/ledger.py target/release/citius [--rounds 5] [--seconds 3] [--workloads regress,tabular,…] [--data DIR] [--out FILE]

The cost: `citius bench --ledger-cost` takes short stretches of steps with and without timed steps in turns, in one process, on as many
threads as turn out fastest. Each round is a new process. Told is the median of the ratios of neighbours and its 95% interval
(bootstrap). Pairs whose two stretches ran on different numbers of threads are left out, and counted.

The sums: whole runs of `citius train` on a table, MNIST, a folder of pictures, a series and a text, and on the embedded digits; the
parts of the ledger against a clock of ours around the process. One JSON object per line: the raw rounds, then the summary.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

WORKLOADS = ["regress", "tabular", "mnist", "gru", "cnn", "transformer"]
# of a look at a run from outside, the part that a ledger may miss
WITHIN = 0.02


def interval(values, rounds=2000):
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(rounds))
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


def overhead(args, out):
    for workload in args.workloads.split(","):
        pairs, others = [], 0
        for _ in range(args.rounds):
            command = [args.citius, "bench", "--workloads", workload, "--seconds", str(args.seconds), "--ledger-cost", "--json"]
            told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
            emit(out, told)
            same = [p for p in told["pairs"] if p["threads_with"] == p["threads_without"]]
            others += len(told["pairs"]) - len(same)
            pairs += same
        ratios = [p["with_us"] / p["without_us"] for p in pairs]
        low, high = interval(ratios)
        emit(out, {"workload": workload, "overhead": round(statistics.median(ratios) - 1, 5), "low": round(low - 1, 5),
                   "high": round(high - 1, 5), "pairs": len(pairs), "left_out": others,
                   "threads": sorted({p["threads_with"] for p in pairs}),
                   "us_per_step": round(statistics.median(p["without_us"] for p in pairs), 3)})


def runs(data):
    """Of each kind of data, what a person would type."""
    at = lambda *path: os.path.join(data, *path)
    return {
        "digits": ["--epochs", "8"],
        "digits, small batches": ["--epochs", "2", "--batch-size", "8"],
        "table": [at("california_housing", "housing.csv"), "--target", "median_house_value", "--epochs", "40"],
        "mnist": [at("mnist"), "--epochs", "6"],
        "pictures": [at("images_caltech101_8"), "--epochs", "6"],
        "pictures, loaded": [at("images_caltech101_8"), "--epochs", "4", "--memory", "1MB"],
        "series, gru": [at("ett", "ETTh1.csv"), "--target", "OT", "--window", "96", "--horizon", "24", "--model", "gru",
                        "--epochs", "4"],
        "text": [at("tinyshakespeare", "input.txt"), "--window", "64", "--stride", "512", "--epochs", "1"],
    }


def sums(args, out):
    """Of whole runs: the parts against a wall clock of ours around the process, and against the ledger's own."""
    for name, flags in runs(args.data).items():
        if os.sep in flags[0] and not os.path.exists(flags[0]):
            emit(out, {"run": name, "left_out": f"there is no {flags[0]}"})
            continue
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            command = [args.citius, "train", *flags, "--json", "--refit", "false", "--out", folder]
            told = subprocess.run(command, capture_output=True, text=True, check=True)
            wall = time.perf_counter() - start
        ledger = json.loads(told.stdout.splitlines()[-1])["ledger"]
        parts = ledger["parts"]
        named = sum(seconds for part, seconds in parts.items() if part != "other")
        emit(out, {"run": name, "process_s": round(wall, 4), "ledger_s": round(ledger["seconds"], 4),
                   "named_parts_s": round(named, 4), "missed_of_process": round(1 - named / wall, 4),
                   "missed_of_ledger": round(1 - named / ledger["seconds"], 4), "within": abs(1 - named / wall) <= WITHIN,
                   "timed_against_whole": round(ledger["mismatch"], 4), "error": round(ledger["error"], 4),
                   "timed_steps": ledger["timed_steps"], "steps": ledger["steps"],
                   "parts": {part: round(seconds, 5) for part, seconds in parts.items()}})


def emit(out, line):
    print(json.dumps(line), file=out, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("citius")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--data", default=os.environ.get("CITIUS_DATA", "."), help="folder of data sets; what is not there is left out")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--no-runs", action="store_true", help="leave out the whole runs")
    parser.add_argument("--out")
    args = parser.parse_args()
    out = open(args.out, "a") if args.out else sys.stdout
    if args.workloads:
        overhead(args, out)
    if not args.no_runs:
        sums(args, out)


if __name__ == "__main__":
    main()
