//! Recurrent layers for the sequences `r0..r1` of a unit, through all steps. A thread keeps its units of the state from step to
//! step; the group meets once a step, where the whole state, or the gradients of all gates, are multiplied by the weights.

use citius_graph::ops::recurrence::{Cell, Scan};
use citius_plan::{Recurrence, RecurrenceGradient};

use super::text::Text;

pub fn walk(text: &mut Text, r: &Recurrence) {
    let Recurrence { ref scan, rows, width, out, products, weights, .. } = *r;
    let (cell, gates) = (scan.cell, scan.cell.gates());
    let (columns, steps) = (gates * width, scan.steps);
    let start = |n: usize, at: &str| r.start.get(n).map_or("0.0f".into(), |id| format!("f32(mem{id})[{at}]"));
    let own = format!("row * {width} + u");
    each_unit(text, width, |text| {
        let slot = scan.start_slot() * rows * width;
        text.line(format!("f32(mem{out})[{slot} + {own}] = {};", start(0, &own)));
        if cell == Cell::Lstm {
            text.line(format!("f32(mem{out})[{} + {own}] = {};", (steps + 1) * rows * width, start(1, &own)));
        }
    });
    each_step(text, scan, false, |text| {
        text.line("sync_group();");
        let (before, after) = if scan.reverse { ("t + 1", "t") } else { ("t", "t + 1") };
        each_unit(text, width, |text| {
            text.line(format!("const Index before = (({before}) * (Index){rows} + row) * {width};"));
            text.line(format!("const Index after = (({after}) * (Index){rows} + row) * {width} + u;"));
            text.line(format!("const float h = f32(mem{out})[before + u];"));
            for gate in 0..gates {
                let bias = r.biases.map_or("0.0f".into(), |[_, d]| format!("f32(mem{d})[{} + u]", gate * width));
                text.line(format!("float state{gate} = {bias};"));
            }
            text.block(format!("for (int k = 0; k < {width}; k++)"), |text| {
                text.line(format!("const float x = f32(mem{out})[before + k];"));
                for gate in 0..gates {
                    let at = format!("k * {columns} + {} + u", gate * width);
                    text.line(format!("state{gate} = fmaf(x, f32(mem{weights})[{at}], state{gate});"));
                }
            });
            for gate in 0..gates {
                let bias = r.biases.map_or(String::new(), |[b, _]| format!(" + f32(mem{b})[{} + u]", gate * width));
                let at = format!("(t * (Index){rows} + row) * {columns} + {} + u", gate * width);
                text.line(format!("const float input{gate} = f32(mem{products})[{at}]{bias};"));
            }
            let walking = r.lengths.map(|id| format!("(float)t < f32(mem{id})[row]"));
            text.line(format!("const bool walking = {};", walking.as_deref().unwrap_or("true")));
            let slopes = gate_lines(text, cell, &format!("f32(mem{out})[{} + {own}]", (steps + 1) * rows * width));
            text.line(format!("f32(mem{out})[after] = walking ? next : h;"));
            for (n, slope) in slopes.iter().enumerate().filter(|_| r.notes) {
                let at = note(scan, rows, width, n);
                // on the way back, a row that stands still is told apart by its length, or by its factor 1
                let still = if *slope == "z" || *slope == "f" { "1.0f" } else { "0.0f" };
                text.line(format!("f32(mem{out})[{at}] = walking ? {slope} : {still};"));
            }
        });
    });
}

/// The next state from `state*` and `input*`; returns the slopes.
fn gate_lines(text: &mut Text, cell: Cell, at_cell: &str) -> Vec<&'static str> {
    let sigmoid = |gate: usize| format!("1.0f / (1.0f + expf(-(input{gate} + state{gate})))");
    match cell {
        Cell::Tanh => {
            text.line("const float next = tanhf(input0 + state0);");
            vec!["1.0f - next * next"]
        }
        Cell::Relu => {
            text.line("const float sum = input0 + state0, next = sum < 0.0f ? 0.0f : sum;");
            vec!["truth(next > 0.0f)"]
        }
        Cell::Gru => {
            text.line(format!("const float r = {}, z = {};", sigmoid(0), sigmoid(1)));
            text.line("const float n = tanhf(fmaf(r, state2, input2)), next = fmaf(z, h - n, n);");
            vec!["(1.0f - z) * (1.0f - n * n)", "(h - n) * z * (1.0f - z)", "state2 * r * (1.0f - r)", "r", "z"]
        }
        Cell::Lstm => {
            text.line(format!("const float i = {}, f = {}, o = {};", sigmoid(0), sigmoid(1), sigmoid(3)));
            text.line("const float g = tanhf(input2 + state2);");
            text.line(format!("const float cell = {at_cell}, new_cell = fmaf(f, cell, i * g), c = tanhf(new_cell);"));
            text.line("const float next = o * c;");
            text.line(format!("if (walking) {at_cell} = new_cell;"));
            vec![
                "g * i * (1.0f - i)",
                "cell * f * (1.0f - f)",
                "i * (1.0f - g * g)",
                "c * o * (1.0f - o)",
                "o * (1.0f - c * c)",
                "f",
            ]
        }
    }
}

