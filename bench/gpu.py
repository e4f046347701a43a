"""Citius on a GPU beside JAX and PyTorch: the same shapes, batch, optimiser and data sizes, interleaved in one run.

  python bench/gpu.py --citius PATH --peers DIR --mnist DIR --out bench/runs/DATE-GPU.jsonl [--train]

DIR of --peers holds jax_bench.py and torch_bench.py; --python is an interpreter with jax and torch. Without --peers Citius is
measured alone. --train also times five epochs of real MNIST as whole processes, with an empty kernel cache and with a full one.
Needs nothing but the standard library; appends every line measured to --out, and prints the medians as Markdown.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

WORKLOADS = "regress,tabular,mnist,gru,cnn,transformer"
# JAX multiplies in tf32 unless told otherwise
PRECISION = {"transformer": "tf32"}

# (column title, does this line belong to it); the first is ours
COLUMNS = [
    ("Citius", lambda line: line["peer"].startswith("citius")),
    ("JAX, jitted epoch", lambda line: line["peer"].startswith("jax")),
    ("PyTorch, CUDA graph", lambda line: line["peer"].startswith("torch")),
]

# µs a step may take, and how many times faster than the peer it has to be
ASKED_US = {"regress": 5, "tabular": 8, "mnist": 16}
ASKED_TIMES = {
    **{name: {"JAX, jitted epoch": 2.5, "PyTorch, CUDA graph": 6} for name in ASKED_US},
    # … of the faster of the two
    "gru": 3,
    "cnn": 2.5,
    "transformer": 1.5,
}
# seconds of five epochs of MNIST: whole process with an empty and with a full cache, and training alone
ASKED_TRAIN = {"cold": 2.0, "warm": 1.0, "training": 0.1}

# an article's network and settings, without anything that Citius would add by itself
MNIST_RUN = (
    "--epochs 5 --hidden 128,64 --batch-size 64 --activation relu --dropout 0 --optimizer adam --lr 1e-3"
    " --weight-decay 0 --schedule constant --validation 0 --patience 0 --average 0 --refit false --seed 0"
).split()


def main():
    options = arguments()
    lines = []
    for line in measurements(options):
        lines.append(line)
        print(json.dumps(line), file=sys.stderr)
        if options.out:  # at once: a failure later on costs nothing measured before
            with open(options.out, "a") as file:
                file.write(json.dumps(line) + "\n")
    print(markdown(lines))


def measurements(options):
    yield {"kind": "machine", **describe_machine(options)}
    if not options.no_steps:
        for line in steps(options):
            yield {"kind": "step", **line}
    if options.train:
        for line in trainings(options):
            yield {"kind": "train", **line}


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--citius", default="target/release/citius", help="the command")
    a.add_argument("--peers", help="directory of jax_bench.py and torch_bench.py")
    a.add_argument("--python", default=sys.executable, help="interpreter with jax and torch")
    a.add_argument("--mnist", help="directory of the four MNIST files")
    a.add_argument("--out", help="file to append every line measured to")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=3, help="per workload and round")
    a.add_argument("--workloads", default=WORKLOADS)
    a.add_argument("--device", default="cuda", help="of Citius and PyTorch; cpu to try this script where there is no GPU")
    a.add_argument("--variant", default="graph", help="of torch_bench.py")
    a.add_argument("--train", action="store_true", help="time whole trainings too")
    a.add_argument("--no-steps", action="store_true", help="whole trainings alone")
    options = a.parse_args()
    options.citius = str(pathlib.Path(options.citius).resolve())
    if not os.access(options.citius, os.X_OK):
        a.error(f"--citius {options.citius}: no such command; build it with cargo build --release")
    for name in ("peers", "mnist"):
        directory = getattr(options, name)
        if directory and not pathlib.Path(directory).is_dir():
            a.error(f"--{name} {directory}: no such directory")
        if directory:
            setattr(options, name, str(pathlib.Path(directory).resolve()))
    if options.out:
        pathlib.Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    if options.train and not options.mnist:
        a.error("--train needs --mnist, the directory of the four MNIST files")
    if options.no_steps and not options.train:
        a.error("--no-steps leaves nothing to do without --train")
    return options


def steps(options):
    """Every workload on every side, one after the other, round by round: drift of the machine touches all alike."""
    mnist = ["--mnist", options.mnist] if options.mnist else []
    sides = [([options.citius, "bench", "--device", options.device, "--json", *mnist], None)]
    if options.peers:
        torch = [options.python, "torch_bench.py", "--device", options.device.split(":")[0], "--variants", options.variant]
        sides += [([options.python, "jax_bench.py"], options.peers), ([*torch, *mnist], options.peers)]
    for round_number in range(options.rounds):
        for workload in options.workloads.split(","):
            for command, directory in sides:
                command = [*command, "--workloads", workload, "--seconds", str(options.seconds)]
                if command[0] == options.citius and workload in PRECISION:
                    command += ["--precision", PRECISION[workload]]
                for line in lines_of(command, directory):
                    yield {"round": round_number, **line}


def trainings(options):
    """Whole processes: the kernel cache empty, then full."""
    for round_number in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            for cache in ("cold", "warm"):
                out = os.path.join(folder, cache)
                command = [options.citius, "train", options.mnist, "--device", options.device, *MNIST_RUN]
                command += ["--out", out, "--json"]
                # NVRTC keeps what it has compiled as well, in a place of its own
                caches = {"CITIUS_CACHE": os.path.join(folder, "cache"), "CUDA_CACHE_PATH": os.path.join(folder, "nvrtc")}
                started = time.perf_counter()
                report = lines_of(command, None, caches)[-1]
                wall = time.perf_counter() - started
                yield {
                    "round": round_number,
                    "cache": cache,
                    "wall_s": round(wall, 4),
                    "training_s": round(report["seconds"], 4),
                    "us_per_step": round(report["us_per_step"], 3),
                    "steps": report["steps"],
                    "device": report.get("device"),
                    "hardware": report.get("hardware"),
                    "test_accuracy": report["test"].get("accuracy"),
                }


def lines_of(command, directory, more={}):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **more}
    done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failed = [line["error"] for line in lines if "error" in line]
    if done.returncode or failed or not lines:
        last = "\n".join(done.stderr.splitlines()[-15:])
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {failed or 'no result'}\n{last}")
    return lines


def markdown(lines):
    machine = lines[0]
    out = [f"{machine['gpu']}, driver {machine['driver']}, {machine['date']}, {machine['citius']}.", ""]
    measured = [line for line in lines if line["kind"] == "step"]
    trained = [line for line in lines if line["kind"] == "train"]
    if measured:
        out += step_table(measured)
    if trained:
        out += train_table(trained)
    return "\n".join(out)


def step_table(lines):
    rounds = 1 + max(line["round"] for line in lines)
    titles = [title for title, belongs in COLUMNS if any(belongs(line) for line in lines)]
    out = [f"Microseconds per training step, median of {rounds} round(s), all sides interleaved:", ""]
    out += ["| workload | asked | " + " | ".join(titles) + " |", "|---|---:|" + "---:|" * len(titles)]
    for workload in dict.fromkeys(line["workload"] for line in lines):
        row = {}
        for title, belongs in COLUMNS:
            times = [line["us_per_step"] for line in lines if line["workload"] == workload and belongs(line)]
            if times:
                row[title] = statistics.median(times)
        asked = ASKED_US.get(workload)
        cells = [f"≤ {asked}" if asked else ""] + [cell(title, row, asked, workload) for title in titles]
        name = f"{workload}, {PRECISION[workload]}" if workload in PRECISION else workload
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return out + [""]


def cell(title, row, asked, workload):
    """`12.1 (met)` for us, `42.0, 3.5× (asked 2.5×: met)` for a peer."""
    if title not in row:
        return ""
    us = row[title]
    if title == COLUMNS[0][0]:
        return number(us) + (f" ({met(us <= asked)})" if asked else "")
    if COLUMNS[0][0] not in row:
        return number(us)
    times = us / row[COLUMNS[0][0]]
    required = ASKED_TIMES[workload]
    if not isinstance(required, dict):
        best = us == min(row[peer] for peer, _ in COLUMNS[1:] if peer in row)
        return f"{number(us)}, {times:.1f}×" + (f" (asked {required}×: {met(times >= required)})" if best else "")
    required = required[title]
    return f"{number(us)}, {times:.1f}× (asked {required}×: {met(times >= required)})"


def train_table(lines):
    accuracy = statistics.median(line["test_accuracy"] or 0 for line in lines)
    out = [f"Five epochs of MNIST, seconds, median; test accuracy {accuracy * 100:.2f}%:", ""]
    out += ["| kernel cache | whole process | asked | training alone | asked |", "|---|---:|---:|---:|---:|"]
    for cache in ("cold", "warm"):
        own = [line for line in lines if line["cache"] == cache]
        wall, training = (statistics.median(line[key] for line in own) for key in ("wall_s", "training_s"))
        asked, alone = ASKED_TRAIN[cache], ASKED_TRAIN["training"]
        out.append(
            f"| {'empty' if cache == 'cold' else 'full'} | {wall:.2f} | < {asked} ({met(wall < asked)}) "
            f"| {training:.3f} | < {alone} ({met(training < alone)}) |"
        )
    return out + [""]


def met(good):
    return "met" if good else "**not met**"


def number(us):
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:,.0f}"


def describe_machine(options):
    gpu, driver = ask(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).split(", ")[:2]
    citius = ask([options.citius, "--version"])
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {
        "date": now,
        "gpu": gpu,
        "driver": driver,
        "cores": os.cpu_count(),
        "citius": citius,
        "device": options.device,
        "rounds": options.rounds,
        "seconds": options.seconds,
    }


def ask(command):
    """The first line that a command prints; two unknowns where there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except OSError:
        return "unknown, unknown"
    return (done.stdout.splitlines() or ["unknown, unknown"])[0]


if __name__ == "__main__":
    main()
