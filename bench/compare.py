"""Citius beside PyTorch and JAX: the same shapes, batch, optimiser and data sizes, interleaved in one run on one machine.

  cargo build --release
  python bench/compare.py --peers DIR --python PYTHON [--rounds 3] [--seconds 3] [--threads 0] [--mnist DIR]

DIR holds torch_bench.py and jax_bench.py; PYTHON is an interpreter with torch and jax. This script itself needs only the
standard library. Writes bench/runs/<date>-<cpu>.jsonl (every line measured), bench/RESULTS.md and docs/step.svg.
`--from FILE` makes the table and the picture again from a run kept earlier.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import picture

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKLOADS = "regress,tabular,mnist,gru,cnn,transformer"

# (column title, does this line belong to it); the first is ours
COLUMNS = [
    ("Citius", lambda l: l["peer"].startswith("citius")),
    ("JAX, jitted epoch", lambda l: l["peer"].startswith("jax")),
    ("PyTorch, DataLoader", lambda l: l["variant"] == "loader0"),
    ("PyTorch, resident", lambda l: l["peer"].startswith("torch") and l["variant"] == "resident" and not l["ftz"]),
    ("PyTorch, resident, subnormals flushed", lambda l: l["peer"].startswith("torch") and l["ftz"]),
]

ISA_NAMES = [("avx512f", "AVX-512"), ("avx2", "AVX2"), ("asimd", "NEON"), ("sse2", "SSE2")]

IDLE = 0.5  # load average above which a run is marked

# how many times faster than the peer a step has to be
REQUIRED = {
    "JAX, jitted epoch": {"regress": 10, "tabular": 6, "mnist": 2.5, "gru": 8, "transformer": 2},
    "PyTorch, DataLoader": {"regress": 200, "tabular": 50, "mnist": 25},
    "PyTorch, resident": {"cnn": 3.5, "transformer": 2},
}


def main():
    options = arguments()
    if options.source:
        path = pathlib.Path(options.source)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        machine = describe_machine()
        path = ROOT / "bench" / "runs" / f"{datetime.date.today()}-{slug(machine['cpu'])}.jsonl"
        lines = [{"kind": "machine", **machine, "rounds": options.rounds, "seconds": options.seconds}]
        lines += [{"kind": "step", **line} for line in measure(options)]
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = medians(lines)
    text = markdown(lines[0], table, path)
    (ROOT / "bench" / "RESULTS.md").write_text(text)
    picture.write(ROOT / "docs" / "step.svg", table, lines[0])
    print(text)


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--peers", help="directory of torch_bench.py and jax_bench.py")
    a.add_argument("--python", default=sys.executable, help="interpreter with torch and jax")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    a.add_argument("--citius", default=str(target / "release" / "citius"))
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=3, help="per workload and round")
    a.add_argument("--threads", type=int, default=0, help="of Citius; 0: as many as turn out fastest")
    a.add_argument("--mnist", help="directory of the MNIST files")
    a.add_argument("--workloads", default=WORKLOADS)
    a.add_argument("--from", dest="source", metavar="FILE", help="a run kept earlier")
    options = a.parse_args()
    if not options.source and not options.peers:
        a.error("--peers is needed: the directory of torch_bench.py and jax_bench.py")
    for name in ("peers", "mnist"):
        directory = getattr(options, name)
        if directory and not pathlib.Path(directory).is_dir():
            a.error(f"--{name} {directory}: no such directory")
    return options


def measure(options):
    """Every workload on every side, one after the other, round by round: drift of the machine touches all alike."""
    shared = ["--seconds", str(options.seconds)]
    mnist = ["--mnist", str(pathlib.Path(options.mnist).resolve())] if options.mnist else []
    torch = [options.python, "torch_bench.py", "--variants"]
    sides = [
        (False, [options.citius, "bench", "--json", "--threads", str(options.threads), *mnist], None),
        (False, [options.python, "jax_bench.py"], options.peers),
        (False, [*torch, "loader0,resident", *mnist], options.peers),
        (True, [*torch, "resident", "--ftz", *mnist], options.peers),
    ]
    for round_number in range(options.rounds):
        for workload in options.workloads.split(","):
            for ftz, command, directory in sides:
                for line in lines_of([*command, "--workloads", workload, *shared], directory):
                    line = {"round": round_number, "ftz": ftz, **line}
                    print(json.dumps(line), file=sys.stderr)
                    yield line


def lines_of(command, directory):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failed = [line["error"] for line in lines if "error" in line]
    if done.returncode or failed or not lines:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {failed or 'no result'}")
    return lines


def medians(lines):
    """{workload: {column: µs per step}}"""
    steps = [line for line in lines if line["kind"] == "step"]
    table = {}
    for workload in dict.fromkeys(line["workload"] for line in steps):
        of_workload = [line for line in steps if line["workload"] == workload]
        row = {}
        for title, belongs in COLUMNS:
            times = [line["us_per_step"] for line in of_workload if belongs(line)]
            if times:
                row[title] = statistics.median(times)
        table[workload] = row
    return table


def markdown(machine, table, path):
    out = [
        "# Microseconds per training step",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['isa']}, {machine['date']}, {machine['citius']}. Median of",
        f"{machine['rounds']} round(s), all sides interleaved in one run; every line measured is in "
        f"[runs/{path.name}](runs/{path.name}). Made by `bench/compare.py`; do not edit.",
        "",
    ]
    if machine.get("load", 0) > machine.get("idle", 0):  # a run that was cut off has neither
        out += [f"**The machine was not idle** (load {machine['load']} at the start): run it again before quoting a number.", ""]
    if "note" in machine:
        out += [f"Note: {machine['note']}.", ""]
    titles = [title for title, _ in COLUMNS]
    out += ["| workload | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(titles)]
    for workload, row in table.items():
        cells = [number(row[t]) if t in row else "" for t in titles]
        out.append(f"| {workload} | " + " | ".join(cells) + " |")
    out += ["", "How many times faster a step of Citius is, beside what we asked of ourselves:", ""]
    out += ["| workload | " + " | ".join(titles[1:]) + " |", "|---|" + "---:|" * (len(titles) - 1)]
    for workload, row in table.items():
        out.append(f"| {workload} | " + " | ".join(ratio(workload, t, row) for t in titles[1:]) + " |")
    return "\n".join(out) + "\n"


def ratio(workload, title, row):
    if title not in row or "Citius" not in row:
        return ""
    value = row[title] / row["Citius"]
    required = REQUIRED.get(title, {}).get(workload)
    if required is None:
        return f"{value:.1f}×"
    return f"{value:.1f}× (asked {required}×: {'met' if value >= required else '**not met**'})"


def number(us):
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:,.0f}"


def describe_machine():
    text = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    flags = set(re.findall(r"\b(avx512f|avx2|sse2|asimd)\b", text))
    isa = next((name for flag, name in ISA_NAMES if flag in flags), platform.machine())
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return {
        "date": str(datetime.date.today()),
        "cpu": model.group(1).strip() if model else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "isa": isa,
        "load": round(os.getloadavg()[0], 2),
        "idle": IDLE,
        "citius": f"commit {commit.stdout.strip() or 'unknown'}",
    }


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


if __name__ == "__main__":
    main()
