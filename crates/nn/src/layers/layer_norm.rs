use citius_graph::Tensor;

use super::norm::{affine, deviations, scaled, sizes};
use crate::Module;

/// `y = (x − mean)/√(variance + eps) · weight + bias` over the last axes, as PyTorch's: parameters `{path}.weight` and
/// `{path}.bias` with the sizes of those axes.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    path: String,
    dims: Vec<usize>,
    eps: f64,
    affine: bool,
    bias: bool,
}

impl LayerNorm {
    /// Over the last axis.
    pub fn new(path: impl Into<String>, width: usize) -> LayerNorm {
        LayerNorm::over(path, &[width])
    }

    /// Over the last axes, whose sizes these are.
    pub fn over(path: impl Into<String>, dims: &[usize]) -> LayerNorm {
        LayerNorm { path: path.into(), dims: dims.to_vec(), eps: 1e-5, affine: true, bias: true }
    }

    pub fn eps(mut self, eps: f64) -> LayerNorm {
        self.eps = eps;
        self
    }

    /// Without weight and bias when `false`.
    pub fn affine(mut self, affine: bool) -> LayerNorm {
        self.affine = affine;
        self
    }

    pub fn bias(mut self, bias: bool) -> LayerNorm {
        self.bias = bias;
        self
    }
}

impl Module for LayerNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let dims = x.dims();
        if self.dims.is_empty() || !dims.ends_with(&self.dims) {
            g.report(&self.describe(), format!("input is {}, last axes must be {:?}", x.shape(), self.dims));
            return x.clone();
        }
        // plain rows whatever the leading axes
        let width = self.dims.iter().product();
        let rows = dims[..dims.len() - self.dims.len()].iter().product();
        let (deviation, moments) = deviations(&x.reshape(&[rows, width]), &[1]);
        let mut y = scaled(&deviation, &moments.variance, self.eps);
        if self.affine {
            y = affine(&y, &self.path, &self.dims, &[width], self.bias);
        }
        y.reshape(&dims)
    }

    fn describe(&self) -> String {
        format!("LayerNorm {}", sizes(&self.dims))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn wrong_width_names_layer_and_line() {
        let g = Graph::new();
        LayerNorm::new("norm1", 8).forward(&g.input("x", &[2, 7]));
        let message = g.check().unwrap_err().to_string();
        assert!(
            message.contains("LayerNorm 8") && message.contains("input is [2,7], last axes must be [8]"),
            "{message}"
        );
        assert!(message.contains("in norm1 LayerNorm 8") && message.contains("layer_norm.rs"), "{message}");
    }
}
