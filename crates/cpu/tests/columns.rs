//! Folds of columns: down few rows, along far ones, and in parts of many.

use citius_cpu::{Driver, Executable, Flow, Inputs, Isa, Memory, Options, Outputs};
use citius_graph::{Graph, random};

#[derive(Default)]
struct Keep(Vec<Vec<f32>>);

impl Driver for Keep {
    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.0 = (0..4).map(|i| outputs.f32(i).to_vec()).collect();
        Flow::Continue
    }
}

/// Sums of a value that is stored and of one that is not, with a number for each row, and the largest of each column.
#[test]
fn columns_are_folded() {
    for (rows, cols) in [(7, 33), (130, 200), (67, 1030), (300, 530), (1100, 130), (1601, 256), (2100, 17)] {
        let g = Graph::new();
        let (x, each) = (g.input("x", &[rows, cols]), g.input("each", &[rows, 1]));
        let scaled = &x * each.broadcast_to(&[rows, cols]);
        g.output("scaled", &scaled);
        g.output("sum", &scaled.sum(&[0], false));
        g.output("squares", &(&x * &scaled).sum(&[0], false));
        g.output("largest", &scaled.max(&[0], false));
        let plan = citius_plan::compile(&g).unwrap();
        let numbers = |stream: u64, n: usize| (0..n as u64).map(|i| random::normal(stream, i)).collect::<Vec<f32>>();
        let (x, each) = (numbers(1, rows * cols), numbers(2, rows));
        let column = |c: usize| (0..rows).map(move |r| (r, r * cols + c));
        for isa in Isa::available() {
            let run = |threads: usize| {
                let mut memory = Memory::new(0);
                let options = Options { threads, isa: Some(isa), ..Options::default() };
                let mut step = Executable::new(plan.clone(), &mut memory, options).unwrap();
                let mut keep = Keep::default();
                step.run(&mut memory, &Inputs::new().f32("x", &x).f32("each", &each), 0, 1, &mut keep).unwrap();
                keep.0
            };
            let found = run(1);
            assert!(run(2) == found && run(3) == found, "{rows}×{cols}, {isa}: other bits for two threads or three");
            for c in 0..cols {
                let scaled = |(r, i): (usize, usize)| (x[i] * each[r]) as f64;
                let sum: f64 = column(c).map(scaled).sum();
                let squares: f64 = column(c).map(|at| x[at.1] as f64 * scaled(at)).sum();
                let largest = column(c).map(|at| scaled(at) as f32).fold(f32::NEG_INFINITY, f32::max);
                let close = |found: f32, exact: f64| (found as f64 - exact).abs() < 1e-5 * rows as f64;
                let right = close(found[1][c], sum) && close(found[2][c], squares) && found[3][c] == largest;
                assert!(right, "{rows}×{cols}, {isa}, column {c}");
            }
            assert!((0..rows * cols).all(|i| found[0][i] == x[i] * each[i / cols]), "{rows}×{cols}, {isa}");
        }
    }
}
