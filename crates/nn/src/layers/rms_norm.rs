use citius_graph::Tensor;

use super::norm::{affine, sizes};
use crate::Module;

/// `y = x/√(mean of x² + eps) · weight` over the last axes, as PyTorch's: parameter `{path}.weight` with the sizes of
/// those axes.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    path: String,
    dims: Vec<usize>,
    eps: f64,
    affine: bool,
}

impl RmsNorm {
    /// Over the last axis.
    pub fn new(path: impl Into<String>, width: usize) -> RmsNorm {
        RmsNorm::over(path, &[width])
    }

    /// Over the last axes, whose sizes these are.
    pub fn over(path: impl Into<String>, dims: &[usize]) -> RmsNorm {
        RmsNorm { path: path.into(), dims: dims.to_vec(), eps: f32::EPSILON as f64, affine: true }
    }

    /// Like PyTorch's, the distance from 1 to the next f32 unless told.
    pub fn eps(mut self, eps: f64) -> RmsNorm {
        self.eps = eps;
        self
    }

    /// Without weight when `false`.
    pub fn affine(mut self, affine: bool) -> RmsNorm {
        self.affine = affine;
        self
    }
}

impl Module for RmsNorm {
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
        let plain = x.reshape(&[rows, width]);
        let mut y = &plain * (1.0 / (plain.square().mean(&[1], true) + self.eps).sqrt());
        if self.affine {
            y = affine(&y, &self.path, &self.dims, &[width], false);
        }
        y.reshape(&dims)
    }

    fn describe(&self) -> String {
        format!("RmsNorm {}", sizes(&self.dims))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn wrong_width_names_layer_and_line() {
        let g = Graph::new();
        RmsNorm::over("norm", &[3, 8]).forward(&g.input("x", &[2, 8]));
        let message = g.check().unwrap_err().to_string();
        assert!(message.contains("RmsNorm [3,8]") && message.contains("input is [2,8]"), "{message}");
        assert!(message.contains("rms_norm.rs"), "{message}");
    }
}
