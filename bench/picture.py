"""The README's picture: bars of µs per step, one group per workload. Called by compare.py; standard library only."""

import html
import math

# width of a drawing, of the labels on its left and of the numbers on its right
WIDTH, LEFT, RIGHT = 760, 150, 150
BAR, GAP, GROUP, TOP = 20, 5, 34, 66

COLOURS = {
    "Citius": "#d9480f",
    "JAX, jitted epoch": "#4c6ef5",
    "PyTorch, resident": "#868e96",
    "PyTorch, DataLoader": "#adb5bd",
}
LABELS = {"JAX, jitted epoch": "JAX, jitted", "PyTorch, resident": "PyTorch, in memory", "PyTorch, DataLoader": "PyTorch, DataLoader"}
SHAPES = {
    "regress": "10-64-1, batch 32",
    "tabular": "100-50-10, batch 32",
    "mnist": "784-128-64-10, batch 64",
    "gru": "10→20 through 100 steps, batch 32",
    "cnn": "3→16 3×3 on 32×32, batch 32",
    "transformer": "2×(256, 4 heads, 2048), 50 tokens, batch 32",
}


def write(path, table, machine):
    path.parent.mkdir(exist_ok=True)
    path.write_text(draw(table, machine))


def draw(table, machine):
    times = [us for row in table.values() for title, us in row.items() if title in COLOURS]
    # a logarithmic axis from a whole power of ten below the fastest
    low = 10 ** math.floor(math.log10(min(times) * 0.8))
    high = 10 ** math.ceil(math.log10(max(times)))
    across = lambda us: LEFT + (WIDTH - LEFT - RIGHT) * math.log10(us / low) / math.log10(high / low)
    parts, y = [], TOP
    for workload, row in table.items():
        parts.append(text(LEFT, y + 13, f"{workload}  ", "title") + text(LEFT + max(62, 9 * len(workload)), y + 13, SHAPES.get(workload, ""), "small"))
        y += 22
        for title in [t for t in COLOURS if t in row]:
            us = row[title]
            style = "ours" if title == "Citius" else ""
            parts.append(text(LEFT - 8, y + 14, LABELS.get(title, title), f"{style} end"))
            bar = f'<rect x="{LEFT}" y="{y}" width="{across(us) - LEFT:.1f}" height="{BAR}" rx="2" fill="{COLOURS[title]}"/>'
            parts.append(bar + text(across(us) + 6, y + 14, f"{number(us)} µs", style))
            if title != "Citius" and "Citius" in row:
                times = us / row["Citius"]
                behind = across(us) + 26 + 7.5 * len(f"{number(us)} µs")
                parts.append(text(behind, y + 14, f"{times:.1f}×" if times < 10 else f"{times:.0f}×", "small"))
            y += BAR + GAP
        y += GROUP - GAP
    height = y + 4
    axis, power = [], low
    while power <= high:
        x = across(power)
        axis.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 30}" class="grid"/>')
        axis.append(text(x, height - 14, f"{power:g} µs" if power == low else f"{power:,.0f}", "small middle"))
        power *= 10
    # one line: what it says last must fit too
    caption = f"{machine['cpu']}, {machine['cores']} cores, {machine['isa']}, {machine['date']}; logarithmic"
    caption += "; MACHINE NOT IDLE" if machine.get("load", 0) > machine.get("idle", 0) else "; shuffle and gather included"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'role="img" aria-label="Microseconds per training step, Citius beside JAX and PyTorch">',
            "<!-- made by bench/compare.py from the last kept run; do not edit -->",
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{height}" class="paper"/>',
            *axis,
            text(LEFT, 24, "One training step, in microseconds", "head"),
            text(LEFT, 43, caption, "small"),
            *parts,
            "</svg>",
            "",
        ]
    )


STYLE = (
    ".paper{fill:#fff}text{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#212529}"
    ".head{font-size:17px;font-weight:600}.title{font-weight:600}.ours{font-weight:700;fill:#d9480f}"
    ".small{font-size:11.5px;fill:#868e96}.end{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:#e9ecef}"
)


def text(x, y, content, style=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{html.escape(content)}</text>'


def number(us):
    return f"{us:.1f}" if us < 100 else f"{us:,.0f}"
