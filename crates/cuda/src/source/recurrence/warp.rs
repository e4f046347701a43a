//! A warp a sequence, a lane a unit of the state.

use citius_graph::ops::recurrence::Cell;
use citius_plan::{Recurrence, RecurrenceGradient};

use super::super::text::Text;
use super::{gate_lines, gate_of, gradient_lines, note, note_lines, slots, step_number, walking};

/// Steps whose values are under way. The walk is unrolled as often, or a value would be waited for to be moved up.
const AHEAD: usize = 2;

pub fn walk(text: &mut Text, r: &Recurrence) {
    let Recurrence { ref scan, rows, width, out, products, weights, .. } = *r;
    let (cell, gates) = (scan.cell, scan.cell.gates());
    let (columns, steps) = (gates * width, scan.steps);
    let start = |n: usize| r.start.get(n).map_or("0.0f".into(), |id| format!("f32(mem{id})[row * {width} + u]"));
    let cell_slot = format!("f32(mem{out})[{} + row * {width} + u]", (steps + 1) * rows * width);
    lanes(text, width);
    for gate in 0..gates {
        let bias =
            |side: usize| r.biases.map_or("0.0f".into(), |b| format!("f32(mem{})[{} + u]", b[side], gate * width));
        text.line(format!("const float bias{gate} = {}, start{gate} = {};", bias(0), bias(1)));
        text.line(format!("float w{gate}[{width}];"));
        text.line("#pragma unroll");
        text.line(format!(
            "for (int k = 0; k < {width}; k++) w{gate}[k] = f32(mem{weights})[k * {columns} + {} + u];",
            gate * width
        ));
    }
    let input = |gate: usize, t: &str| {
        format!("f32(mem{products})[(({t}) * (Index){rows} + row) * {columns} + {} + u]", gate * width)
    };
    text.block("for (Index row = r0 + warp; row < r1; row += WARPS)", |text| {
        text.line(format!("float h = {};", start(0)));
        text.line(format!("if (mine) f32(mem{out})[({} + row) * {width} + u] = h;", scan.start_slot() * rows));
        if cell == Cell::Lstm {
            text.line(format!("float cell = {};", start(1)));
        }
        text.line(format!("float ahead[{AHEAD}][{gates}];"));
        text.line("#pragma unroll");
        text.block(format!("for (int p = 0; p < {AHEAD}; p++)"), |text| {
            let first = step_number(scan, false, &format!("min(p, {})", steps - 1));
            (0..gates).for_each(|g| text.line(format!("ahead[p][{g}] = {};", input(g, &first))));
        });
        in_turns(text, steps, |text| {
            text.line(format!("const int t = {};", step_number(scan, false, "step + p")));
            for gate in 0..gates {
                text.line(format!("float state{gate} = start{gate};"));
                text.line(format!("const float input{gate} = ahead[p][{gate}] + bias{gate};"));
            }
            text.line("#pragma unroll");
            text.block(format!("for (int k = 0; k < {width}; k++)"), |text| {
                text.line("const float x = __shfl_sync(0xffffffffu, h, k);");
                (0..gates).for_each(|g| text.line(format!("state{g} = fmaf(x, w{g}[k], state{g});")));
            });
            let later = step_number(scan, false, &format!("min(step + p + {AHEAD}, {})", steps - 1));
            (0..gates).for_each(|g| text.line(format!("ahead[p][{g}] = {};", input(g, &later))));
            walking(text, r);
            let slopes = gate_lines(text, cell);
            text.block("if (mine)", |text| {
                let after = slots(scan).1;
                text.line(format!(
                    "f32(mem{out})[(({after}) * (Index){rows} + row) * {width} + u] = walking ? next : h;"
                ));
                note_lines(text, r, &slopes);
            });
            text.line("h = walking ? next : h;");
            if cell == Cell::Lstm {
                text.line("cell = walking ? new_cell : cell;");
            }
        });
        if cell == Cell::Lstm {
            text.line(format!("if (mine) {cell_slot} = cell;"));
        }
    });
}

