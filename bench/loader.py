"""Loading alone, Citius beside PyTorch's DataLoader: the same data, transforms and batches, interleaved in one run.

  cargo build --release
  python bench/loader.py --peers DIR --python PYTHON --data DIR [--rounds 2]

DIR of --peers holds torch_loader_bench.py; PYTHON is an interpreter with torch and torchvision. Writes
bench/runs/<date>-<cpu>-loader.jsonl (every line measured) and bench/LOADER.md.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess

from compare import ROOT, describe_machine, slug

REQUIRED = {"table": 40, "mnist": 80, "photos": 3}
SETTINGS = ["0", "1", "2", "auto"]
# what stands from here on in the report is kept
BY_HAND = "\n## First epochs"


def main():
    a = argparse.ArgumentParser()
    for name in ("--peers", "--python", "--data"):
        a.add_argument(name, required=True)
    a.add_argument("--rounds", type=int, default=2)
    options = a.parse_args()
    machine = describe_machine()
    lines = [{"kind": "machine", **machine, "load": os.getloadavg()[0], "rounds": options.rounds}]
    for _ in range(options.rounds):
        for workload in REQUIRED:
            peer = [options.python, "torch_loader_bench.py", "--workloads", workload, "--data", options.data]
            lines += run(peer, options.peers)
            for workers in SETTINGS:
                ours = [str(ROOT / "target/release/citius"), "bench", "loader", "--json", "--workloads", workload]
                lines += run(ours + ["--data", options.data, "--workers", workers], ROOT)
    path = ROOT / "bench" / "runs" / f"{datetime.date.today()}-{slug(machine['cpu'])}-loader.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = ROOT / "bench" / "LOADER.md"
    _, by_hand, rest = report.read_text().partition(BY_HAND)
    report.write_text(table(machine, lines, path) + by_hand + rest)
    print(report.read_text())


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def table(machine, lines, path):
    def rate(workload, variant, ours, key="items_per_s"):
        found = [l[key] for l in lines if l.get("workload") == workload and l["variant"] == variant
                 and l["peer"].startswith("citius") == ours and key in l]
        return statistics.median(found) if found else None

    text = [f"# Rows per second from a loader, without a model\n\n{machine['cpu']}, {machine['cores']} cores, "
            f"{datetime.date.today()}. Medians of {lines[0]['rounds']} rounds, both sides in one run; every line measured is "
            f"in [runs/{path.name}](runs/{path.name}). Made by `bench/loader.py`, down to the next heading.\n\n"
            "| workload | PyTorch, no workers | PyTorch, 2 workers | 0 workers | 1 | 2 | auto | auto beside PyTorch's best |\n"
            "|---|---:|---:|---:|---:|---:|---:|---:|\n"]
    for workload, required in REQUIRED.items():
        peers = [rate(workload, f"workers={n}", False) or 0 for n in (0, 2)]
        ours = [rate(workload, f"workers={n}", True) for n in SETTINGS]
        ratio = ours[-1] / max(peers)
        met = "met" if ratio >= required else "**not met**"
        numbers = " | ".join(f"{n:,.0f}" for n in peers + ours)
        text.append(f"| {workload} | {numbers} | {ratio:.1f}× (asked {required}×: {met}) |\n")
    text.append("\nThe first epoch beside the others, and what the bytes alone cost one thread that gathers them (`auto`):\n\n"
                "| workload | first epoch, ms | later, ms | GB/s | one thread's copy, GB/s | µs a batch | copy, µs a batch |\n"
                "|---|---:|---:|---:|---:|---:|---:|\n")
    for workload in REQUIRED:
        get = lambda key: rate(workload, "workers=auto", True, key)
        text.append(f"| {workload} | {get('first_epoch_s') * 1e3:.1f} | {get('epoch_s') * 1e3:.1f} | {get('gb_per_s'):.1f} | "
                    f"{get('copy_gb_per_s'):.1f} | {get('us_per_batch'):.2f} | {get('copy_us_per_batch'):.2f} |\n")
    return "".join(text)


if __name__ == "__main__":
    main()
