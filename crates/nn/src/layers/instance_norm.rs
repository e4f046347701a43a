use citius_graph::Tensor;

use super::norm::{affine, channels_last, deviations, scaled};
use super::rows;
use crate::Module;

/// Each channel of each row of `[n,c,l]` or `[n,c,h,w]` is brought to mean 0 and variance 1, as PyTorch's
/// `InstanceNorm1d` and `2d` without running statistics. With `affine`, parameters `{path}.weight` and `{path}.bias`
/// `[c]`.
#[derive(Clone, Debug)]
pub struct InstanceNorm {
    path: String,
    channels: usize,
    eps: f64,
    affine: bool,
}

impl InstanceNorm {
    pub fn new(path: impl Into<String>, channels: usize) -> InstanceNorm {
        InstanceNorm { path: path.into(), channels, eps: 1e-5, affine: false }
    }

    pub fn eps(mut self, eps: f64) -> InstanceNorm {
        self.eps = eps;
        self
    }

    /// With weight and bias when `true`.
    pub fn affine(mut self, affine: bool) -> InstanceNorm {
        self.affine = affine;
        self
    }
}

impl Module for InstanceNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let (channels, dims) = (self.channels, x.dims());
        if dims.len() < 3 || dims[1] != channels {
            g.report(&self.describe(), format!("input is {}, must be [n,{channels},…] with a place", x.shape()));
            return x.clone();
        }
        if dims[2..].iter().product::<usize>() < 2 {
            let problem = format!("input is {}: one place has no variance", x.shape());
            g.report(&self.describe(), problem);
            return x.clone();
        }
        let (there, back) = channels_last(dims.len());
        let places: Vec<usize> = (1..dims.len() - 1).collect();
        let (deviation, moments) = deviations(&x.transpose(&there), &places);
        let mut y = scaled(&deviation, &moments.variance, self.eps);
        if self.affine {
            // by rows of channels: the sums of its gradient have one axis
            y = affine(&rows(&y), &self.path, &[channels], &[channels], true);
        }
        y.reshape(&deviation.dims()).transpose(&back)
    }

    fn describe(&self) -> String {
        format!("InstanceNorm {}", self.channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn mistakes_name_layer_and_shape() {
        for (dims, problem) in [(&[2, 3][..], "input is [2,3]"), (&[2, 3, 1][..], "one place has no variance")] {
            let g = Graph::new();
            InstanceNorm::new("norm", 3).forward(&g.input("x", dims));
            let message = g.check().unwrap_err().to_string();
            assert!(message.contains(problem) && message.contains("in norm InstanceNorm 3"), "{message}");
        }
    }
}