pub fn walk_back(text: &mut Text, r: &RecurrenceGradient) {
    let RecurrenceGradient { ref scan, rows, width, out, states, weights, .. } = *r;
    let (cell, gates, slopes) = (scan.cell, scan.cell.gates(), scan.cell.slopes());
    let (columns, steps) = (cell.gradients() * width, scan.steps);
    let arrived = |id: Option<usize>| id.map_or("0.0f".into(), |id| format!("f32(mem{id})[row * {width} + u]"));
    lanes(text, width);
    for n in 0..gates {
        text.line(format!("float w{n}[{width}];"));
        text.line("#pragma unroll");
        let from = gate_of(cell, n) * width;
        text.line(format!(
            "for (int k = 0; k < {width}; k++) w{n}[k] = f32(mem{weights})[u * {} + {from} + k];",
            gates * width
        ));
    }
    let load = |text: &mut Text, into: &str, n: &str| {
        text.block("", |text| {
            text.line(format!("const int t = {};", step_number(scan, true, n)));
            for i in 0..slopes {
                text.line(format!("{into}[{i}] = f32(mem{states})[{}];", note(scan, rows, width, i)));
            }
            if let Some(id) = r.each {
                text.line(format!("{into}[{slopes}] = f32(mem{id})[(t * (Index){rows} + row) * {width} + u];"));
            }
        });
    };
    text.block("for (Index row = r0 + warp; row < r1; row += WARPS)", |text| {
        text.line(format!("float run = {};", arrived(r.last)));
        if cell == Cell::Lstm {
            text.line(format!("float run_cell = {};", arrived(r.cell)));
        }
        text.line(format!("float ahead[{AHEAD}][{}];", slopes + 1));
        text.line("#pragma unroll");
        text.block(format!("for (int p = 0; p < {AHEAD}; p++)"), |text| {
            load(text, "ahead[p]", &format!("min(p, {})", steps - 1));
        });
        in_turns(text, steps, |text| {
            text.line(format!("const int t = {};", step_number(scan, true, "step + p")));
            for i in 0..slopes {
                text.line(format!("const float slope{i} = ahead[p][{i}];"));
            }
            let each = if r.each.is_some() { format!(" + ahead[p][{slopes}]") } else { String::new() };
            text.line(format!("const float dh = run{each};"));
            load(text, "ahead[p]", &format!("min(step + p + {AHEAD}, {})", steps - 1));
            let gradients = gradient_lines(text, r);
            text.block("if (mine)", |text| {
                for (n, value) in gradients.iter().enumerate() {
                    let at = format!("(t * (Index){rows} + row) * {columns} + {} + u", n * width);
                    text.line(format!("f32(mem{out})[{at}] = {value};"));
                }
            });
            let zeros: Vec<String> = (0..gates).map(|n| format!("sum{n} = 0.0f")).collect();
            text.line(format!("float {};", zeros.join(", ")));
            text.line("#pragma unroll");
            text.block(format!("for (int k = 0; k < {width}; k++)"), |text| {
                for n in 0..gates {
                    text.line(format!("sum{n} = fmaf(__shfl_sync(0xffffffffu, d{n}, k), w{n}[k], sum{n});"));
                }
            });
            (0..gates).for_each(|n| text.line(format!("run += sum{n};")));
        });
        text.block("if (mine)", |text| {
            let last = format!("({} + row) * {columns} + u", steps * rows);
            text.line(format!("f32(mem{out})[{last}] = run;"));
            if cell == Cell::Lstm {
                text.line(format!("f32(mem{out})[{last} + {width}] = run_cell;"));
            }
        });
    });
}

/// Lanes beyond the state compute a copy of its last unit, which nobody reads.
fn lanes(text: &mut Text, width: usize) {
    text.line(format!("const int u = min(lane, {});", width - 1));
    text.line(format!("const bool mine = lane < {width};"));
}

/// Steps `step + p` in turn.
fn in_turns(text: &mut Text, steps: usize, body: impl FnOnce(&mut Text)) {
    text.line("#pragma unroll 1");
    text.block(format!("for (int step = 0; step < {steps}; step += {AHEAD})"), |text| {
        text.line("#pragma unroll");
        text.block(format!("for (int p = 0; p < {AHEAD}; p++)"), |text| match steps.is_multiple_of(AHEAD) {
            true => body(text),
            false => text.block(format!("if (step + p < {steps})"), body),
        });
    });
}
