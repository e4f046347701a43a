//! Recurrent layers by their definition, a number at a time.

use citius_graph::ops::recurrence::{Arriving, Cell, Scan};

/// States, and behind them the slopes `[step][slope][row][unit]`, in `out` elements. `x` are the op's inputs.
pub fn walk(scan: &Scan, x: &[&Vec<f64>], rows: usize, width: usize, out: usize) -> Vec<f64> {
    let mut y = vec![0.0; out];
    let gates = scan.cell.gates() * width;
    let (products, weights) = (x[0], x[1]);
    let mut rest = x[2..].iter();
    let biases: Vec<&Vec<f64>> = rest.by_ref().take(2 * scan.bias as usize).copied().collect();
    let starts: Vec<&Vec<f64>> = rest.by_ref().take(scan.starts()).copied().collect();
    let lengths = rest.next();
    let notes = (out > scan.slots() * rows * width).then(|| scan.notes_at(rows, width));
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    for n in 0..rows {
        let start = |i: usize| starts.get(i).map_or(vec![0.0; width], |s| s[n * width..][..width].to_vec());
        let (mut h, mut c) = (start(0), start(1));
        let slot = |s: usize| (s * rows + n) * width;
        y[slot(scan.start_slot())..][..width].copy_from_slice(&h);
        for t in in_order(scan) {
            if lengths.is_none_or(|l| (t as f64) < l[n]) {
                let from_input = |j: usize| products[(t * rows + n) * gates + j] + biases.first().map_or(0.0, |b| b[j]);
                let from_state = |j: usize| {
                    (0..width).map(|k| h[k] * weights[k * gates + j]).sum::<f64>() + biases.get(1).map_or(0.0, |b| b[j])
                };
                let (mut after, mut cell) = (h.clone(), c.clone());
                for u in 0..width {
                    let both = |gate: usize| from_input(gate * width + u) + from_state(gate * width + u);
                    let slopes = match scan.cell {
                        Cell::Tanh => {
                            after[u] = both(0).tanh();
                            vec![1.0 - after[u] * after[u]]
                        }
                        Cell::Relu => {
                            after[u] = both(0).max(0.0);
                            vec![(after[u] > 0.0) as usize as f64]
                        }
                        Cell::Gru => {
                            let (r, z, state) = (sigmoid(both(0)), sigmoid(both(1)), from_state(2 * width + u));
                            let new = (from_input(2 * width + u) + r * state).tanh();
                            after[u] = (1.0 - z) * new + z * h[u];
                            let by_new = (1.0 - z) * (1.0 - new * new);
                            vec![by_new, (h[u] - new) * z * (1.0 - z), state * r * (1.0 - r), r, z]
                        }
                        Cell::Lstm => {
                            let (i, f, o) = (sigmoid(both(0)), sigmoid(both(1)), sigmoid(both(3)));
                            let g = both(2).tanh();
                            cell[u] = f * c[u] + i * g;
                            let squashed = cell[u].tanh();
                            after[u] = o * squashed;
                            let (by_i, by_f) = (g * i * (1.0 - i), c[u] * f * (1.0 - f));
                            let by_c = o * (1.0 - squashed * squashed);
                            vec![by_i, by_f, i * (1.0 - g * g), squashed * o * (1.0 - o), by_c, f]
                        }
                    };
                    for (s, slope) in slopes.into_iter().enumerate() {
                        if let Some(at) = notes {
                            y[at + ((t * scan.cell.slopes() + s) * rows + n) * width + u] = slope;
                        }
                    }
                }
                (h, c) = (after, cell);
            }
            y[slot(if scan.reverse { t } else { t + 1 })..][..width].copy_from_slice(&h);
        }
        if scan.cell == Cell::Lstm {
            y[slot(scan.steps + 1)..][..width].copy_from_slice(&c);
        }
    }
    y
}

/// The gradients of the gates at every step, and of the start.
pub fn walk_back(scan: &Scan, arriving: &Arriving, x: &[&Vec<f64>], rows: usize, width: usize) -> Vec<f64> {
    let (gates, columns) = (scan.cell.gates() * width, scan.cell.gradients() * width);
    let mut out = vec![0.0; (scan.steps + 1) * rows * columns];
    let (states, weights) = (x[0], x[1]);
    let mut rest = x[2..].iter();
    let mut given = |is: bool| if is { rest.next() } else { None };
    let lengths = given(scan.lengths);
    let (each, last, cell) = (given(arriving.each), given(arriving.last), given(arriving.cell));
    let notes = scan.notes_at(rows, width);
    for n in 0..rows {
        let at_end = |d: Option<&&Vec<f64>>| d.map_or(vec![0.0; width], |d| d[n * width..][..width].to_vec());
        let (mut dh, mut dc) = (at_end(last), at_end(cell));
        for t in in_order(scan).into_iter().rev() {
            if let Some(each) = each {
                (0..width).for_each(|u| dh[u] += each[(t * rows + n) * width + u]);
            }
            if lengths.is_some_and(|l| (t as f64) >= l[n]) {
                continue;
            }
            let slope = |s: usize, u: usize| states[notes + ((t * scan.cell.slopes() + s) * rows + n) * width + u];
            let row = &mut out[(t * rows + n) * columns..][..columns];
            let mut before = vec![0.0; width];
            for u in 0..width {
                match scan.cell {
                    Cell::Tanh | Cell::Relu => row[u] = dh[u] * slope(0, u),
                    Cell::Gru => {
                        let new = dh[u] * slope(0, u);
                        row[u] = new * slope(3, u);
                        row[width + u] = new * slope(2, u);
                        row[2 * width + u] = dh[u] * slope(1, u);
                        row[3 * width + u] = new;
                        before[u] = dh[u] * slope(4, u);
                    }
                    Cell::Lstm => {
                        dc[u] += dh[u] * slope(4, u);
                        (0..3).for_each(|gate| row[gate * width + u] = dc[u] * slope(gate, u));
                        row[3 * width + u] = dh[u] * slope(3, u);
                        dc[u] *= slope(5, u);
                    }
                }
            }
            // a GRU's n stands before r and z
            let column = |j: usize| if scan.cell == Cell::Gru { (j + width) % gates } else { j };
            for k in 0..width {
                before[k] += (0..gates).map(|j| weights[k * gates + j] * row[column(j)]).sum::<f64>();
            }
            dh = before;
        }
        let row = &mut out[(scan.steps * rows + n) * columns..][..columns];
        row[..width].copy_from_slice(&dh);
        if scan.cell == Cell::Lstm {
            row[width..2 * width].copy_from_slice(&dc);
        }
    }
    out
}

fn in_order(scan: &Scan) -> Vec<usize> {
    if scan.reverse { (0..scan.steps).rev().collect() } else { (0..scan.steps).collect() }
}
