"""Steps on a processor in 32 bits and with products in bfloat16, beside JAX and PyTorch, PyTorch also under autocast; in turns.

  python3 bench/halves.py --citius target/release/citius --peers DIR --python PYTHON --out FILE [--rounds 3] [--only NAME,NAME]

Every line measured is appended to FILE. `--table FILE` prints medians of a file as Markdown.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

WORKLOADS = ["transformer", "mnist", "cnn"]
# autocast around forward and loss, as PyTorch's manual has it; parameters stay in 32 bits
AUTOCAST = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import torch_bench as bench
class Cast(torch.nn.Module):
    def __init__(self, inner): super().__init__(); self.inner = inner
    def forward(self, *x):
        with torch.autocast("cpu", torch.bfloat16): return self.inner(*x)
plain = bench.workload
def cast(name, data):
    dataset, tensors, model, loss, batch, rate = plain(name, data)
    return dataset, tensors, Cast(model), Cast(loss), batch, rate
bench.workload = cast
torch.set_flush_denormal(True)
bench.run(sys.argv[2], "resident", torch.device("cpu"), float(sys.argv[3]), sys.argv[4], 0)
"""
SIDES = ["Citius, fp32", "Citius, bf16", "JAX, fp32", "PyTorch, fp32", "PyTorch, autocast to bf16"]


def command(side, workload, o):
    seconds = str(o.seconds)
    ours = [o.citius, "bench", "--json", "--workloads", workload, "--seconds", seconds, "--mnist", o.mnist, "--precision"]
    return {
        "Citius, fp32": ours + ["fp32"],
        "Citius, bf16": ours + ["bf16"],
        "JAX, fp32": [o.python, f"{o.peers}/jax_bench.py", "--workloads", workload, "--seconds", seconds],
        "PyTorch, fp32": [o.python, f"{o.peers}/torch_bench.py", "--ftz", "--variants", "resident", "--workloads", workload,
                          "--seconds", seconds, "--mnist", o.mnist],
        "PyTorch, autocast to bf16": [o.python, "-B", "-c", AUTOCAST, o.peers, workload, seconds, o.mnist],
    }[side]


def measure(o):
    with open(o.out, "a") as out:
        for turn in range(o.rounds):
            for workload in o.workloads.split(","):
                for side in SIDES if not o.only else [s for s in SIDES if any(part in s for part in o.only.split(","))]:
                    done = subprocess.run(command(side, workload, o), capture_output=True, text=True)
                    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
                    if done.returncode != 0 or not lines:
                        print(f"{side}, {workload}: {done.stderr.strip()[-300:]}", file=sys.stderr)
                        continue
                    line = {"side": side, "round": turn, **json.loads(lines[-1])}
                    out.write(json.dumps(line) + "\n")
                    out.flush()
                    print(side, workload, line.get("us_per_step"), line.get("last_loss"), flush=True)


def table(path):
    lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    print("| µs per step | " + " | ".join(SIDES) + " |\n|---|" + "---:|" * len(SIDES))
    for workload in WORKLOADS:
        cells = []
        for side in SIDES:
            times = [l["us_per_step"] for l in lines if l["side"] == side and l["workload"] == workload]
            cells.append(f"{statistics.median(times):,.0f}" if times else "–")
        print(f"| {workload} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--citius", default="target/release/citius")
    a.add_argument("--peers")
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--out")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=3)
    a.add_argument("--mnist", required=True, help="directory of the MNIST files")
    a.add_argument("--workloads", default=",".join(WORKLOADS))
    a.add_argument("--only", help="sides whose names hold one of these")
    a.add_argument("--table", metavar="FILE")
    o = a.parse_args()
    table(o.table) if o.table else measure(o)
