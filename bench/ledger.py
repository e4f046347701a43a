#!/usr/bin/env python3
"""What the time ledger costs, and whether it adds up.

    python3 bench/ledger.py target/release/citius [--seconds 5] [--workloads regress,tabular,…] [--no-runs] [--out FILE]

`citius bench --ledger-cost` trains every workload with and without timed steps, an epoch of each in turns, on one thread and on two:
the median of the ratios and its 95% interval. Then some whole runs: the parts of the ledger beside the wall clock. One JSON object
per line.
"""
import argparse
import json
import subprocess
import sys
import tempfile
import time

WORKLOADS = ["regress", "tabular", "mnist", "gru", "cnn", "transformer"]


def overhead(args, out):
    for workload in args.workloads.split(","):
        for threads in ["1", "2"]:
            command = [args.citius, "bench", "--workloads", workload, "--seconds", str(args.seconds), "--threads", threads]
            told = subprocess.run(command + ["--ledger-cost"], capture_output=True, text=True, check=True)
            emit(out, json.loads(told.stdout.splitlines()[-1]))


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
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--no-runs", action="store_true")
    parser.add_argument("--out")
    args = parser.parse_args()
    out = open(args.out, "a") if args.out else sys.stdout
    if args.workloads:
        overhead(args, out)
    if not args.no_runs:
        sums(args, out)


if __name__ == "__main__":
    main()
