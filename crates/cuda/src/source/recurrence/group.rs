//! Neighbouring threads share a unit of the state: each multiplies a part of the state before, and their sums are added. States
//! and gradients of gates go through shared memory, in two places by turns, so that the group meets once a step.

use citius_graph::ops::recurrence::Cell;
use citius_plan::{Recurrence, RecurrenceGradient};

use super::super::text::Text;
use super::{
    MOST_WEIGHTS, Walkers, gate_lines, gate_of, gradient_lines, note, note_lines, slots, step_number, walking,
};

/// Sequences walked at a time.
const MOST_ROWS: usize = 4;
/// Floats of shared memory.
const MOST_SHARED: usize = 8 << 10;

/// How the threads of a group share a layer.
pub struct Shape {
    /// Threads of a unit, in one warp.
    parts: usize,
    /// Terms of each, for one gate.
    terms: usize,
    /// Sequences at a time.
    rows: usize,
    gates: usize,
    /// Weights stay in registers.
    keep: bool,
}

impl Shape {
    /// `None` where a thread would have several units.
    pub fn new(width: usize, gates: usize, walkers: &Walkers) -> Option<Shape> {
        let most = walkers.threads / width.max(1);
        let parts = 1 << most.min(32).checked_ilog2()?;
        let terms = width.div_ceil(parts);
        let rows = walkers.rows.clamp(1, MOST_ROWS);
        let shape = Shape { parts, terms, rows, gates, keep: gates * terms <= MOST_WEIGHTS };
        (shape.shared() <= MOST_SHARED).then_some(shape)
    }

    /// Width of a state with its padding.
    fn padded(&self) -> usize {
        self.terms * self.parts
    }

    /// Of the wider walk, which is the one back.
    fn shared(&self) -> usize {
        2 * self.rows * self.gates * self.padded()
    }

    fn names(&self, text: &mut Text, width: usize) {
        text.line(format!("const int part = tid % {}, unit_of = tid / {};", self.parts, self.parts));
        text.line(format!("const int u = min(unit_of, {});", width - 1));
        text.line(format!("const bool mine = part == 0 && unit_of < {width};"));
    }

    /// The weights of gate `n`, terms `part, part + parts, …`; 0 beyond the state.
    fn weights(&self, text: &mut Text, n: usize, width: usize, at: &str) {
        let Shape { parts, terms, .. } = *self;
        if self.keep {
            text.line(format!("float w{n}[{terms}];"));
            text.line("#pragma unroll");
            text.block(format!("for (int i = 0; i < {terms}; i++)"), |text| {
                text.line(format!("const int k = part + i * {parts};"));
                text.line(format!("w{n}[i] = k < {width} ? {at} : 0.0f;"));
            });
        }
    }

    /// Term `i` of gate `n`: kept, or read again. Beyond the state, what it is multiplied by is 0.
    fn weight(&self, n: usize, width: usize, at: &str) -> String {
        match self.keep {
            true => format!("w{n}[i]"),
            false => at.replace("(k)", &format!("min(part + i * {}, {})", self.parts, width - 1)),
        }
    }

    /// Adds up what the threads of a unit have.
    fn add_up(&self, text: &mut Text, names: &[String]) {
        let mut d = 1;
        while d < self.parts {
            names.iter().for_each(|x| text.line(format!("{x} += __shfl_xor_sync(0xffffffffu, {x}, {d});")));
            d *= 2;
        }
    }

    fn clear(&self, text: &mut Text) {
        text.line(format!("for (int e = tid; e < {}; e += THREADS) shared[e] = 0.0f;", self.shared()));
        text.line("sync_group();");
    }

    /// Sequences `row` of the unit, so many at a time; `i` counts them, and those beyond the end walk with the last.
    fn chunks(&self, text: &mut Text, body: impl FnOnce(&mut Text)) {
        text.block(format!("for (Index first = r0; first < r1; first += {})", self.rows), body);
    }

    fn each_row(&self, text: &mut Text, body: impl FnOnce(&mut Text)) {
        text.line("#pragma unroll");
        text.block(format!("for (int q = 0; q < {}; q++)", self.rows), |text| {
            text.line("const Index row = min(first + q, r1 - 1);");
            text.line("const bool own = mine && first + q < r1;");
            body(text);
        });
    }
}

