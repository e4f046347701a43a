#!/usr/bin/env python3
"""The doctor's whole self-test, in pieces.

    python3 bench/doctor.py target/release/citius [--faults 501] [--clean 601-620] [--only faults|clean|CAUSE,…] [--minutes N] [--out DIR]
    python3 bench/doctor.py --sum --out DIR
    python3 bench/doctor.py target/release/citius --articles [--all-in FILE]

Each piece is a process of its own: the faults of one cause with one seed, or the clean programs with one seed. What it prints is kept in
DIR, one file a piece, and a piece that is there already is not run again: after an interruption, or after `--minutes`, the same command
goes on. In the end the pieces are added up and the table of bench/DOCTOR.md is printed. `--sum` only adds up. `--all-in FILE` writes all
of what was printed into one file. `--articles` has the articles' programs mended instead, and prints their table; run it from the root of
the repository. Needs Python's standard library.
"""
import argparse
import json
import os
import subprocess
import sys
import time


def seeds(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def causes(citius):
    """All of them; those that are not in the suite take no time."""
    listed = subprocess.run([citius, "doctor", "--causes"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.strip()]


def pieces(args):
    only = set(args.only.split(",")) if args.only else {"faults", "clean"}
    faults = [] if only == {"clean"} else causes(args.citius)
    for seed in seeds(args.faults):
        for cause in faults:
            if "faults" in only or cause in only:
                yield cause, seed
    if "clean" in only:
        for seed in seeds(args.clean):
            yield "clean", seed


def outcome(path):
    """The object of a piece's last line; nothing where it was cut off."""
    try:
        with open(path) as text:
            return json.loads(text.read().rstrip().rsplit("\n", 1)[-1])["counts"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def path_of(args, piece):
    return os.path.join(args.out, f"{piece[0]}-{piece[1]}.txt")


def run(args, piece):
    command = [args.citius, "doctor", "--selftest", "--json", "--filter", piece[0], "--seeds", str(piece[1])]
    started = time.time()
    path = path_of(args, piece)
    with open(path, "w") as out:
        out.write(f"## --filter {piece[0]} --seeds {piece[1]}\n")
        out.flush()
        subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    counts = outcome(path)
    if counts is None:
        sys.exit(f"{path}: the self-test did not come to an end; see there")
    told = " ".join(f"{name} {n}" for name, n in counts.items() if n)
    if told:
        print(f"{time.time() - started:6.1f} s  {piece[0]} {piece[1]}: {told}", flush=True)


def table(args):
    total, marks, seen = {}, [], 0
    names = sorted(name for name in os.listdir(args.out) if name.endswith(".txt"))
    for name in names:
        path = os.path.join(args.out, name)
        counts = outcome(path)
        if counts is None:
            print(f"{path} is not complete, and is left out")
            continue
        seen += 1
        for key, n in counts.items():
            total[key] = total.get(key, 0) + n
        marks += [line for line in open(path).read().splitlines() if line.startswith(("MISSED", "later", "ALARM")) or "RANDOM" in line]
    for line in marks:
        print(line)
    n = lambda key: total.get(key, 0)
    share = lambda a, b: f"{a / b:.3f}" if b else "none"
    told = n("told") + n("alarms")
    print(f"\n{seen} pieces\n")
    print("| | asked | measured | of |\n|---|---:|---:|---|")
    rows = [
        ("faults told, moderate and severe", "≥ .90", share(n("found"), n("cases")), f"{n('cases')} programs"),
        ("of what is told, right", "≥ .90", share(n("right"), told), f"{told} findings, {n('alarms')} of them alarms on clean programs"),
        ("told first", "≥ .80", share(n("first"), n("cases")), f"{n('first')} of {n('cases')}"),
        ("alarms on clean programs", "0", n("alarms"), f"{n('clean')} programs"),
        ("confirmed fixes that are faster on fresh seeds", "≥ .90", share(n("hold"), n("tried_again")), f"{n('hold')} of {n('tried_again')}"),
        ("random changes confirmed", "≤ .05", share(n("random_confirmed"), n("random_changes")),
         f"{n('random_confirmed')} in {n('random_changes')} trials"),
        ("fixes tried that are confirmed", "", share(n("confirmed"), n("trials")), f"{n('confirmed')} of {n('trials')}"),
    ]
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    if n("broken"):
        print(f"{n('broken')} programs could not be looked at")
    if args.all_in:
        with open(args.all_in, "w") as out:
            out.writelines(open(os.path.join(args.out, name)).read() for name in names)


def articles(args):
    """Each program as the article has it: what is told first, and seconds to the target before and after what `--apply` writes."""
    folder = os.path.join("examples", "articles")
    names = sorted(name[:-5] for name in os.listdir(folder) if name.endswith(".toml"))
    everything = ""
    print("| program | told first | before → after |\n|---|---|---|")
    for name in names:
        if name.endswith(("-mended", ".fixed")):
            continue
        path = os.path.join(folder, name)
        command = [args.citius, "doctor", "--config", path + ".toml", "--apply", "--threads", "1"]
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        lines = [line.strip() for line in text.splitlines()]
        told = next((line.split(": ")[1] for line in lines if line.startswith(("fault: ", "warning: "))), "nothing")
        change = next((line for line in lines if line.startswith("before → after")), None)
        tried = next((line for line in lines if line.startswith("trial")), "nothing tried")
        change = change.removeprefix("before → after").strip() if change else "not applied: " + tried.removeprefix("trial").strip()
        print(f"| {name} | {told} | {change} |", flush=True)
        everything += f"##### {name}\n{text}"
        if os.path.exists(path + ".fixed.toml"):
            os.remove(path + ".fixed.toml")
    if args.all_in:
        with open(args.all_in, "w") as out:
            out.write(everything)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("citius", nargs="?", default="target/release/citius")
    parser.add_argument("--faults", default="501", help="seed or seeds of faulty programs, such as 501 or 501-502")
    parser.add_argument("--clean", default="601-620", help="seeds of clean programs")
    parser.add_argument("--only", help="faults, clean, or causes")
    parser.add_argument("--minutes", type=float, help="begin no piece after so many")
    parser.add_argument("--out", default="target/doctor", help="where pieces are kept")
    parser.add_argument("--sum", action="store_true", help="run nothing, add up what is there")
    parser.add_argument("--all-in", help="file to write all output into")
    parser.add_argument("--articles", action="store_true", help="the articles' programs instead")
    args = parser.parse_args()
    if args.articles:
        return articles(args)
    os.makedirs(args.out, exist_ok=True)
    if not args.sum:
        started = time.time()
        left = [piece for piece in pieces(args) if outcome(path_of(args, piece)) is None]
        for number, piece in enumerate(left):
            if args.minutes and time.time() - started > 60 * args.minutes:
                print(f"{len(left) - number} pieces are left; the same command goes on")
                return
            run(args, piece)
    table(args)


main()
