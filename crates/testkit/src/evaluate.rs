use std::collections::BTreeMap;

use citius_graph::Graph;

use crate::Reference;

/// Tensors by name, elements in row-major order; integers are whole numbers.
pub type Values = BTreeMap<String, Vec<f64>>;

/// Something that runs graphs.
pub trait Evaluate {
    fn name(&self) -> String;

    /// Takes one step for each of `inputs`, and returns the graph's outputs of each. `initial` holds parameters and states, as
    /// stored (a transposed leaf as `[in,out]`), before the first step; those it does not name start from their `Init` under
    /// seed 0.
    fn run(&self, graph: &Graph, initial: &Values, inputs: &[Values]) -> Result<Vec<Values>, String>;
}

/// The [`Reference`] as an executor.
pub struct Naive;

impl Evaluate for Naive {
    fn name(&self) -> String {
        "reference".into()
    }

    fn run(&self, graph: &Graph, initial: &Values, inputs: &[Values]) -> Result<Vec<Values>, String> {
        let mut reference = Reference::new(graph, 0);
        for (name, values) in initial {
            reference.set(name, values)?;
        }
        inputs.iter().map(|step| reference.step(step)).collect()
    }
}