pub fn walk(text: &mut Text, r: &Recurrence, shape: &Shape) -> usize {
    let Recurrence { ref scan, rows, width, out, products, weights, .. } = *r;
    let (cell, gates) = (scan.cell, scan.cell.gates());
    let (columns, steps) = (gates * width, scan.steps);
    let (padded, count) = (shape.padded(), shape.rows);
    let start = |n: usize| r.start.get(n).map_or("0.0f".into(), |id| format!("f32(mem{id})[row * {width} + u]"));
    let at = |gate: usize| format!("f32(mem{weights})[(k) * {columns} + {} + u]", gate * width);
    shape.names(text, width);
    for gate in 0..gates {
        let bias =
            |side: usize| r.biases.map_or("0.0f".into(), |b| format!("f32(mem{})[{} + u]", b[side], gate * width));
        text.line(format!("const float bias{gate} = {}, start{gate} = {};", bias(0), bias(1)));
        shape.weights(text, gate, width, &at(gate));
    }
    let input = |gate: usize, t: &str| {
        format!("f32(mem{products})[(({t}) * (Index){rows} + row) * {columns} + {} + u]", gate * width)
    };
    shape.chunks(text, |text| {
        shape.clear(text);
        text.line(format!("float hs[{count}], cells[{count}], ahead[{count}][{gates}];"));
        shape.each_row(text, |text| {
            text.line(format!("hs[q] = {}, cells[q] = {};", start(0), start(1)));
            (0..gates)
                .for_each(|g| text.line(format!("ahead[q][{g}] = {};", input(g, &step_number(scan, false, "0")))));
            text.line(format!("if (own) f32(mem{out})[({} + row) * {width} + u] = hs[q];", scan.start_slot() * rows));
            text.line(format!("if (mine) shared[q * {padded} + u] = hs[q];"));
        });
        text.line("sync_group();");
        text.line("#pragma unroll 1");
        text.block(format!("for (int step = 0; step < {steps}; step++)"), |text| {
            text.line(format!("const int t = {};", step_number(scan, false, "step")));
            text.line(format!("const float* before = shared + (step & 1) * {};", count * padded));
            text.line(format!("float* after = shared + (~step & 1) * {};", count * padded));
            shape.each_row(text, |text| {
                text.line("const float h = hs[q], cell = cells[q];");
                for gate in 0..gates {
                    text.line(format!("float state{gate} = part == 0 ? start{gate} : 0.0f;"));
                    text.line(format!("const float input{gate} = ahead[q][{gate}] + bias{gate};"));
                }
                text.line("#pragma unroll");
                text.block(format!("for (int i = 0; i < {}; i++)", shape.terms), |text| {
                    text.line(format!("const float x = before[q * {padded} + part + i * {}];", shape.parts));
                    for g in 0..gates {
                        let weight = shape.weight(g, width, &at(g));
                        text.line(format!("state{g} = fmaf(x, {weight}, state{g});"));
                    }
                });
                text.block(format!("if (step + 1 < {steps})"), |text| {
                    let later = step_number(scan, false, "step + 1");
                    (0..gates).for_each(|g| text.line(format!("ahead[q][{g}] = {};", input(g, &later))));
                });
                shape.add_up(text, &(0..gates).map(|g| format!("state{g}")).collect::<Vec<_>>());
                walking(text, r);
                let slopes = gate_lines(text, cell);
                text.line("hs[q] = walking ? next : h;");
                if cell == Cell::Lstm {
                    text.line("cells[q] = walking ? new_cell : cell;");
                }
                text.line(format!("if (mine) after[q * {padded} + u] = hs[q];"));
                text.block("if (own)", |text| {
                    let slot = slots(scan).1;
                    text.line(format!("f32(mem{out})[(({slot}) * (Index){rows} + row) * {width} + u] = hs[q];"));
                    note_lines(text, r, &slopes);
                });
            });
            text.line("sync_group();");
        });
        if cell == Cell::Lstm {
            shape.each_row(text, |text| {
                let slot = (steps + 1) * rows;
                text.line(format!("if (own) f32(mem{out})[({slot} + row) * {width} + u] = cells[q];"));
            });
        }
    });
    shape.shared()
}

