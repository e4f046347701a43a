//! The group walks all its sequences together; a thread has some units of their states, and meets the others once a step.

use citius_graph::ops::recurrence::Cell;
use citius_plan::{Recurrence, RecurrenceGradient};

use super::super::text::Text;
use super::{each_step, gate_lines, gate_of, gradient_lines, note, note_lines, slots, walking};

pub fn walk(text: &mut Text, r: &Recurrence) {
    let Recurrence { ref scan, rows, width, out, products, weights, .. } = *r;
    let (cell, gates) = (scan.cell, scan.cell.gates());
    let (columns, steps) = (gates * width, scan.steps);
    let own = format!("row * {width} + u");
    let start = |n: usize| r.start.get(n).map_or("0.0f".into(), |id| format!("f32(mem{id})[{own}]"));
    let cell_slot = format!("f32(mem{out})[{} + {own}]", (steps + 1) * rows * width);
    each_unit(text, width, |text| {
        let slot = scan.start_slot() * rows * width;
        text.line(format!("f32(mem{out})[{slot} + {own}] = {};", start(0)));
        if cell == Cell::Lstm {
            text.line(format!("{cell_slot} = {};", start(1)));
        }
    });
    each_step(text, scan, false, |text| {
        text.line("sync_group();");
        let (before, after) = slots(scan);
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
            if cell == Cell::Lstm {
                text.line(format!("const float cell = {cell_slot};"));
            }
            walking(text, r);
            let slopes = gate_lines(text, cell);
            if cell == Cell::Lstm {
                text.line(format!("if (walking) {cell_slot} = new_cell;"));
            }
            text.line(format!("f32(mem{out})[after] = walking ? next : h;"));
            note_lines(text, r, &slopes);
        });
    });
}

/// The running gradients of state and cell live where those of the start will be.
pub fn walk_back(text: &mut Text, r: &RecurrenceGradient) {
    let RecurrenceGradient { ref scan, rows, width, out, states, weights, .. } = *r;
    let (cell, gates) = (scan.cell, scan.cell.gates());
    let columns = cell.gradients() * width;
    let arrived = |id: Option<usize>| id.map_or("0.0f".into(), |id| format!("f32(mem{id})[row * {width} + u]"));
    let slot = format!("f32(mem{out})[({} + row) * {columns} + u]", scan.steps * rows);
    let cell_slot = format!("f32(mem{out})[({} + row) * {columns} + {width} + u]", scan.steps * rows);
    each_unit(text, width, |text| {
        text.line(format!("{slot} = {};", arrived(r.last)));
        if cell == Cell::Lstm {
            text.line(format!("{cell_slot} = {};", arrived(r.cell)));
        }
    });
    each_step(text, scan, true, |text| {
        let gradients = format!("(t * (Index){rows} + row) * {columns}");
        each_unit(text, width, |text| {
            let each = r.each.map(|id| format!(" + f32(mem{id})[(t * (Index){rows} + row) * {width} + u]"));
            text.line(format!("float run = {slot};"));
            text.line(format!("const float dh = run{};", each.unwrap_or_default()));
            if cell == Cell::Lstm {
                text.line(format!("float run_cell = {cell_slot};"));
            }
            for n in 0..cell.slopes() {
                text.line(format!("const float slope{n} = f32(mem{states})[{}];", note(scan, rows, width, n)));
            }
            for (n, value) in gradient_lines(text, r).iter().enumerate() {
                text.line(format!("f32(mem{out})[{gradients} + {} + u] = {value};", n * width));
            }
            text.line(format!("{slot} = run;"));
            if cell == Cell::Lstm {
                text.line(format!("{cell_slot} = run_cell;"));
            }
        });
        text.line("sync_group();");
        each_unit(text, width, |text| {
            text.line(format!("float sum = {slot};"));
            for n in 0..gates {
                let (weight, gradient) = (gate_of(cell, n) * width, n * width);
                text.line(format!("for (int k = 0; k < {width}; k++)"));
                text.line(format!(
                    "    sum = fmaf(f32(mem{weights})[u * {} + {weight} + k], f32(mem{out})[{gradients} + {gradient} + k], sum);",
                    gates * width
                ));
            }
            text.line(format!("{slot} = sum;"));
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
