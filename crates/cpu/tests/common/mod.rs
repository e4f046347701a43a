//! Training steps as users write them, with their data.

use citius_cpu::{Batch, Driver, Flow, Inputs, Outputs, Slots};
use citius_graph::{DType, Graph, Tensor, random};
use citius_nn::{Activation, Adam, Cell, Learning, Module, cross_entropy, forecaster, mlp, mse};
use citius_plan::Plan;

/// A compiled step and the rows it draws from.
pub struct Training {
    pub name: &'static str,
    pub plan: Plan,
    x: Features,
    y: Targets,
}

enum Features {
    Values(Vec<f32>),
    Bytes(Vec<u8>),
}

enum Targets {
    Values(Vec<f32>),
    Classes(Vec<i32>),
}

const ROWS: usize = 1000;

/// 10-64-1 on numbers, batch 32.
pub fn regress(dropout: f64) -> Training {
    let g = Graph::new();
    let rows = g.input_of("rows", &[32], DType::I32);
    let x = g.input("x", &[ROWS, 10]).gather_rows(&rows);
    let y = g.input("y", &[ROWS, 1]).gather_rows(&rows);
    let loss = mse(&mlp(&[10, 64, 1], Activation::Relu, dropout).forward(&x), &y);
    Training {
        name: "regress",
        plan: learned(&loss),
        x: Features::Values(uniform(1, ROWS * 10)),
        y: Targets::Values(uniform(2, ROWS)),
    }
}

/// 196-50-27-10 on bytes, scaled as they are gathered, batch 20: no size is a multiple of a vector.
pub fn pictures(dropout: f64) -> Training {
    let g = Graph::new();
    let rows = g.input_of("rows", &[20], DType::I32);
    let x = g.input_of("x", &[ROWS, 196], DType::U8).gather_rows(&rows).to_f32() * (1.0 / 78.0) + -0.42;
    let y = g.input_of("y", &[ROWS], DType::I32).gather_rows(&rows);
    let loss = cross_entropy(&mlp(&[196, 50, 27, 10], Activation::Relu, dropout).forward(&x), &y, 0.0, None);
    Training {
        name: "pictures",
        plan: learned(&loss),
        x: Features::Bytes(uniform(3, ROWS * 196).into_iter().map(|u| (u * 256.0) as u8).collect()),
        y: Targets::Classes(uniform(4, ROWS).into_iter().map(|u| (u * 10.0) as i32).collect()),
    }
}

/// 256-512-256-10 on numbers, batch 128: large enough for products that leave out zeros.
pub fn wide() -> Training {
    let g = Graph::new();
    let rows = g.input_of("rows", &[128], DType::I32);
    let x = g.input("x", &[ROWS, 256]).gather_rows(&rows);
    let y = g.input_of("y", &[ROWS], DType::I32).gather_rows(&rows);
    let output = mlp(&[256, 512, 256, 10], Activation::Relu, 0.0).whole().forward(&x);
    Training {
        name: "wide",
        plan: learned(&cross_entropy(&output, &y, 0.0, None)),
        x: Features::Values(uniform(9, ROWS * 256)),
        y: Targets::Classes(uniform(10, ROWS).into_iter().map(|u| (u * 10.0) as i32).collect()),
    }
}

/// 100-50-10 on numbers, batch 32: a hidden layer in two strips, each with a copy of the batch where there are two threads.
pub fn table(dropout: f64) -> Training {
    let g = Graph::new();
    let rows = g.input_of("rows", &[32], DType::I32);
    let x = g.input("x", &[ROWS, 100]).gather_rows(&rows);
    let y = g.input_of("y", &[ROWS], DType::I32).gather_rows(&rows);
    let loss = cross_entropy(&mlp(&[100, 50, 10], Activation::Relu, dropout).forward(&x), &y, 0.0, None);
    Training {
        name: "table",
        plan: learned(&loss),
        x: Features::Values(uniform(7, ROWS * 100)),
        y: Targets::Classes(uniform(8, ROWS).into_iter().map(|u| (u * 10.0) as i32).collect()),
    }
}

/// Two layers of LSTM 3→5 through 6 steps, batch 41: two strips, the last group of each with empty lanes.
pub fn sequences(dropout: f64) -> Training {
    let g = Graph::new();
    let rows = g.input_of("rows", &[41], DType::I32);
    let x = g.input("x", &[ROWS, 18]).gather_rows(&rows).reshape(&[41, 6, 3]);
    let y = g.input("y", &[ROWS, 1]).gather_rows(&rows);
    let loss = mse(&forecaster(Cell::Lstm, 3, 5, 1).layers(2).dropout(dropout).forward(&x), &y);
    Training {
        name: "sequences",
        plan: learned(&loss),
        x: Features::Values(uniform(9, ROWS * 18)),
        y: Targets::Values(uniform(10, ROWS)),
    }
}

