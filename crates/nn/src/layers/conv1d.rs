use citius_graph::{Convolution, Seen, Tensor};

use crate::{Module, WeightInit};

/// Convolution along a sequence `[n,in,l] → [n,out,l']` as PyTorch's: parameters `{path}.weight` `[out,in/groups,k]` and
/// `{path}.bias` `[out]`.
#[derive(Clone, Debug)]
pub struct Conv1d {
    path: String,
    inputs: usize,
    outputs: usize,
    kernel: usize,
    by: Convolution,
    bias: bool,
    init: WeightInit,
}

impl Conv1d {
    pub fn new(path: impl Into<String>, inputs: usize, outputs: usize, kernel: usize) -> Conv1d {
        let (by, init) = (Convolution::default(), WeightInit::Default);
        Conv1d { path: path.into(), inputs, outputs, kernel, by, bias: true, init }
    }

    pub fn stride(mut self, stride: usize) -> Conv1d {
        self.by.stride[1] = stride;
        self
    }

    /// Zeros on each side.
    pub fn padding(self, zeros: usize) -> Conv1d {
        self.padding_of(zeros, zeros)
    }

    /// Zeros before and behind: `padding_of(k − 1, 0)` sees only the past.
    pub fn padding_of(mut self, before: usize, behind: usize) -> Conv1d {
        self.by.padding[1] = (before, behind);
        self
    }

    pub fn dilation(mut self, dilation: usize) -> Conv1d {
        self.by.dilation[1] = dilation;
        self
    }

    pub fn groups(mut self, groups: usize) -> Conv1d {
        self.by.groups = groups;
        self
    }

    pub fn bias(mut self, bias: bool) -> Conv1d {
        self.bias = bias;
        self
    }

    pub fn init(mut self, init: WeightInit) -> Conv1d {
        self.init = init;
        self
    }
}

impl Module for Conv1d {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let (k, groups) = (self.kernel, self.by.groups.max(1));
        let &[n, channels, length] = x.dims().as_slice() else {
            g.report(&self.describe(), format!("input is {}, must be [n,{},l]", x.shape(), self.inputs));
            return x.clone();
        };
        if channels != self.inputs {
            g.report(&self.describe(), format!("input is {}, must be [n,{},l]", x.shape(), self.inputs));
            return x.clone();
        }
        let own = self.inputs / groups;
        let seen = Seen { order: vec![2, 1, 0], dims: vec![self.outputs, own, k] };
        let init = self.init.weight(own * k, self.outputs / groups * k);
        let kernel = g.parameter_seen(&format!("{}.weight", self.path), &[k, own, self.outputs], seen, init);
        // a picture one row high
        let pictures = x.transpose(&[0, 2, 1]).reshape(&[n, 1, length, channels]);
        let mut y = pictures.convolve(&kernel.reshape(&[1, k, own, self.outputs]), self.by);
        if self.bias {
            y = y + g.parameter(&format!("{}.bias", self.path), &[self.outputs], self.init.bias(own * k));
        }
        let dims = y.dims();
        y.reshape(&[n, dims[2], dims[3]]).transpose(&[0, 2, 1])
    }

    fn describe(&self) -> String {
        format!("Conv1d {}→{} of {}", self.inputs, self.outputs, self.kernel)
    }
}
