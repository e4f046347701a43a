use std::ops::Range;

use citius_graph::{Seen, Tensor};

use crate::{Module, WeightInit};

/// `y = x·Wᵀ + b`, as PyTorch's: parameters `{path}.weight` `[out,in]` and `{path}.bias` `[out]`.
#[derive(Clone, Debug)]
pub struct Linear {
    path: String,
    inputs: usize,
    outputs: usize,
    bias: bool,
    init: WeightInit,
}

impl Linear {
    pub fn new(path: impl Into<String>, inputs: usize, outputs: usize) -> Linear {
        Linear { path: path.into(), inputs, outputs, bias: true, init: WeightInit::Default }
    }

    pub fn bias(mut self, bias: bool) -> Linear {
        self.bias = bias;
        self
    }

    pub fn init(mut self, init: WeightInit) -> Linear {
        self.init = init;
        self
    }
}

impl Linear {
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Columns `range` of the result alone, by a piece of the weights stored by itself: `[rows,in] → [rows,range]`.
    #[track_caller]
    pub(crate) fn some_outputs(&self, x: &Tensor, range: Range<usize>) -> Tensor {
        let g = x.graph();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let (name, init) = (format!("{}.weight", self.path), self.init.weight(self.inputs, self.outputs));
        let w = g.parameter_part(&name, &[self.inputs, self.outputs], 1, range.clone(), init, true);
        let y = x.matmul(&w.t());
        if !self.bias {
            return y;
        }
        let init = self.init.bias(self.inputs);
        y + g.parameter_part(&format!("{}.bias", self.path), &[self.outputs], 0, range, init, false)
    }

    /// What inputs `range` contribute to the result, without the bias: `[rows,range] → [rows,out]`.
    #[track_caller]
    pub(crate) fn some_inputs(&self, x: &Tensor, range: Range<usize>) -> Tensor {
        let g = x.graph();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let (name, init) = (format!("{}.weight", self.path), self.init.weight(self.inputs, self.outputs));
        x.matmul(&g.parameter_part(&name, &[self.inputs, self.outputs], 0, range, init, true).t())
    }

    #[track_caller]
    pub(crate) fn add_bias(&self, y: Tensor) -> Tensor {
        match self.bias {
            true => {
                let g = y.graph().clone();
                y + g.parameter(&format!("{}.bias", self.path), &[self.outputs], self.init.bias(self.inputs))
            }
            false => y,
        }
    }
}

impl Module for Linear {
    /// `[…,in] → […,out]`
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        let g = x.graph();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let (inputs, outputs) = (self.inputs, self.outputs);
        let mut dims = x.dims();
        let last = dims.pop();
        let rows: usize = dims.iter().product();
        dims.push(outputs);
        if last != Some(inputs) {
            let times = |axes: Vec<usize>| axes.iter().map(usize::to_string).collect::<Vec<_>>().join("·");
            let merged =
                x.merged_axes().map_or(String::new(), |axes| format!(", {} = {}", times(axes), last.unwrap_or(0)));
            g.report(&self.describe(), format!("input is {}{merged}, last axis must be {inputs}", x.shape()));
            return g.full(0.0, &dims);
        }
        let (name, init) = (format!("{}.weight", self.path), self.init.weight(inputs, outputs));
        // one product of [rows,in] whatever the leading axes
        let y = match x.flattened_from() {
            // features in another order than they are stored: the weights are stored in that order too
            Some((stored, perm)) => {
                let own = &stored.dims()[1..];
                let order = [&[own.len()], &perm[1..].iter().map(|p| p - 1).collect::<Vec<_>>()[..]].concat();
                let seen = Seen { order, dims: vec![outputs, inputs] };
                let w = g.parameter_seen(&name, &[own, &[outputs]].concat(), seen, init);
                stored.reshape(&[rows, inputs]).matmul(&w.reshape(&[inputs, outputs]))
            }
            None => {
                let w = g.parameter_stored_transposed(&name, [outputs, inputs], init);
                x.reshape(&[rows, inputs]).matmul(&w.t())
            }
        };
        self.add_bias(y).reshape(&dims)
    }

    fn describe(&self) -> String {
        format!("Linear {}→{}", self.inputs, self.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::{Graph, Op};

    #[test]
    fn one_plain_product_and_pytorch_names() {
        let g = Graph::new();
        let y = Linear::new("0", 7, 3).forward(&g.input("x", &[2, 5, 7]));
        assert_eq!(y.dims(), [2, 5, 3]);
        assert!(g.nodes().iter().any(|n| matches!(n.op, Op::Matmul { ta: false, tb: false, .. })), "{g}");
        let leaves = g.leaves();
        assert_eq!(leaves.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["x", "0.weight", "0.bias"]);
        assert_eq!(leaves[1].seen.as_ref().unwrap().dims, [3, 7]);
        assert!(g.check().is_ok() && g.verify().is_ok());
    }

    #[test]
    fn a_vector_is_one_row() {
        let g = Graph::new();
        let y = Linear::new("0", 7, 3).bias(false).forward(&g.input("x", &[7]));
        assert_eq!((y.dims(), g.leaves().len()), (vec![3], 2));
    }

    #[test]
    fn wrong_width_names_layer_and_shapes() {
        let g = Graph::new();
        let y = Linear::new("2", 784, 128).forward(&g.input("x", &[32, 100]));
        assert_eq!(y.dims(), [32, 128]);
        let message = g.check().unwrap_err().to_string();
        assert!(
            message.contains("Linear 784→128") && message.contains("input is [32,100], last axis must be 784"),
            "{message}"
        );
        assert!(message.contains("in 2 Linear") && message.contains("linear.rs"), "{message}");
        let g = Graph::new();
        Linear::new("2", 784, 128).forward(&g.scalar(1.0));
        assert!(g.check().is_err());
    }
}
