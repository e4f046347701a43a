"""Reliability of the command: runs that are killed, and files that are no good.

    python bench/reliability.py kills 100        # kill -9 at random moments; every run resumed to its end has the same bits
    python bench/reliability.py malformed        # files, models and settings that cannot be used: one clear error each

Uses target/release/citius, or the binary in CITIUS. Linux. Ends with 1 if anything is not as it must be.
"""

import hashlib
import json
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CITIUS = os.environ.get("CITIUS", str(ROOT / "target/release/citius"))
RANDOM = random.Random(0)


def main():
    os.environ["CITIUS_CACHE"] = tempfile.mkdtemp()
    match sys.argv[1:]:
        case ["kills", *count]:
            failed = kills(int(count[0]) if count else 100)
        case ["malformed"]:
            failed = malformed()
        case _:
            sys.exit(__doc__)
    sys.exit(1 if failed else 0)


# ------------------------------------------------------------------------------------------------ data

def table(rows=400, target=lambda a, b: f"{3 * a - b:.4f}", extra=lambda i: ""):
    lines = ["a,b,colour,when,y"]
    for i in range(rows):
        a, b = RANDOM.gauss(0, 1), RANDOM.gauss(0, 1)
        colour = RANDOM.choice(["red", "green", "blue", ""])
        lines.append(f"{a:.4f},{b:.4f},{colour},2024-{1 + i % 12:02}-{1 + i % 28:02}{extra(i)},{target(a, b)}")
    return "\n".join(lines) + "\n"