/// The running gradients of state and cell live where those of the start will be.
pub fn walk_back(text: &mut Text, r: &RecurrenceGradient) {
    let RecurrenceGradient { ref scan, rows, width, out, states, weights, .. } = *r;
    let (cell, gates) = (scan.cell, scan.cell.gates() * width);
    let columns = scan.cell.gradients() * width;
    let arrived = |id: Option<usize>| id.map_or("0.0f".into(), |id| format!("f32(mem{id})[row * {width} + u]"));
    let run = format!("f32(mem{out})[({} + row) * {columns} + u]", scan.steps * rows);
    let run_cell = format!("f32(mem{out})[({} + row) * {columns} + {width} + u]", scan.steps * rows);
    each_unit(text, width, |text| {
        text.line(format!("{run} = {};", arrived(r.last)));
        if cell == Cell::Lstm {
            text.line(format!("{run_cell} = {};", arrived(r.cell)));
        }
    });
    each_step(text, scan, true, |text| {
        let gradients = format!("(t * (Index){rows} + row) * {columns}");
        each_unit(text, width, |text| {
            let each = r.each.map(|id| format!(" + f32(mem{id})[(t * (Index){rows} + row) * {width} + u]"));
            text.line(format!("const float dh = {run}{};", each.unwrap_or_default()));
            let slope = |n: usize| format!("f32(mem{states})[{}]", note(scan, rows, width, n));
            let mut put = |column: usize, value: String| {
                text.line(format!("f32(mem{out})[{gradients} + {} + u] = {value};", column * width));
            };
            let stays = r.lengths.map(|id| format!("(float)t < f32(mem{id})[row] ? 0.0f : dh"));
            let stays = stays.unwrap_or_else(|| "0.0f".into());
            match cell {
                Cell::Tanh | Cell::Relu => {
                    put(0, format!("dh * {}", slope(0)));
                    text.line(format!("{run} = {stays};"));
                }
                Cell::Gru => {
                    let new = format!("dh * {}", slope(0));
                    put(0, format!("{new} * {}", slope(3)));
                    put(1, format!("{new} * {}", slope(2)));
                    put(2, format!("dh * {}", slope(1)));
                    put(3, new);
                    text.line(format!("{run} = dh * {};", slope(4)));
                }
                Cell::Lstm => {
                    let dc = format!("fmaf(dh, {}, {run_cell})", slope(4));
                    (0..3).for_each(|gate| put(gate, format!("{dc} * {}", slope(gate))));
                    put(3, format!("dh * {}", slope(3)));
                    text.line(format!("{run_cell} = {dc} * {};", slope(5)));
                    text.line(format!("{run} = {stays};"));
                }
            }
        });
        text.line("sync_group();");
        each_unit(text, width, |text| {
            text.line(format!("float sum = {run};"));
            // a GRU's n stands before r and z
            let at = match cell {
                Cell::Gru => format!("j < {width} ? j + {} : j - {width}", 2 * width),
                Cell::Tanh | Cell::Relu | Cell::Lstm => "j".to_owned(),
            };
            text.line(format!("for (int j = 0; j < {gates}; j++)"));
            text.line(format!(
                "    sum = fmaf(f32(mem{weights})[u * {gates} + ({at})], f32(mem{out})[{gradients} + j], sum);"
            ));
            text.line(format!("{run} = sum;"));
        });
    });
}

/// Unit `u` of the state of `row`, always the same thread's.
fn each_unit(text: &mut Text, width: usize, body: impl FnOnce(&mut Text)) {
    text.block(format!("for (Index e = tid; e < (r1 - r0) * {width}; e += THREADS)"), |text| {
        text.line(format!("const Index row = r0 + e / {width}, u = e % {width};"));
        body(text);
    });
}

fn each_step(text: &mut Text, scan: &Scan, back: bool, body: impl FnOnce(&mut Text)) {
    let head = match scan.reverse != back {
        true => format!("for (int t = {}; t >= 0; t--)", scan.steps - 1),
        false => format!("for (int t = 0; t < {}; t++)", scan.steps),
    };
    text.block(head, body);
}

/// Where slope `n` of step `t`, `row` and `u` is.
fn note(scan: &Scan, rows: usize, width: usize, n: usize) -> String {
    let slopes = scan.cell.slopes();
    format!("{} + ((t * {slopes} + {n}) * (Index){rows} + row) * {width} + u", scan.notes_at(rows, width))
}
