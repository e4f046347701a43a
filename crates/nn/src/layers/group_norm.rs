use citius_graph::Tensor;

use super::norm::{affine, channels_last, deviations, scaled};
use crate::Module;

/// Each group of neighbouring channels of each row of `[n,c,…]` is brought to mean 0 and variance 1, then `· weight +
/// bias` by channel, as PyTorch's: parameters `{path}.weight` and `{path}.bias` `[c]`.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    path: String,
    groups: usize,
    channels: usize,
    eps: f64,
    affine: bool,
}

impl GroupNorm {
    pub fn new(path: impl Into<String>, groups: usize, channels: usize) -> GroupNorm {
        GroupNorm { path: path.into(), groups, channels, eps: 1e-5, affine: true }
    }

    pub fn eps(mut self, eps: f64) -> GroupNorm {
        self.eps = eps;
        self
    }

    /// Without weight and bias when `false`.
    pub fn affine(mut self, affine: bool) -> GroupNorm {
        self.affine = affine;
        self
    }
}

impl Module for GroupNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let (groups, channels, dims) = (self.groups, self.channels, x.dims());
        if groups == 0 || !channels.is_multiple_of(groups) {
            g.report(&self.describe(), format!("{groups} groups do not divide {channels} channels"));
            return x.clone();
        }
        if dims.len() < 2 || dims[1] != channels {
            g.report(&self.describe(), format!("input is {}, must be [n,{channels},…]", x.shape()));
            return x.clone();
        }
        if channels == groups && dims.iter().enumerate().all(|(axis, d)| axis == 1 || *d == 1) {
            g.report(&self.describe(), format!("input is {}: one value per group has no variance", x.shape()));
            return x.clone();
        }
        // [n,c,h,w] as [n,h,w,c] as [n,h·w,groups,c/groups]
        let (there, back) = channels_last(dims.len());
        let last = x.transpose(&there);
        let share = channels / groups;
        let places: usize = dims[2..].iter().product();
        let (deviation, moments) = deviations(&last.reshape(&[dims[0], places, groups, share]), &[1, 3]);
        let mut y = scaled(&deviation, &moments.variance, self.eps);
        if self.affine {
            // by rows of channels: the sums of its gradient have one axis
            y = affine(&y.reshape(&[dims[0] * places, channels]), &self.path, &[channels], &[channels], true);
        }
        y.reshape(&last.dims()).transpose(&back)
    }

    fn describe(&self) -> String {
        format!("GroupNorm {} in {}", self.channels, self.groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn mistakes_name_layer_and_numbers() {
        let message = |groups: usize, dims: &[usize]| {
            let g = Graph::new();
            GroupNorm::new("norm", groups, 6).forward(&g.input("x", dims));
            g.check().unwrap_err().to_string()
        };
        assert!(message(4, &[2, 6, 3]).contains("4 groups do not divide 6 channels"));
        assert!(message(6, &[1, 6]).contains("one value per group has no variance"));
        assert!(message(0, &[2, 6, 3]).contains("0 groups"));
        let wrong = message(2, &[2, 5, 3]);
        assert!(wrong.contains("input is [2,5,3], must be [n,6,…]") && wrong.contains("group_norm.rs"), "{wrong}");
    }
}