pub fn walk_back(text: &mut Text, r: &RecurrenceGradient, shape: &Shape) -> usize {
    let RecurrenceGradient { ref scan, rows, width, out, states, weights, .. } = *r;
    let (cell, gates, slopes) = (scan.cell, scan.cell.gates(), scan.cell.slopes());
    let (columns, steps) = (cell.gradients() * width, scan.steps);
    let (padded, count) = (shape.padded(), shape.rows);
    let arrived = |id: Option<usize>| id.map_or("0.0f".into(), |id| format!("f32(mem{id})[row * {width} + u]"));
    let at = |n: usize| format!("f32(mem{weights})[u * {} + {} + (k)]", gates * width, gate_of(cell, n) * width);
    shape.names(text, width);
    (0..gates).for_each(|n| shape.weights(text, n, width, &at(n)));
    let load = |text: &mut Text, n: &str| {
        text.block("", |text| {
            text.line(format!("const int t = {};", step_number(scan, true, n)));
            for i in 0..slopes {
                text.line(format!("ahead[q][{i}] = f32(mem{states})[{}];", note(scan, rows, width, i)));
            }
            if let Some(id) = r.each {
                text.line(format!("ahead[q][{slopes}] = f32(mem{id})[(t * (Index){rows} + row) * {width} + u];"));
            }
        });
    };
    shape.chunks(text, |text| {
        shape.clear(text);
        text.line(format!("float runs[{count}], run_cells[{count}], ahead[{count}][{}];", slopes + 1));
        shape.each_row(text, |text| {
            text.line(format!("runs[q] = {}, run_cells[q] = {};", arrived(r.last), arrived(r.cell)));
            load(text, "0");
        });
        text.line("#pragma unroll 1");
        text.block(format!("for (int step = 0; step < {steps}; step++)"), |text| {
            text.line(format!("const int t = {};", step_number(scan, true, "step")));
            text.line(format!("float* gates = shared + (step & 1) * {};", count * gates * padded));
            shape.each_row(text, |text| {
                text.line("float run = runs[q], run_cell = run_cells[q];");
                for i in 0..slopes {
                    text.line(format!("const float slope{i} = ahead[q][{i}];"));
                }
                let each = if r.each.is_some() { format!(" + ahead[q][{slopes}]") } else { String::new() };
                text.line(format!("const float dh = run{each};"));
                text.block(format!("if (step + 1 < {steps})"), |text| load(text, "step + 1"));
                let gradients = gradient_lines(text, r);
                text.line("runs[q] = run, run_cells[q] = run_cell;");
                text.block("if (mine)", |text| {
                    for (n, value) in gradients.iter().enumerate().take(gates) {
                        text.line(format!("gates[(q * {gates} + {n}) * {padded} + u] = {value};"));
                    }
                });
                text.block("if (own)", |text| {
                    for (n, value) in gradients.iter().enumerate() {
                        let at = format!("(t * (Index){rows} + row) * {columns} + {} + u", n * width);
                        text.line(format!("f32(mem{out})[{at}] = {value};"));
                    }
                });
            });
            text.line("sync_group();");
            shape.each_row(text, |text| {
                let names: Vec<String> = (0..gates).map(|n| format!("sum{n}")).collect();
                text.line(format!("float {} = 0.0f;", names.join(" = 0.0f, ")));
                text.line("#pragma unroll");
                text.block(format!("for (int i = 0; i < {}; i++)", shape.terms), |text| {
                    for n in 0..gates {
                        let x = format!("gates[(q * {gates} + {n}) * {padded} + part + i * {}]", shape.parts);
                        text.line(format!("sum{n} = fmaf({x}, {}, sum{n});", shape.weight(n, width, &at(n))));
                    }
                });
                text.line(format!("float sum = {};", names.join(" + ")));
                shape.add_up(text, &["sum".to_owned()]);
                text.line("runs[q] += sum;");
            });
        });
        // the next sequences begin with cleared memory
        text.line("sync_group();");
        shape.each_row(text, |text| {
            text.block("if (own)", |text| {
                let last = format!("({} + row) * {columns} + u", steps * rows);
                text.line(format!("f32(mem{out})[{last}] = runs[q];"));
                if cell == Cell::Lstm {
                    text.line(format!("f32(mem{out})[{last} + {width}] = run_cells[q];"));
                }
            });
        });
    });
    shape.shared()
}
