"""Loading alone, Citius beside PyTorch's DataLoader: the same data, transforms and batches, interleaved in one run.

  cargo build --release
  python bench/loader.py --peers DIR --python PYTHON --data DIR [--rounds 2]

DIR of --peers holds torch_loader_bench.py; PYTHON is an interpreter with torch and torchvision. Writes
bench/runs/<date>-<cpu>-loader.jsonl (every line measured) and bench/LOADER.md.

  python bench/loader.py --workers --data DIR [--rounds 7]

compares `auto` with the fixed numbers of workers alone: bench/runs/<date>-<cpu>-workers.jsonl, and a table of its own.

  python bench/loader.py --steps --data DIR [--rounds 7]

trains with batches from a loader beside rows that the step gathers itself: bench/runs/<date>-<cpu>-loader-steps.jsonl.

  python bench/loader.py --larger DIR --python PYTHON [--files packed,parquet] [--rounds 3]

trains from 6 GB of Parquet and from the same packed, beside what loading alone and the disk reach: `dd` through the page cache, and
four reads of 1 MiB in flight past it. The files are made in DIR where they are missing (PYTHON needs pyarrow). Adds to bench/runs/<date>-<cpu>-larger.jsonl, and makes that table anew from it.
"""

import argparse
import datetime
import json
import mmap
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from compare import ROOT, describe_machine, slug

REQUIRED = {"table": 40, "mnist": 80, "photos": 3}
SETTINGS = ["0", "1", "2", "auto"]
STEP_WORKLOADS = ["regress", "tabular", "mnist"]
# what stands from here on in the report is kept
BY_HAND = "\n## First epochs"
WORKERS = "\n## How many workers"
STEPS = "\n## With the compiled step"
LARGER = "\n## Larger than memory"
CITIUS = str(ROOT / "target/release/citius")
REPORT = ROOT / "bench" / "LOADER.md"


def main():
    a = argparse.ArgumentParser()
    for name in ("--python", "--peers", "--data", "--larger"):
        a.add_argument(name)
    a.add_argument("--workers", action="store_true")
    a.add_argument("--steps", action="store_true")
    a.add_argument("--files", default="packed,parquet")
    a.add_argument("--rounds", type=int, default=2)
    options = a.parse_args()
    if options.larger:
        return larger(options)
    if options.workers:
        return workers(options)
    if options.steps:
        return steps(options)
    machine = describe_machine()
    lines = [{"kind": "machine", **machine, "load": os.getloadavg()[0], "rounds": options.rounds}]
    for _ in range(options.rounds):
        for workload in REQUIRED:
            peer = [options.python, "torch_loader_bench.py", "--workloads", workload, "--data", options.data]
            lines += run(peer, options.peers)
            lines += each_setting(workload, options.data)
    path = ROOT / "bench" / "runs" / f"{datetime.date.today()}-{slug(machine['cpu'])}-loader.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, by_hand, rest = REPORT.read_text().partition(BY_HAND)
    REPORT.write_text(table(machine, lines, path) + by_hand + rest)
    print(REPORT.read_text())


def each_setting(workload, data):
    ours = [CITIUS, "bench", "loader", "--json", "--workloads", workload, "--mnist", f"{data}/mnist",
            "--photos", f"{data}/images_caltech101_8", "--workers"]
    return [line for setting in SETTINGS for line in run(ours + [setting], ROOT)]


def workers(options):
    machine = describe_machine()
    path = ROOT / "bench" / "runs" / f"{datetime.date.today()}-{slug(machine['cpu'])}-workers.jsonl"
    lines = [{"kind": "machine", **machine, "load": os.getloadavg()[0]}]
    for workload in REQUIRED:
        for _ in range(options.rounds):
            lines += each_setting(workload, options.data)
    replace(WORKERS, workers_table(add(path, lines), path))


def workers_table(lines, path):
    text = [f"\n\nFixed numbers and `auto`, one process each, interleaved; every line is in [runs/{path.name}](runs/{path.name}). Made by "
            "`bench/loader.py --workers`. Medians of rows per second.\n\n"
            "| workload | rounds | 0 workers | 1 | 2 | auto | auto beside the best | auto has chosen |\n|---|---:|---:|---:|---:|---:|---:|---|\n"]
    for workload in REQUIRED:
        of = lambda setting: [l for l in lines if l.get("workload") == workload and l["variant"] == f"workers={setting}"]
        rates = [statistics.median(l["items_per_s"] for l in of(setting)) for setting in SETTINGS]
        chosen = [l["workers"] for l in of("auto")]
        counts = ", ".join(f"{n}: {chosen.count(n)}×" for n in sorted(set(chosen)))
        numbers = " | ".join(f"{rate:,.0f}" for rate in rates)
        text.append(f"| {workload} | {len(chosen)} | {numbers} | {rates[-1] / max(rates[:-1]):.0%} | {counts} |\n")
    return "".join(text)


