use std::f64::consts::FRAC_PI_2;

use citius_graph::Tensor;

use super::positions::{tokens, turns};
use crate::Module;

/// Turns queries and keys x `[…,t,width]` by an angle that grows with t, so that their products depend on distances
/// alone. With halves `a, b = x[..width/2], x[width/2..]` and `θ[t,i] = t·base^(−2i/width)`: `y = [a·cos θ − b·sin θ,
/// b·cos θ + a·sin θ]`.
#[derive(Clone, Copy, Debug)]
pub struct RotaryPositions {
    width: usize,
    base: f64,
}

impl RotaryPositions {
    /// Of queries and keys this wide; base 10000.
    pub fn new(width: usize) -> RotaryPositions {
        RotaryPositions { width, base: 10_000.0 }
    }

    pub fn base(mut self, base: f64) -> RotaryPositions {
        self.base = base;
        self
    }
}

impl Module for RotaryPositions {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(self.describe());
        let half = self.width / 2;
        let Some(tokens) = tokens(x, self.width).filter(|_| self.width.is_multiple_of(2)) else {
            let problem = format!("input is {}, must be […,t,{}], the width even", x.shape(), self.width);
            g.report(&self.describe(), problem);
            return x.clone();
        };
        let angle = turns(g, tokens, &g.iota(half), self.width, self.base);
        let (cos, sin) = (angle.cos(), (angle - FRAC_PI_2).cos());
        let last = x.rank() - 1;
        let (a, b) = (x.slice(last, 0, half), x.slice(last, half, self.width));
        Tensor::concat(&[&a * &cos - &b * &sin, b * cos + a * sin], last)
    }

    fn describe(&self) -> String {
        format!("RotaryPositions {}", self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn mistakes_name_layer_and_shape() {
        let g = Graph::new();
        RotaryPositions::new(7).forward(&g.input("x", &[5, 7]));
        let message = g.check().unwrap_err().to_string();
        assert!(message.contains("input is [5,7]") && message.contains("the width even"), "{message}");
    }
}
