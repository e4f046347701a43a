use citius_graph::{Convolution, Seen, Tensor};

use super::Pair;
use crate::{Module, WeightInit};

/// Convolution of pictures `[n,in,h,w] → [n,out,h',w']` as PyTorch's: parameters `{path}.weight` `[out,in/groups,kh,kw]` and
/// `{path}.bias` `[out]`. Pictures are stored with channels last on the way through such layers.
#[derive(Clone, Debug)]
pub struct Conv2d {
    path: String,
    inputs: usize,
    outputs: usize,
    kernel: [usize; 2],
    by: Convolution,
    bias: bool,
    init: WeightInit,
}

impl Conv2d {
    pub fn new(path: impl Into<String>, inputs: usize, outputs: usize, kernel: impl Into<Pair>) -> Conv2d {
        Conv2d {
            path: path.into(),
            inputs,
            outputs,
            kernel: kernel.into().0,
            by: Convolution::default(),
            bias: true,
            init: WeightInit::Default,
        }
    }

    pub fn stride(mut self, stride: impl Into<Pair>) -> Conv2d {
        self.by.stride = stride.into().0;
        self
    }

    /// Zeros on each side.
    pub fn padding(mut self, padding: impl Into<Pair>) -> Conv2d {
        self.by.padding = padding.into().0.map(|zeros| (zeros, zeros));
        self
    }

    pub fn dilation(mut self, dilation: impl Into<Pair>) -> Conv2d {
        self.by.dilation = dilation.into().0;
        self
    }

    pub fn groups(mut self, groups: usize) -> Conv2d {
        self.by.groups = groups;
        self
    }

    pub fn bias(mut self, bias: bool) -> Conv2d {
        self.bias = bias;
        self
    }

    pub fn init(mut self, init: WeightInit) -> Conv2d {
        self.init = init;
        self
    }
}

impl Module for Conv2d {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let [kh, kw] = self.kernel;
        let groups = self.by.groups.max(1);
        match x.dims().as_slice() {
            &[_, channels, ..] if x.rank() == 4 && channels == self.inputs => {}
            _ => {
                g.report(&self.describe(), format!("input is {}, must be [n,{},h,w]", x.shape(), self.inputs));
                return x.clone();
            }
        }
        let own = self.inputs / groups;
        let fan_in = own * kh * kw;
        let seen = Seen { order: vec![3, 2, 0, 1], dims: vec![self.outputs, own, kh, kw] };
        let init = self.init.weight(fan_in, self.outputs / groups * kh * kw);
        let kernel = g.parameter_seen(&format!("{}.weight", self.path), &[kh, kw, own, self.outputs], seen, init);
        let mut y = x.transpose(&[0, 2, 3, 1]).convolve(&kernel, self.by);
        if self.bias {
            y = y + g.parameter(&format!("{}.bias", self.path), &[self.outputs], self.init.bias(fan_in));
        }
        y.transpose(&[0, 3, 1, 2])
    }

    fn describe(&self) -> String {
        let [kh, kw] = self.kernel;
        format!("Conv2d {}→{} {kh}×{kw}", self.inputs, self.outputs)
    }
}
