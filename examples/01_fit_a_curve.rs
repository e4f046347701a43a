//! The whole path by hand: trace a step, compile it, run it. `cargo run --release -p citius --example 01_fit_a_curve`
//!
//! Fits sin x with a small network; article 2's shallow net on the same curve never gets there.

use citius::cpu::{Driver, Flow, Outputs, Slots};
use citius::prelude::*;

const ROWS: usize = 1024;
const BATCH: usize = 32;
const STEPS: u64 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 1. trace: plain Rust over Tensor handles records the step
    let g = Graph::new();
    let rows = g.input_of("rows", &[BATCH], DType::I32);
    let x = g.input("x", &[ROWS, 1]).gather_rows(&rows);
    let y = g.input("y", &[ROWS, 1]).gather_rows(&rows);
    let model = mlp(&[1, 32, 32, 1], Activation::Tanh, 0.0);
    let loss = mse(&model.forward(&x), &y);
    Learning::new(Adam::default(), 3e-3).record(&loss)?;

    // 2. compile: a flat list of kernel calls, each with its cost
    let plan = compile(&g)?;
    println!("{plan}");

    // 3. run: many steps in one go; the driver names the rows of each batch and looks at the loss
    let xs: Vec<f32> = (0..ROWS).map(|i| i as f32 / ROWS as f32 * 12.0 - 6.0).collect();
    let ys: Vec<f32> = xs.iter().map(|x| x.sin()).collect();
    let mut memory = Memory::new(0);
    let mut step = Executable::new(plan, &mut memory, Options::default())?;
    let mut driver = Watch { loss: step.output("loss").ok_or("no loss")?, order: Order::new(ROWS as u32, 0, 0) };
    let inputs = Inputs::new().f32("x", &xs).f32("y", &ys);
    let start = std::time::Instant::now();
    step.run(&mut memory, &inputs, 0, STEPS, &mut driver)?;
    println!("{:.2} µs a step", start.elapsed().as_secs_f64() * 1e6 / STEPS as f64);
    Ok(())
}

struct Watch {
    loss: usize,
    order: Order,
}

impl Driver for Watch {
    fn feed(&mut self, step: u64, slots: &mut Slots) {
        if let Some(rows) = slots.i32("rows") {
            let start = step as usize * BATCH % ROWS;
            rows.iter_mut().enumerate().for_each(|(i, row)| *row = self.order.at((start + i) as u32) as i32);
        }
    }

    fn after(&mut self, step: u64, outputs: &Outputs) -> Flow {
        if (step + 1).is_multiple_of(4000) {
            println!("step {:>6}  loss {:.6}", step + 1, outputs.scalar(self.loss));
        }
        Flow::Continue
    }
}
