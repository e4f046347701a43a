use citius_graph::{Mode, Tensor};

use crate::Module;

/// While training, each element is 0 with probability `p` and divided by `1−p` otherwise; the identity in eval mode.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    p: f64,
}

impl Dropout {
    pub fn new(p: f64) -> Dropout {
        Dropout { p }
    }

    /// `dropout(relu(x))`. Where the result is above 0 tells all that the gradient needs: neither x nor what was drawn
    /// has to be kept.
    #[track_caller]
    pub fn after_relu(&self, x: &Tensor) -> Tensor {
        let active = x.relu();
        let kept = self.forward(&active);
        if kept.id() == active.id() || !(0.0..1.0).contains(&self.p) {
            return kept;
        }
        let scale = 1.0 / (1.0 - self.p);
        kept.with_gradient(&[x], move |v| {
            let zero = v.y.constant(0.0);
            vec![Some(zero.lt(v.y).choose(&(v.dy * scale), &zero))]
        })
    }
}

impl Module for Dropout {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        keep_parts(x, self.p, &x.dims(), "Dropout")
    }

    fn describe(&self) -> String {
        format!("Dropout {}", self.p)
    }
}

/// Keeps parts of x with probability `1−p`, divided by it; one draw for each element of `dims`, which stretches to x.
#[track_caller]
pub(super) fn keep_parts(x: &Tensor, p: f64, dims: &[usize], layer: &str) -> Tensor {
    let g = x.graph();
    if !(0.0..=1.0).contains(&p) {
        g.report(layer, format!("p is {p}, must be between 0 and 1"));
        return x.clone();
    }
    if g.mode() == Mode::Eval || p == 0.0 {
        return x.clone();
    }
    let keep = 1.0 - p;
    if keep == 0.0 {
        return x * 0.0;
    }
    let kept = g.random_uniform(dims).lt(&g.scalar(keep));
    kept.choose(&(x * (1.0 / keep)), &g.scalar(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn nothing_is_recorded_in_eval_mode() {
        let g = Graph::with_mode(Mode::Eval);
        let x = g.input("x", &[4]);
        assert_eq!(Dropout::new(0.5).forward(&x).id(), x.id());
    }

    #[test]
    fn impossible_probability_is_an_error() {
        for p in [-0.1, 1.5, f64::NAN] {
            let g = Graph::new();
            Dropout::new(p).forward(&g.input("x", &[4]));
            assert!(g.check().is_err(), "{p}");
        }
    }
}
