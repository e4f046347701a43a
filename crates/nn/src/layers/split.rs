use citius_graph::Tensor;

use crate::{Activation, Dropout, Linear, Module};

/// A hidden layer cut into strips of units: linear, activation, dropout for each strip by itself, then the next linear layer as
/// the sum of what the strips contribute. The same function and the same parameters as the layers one after the other, but a
/// strip's weights, gradients and moments are touched by one thread alone: two cores share only the sums.
///
/// The cut depends on the width, never on the number of threads, so the bits do not either.
pub struct Split {
    first: Linear,
    activation: Activation,
    dropout: f64,
    second: Linear,
}

/// Narrower layers, and layers with fewer weights, stay whole: there a second thread costs more than it brings.
const NARROWEST: usize = 48;
const FEWEST_WEIGHTS: usize = 4096;
const STRIPS: usize = 2;

impl Split {
    pub fn new(first: Linear, activation: Activation, dropout: f64, second: Linear) -> Split {
        Split { first, activation, dropout, second }
    }

    pub fn worthwhile(inputs: usize, width: usize) -> bool {
        width >= NARROWEST && inputs * width >= FEWEST_WEIGHTS
    }
}

impl Module for Split {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        let g = x.graph();
        let mut dims = x.dims();
        if dims.pop() != Some(self.first.inputs()) {
            // the whole layer reports the mistake
            return self.second.forward(&self.first.forward(x));
        }
        let rows: usize = dims.iter().product();
        let x = x.reshape(&[rows, self.first.inputs()]);
        let width = self.first.outputs();
        let strip = width.div_ceil(STRIPS);
        let mut sum: Option<Tensor> = None;
        for start in (0..width).step_by(strip) {
            let range = start..(start + strip).min(width);
            let h = self.activation.forward(&self.first.some_outputs(&x, range.clone()));
            let h = if self.dropout == 0.0 { h } else { Dropout::new(self.dropout).forward(&h) };
            let part = self.second.some_inputs(&h, range);
            sum = Some(match sum {
                Some(sum) => sum + part,
                None => part,
            });
        }
        dims.push(self.second.outputs());
        let sum = sum.unwrap_or_else(|| g.full(0.0, &[rows, self.second.outputs()]));
        self.second.add_bias(sum).reshape(&dims)
    }

    fn describe(&self) -> String {
        format!("{} {} {}", self.first.describe(), self.activation, self.second.describe())
    }
}
