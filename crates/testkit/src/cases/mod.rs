//! Small graphs that cover the ops: each has outputs `y`, `loss` and `grad.{leaf}` for every f32 leaf.

pub mod big_ops;
pub mod composed;
pub mod map_ops;
pub mod products;

use citius_graph::{Graph, Init, Tensor, random};

use crate::compare::assert_none;
use crate::{Evaluate, Reference, Tolerance, Values, compare};

pub struct Case {
    pub name: String,
    pub graph: Graph,
    pub initial: Values,
    pub inputs: Values,
}

/// A tensor to differentiate by: name, sizes, elements.
pub struct Start {
    pub name: String,
    pub dims: Vec<usize>,
    pub values: Vec<f64>,
}

impl Start {
    pub fn new(name: &str, dims: &[usize], values: Vec<f64>) -> Start {
        Start { name: name.into(), dims: dims.to_vec(), values }
    }

    /// Numbers in ±2 that depend on the name and the sizes alone.
    pub fn arbitrary(name: &str, dims: &[usize]) -> Start {
        Start::new(name, dims, numbers(name, dims.iter().product()))
    }
}

/// `n` numbers in ±2, none within 0.01 of 0, exact in f32.
pub fn numbers(name: &str, n: usize) -> Vec<f64> {
    let key = random::key_of_name(n as u64, name);
    let number = |i: usize| (random::uniform(key, 0, i as u64) * 4.0 - 2.0) as f64;
    (0..n).map(number).map(|x| if x.abs() < 0.01 { x.signum() * 0.5 } else { x }).collect()
}

impl Case {
    /// `loss` = Σ y·cos(index): each element of y has a slope of its own.
    pub fn new(name: impl Into<String>, starts: Vec<Start>, body: impl FnOnce(&Graph, &[Tensor]) -> Tensor) -> Case {
        let graph = Graph::new();
        let leaves: Vec<Tensor> = starts.iter().map(|s| graph.parameter(&s.name, &s.dims, Init::Zeros)).collect();
        let y = body(&graph, &leaves).to_f32();
        graph.output("y", &y);
        let weights = graph.iota(y.elements()).cos().reshape(&y.dims());
        let loss = (&y * weights).sum_all();
        graph.output("loss", &loss);
        for (start, (leaf, gradient)) in starts.iter().zip(leaves.iter().zip(graph.gradients(&loss, &leaves))) {
            let gradient = gradient.unwrap_or_else(|| graph.full(0.0, &leaf.dims()));
            graph.output(&format!("grad.{}", start.name), &gradient);
        }
        let initial = starts.into_iter().map(|s| (s.name, s.values)).collect();
        Case { name: name.into(), graph, initial, inputs: Values::new() }
    }

    pub fn input(mut self, name: &str, values: &[f64]) -> Case {
        self.inputs.insert(name.into(), values.to_vec());
        self
    }

    /// The outputs, evaluated naively.
    #[track_caller]
    pub fn reference(&self) -> Values {
        let mut reference = Reference::new(&self.graph, 0);
        let run = self.initial.iter().try_for_each(|(name, values)| reference.set(name, values));
        let run = run.and_then(|()| reference.step(&self.inputs));
        run.unwrap_or_else(|e| panic!("{}: {e}\n{}", self.name, self.graph))
    }

    /// `Err` says where `executor` differs from the reference.
    pub fn agree(&self, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
        let expected = self.reference();
        let outputs = executor.run(&self.graph, &self.initial, std::slice::from_ref(&self.inputs));
        let outputs = outputs.map_err(|e| format!("{}: {e}", self.name))?;
        for (name, expected) in &expected {
            let actual = outputs.first().and_then(|o| o.get(name)).ok_or(format!("{}: no output {name}", self.name))?;
            compare(actual, expected, tolerance).map_err(|e| format!("{} {name}: {e}", self.name))?;
        }
        Ok(())
    }
}

/// Every map op on 0, 1 and 33 elements, at its samples and kinks.
#[track_caller]
pub fn map_ops(executor: &dyn Evaluate, tolerance: Tolerance) {
    all_agree("map ops", executor, map_ops::cases(), tolerance);
}

/// Every big op on several shapes.
#[track_caller]
pub fn big_ops(executor: &dyn Evaluate, tolerance: Tolerance) {
    all_agree("big ops", executor, big_ops::cases(), tolerance);
}

/// Recurrent layers wider than a warp.
#[track_caller]
pub fn wide_recurrences(executor: &dyn Evaluate, tolerance: Tolerance) {
    all_agree("wide recurrences", executor, big_ops::wide_recurrences(), tolerance);
}

/// Products that matrix units can take.
#[track_caller]
pub fn products(executor: &dyn Evaluate, tolerance: Tolerance) {
    all_agree("products", executor, products::cases(), tolerance);
}

/// `count` random compositions.
#[track_caller]
pub fn composed(executor: &dyn Evaluate, tolerance: Tolerance, count: u32) {
    composed::for_each(count, |case| case.agree(executor, tolerance));
}

#[track_caller]
fn all_agree(title: &str, executor: &dyn Evaluate, cases: Vec<Case>, tolerance: Tolerance) {
    let failures = cases.iter().filter_map(|case| case.agree(executor, tolerance).err()).collect();
    assert_none(&format!("{title} on {}", executor.name()), cases.len(), failures);
}
