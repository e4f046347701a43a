#!/usr/bin/env python3
"""What the time ledger costs, and whether it adds up.

    python3 bench/ledger.py target/release/citius [--rounds 15] [--seconds 0.3] [--workloads regress,tabular,…] [--out FILE]

Runs every workload of `citius bench` with and without timed steps, in turns, and tells the ratio of the times: the median of the
rounds' ratios and its 95% interval (bootstrap). Then trains a little, and compares the parts of the ledger with the wall clock. One
JSON object per line: the raw rounds, then the summary.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time

WORKLOADS = ["regress", "tabular", "mnist", "gru", "cnn", "transformer"]


def bench(citius, workload, seconds, untimed):
    # on one thread: each process would choose its number by itself, perhaps not the same
    command = [citius, "bench", "--workloads", workload, "--seconds", str(seconds), "--threads", "1", "--json"]
    told = subprocess.run(command + (["--untimed"] if untimed else []), capture_output=True, text=True, check=True)
    return json.loads(told.stdout.splitlines()[-1])


def interval(values, rounds=2000):
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(rounds))
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


def overhead(args, out):
    for workload in args.workloads.split(","):
        ratios, rounds = [], []
        for i in range(args.rounds):
            # in turns, and each first as often as the other
            pair = {}
            for untimed in ([True, False] if i % 2 == 0 else [False, True]):
                pair["off" if untimed else "on"] = bench(args.citius, workload, args.seconds, untimed)
            rounds.append({key: run["us_per_step"] for key, run in pair.items()})
            ratios.append(pair["on"]["us_per_step"] / pair["off"]["us_per_step"])
        low, high = interval(ratios)
        parts = pair["on"].get("parts", {})
        fastest = min(r["on"] for r in rounds) / min(r["off"] for r in rounds)
        emit(out, {"workload": workload, "rounds_us": rounds, "parts_us": parts})
        emit(out, {"workload": workload, "overhead": round(statistics.median(ratios) - 1, 4),
                   "low": round(low - 1, 4), "high": round(high - 1, 4), "fastest": round(fastest - 1, 4)})


def sums(args, out):
    """Of whole runs: the parts against a wall clock of ours around the process, and against the ledger's own."""
    for name, flags in {"digits": ["--epochs", "8"], "digits, small batches": ["--epochs", "2", "--batch-size", "8"]}.items():
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            command = [args.citius, "train", "--json", "--refit", "false", "--out", folder, *flags]
            told = subprocess.run(command, capture_output=True, text=True, check=True)
            wall = time.perf_counter() - start
        ledger = json.loads(told.stdout.splitlines()[-1])["ledger"]
        parts = ledger["parts"]
        emit(out, {"run": name, "process_s": round(wall, 3), "ledger_s": round(ledger["seconds"], 3),
                   "sum_of_parts_s": round(sum(parts.values()), 3),
                   "other_share": round(parts["other"] / ledger["seconds"], 4),
                   "timed_against_whole": round(ledger["mismatch"], 4), "error": round(ledger["error"], 4),
                   "timed_steps": ledger["timed_steps"], "steps": ledger["steps"], "parts": parts})


def emit(out, line):
    print(json.dumps(line), file=out, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("citius")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.3)
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
