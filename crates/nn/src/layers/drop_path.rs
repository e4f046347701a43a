use citius_graph::Tensor;

use super::dropout::keep_parts;
use crate::Module;

/// Stochastic depth: while training, each row of the batch is 0 with probability `p` and divided by `1−p` otherwise;
/// the identity in eval mode. At the end of a residual branch it skips the branch, row by row.
#[derive(Clone, Copy, Debug)]
pub struct DropPath {
    p: f64,
}

impl DropPath {
    pub fn new(p: f64) -> DropPath {
        DropPath { p }
    }
}

impl Module for DropPath {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        let mut dims = x.dims();
        dims.iter_mut().skip(1).for_each(|d| *d = 1);
        keep_parts(x, self.p, &dims, "DropPath")
    }

    fn describe(&self) -> String {
        format!("DropPath {}", self.p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::{Graph, Mode};

    #[test]
    fn nothing_is_recorded_in_eval_mode() {
        let g = Graph::with_mode(Mode::Eval);
        let x = g.input("x", &[2, 3]);
        assert_eq!(DropPath::new(0.5).forward(&x).id(), x.id());
    }

    #[test]
    fn impossible_probability_is_an_error() {
        let g = Graph::new();
        DropPath::new(f64::NAN).forward(&g.input("x", &[4, 2]));
        assert!(g.check().unwrap_err().to_string().contains("DropPath"));
    }
}
