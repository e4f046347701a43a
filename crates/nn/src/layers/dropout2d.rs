use citius_graph::Tensor;

use super::dropout::keep_parts;
use crate::Module;

/// While training, each channel of each row of `[n,c,…]` is 0 with probability `p` and divided by `1−p` otherwise; the
/// identity in eval mode.
#[derive(Clone, Copy, Debug)]
pub struct Dropout2d {
    p: f64,
}

impl Dropout2d {
    pub fn new(p: f64) -> Dropout2d {
        Dropout2d { p }
    }
}

impl Module for Dropout2d {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let mut dims = x.dims();
        if dims.len() < 2 {
            g.report("Dropout2d", format!("input is {}, must be [n,c,…]", x.shape()));
            return x.clone();
        }
        dims[2..].fill(1);
        keep_parts(x, self.p, &dims, "Dropout2d")
    }

    fn describe(&self) -> String {
        format!("Dropout2d {}", self.p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::{Graph, Mode};

    #[test]
    fn nothing_is_recorded_in_eval_mode() {
        let g = Graph::with_mode(Mode::Eval);
        let x = g.input("x", &[2, 3, 4, 4]);
        assert_eq!(Dropout2d::new(0.5).forward(&x).id(), x.id());
    }

    #[test]
    fn mistakes_are_named() {
        for (p, dims) in [(0.5, &[4][..]), (1.5, &[4, 2, 2, 2][..])] {
            let g = Graph::new();
            Dropout2d::new(p).forward(&g.input("x", dims));
            let message = g.check().unwrap_err().to_string();
            assert!(message.contains("Dropout2d") && message.contains("dropout2d.rs"), "{message}");
        }
    }
}
