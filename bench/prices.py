#!/usr/bin/env python3
"""Whether the doctor's prices are right.

    python3 bench/prices.py target/release/citius [--only starved-loader,…] [--rounds 7] [--mnist DIR] [--out FILE]
    python3 bench/prices.py --pool FILE …

Writes programs with one fault each, has `citius doctor` name it and state its price, then really trains with the fault and with the
doctor's own fix, as many epochs, in turns, and compares: price over seconds saved, with a 95% interval (bootstrap over the rounds, of
the middle of the doctor's statements). All but the first two cases need a GPU. One JSON object per line: what the doctor
said, each round, then the summary. Needs Python's standard library.

Of `device-underused`, as of the others, both are seconds for the same rows; how much is learned from them is another matter, which the
doctor tries.
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

COMMON = {"patience": 0, "refit": False}
WITHIN = 0.2


def cases(args):
    """Settings of each program; data of so many rows and columns where it has none."""
    digits = {"source": args.mnist} if args.mnist else {}
    return {
        # 40 µs to prepare a row, by one thread
        "starved-loader": {"rows": (20_000, 20), "device": "cpu", "hidden": [128, 64], "batch-size": 64, "epochs": 5,
                           "delay": 40.0, "workers": 1},
        # every core has a thread that computes, and 64 load beside them
        "oversubscribed-loader": {"rows": (6_000, 1000), "device": "cpu", "hidden": [16], "batch-size": 256, "epochs": 400,
                                  "delay": 0.001, "workers": 64, "flags": ["--threads", str(os.cpu_count())]},
        # batches of 1.6 MB, copied from memory as it is; the delay is there for a loader to bring them
        "unpinned-copy": {"device": "cuda", "hidden": [64], "batch-size": 2048, "epochs": 250, "delay": 0.001,
                          "workers": 8, "pinned": False, **digits},
        "device-underused": {"device": "cuda", "hidden": [128, 64], "batch-size": 16, "epochs": 80, **digits},
        # wide products in 32 bits
        "full-precision": {"device": "cuda", "hidden": [4096, 4096], "batch-size": 4096, "epochs": 10, "precision": "fp32",
                           **digits},
        # a step that a core takes less time for than a GPU
        "gpu-too-large": {"rows": (5_000, 8), "device": "cuda", "hidden": [8], "batch-size": 32, "epochs": 2000},
    }


def toml(settings):
    value = lambda v: json.dumps(v)
    return "".join(f"{key} = {value(v)}\n" for key, v in settings.items())


def write_rows(path, rows, columns):
    draw = random.Random(1)
    numbers = [f"{draw.gauss(0, 1):.3f}" for _ in range(20_011)]
    with open(path, "w") as out:
        out.write(",".join(f"x{i}" for i in range(columns)) + ",y\n")
        for _ in range(rows):
            # a prime number of different values: no two rows are alike
            at = draw.randrange(len(numbers))
            x = (numbers[at:] + numbers[:at])[:columns] if at + columns > len(numbers) else numbers[at:at + columns]
            y = 2 * float(x[0]) - float(x[1]) * float(x[2]) + 0.5 * abs(float(x[3])) + draw.gauss(0, 0.1)
            out.write(",".join(x) + f",{y:.3f}\n")


def doctor(args, path, flags, cause):
    """What it says of this cause, and of what else."""
    # 1: something was found
    command = [args.citius, "doctor", path, "--json", "--budget", args.budget, *flags]
    told = subprocess.run(command, capture_output=True, text=True)
    if told.returncode not in (0, 1):
        sys.exit(told.stderr)
    findings = json.loads(told.stdout.splitlines()[-1])["findings"]
    found = next((f for f in findings if f["cause"] == cause), None)
    return found, [f["cause"] for f in findings if f["severity"] != "note"]


def train(args, path, flags):
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        command = [args.citius, "train", "--config", path, "--json", "--out", folder, *flags]
        told = subprocess.run(command, capture_output=True, text=True)
        wall = time.perf_counter() - start
    if told.returncode:
        sys.exit(told.stderr)
    report = json.loads(told.stdout.splitlines()[-1])
    return {"steps_s": report["seconds"], "process_s": wall, "epochs": report["epochs"]}


def fixed(settings, fix):
    settings = dict(settings)
    for change in fix["changes"]:
        if change["value"] is None:
            settings.pop(change["key"], None)
        else:
            settings[change["key"]] = change["value"]
    return settings


def interval(draw, samples=4000):
    rng = random.Random(0)
    values = sorted(draw(rng) for _ in range(samples))
    return values[int(0.025 * samples)], values[int(0.975 * samples)]


def case(args, folder, cause, settings, out):
    settings = {**settings, **COMMON}
    flags = settings.pop("flags", [])
    if "rows" in settings:
        rows, columns = settings.pop("rows")
        source = os.path.join(folder, "rows.csv")
        write_rows(source, rows, columns)
        settings = {"source": source, "target": "y", **settings}
    path, mended = os.path.join(folder, "fault.toml"), os.path.join(folder, "fixed.toml")
    with open(path, "w") as file:
        file.write(toml(settings))
    statements, rounds, fix = [], [], None
    for i in range(args.rounds):
        # the doctor among the rounds: it too has to do with what else the machine does
        if i < args.statements:
            found, serious = doctor(args, path, flags, cause)
            emit(out, {"case": cause, "said": serious, "finding": found})
            if found is None or found.get("price") is None:
                emit(out, {"case": cause, "named": False})
                continue
            statements.append(found["price"]["seconds"])
            fix = fix or found["fix"]
            with open(mended, "w") as file:
                file.write(toml(fixed(settings, fix)))
        if fix is None:
            continue
        runs = {}
        for name in (["fault", "fixed"] if i % 2 == 0 else ["fixed", "fault"]):
            runs[name] = train(args, path if name == "fault" else mended, flags)
        rounds.append(runs)
        emit(out, {"case": cause, "round": runs})
    return summary(cause, statements, rounds, args.statements, out)


def summary(cause, statements, rounds, asked, out):
    if not rounds or not statements:
        return False
    saved = lambda key: [r["fault"][key] - r["fixed"][key] for r in rounds]
    price, really = statistics.median(statements), statistics.median(saved("steps_s"))
    draw = lambda rng: (statistics.median(rng.choices(statements, k=len(statements)))
                        / statistics.median(rng.choices(saved("steps_s"), k=len(rounds))))
    low, high = interval(draw)
    right = abs(price / really - 1) <= WITHIN
    emit(out, {"case": cause, "named": f"{len(statements)} of {asked}", "rounds": len(rounds),
               "price_s": round(price, 3), "statements_s": [round(s, 3) for s in statements],
               "saved_s": round(really, 3), "saved_s_of_processes": round(statistics.median(saved("process_s")), 3),
               "fault_s": round(statistics.median(r["fault"]["steps_s"] for r in rounds), 3),
               "fixed_s": round(statistics.median(r["fixed"]["steps_s"] for r in rounds), 3),
               "price_over_saved": round(price / really, 3), "low": round(low, 3), "high": round(high, 3), "right": right})
    return right


def pool(files, out):
    """The summary of what was measured in several goes."""
    lines = [json.loads(line) for name in files for line in open(name)]
    right = True
    for cause in sorted({line["case"] for line in lines}):
        own = [line for line in lines if line["case"] == cause]
        said = [line["finding"] for line in own if "finding" in line]
        statements = [f["price"]["seconds"] for f in said if f and f.get("price")]
        right &= summary(cause, statements, [line["round"] for line in own if "round" in line], len(said), out)
    return right


def emit(out, line):
    print(json.dumps(line), file=out, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("citius", nargs="?")
    parser.add_argument("--only", default="starved-loader,oversubscribed-loader", help="cases; those of a GPU are named")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--statements", type=int, default=3, help="times that the doctor is asked")
    parser.add_argument("--budget", default="2s", help="the doctor's, for trying fixes")
    parser.add_argument("--mnist", help="the directory of MNIST; the embedded digits where there is none")
    parser.add_argument("--out")
    parser.add_argument("--pool", nargs="+", help="measure nothing: the summary of these files")
    args = parser.parse_args()
    out = open(args.out, "a") if args.out else sys.stdout
    if args.pool or not args.citius:
        sys.exit(0 if pool(args.pool or parser.error("which citius?"), out) else 1)
    known = cases(args)
    right = True
    for cause in args.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            right &= case(args, folder, cause, known[cause], out)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