/// The same, but for each step the batch is filled in.
pub fn table_filled() -> Training {
    let g = Graph::new();
    let (x, y) = (g.input("x", &[32, 100]), g.input_of("y", &[32], DType::I32));
    let loss = cross_entropy(&mlp(&[100, 50, 10], Activation::Relu, 0.0).forward(&x), &y, 0.0, None);
    Training { name: "table, filled in", plan: learned(&loss), ..table(0.0) }
}

/// 195-50-27-10 on bytes that are mostly zero, batch 70: more than one chunk of rows, and a column without a partner.
pub fn digits(dropout: f64) -> Training {
    let g = Graph::new();
    let rows = g.input_of("rows", &[70], DType::I32);
    let x = g.input_of("x", &[ROWS, 195], DType::U8).gather_rows(&rows).to_f32() * (1.0 / 78.0) + -0.42;
    let y = g.input_of("y", &[ROWS], DType::I32).gather_rows(&rows);
    let loss = cross_entropy(&mlp(&[195, 50, 27, 10], Activation::Relu, dropout).forward(&x), &y, 0.0, None);
    let ink = |u: f32| if u < 0.2 { (u * 5.0 * 256.0) as u8 } else { 0 };
    Training {
        name: "digits",
        plan: learned(&loss),
        x: Features::Bytes(uniform(5, ROWS * 195).into_iter().map(ink).collect()),
        y: Targets::Classes(uniform(6, ROWS).into_iter().map(|u| (u * 10.0) as i32).collect()),
    }
}

fn learned(loss: &Tensor) -> Plan {
    Learning::new(Adam::default(), 1e-3).record(loss).unwrap();
    citius_plan::compile(loss.graph()).unwrap()
}

fn uniform(stream: u64, n: usize) -> Vec<f32> {
    (0..n as u64).map(|i| random::uniform(0, stream, i)).collect()
}

impl Training {
    /// Its first rows, as one batch of [`table_filled`].
    pub fn batch(&self) -> Inputs<'_> {
        let (Features::Values(x), Targets::Classes(y)) = (&self.x, &self.y) else { unreachable!() };
        Inputs::new().f32("x", &x[..32 * 100]).i32("y", &y[..32])
    }

    /// All rows.
    pub fn inputs(&self) -> Inputs<'_> {
        let inputs = match &self.x {
            Features::Values(x) => Inputs::new().f32("x", x),
            Features::Bytes(x) => Inputs::new().u8("x", x),
        };
        match &self.y {
            Targets::Values(y) => inputs.f32("y", y),
            Targets::Classes(y) => inputs.i32("y", y),
        }
    }
}

/// Draws rows that depend on the step alone, and calls `watch` before the first feed (`None`) and after each step.
pub struct Feeder<W: FnMut(Option<u64>)>(pub W);

fn row(step: u64, i: usize) -> usize {
    ((step * 7919 + i as u64 * 131) % ROWS as u64) as usize
}

impl<W: FnMut(Option<u64>)> Driver for Feeder<W> {
    fn feed(&mut self, step: u64, slots: &mut Slots) {
        (self.0)(None);
        let rows = slots.i32("rows").unwrap();
        rows.iter_mut().enumerate().for_each(|(i, to)| *to = row(step, i) as i32);
    }

    fn after(&mut self, step: u64, outputs: &Outputs) -> Flow {
        assert!(outputs.scalar(0).is_finite(), "step {step}");
        (self.0)(Some(step));
        Flow::Continue
    }
}

/// Fills in the rows that [`Feeder`] draws, or leaves them to the threads where it may.
pub struct Filler<'a, W: FnMut(Option<u64>)> {
    pub batch: Rows<'a>,
    pub leaves: bool,
    /// Steps whose batch was left.
    pub left: u64,
    pub watch: W,
}

/// The rows of [`table`] for one step.
pub struct Rows<'a> {
    pub of: &'a Training,
    pub step: u64,
}

impl Batch for Rows<'_> {
    fn write(&self, slots: &mut Slots) {
        let (Features::Values(x), Targets::Classes(y)) = (&self.of.x, &self.of.y) else { unreachable!() };
        // none where they are bound
        let (to_x, to_y) = (slots.f32("x").unwrap_or_default(), slots.i32("y").unwrap_or_default());
        for (i, to) in to_x.chunks_exact_mut(100).enumerate() {
            to.copy_from_slice(&x[100 * row(self.step, i)..][..100]);
        }
        to_y.iter_mut().enumerate().for_each(|(i, to)| *to = y[row(self.step, i)]);
    }
}

impl<W: FnMut(Option<u64>)> Driver for Filler<'_, W> {
    fn fill(&mut self, step: u64, slots: &mut Slots) -> Flow {
        (self.watch)(None);
        self.batch.step = step;
        match self.leaves && slots.leave() {
            true => self.left += 1,
            false => self.batch.write(slots),
        }
        Flow::Continue
    }

    fn left(&self) -> Option<&dyn Batch> {
        (self.left > 0).then_some(&self.batch as &dyn Batch)
    }

    fn after(&mut self, step: u64, outputs: &Outputs) -> Flow {
        assert!(outputs.scalar(0).is_finite(), "step {step}");
        (self.watch)(Some(step));
        Flow::Continue
    }
}
