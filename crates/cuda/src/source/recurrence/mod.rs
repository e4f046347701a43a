//! Recurrent layers for the sequences `r0..r1` of a unit, through all steps. What a step waits for decides its time, not its
//! arithmetic: weights stay in registers, and values of the steps to come are under way before they are needed.
//!
//! | state | who walks a sequence |
//! |---|---|
//! | up to 32 units | a warp, a unit a lane; states go from lane to lane ([`warp`]) |
//! | up to a unit a thread | the group, several threads a unit; states go through shared memory ([`group`]) |
//! | wider | the group, several units a thread; states and weights are read from memory ([`wide`]) |

mod group;
mod warp;
mod wide;

use citius_graph::ops::recurrence::{Cell, Scan};
use citius_plan::{Recurrence, RecurrenceGradient};

use super::text::Text;

/// Weights that a thread may keep.
const MOST_WEIGHTS: usize = 100;

/// Who walks.
pub struct Walkers {
    /// Of the group.
    pub threads: usize,
    /// Sequences of a unit.
    pub rows: usize,
}

/// Writes the walk; returns the floats of shared memory it needs.
pub fn walk(text: &mut Text, r: &Recurrence, walkers: &Walkers) -> usize {
    if r.width <= 32 && r.scan.cell.gates() * r.width <= MOST_WEIGHTS {
        warp::walk(text, r);
        return 0;
    }
    match group::Shape::new(r.width, r.scan.cell.gates(), walkers) {
        Some(shape) => group::walk(text, r, &shape),
        None => {
            wide::walk(text, r);
            0
        }
    }
}

pub fn walk_back(text: &mut Text, r: &RecurrenceGradient, walkers: &Walkers) -> usize {
    if r.width <= 32 && r.scan.cell.gates() * r.width <= MOST_WEIGHTS {
        warp::walk_back(text, r);
        return 0;
    }
    match group::Shape::new(r.width, r.scan.cell.gates(), walkers) {
        Some(shape) => group::walk_back(text, r, &shape),
        None => {
            wide::walk_back(text, r);
            0
        }
    }
}

/// The next state from `h`, `cell`, `state*` and `input*`; returns the slopes.
fn gate_lines(text: &mut Text, cell: Cell) -> Vec<&'static str> {
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
            text.line("const float new_cell = fmaf(f, cell, i * g), c = tanhf(new_cell);");
            text.line("const float next = o * c;");
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

/// Notes of a step: the slopes, or those of a row that stands still, whose state or cell goes on as it is.
fn note_lines(text: &mut Text, r: &Recurrence, slopes: &[&str]) {
    for (n, slope) in slopes.iter().enumerate().filter(|_| r.notes) {
        let at = note(&r.scan, r.rows, r.width, n);
        let still = if *slope == "z" || *slope == "f" { "1.0f" } else { "0.0f" };
        text.line(format!("f32(mem{})[{at}] = walking ? {slope} : {still};", r.out));
    }
}

fn walking(text: &mut Text, r: &Recurrence) {
    let walking = r.lengths.map(|id| format!("(float)t < f32(mem{id})[row]"));
    text.line(format!("const bool walking = {};", walking.as_deref().unwrap_or("true")));
}

/// Gradients of a step, by column, from `dh`, `dcell` and `slope*`; sets `run` and `run_cell` to what goes on without weights.
fn gradient_lines(text: &mut Text, r: &RecurrenceGradient) -> Vec<&'static str> {
    let stays = r.lengths.map(|id| format!("(float)t < f32(mem{id})[row] ? 0.0f : dh"));
    let stays = stays.unwrap_or_else(|| "0.0f".into());
    match r.scan.cell {
        Cell::Tanh | Cell::Relu => {
            text.line("const float d0 = dh * slope0;");
            text.line(format!("run = {stays};"));
            vec!["d0"]
        }
        Cell::Gru => {
            text.line("const float d3 = dh * slope0, d0 = d3 * slope3, d1 = d3 * slope2, d2 = dh * slope1;");
            text.line("run = dh * slope4;");
            vec!["d0", "d1", "d2", "d3"]
        }
        Cell::Lstm => {
            text.line("const float dc = fmaf(dh, slope4, run_cell);");
            text.line("const float d0 = dc * slope0, d1 = dc * slope1, d2 = dc * slope2, d3 = dh * slope3;");
            text.line("run_cell = dc * slope5;");
            text.line(format!("run = {stays};"));
            vec!["d0", "d1", "d2", "d3"]
        }
    }
}

/// The gate that column `n` of the state's gradients belongs to: a GRU's n stands before r and z.
fn gate_of(cell: Cell, n: usize) -> usize {
    match cell {
        Cell::Gru => (n + 2) % 3,
        Cell::Tanh | Cell::Relu | Cell::Lstm => n,
    }
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

/// Where a state before and after step `t` begins.
fn slots(scan: &Scan) -> (&'static str, &'static str) {
    if scan.reverse { ("t + 1", "t") } else { ("t", "t + 1") }
}

/// Step `n` in the order of the walk.
fn step_number(scan: &Scan, back: bool, n: &str) -> String {
    if scan.reverse != back { format!("{} - ({n})", scan.steps - 1) } else { n.to_owned() }
}
