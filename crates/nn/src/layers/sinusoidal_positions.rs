use std::f64::consts::FRAC_PI_2;

use citius_graph::Tensor;

use super::positions::{tokens, turns};
use crate::Module;

/// `y = x + p` for x `[…,t,width]`: `p[t,2i] = sin(t·base^(−2i/width))`, `p[t,2i+1] = cos(t·base^(−2i/width))`, base
/// 10000.
#[derive(Clone, Copy, Debug)]
pub struct SinusoidalPositions {
    width: usize,
    base: f64,
}

impl SinusoidalPositions {
    pub fn new(width: usize) -> SinusoidalPositions {
        SinusoidalPositions { width, base: 10_000.0 }
    }
}

impl Module for SinusoidalPositions {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(self.describe());
        let Some(tokens) = tokens(x, self.width) else {
            g.report(&self.describe(), format!("input is {}, must be […,t,{}]", x.shape(), self.width));
            return x.clone();
        };
        let column = g.iota(self.width);
        let pair = (&column * 0.5).floor();
        let odd = &column - &pair * 2.0;
        let angle = turns(g, tokens, &pair, self.width, self.base);
        // sin a = cos(a − π/2)
        x + (angle - (1.0 - odd) * FRAC_PI_2).cos()
    }

    fn describe(&self) -> String {
        format!("SinusoidalPositions {}", self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn mistakes_name_layer_and_shape() {
        let g = Graph::new();
        SinusoidalPositions::new(8).forward(&g.input("x", &[5]));
        let message = g.check().unwrap_err().to_string();
        assert!(
            message.contains("SinusoidalPositions 8") && message.contains("input is [5], must be […,t,8]"),
            "{message}"
        );
    }
}