def steps(options):
    machine = describe_machine()
    path = ROOT / "bench" / "runs" / f"{datetime.date.today()}-{slug(machine['cpu'])}-loader-steps.jsonl"
    lines = [{"kind": "machine", **machine, "load": os.getloadavg()[0]}]
    for workload in STEP_WORKLOADS:
        for _ in range(options.rounds):
            for variant in ("resident", "loader"):
                ours = [CITIUS, "bench", "--json", "--seconds", "0.5", "--workloads", workload, "--variant", variant]
                lines += run(ours + ["--mnist", f"{options.data}/mnist"], ROOT)
    replace(STEPS, steps_table(add(path, lines), path))


def steps_table(lines, path):
    text = [f"\n\n`citius bench --variant resident` and `--variant loader`, one process each, interleaved; every line is in [runs/{path.name}]"
            f"(runs/{path.name}). Made by `bench/loader.py --steps`. µs per step; a machine that others use too is slow at times, hence "
            "the lower quartile beside the median.\n\n"
            "| workload | rounds | resident, median | loader, median | more | resident, lower quartile | loader | more |\n"
            "|---|---:|---:|---:|---:|---:|---:|---:|\n"]
    for workload in STEP_WORKLOADS:
        of = lambda variant: sorted(l["us_per_step"] for l in lines if (l.get("workload"), l.get("variant")) == (workload, variant))
        columns = [f"{len(of('loader'))}"]
        for pick in (statistics.median, lambda values: values[len(values) // 4]):
            resident, loader = pick(of("resident")), pick(of("loader"))
            columns += [f"{resident:.2f}", f"{loader:.2f}", f"{loader / resident - 1:+.0%}"]
        text.append(f"| {workload} | {' | '.join(columns)} |\n")
    return "".join(text)


def add(path, lines):
    """Adds lines to a run; all of it."""
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return [json.loads(line) for line in path.read_text().splitlines()]


def replace(heading, text):
    """Puts a section of the report in place of the one that was there, or at the end."""
    before, _, after = REPORT.read_text().partition(heading)
    _, next_heading, rest = after.partition("\n## ")
    REPORT.write_text(before.rstrip("\n") + "\n" + heading + text + next_heading + rest)
    print(heading + text)


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


# 14.8 million rows of 100 numbers and a target that depends on them
MAKE = """
import sys, numpy, pyarrow, pyarrow.parquet
rows, groups = 100_000, int(sys.argv[2])
schema = pyarrow.schema([(f"x{i}", pyarrow.float32()) for i in range(100)] + [("y", pyarrow.float32())])
random = numpy.random.default_rng(0)
weights = random.standard_normal(100, dtype=numpy.float32)
with pyarrow.parquet.ParquetWriter(sys.argv[1], schema, compression="snappy", use_dictionary=False) as file:
    for _ in range(groups):
        x = random.standard_normal((100, rows), dtype=numpy.float32)
        y = weights @ x + random.standard_normal(rows, dtype=numpy.float32)
        file.write_table(pyarrow.table([*x, y], schema=schema), row_group_size=rows)
"""
MEMORY = {"packed": "100MB", "parquet": "150MB"}
MODEL = ["--hidden", "8", "--batch-size", "256"]


def larger(options):
    folder = pathlib.Path(options.larger)
    files = {"parquet": folder / "table.parquet", "packed": folder / "table.citius"}
    small = {"parquet": folder / "tenth.parquet", "packed": folder / "tenth.citius"}
    for made, groups in (files, 148), (small, 15):
        if not made["parquet"].exists():
            subprocess.run([options.python, "-c", MAKE, made["parquet"], str(groups)], check=True)
        if not made["packed"].exists():
            subprocess.run([CITIUS, "data", "pack", made["parquet"], made["packed"]], check=True)
    machine = describe_machine()
    path = ROOT / "bench" / "runs" / f"{datetime.date.today()}-{slug(machine['cpu'])}-larger.jsonl"
    lines = [{"kind": "machine", **machine, "load": os.getloadavg()[0]}]
    for _ in range(options.rounds):
        for name in options.files.split(","):
            for cache, measures in {"cold": (disk, direct, load, direct, train), "warm": (load, load_on_one_core, train, step)}.items():
                for measure in measures:
                    lines.append({"file": name, "cache": cache, **measure(files[name], name, cache)})
    replace(LARGER, larger_table(add(path, lines), path))


def prepare(file, cache):
    """Nothing of the file in the page cache, or all of it."""
    handle = os.open(file, os.O_RDONLY)
    if cache == "cold":
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    else:
        while os.read(handle, 1 << 24):
            pass
    os.close(handle)


def disk(file, name, cache):
    prepare(file, cache)
    seconds, _, _ = timed(["dd", f"if={file}", "of=/dev/null", "bs=4M"])
    return {"kind": "disk", "seconds": seconds, "bytes": file.stat().st_size}


def direct(file, name, cache, block=1 << 20, threads=4, memory=96 << 20):
    """The whole file past the page cache, blocks in any order, into as much memory as a loader's windows have, touched before."""
    places = list(range(0, file.stat().st_size - block, block))
    random.shuffle(places)
    bytes_read = len(places) * block
    lock, ready = threading.Lock(), threading.Barrier(threads + 1)

    def read():
        room = memoryview(mmap.mmap(-1, memory // threads))
        room[:] = bytes(len(room))
        handle = os.open(file, os.O_RDONLY | os.O_DIRECT)
        ready.wait()
        start = 0
        while True:
            with lock:
                if not places:
                    break
                at = places.pop()
            if os.preadv(handle, [room[start:start + block]], at) != block:
                raise OSError(f"{file} is cut short")
            start = (start + block) % len(room)
        os.close(handle)

    readers = [threading.Thread(target=read) for _ in range(threads)]
    for reader in readers:
        reader.start()
    ready.wait()
    start = time.monotonic()
    for reader in readers:
        reader.join()
    return {"kind": "direct", "seconds": round(time.monotonic() - start, 3), "bytes": bytes_read}


def load(file, name, cache, kind="load", workers="auto"):
    prepare(file, cache)
    command = [CITIUS, "bench", "loader", "--json", "--epochs", "1", "--source", file, "--batch-size", "256", "--workers", workers]
    _, rss, out = timed(command + ["--memory", MEMORY[name]])
    result = json.loads(out.splitlines()[-1])
    return {"kind": kind, "seconds": result["epoch_s"], "rows": result["items"], "workers": result["workers"], "rss_kb": rss}


def load_on_one_core(file, name, cache):
    return load(file, name, cache, "load on one core", "0")


def train(file, name, cache):
    prepare(file, cache)
    return trained("train", file, "--epochs", "1", "--memory", MEMORY[name])


def step(file, name, cache):
    """The step alone, on one thread: rows that fit into memory."""
    return trained("step", file.with_name("tenth.citius"), "--epochs", "5", "--patience", "0", "--memory", "4GB", "--threads", "1")


def trained(kind, file, *how):
    with tempfile.TemporaryDirectory() as out:
        command = [CITIUS, "train", file, *MODEL, "--validation", "0.01", "--test", "0.01", "--json", "--out", f"{out}/run"]
        wall, rss, said = timed(command + list(how))
    result = json.loads(said.splitlines()[-1])
    return {"kind": kind, "seconds": round(result["seconds"], 3), "rows": result["rows"]["train"] * result["epochs"],
            "wall_s": wall, "threads": result["threads"], "rss_kb": rss}


def timed(command):
    """Seconds, the most memory it had at once in kB, and what it said."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = round(time.monotonic() - start, 3)
    if status:
        sys.exit(f"{command} ended with {status}")
    return seconds, usage.ru_maxrss, said


def larger_table(lines, path):
    def rates(kind, name, cache):
        """Millions of rows per second."""
        of = [l for l in lines if (l["kind"], l.get("file"), l.get("cache")) == (kind, name, cache)]
        return [l.get("rows", 14_800_000) / l["seconds"] / 1e6 for l in of]

    def shown(values):
        return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"

    median = statistics.median
    text = ["\n\n14.8 million rows of 100 f32 and a target, 6.0 GB, as Parquet (row groups of 100,000 rows, snappy) and packed; "
            f"`citius train FILE --epochs 1 {' '.join(MODEL)} --validation 0.01 --test 0.01`. Made by `bench/loader.py --larger`; every line "
            f"measured is in [runs/{path.name}](runs/{path.name}). Millions of rows per second, medians (range), interleaved. "
            "`dd` reads through the page cache, \"direct\" past it, 1 MiB at a time, four at once, into 96 MiB of memory; \"alone\" is "
            "`citius bench loader --source FILE` on both cores.\n\n"
            "| file | page cache | rounds | `dd` | direct | loaded alone | trained | alone, of direct | trained, of direct | trained, of alone | peak memory |\n"
            "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"]
    for name, memory in MEMORY.items():
        for cache in ("cold", "warm"):
            disk, direct, load, train = (rates(kind, name, cache) for kind in ("disk", "direct", "load", "train"))
            if not train:
                continue
            of_direct = [f"{median(rate) / median(direct):.0%}" if direct else "" for rate in (load, train)]
            peak = max(l["rss_kb"] for l in lines if (l["kind"], l.get("file"), l.get("cache")) == ("train", name, cache)) / 1e3
            text.append(f"| {name}, `--memory {memory}` | {cache} | {len(train)} | {shown(disk) if disk else ''} | "
                        f"{shown(direct) if direct else ''} | {shown(load)} | {shown(train)} | {' | '.join(of_direct)} | {median(train) / median(load):.0%} | {peak:.0f} MB |\n")
    text.append("\nWith a warm cache two cores have to load and to train; what they could do at "
                "best is the mean of both times:\n\n"
                "| file | loaded by one core | step alone, one core, rows in memory | both at best | trained | share |\n|---|---:|---:|---:|---:|---:|\n")
    for name in (name for name in MEMORY if rates("train", name, "warm")):
        load, step, train = (median(rates(kind, name, "warm")) for kind in ("load on one core", "step", "train"))
        best = min(step, 2 / (1 / load + 1 / step))
        text.append(f"| {name} | {load:.2f} | {step:.2f} | {best:.2f} | {train:.2f} | {train / best:.0%} |\n")
    return "".join(text)


if __name__ == "__main__":
    main()
