"""Draws the tables in data/: `python3 data.py` from this folder. The formulas are the articles' own."""
import math
import random

random.seed(42)


def write(name, columns, rows):
    with open(f"data/{name}.csv", "w") as f:
        f.write(",".join(columns) + "\n")
        f.writelines(",".join(row) + "\n" for row in rows)


def unscaled():
    for _ in range(1000):
        a, b = random.random() * 1000, random.random()
        c = 0.5 * a + 0.3 * b + random.random() * 10
        target = 2 * a + 3 * b + 0.5 * c + random.random()
        yield f"{a:.2f}", f"{b:.4f}", f"{c:.2f}", f"{target:.2f}"


def sine():
    for i in range(1000):
        x = 10 * math.pi * i / 999
        yield f"{x:.4f}", f"{math.sin(x) + 0.1 * random.gauss(0, 1):.4f}"


def line():
    for _ in range(1000):
        x = random.random() * 10
        yield f"{x:.4f}", f"{2 * x + 1 + 0.5 * random.gauss(0, 1):.4f}"


def sequence():
    starts = [random.random() * 6 for _ in range(4)]
    for i in range(1200):
        x = [math.sin(i * 0.1 * (k + 1) + starts[k]) + 0.1 * random.gauss(0, 1) for k in range(4)]
        y = math.sin(i * 0.25) * math.cos(i * 0.07) + 0.4 * math.sin((i - 5) * 0.1 + starts[0])
        yield tuple(f"{v:.3f}" for v in [*x, y + 0.05 * random.gauss(0, 1)])


def rows():
    for _ in range(1000):
        x = [random.gauss(0, 1) for _ in range(12)]
        kind = "abcd"[(x[0] + x[1] > 0) + 2 * (x[2] + x[3] > 0)]
        yield (*(f"{v:.3f}" for v in x), kind)


def relation():
    for _ in range(1000):
        a, b = random.random() * 1000, random.random()
        c = 0.5 * a + 0.3 * b + random.random() * 10
        target = a * (2 + math.sin(2 * math.pi * b)) + 0.5 * c + random.random()
        yield f"{a:.2f}", f"{b:.4f}", f"{c:.2f}", f"{target:.2f}"


write("unscaled", ["sales", "segment", "volume", "target"], unscaled())
write("sine", ["x", "y"], sine())
write("line", ["x", "y"], line())
write("sequence", ["a", "b", "c", "d", "value"], sequence())
write("rows", [f"x{k}" for k in range(12)] + ["kind"], rows())
write("relation", ["sales", "segment", "volume", "target"], relation())