def png(width, height, value):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes((value + x * 7 + y * 3) % 256 for x in range(width)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def data(folder):
    """Sources of every kind."""
    (folder / "numbers.csv").write_text(table())
    (folder / "classes.csv").write_text(table(target=lambda a, b: "yes" if a > b else "no"))
    (folder / "large.csv").write_text(table(60_000))
    hours = (f"2024-01-{1 + i // 24:02} {i % 24:02}:00,{(i % 24) + RANDOM.random():.3f}" for i in range(700))
    (folder / "series.csv").write_text("time,load\n" + "\n".join(hours) + "\n")
    (folder / "words.txt").write_text("the quick brown fox jumps over the lazy dog and runs away\n" * 80)
    for name, shade in [("light", 150), ("dark", 10)]:
        (folder / "pictures" / name).mkdir(parents=True)
        for i in range(24):
            (folder / "pictures" / name / f"{i}.png").write_bytes(png(20, 20, shade + i))
    run(folder, "data pack large.csv large.citius")


def run(folder, command, **more):
    words = command.split() if isinstance(command, str) else command
    return subprocess.run([CITIUS, *words], cwd=folder, capture_output=True, timeout=300, **more)


# ------------------------------------------------------------------------------------------------ kills

RUNS = {
    "table": "train numbers.csv --epochs 30",
    "classes, dropout": "train classes.csv --epochs 30 --dropout 0.2",
    "quantiles": "train numbers.csv --epochs 30 --quantiles 0.1,0.5,0.9",
    "streamed": "train large.csv --memory 2MB --epochs 3",
    "packed, streamed": "train large.citius --memory 1MB --epochs 4",
    "series": "train series.csv --horizon 4 --epochs 20",
    "recurrent series": "train series.csv --horizon 2 --window 24 --model gru --epochs 4",
    "pictures, augmented": "train pictures --size 16 --epochs 8 --augment random-crop=2,horizontal-flip,rotation=5",
    "averages": "train numbers.csv --epochs 30 --swa 0.5 --accumulate 2 --schedule plateau",
    "text": "train words.txt --model gpt --window 16 --epochs 3",
}


def bits(folder, out):
    return hashlib.sha256((folder / out / "model.safetensors").read_bytes()).hexdigest()


def kills(count):
    killed = done = different = stale = lost = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data(folder)
        reference, seconds = {}, {}
        for kind, command in RUNS.items():
            began = time.monotonic()
            result = run(folder, f"{command} --checkpoint-every 1 --threads 1 --out reference")
            assert result.returncode == 0, (kind, result.stderr.decode())
            seconds[kind], reference[kind] = time.monotonic() - began, bits(folder, "reference")
            subprocess.run(["rm", "-rf", folder / "reference"])
        while killed < count:
            kind = list(RUNS)[done % len(RUNS)]
            subprocess.run(["rm", "-rf", folder / "out"])
            begin = f"{RUNS[kind]} --checkpoint-every 1"
            while True:
                resumed = (folder / "out" / "checkpoint.safetensors").exists()
                threads = RANDOM.choice([1, 2, 3])
                command = f"train --resume out --threads {threads}" if resumed else f"{begin} --force --threads {threads} --out out"
                process = subprocess.Popen(
                    [CITIUS, *command.split()], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
                )
                try:
                    _, error = process.communicate(timeout=RANDOM.uniform(0, 1.2 * seconds[kind]))
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.communicate()
                    killed += 1
                    continue
                if process.returncode != 0:
                    lost += 1
                    print(f"{kind}: {command}: ends with {process.returncode}: {error.decode()}")
                break
            done += 1
            if bits(folder, "out") != reference[kind]:
                different += 1
                print(f"{kind}: other bits than the run that was not killed")
            left = [path.name for path in (folder / "out").iterdir() if path.name.startswith(".")]
            if left:
                stale += 1
                print(f"{kind}: left behind: {left}")
    print(f"{killed} kills in {done} runs of {len(RUNS)} kinds: {different} with other bits, {stale} with files left behind, "
          f"{lost} that could not go on")
    return different + stale + lost


# ------------------------------------------------------------------------------------------------ malformed

def cut(bytes, *shares):
    return [bytes[: int(len(bytes) * share)] for share in shares]


def readers(folder):
    """Files for `train` and `data inspect` that no reader can use."""
    numbers = (folder / "numbers.csv").read_bytes()
    text = {
        "empty": b"", "newlines": b"\n\n\n", "header": b"a,b,c\n", "one cell": b"x", "one row": b"a,b\n1,2\n",
        "zeros": b"\0" * 4096, "zero in a cell": b"a,b\n1,\0\n2,3\n", "not utf-8": b"a,b\n\xff\xfe\xfd,2\n3,4\n",
        "open quote": b'a,b\n1,"2\n3,4\n5,6\n', "ragged": b"a,b\n1,2\n3\n4,5\n6,7\n", "too many": b"a,b\n1,2\n3,4,5\n6,7\n",
        "words for numbers": b"a,b\n" + b"1,2\n" * 50 + b"1,two\n" * 2, "infinite": b"a,b\n" + b"1,2\n" * 50 + b"1,inf\n",
        "constant target": b"a,b\n" + b"1,2\n" * 80, "no target at all": b"a,b\n" + b"1,\n" * 80,
        "long line": b"a,b\n" + b"1" * 70_000_000 + b",2\n", "many cells": b"1," * 3_000_000 + b"\n", "escapes": b"\x1b[31ma,b\n1,\x1b]0;x\x07\n",
        "directions": "a,\u202eb\n1,x\u2066\n2,y\n".encode(), "zip": b"PK\x03\x04" + b"\0" * 100, "pdf": b"%PDF-1.7\n" + b"x" * 200,
        "sqlite": b"SQLite format 3\0" + b"\0" * 500, "xz": b"\xfd7zXZ\0" + b"x" * 99, "bzip2": b"BZh9" + b"x" * 99,
        "pickle": b"\x80\x04\x95" + b"x" * 99, "elf": b"\x7fELF" + b"\0" * 99, "gif": b"GIF89a" + b"\0" * 99,
        "json": b'{"a": [1, 2, 3]}', "json array": b"[[1,2],[3,4]]", "html": b"<html><body>no</body></html>",
    }
    for name, content in text.items():
        yield f"{name}.csv", content
    gzip = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = gzip.compress(b"1,2\n" * 20_000_000) + gzip.flush()
    small = zlib.compressobj(9, zlib.DEFLATED, 31)
    small = small.compress(numbers) + small.flush()
    yield "bomb.csv.gz", bomb
    for i, part in enumerate([*cut(small, .1, .5, .9), small[:40] + b"\xff" * 20 + small[60:], b"\x1f\x8b"]):
        yield f"broken-{i}.csv.gz", part
    for i, content in enumerate([b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd" + b"\xff" * 200]):
        yield f"broken-{i}.csv.zst", content
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"
    for i, shape in enumerate([b"999999999999, 9", b"3, 3", b"-1, 3", b"0, 3", b"18446744073709551615, 2"]):
        yield f"shape-{i}.npy", (npy % shape).ljust(128) + b"\0" * 16
    for i, part in enumerate([b"\x93NUMPY", b"\x93NUMPY\x09\x00\xff\xff", b"\x93NUMPY\x01\x00\x10\x00{'descr': '|O8'}"]):
        yield f"head-{i}.npy", part
    for i, content in enumerate([b"PAR1", b"PAR1PAR1", b"PAR1" + b"\xff" * 99 + b"PAR1", b"PAR1" + b"\0" * 50 + struct.pack("<I", 2**31) + b"PAR1"]):
        yield f"broken-{i}.parquet", content
    for i, content in enumerate([b"ARROW1\0\0", b"ARROW1\0\0" + b"\xff" * 99 + b"ARROW1", b"\xff\xff\xff\xff" + b"\0" * 64]):
        yield f"broken-{i}.arrow", content
    for i, content in enumerate([b'{"a": 1\n{"a": 2}\n', b'{"a": 1}\n[1]\n', b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"\n", b'{"a": 1e999}\n' * 9, b"{}\n{}\n"]):
        yield f"broken-{i}.jsonl", content
    packed = (folder / "large.citius").read_bytes()
    for i, content in enumerate([*cut(packed, .001, .1, .5, .999), flipped(packed, 9), flipped(packed, len(packed) // 2), b"citius\0" * 9]):
        yield f"broken-{i}.citius", content


def flipped(content, at, bit=1):
    return content[:at] + bytes([content[at] ^ bit]) + content[at + 1:]


SETTINGS = [
    "hiden = [3]", "hidden = []\nhidden = [2]", "hidden = [0]", "hidden = [-1]", "hidden = \"many\"", "hidden = [99999999, 99999999]",
    "lr = 0", "lr = -1", "lr = nan", "lr = inf", "lr = \"fast\"", "dropout = 1", "dropout = -0.1", "dropout = nan", "epochs = 0", "epochs = 1e99",
    "epochs = -3", "batch-size = 0", "batch-size = 18446744073709551616", "validation = 1.0", "validation = -1", "test = 2", "average = nan",
    "average = 1", "swa = 7", "clip-norm = 0", "clip-norm = -1", "weight-decay = -1", "accumulate = 0", "seed = -1", "optimizer = \"adam2\"",
    "optimizer = { name = \"adam\", betas = [1, 1] }", "optimizer = { name = \"sgd\", momentum = 9 }", "schedule = \"cosinus\"", "loss = \"nope\"",
    "loss = { name = \"huber\", delta = -1 }", "activation = \"relo\"", "init = { name = \"uniform\", low = 1, high = 0 }", "head = \"softmin\"",
    "model = \"resnet-19\"", "model = { name = \"gru\", layers = 1000000000 }", "model = { name = \"gpt\", layers = 99999999 }",
    "model = { name = \"vit\", layers = 1e9 }", "model = \"lenet\"", "target = \"nothing\"", "target = 99", "task = \"guess\"", "task = \"binary\"",
    "drop = [\"nothing\"]", "only = []", "only = [\"a\"]\ndrop = [\"a\"]", "text = [\"nothing\"]", "delimiter = \"comma2\"",
    "encoding = \"utf-7\"", "header = \"yes\"", "kind = \"sound\"", "memory = \"lots\"", "memory = \"-1GB\"", "step-memory = \"1\"",
    "workers = -1", "prefetch = \"x\"", "size = 32", "window = 0\nhorizon = 1", "horizon = 0", "window = 999999", "stride = 0\nwindow = 4",
    "time = \"nothing\"\nwindow = 4", "fill = \"zero\"\nwindow = 4", "quantiles = [0.9, 0.1]", "quantiles = [0]", "quantiles = []", "quantiles = [nan]",
    "positive = \"maybe\"", "label-noise = 2", "delay = -1", "delay = 1e30", "device = \"tpu\"", "device = \"cuda:99\"", "precision = \"fp8\"",
    "weights = \"nothing.safetensors\"", "freeze = [\"nothing\"]", "rates = [\"x\"]", "rates = [\"*=-1\"]", "detach = [\"nothing\"]",
    "augment = [{ name = \"rotate\" }]", "mix = { name = \"mixup\", alpha = -1 }", "layers = [{ units = 0 }]", "layers = [{ units = 4, residual = true }]",
    "[prepare]\nscale = \"big\"", "[prepare]\npca = { components = 0 }", "[prepare]\nlog = [\"nothing\"]", "[prepare.columns.nothing]\nscale = \"none\"",
    "[prepare]\ncategorical = { hash = 0 }", "on-error = \"shrug\"", "silence = [\"nothing\"]", "source = 3", "\x00", "a = [", "= 3", "[[[", "x" * 100_000,
    "lr = 1e-3 \x1b[31m", "\x1b]0;title\x07 = 3",
]


def malformed():
    failures, tried, slowest, largest = [], 0, 0.0, 0

    def refused(what, words, size=0, stdin=None, may_work=False):
        nonlocal tried, slowest, largest
        tried += 1
        before = time.monotonic()
        process = subprocess.Popen([CITIUS, *words], cwd=folder, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, error = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return failures.append(f"{what}: no end within a minute")
        seconds = time.monotonic() - before
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        slowest, largest = max(slowest, seconds), max(largest, peak)
        said = error.decode(errors="replace")
        shown = (out + error).decode(errors="replace")
        problems = []
        if process.returncode not in ((0, 1, 2) if may_work else (1, 2)):
            problems.append(f"ends with {process.returncode}")
        if process.returncode != 0 and "error: " not in said:
            problems.append("no line that begins with error")
        if "panicked" in said or "RUST_BACKTRACE" in said:
            problems.append("a panic")
        if re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", shown.replace("\r", "")):
            problems.append("control characters")
        if seconds > 10:
            problems.append(f"{seconds:.0f} s")
        if peak > (1 << 30) + 2 * size and not failures:
            problems.append(f"{peak >> 20} MiB")
        if problems:
            failures.append(f"{what}: {', '.join(problems)}: {said[:300]!r}")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data(folder)
        run(folder, "train numbers.csv --epochs 3 --out model")
        usable = {"zero in a cell.csv", "one row.csv", "escapes.csv", "directions.csv", "words for numbers.csv", "large.csv", "json.csv",
                  "json array.csv", "html.csv", "ragged.csv", "infinite.csv", "too many.csv", "many cells.csv", "constant target.csv",
                  "no target at all.csv", "header.csv", "one cell.csv", "bomb.csv.gz", "long line.csv"}
        for name, content in readers(folder):
            path = folder / name
            path.write_bytes(content)
            size = len(content)
            refused(f"train {name}", ["train", name, "--epochs", "1", "--out", "out", "--force"], size, may_work=name in usable)
            refused(f"inspect {name}", ["data", "inspect", name], size, may_work=name in usable or name.endswith((".citius", ".jsonl")))
            refused(f"predict {name}", ["predict", "model", name], size, may_work=name in usable or name.endswith(".jsonl"))
            path.unlink()
        for i, settings in enumerate(SETTINGS):
            (folder / "s.toml").write_text(settings + "\n")
            words = ["train", "numbers.csv", "--config", "s.toml", "--epochs", "2", "--out", "out", "--force"]
            if settings.startswith("source"):
                words.pop(1)
            if settings.startswith("epochs"):
                del words[-5:-3]
            refused(f"settings {settings[:50]!r}", words)
        state = json.loads((folder / "model/model.json").read_text())
        for part in ["model.json", "model.safetensors"]:
            whole = (folder / "model" / part).read_bytes()
            broken = [*cut(whole, 0, .01, .3, .5, .9, .999), whole + b"x", whole * 2, b"\xff" * len(whole), b"{}", b"[]", b"\0" * 64,
                      struct.pack("<Q", 2**63) + whole[8:], *(flipped(whole, RANDOM.randrange(len(whole)), 1 << RANDOM.randrange(7)) for _ in range(8))]
            for i, content in enumerate(broken):
                (folder / "model" / part).write_bytes(content)
                refused(f"{part} {i}", ["predict", "model", "numbers.csv"], len(content))
            (folder / "model" / part).write_bytes(whole)
        for path, value in [("architecture.sizes", [10**9] * 99), ("architecture.sizes", [3] * 1_000_000), ("architecture.sizes", [0]),
                            ("architecture.sizes", "x"), ("architecture", {"kind": "network", "network": {"name": "gru", "layers": 10**9}}), ("version", 999), ("format", "\x1b[31m"), ("settings", None), ("input", {})]:
            changed = json.loads(json.dumps(state))
            at = changed
            *before, last = path.split(".")
            for key in before:
                at = at.setdefault(key, {})
            at[last] = value
            changed.pop("seal", None)
            (folder / "model/model.json").write_text(json.dumps(changed))
            refused(f"model.json {path} = {value!r}"[:80], ["predict", "model", "numbers.csv"])
        for what, target in [("a device", "/dev/zero"), ("a device", "/dev/urandom"), ("a folder", str(folder / "pictures"))]:
            refused(f"{what} as settings", ["train", "--config", target, "--out", "out", "--force"])
            refused(f"{what} as weights", ["train", "numbers.csv", "--weights", target, "--out", "out", "--force"])
            refused(f"{what} as a table", ["predict", "model", target])
            refused(f"{what} as rows", ["train", "numbers.csv", "--train-rows", target, "--out", "out", "--force"])
        os.mkfifo(folder / "pipe")
        refused("a pipe without a writer as settings", ["train", "--config", "pipe", "--out", "out", "--force"])
        refused("a pipe without a writer as weights", ["train", "numbers.csv", "--weights", "pipe", "--out", "out", "--force"])
    print("\n".join(failures))
    print(f"{tried} malformed inputs, {len(failures)} not refused as they must be; the slowest took {slowest:.1f} s, "
          f"the largest peak of memory was {largest >> 20} MiB")
    return failures


main()
