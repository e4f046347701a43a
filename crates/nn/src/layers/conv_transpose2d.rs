use citius_graph::{Convolution, Seen, Tensor};

use super::Pair;
use crate::{Module, WeightInit};

/// Transposed convolution `[n,in,h,w] → [n,out,h',w']` as PyTorch's: parameters `{path}.weight` `[in,out/groups,kh,kw]` and
/// `{path}.bias` `[out]`; `h' = (h−1)·stride − 2·padding + dilation·(kh−1) + output_padding + 1`.
#[derive(Clone, Debug)]
pub struct ConvTranspose2d {
    path: String,
    inputs: usize,
    outputs: usize,
    kernel: [usize; 2],
    by: Convolution,
    output_padding: [usize; 2],
    bias: bool,
    init: WeightInit,
}

impl ConvTranspose2d {
    pub fn new(path: impl Into<String>, inputs: usize, outputs: usize, kernel: impl Into<Pair>) -> ConvTranspose2d {
        ConvTranspose2d {
            path: path.into(),
            inputs,
            outputs,
            kernel: kernel.into().0,
            by: Convolution::default(),
            output_padding: [0, 0],
            bias: true,
            init: WeightInit::Default,
        }
    }

    pub fn stride(mut self, stride: impl Into<Pair>) -> ConvTranspose2d {
        self.by.stride = stride.into().0;
        self
    }

    /// How much of each side is cut off.
    pub fn padding(mut self, padding: impl Into<Pair>) -> ConvTranspose2d {
        self.by.padding = padding.into().0.map(|zeros| (zeros, zeros));
        self
    }

    /// Rows and columns more behind, which only the bias reaches unless windows do.
    pub fn output_padding(mut self, padding: impl Into<Pair>) -> ConvTranspose2d {
        self.output_padding = padding.into().0;
        self
    }

    pub fn dilation(mut self, dilation: impl Into<Pair>) -> ConvTranspose2d {
        self.by.dilation = dilation.into().0;
        self
    }

    pub fn groups(mut self, groups: usize) -> ConvTranspose2d {
        self.by.groups = groups;
        self
    }

    pub fn bias(mut self, bias: bool) -> ConvTranspose2d {
        self.bias = bias;
        self
    }

    /// Sizes of the result, or what is wrong.
    fn sizes(&self, dims: &[usize]) -> Result<[usize; 2], String> {
        let mut sizes = [0; 2];
        for side in 0..2 {
            let (stride, extra) = (self.by.stride[side], self.output_padding[side]);
            if stride == 0 || self.kernel[side] == 0 || extra >= stride.max(self.by.dilation[side]) {
                return Err(
                    "kernel and stride must be at least 1, and output_padding smaller than the stride or the dilation"
                        .into(),
                );
            }
            let (low, high) = self.by.padding[side];
            let whole = (dims[side + 2] - 1) * stride + self.by.dilation[side] * (self.kernel[side] - 1) + extra + 1;
            sizes[side] = whole.checked_sub(low + high).filter(|s| *s > 0).ok_or("the padding leaves nothing over")?;
        }
        Ok(sizes)
    }
}

impl Module for ConvTranspose2d {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let ([kh, kw], groups, dims) = (self.kernel, self.by.groups, x.dims());
        if groups == 0 || !self.inputs.is_multiple_of(groups) || !self.outputs.is_multiple_of(groups) {
            let (inputs, outputs) = (self.inputs, self.outputs);
            g.report(&self.describe(), format!("{groups} groups must divide {inputs} inputs and {outputs} outputs"));
            return x.clone();
        }
        if dims.len() != 4 || dims[1] != self.inputs || dims.contains(&0) {
            g.report(&self.describe(), format!("input is {}, must be [n,{},h,w]", x.shape(), self.inputs));
            return x.clone();
        }
        let size = match self.sizes(&dims) {
            Ok(size) => size,
            Err(problem) => {
                g.report(&self.describe(), problem);
                return x.clone();
            }
        };
        let own = self.outputs / groups;
        let fan_in = own * kh * kw;
        let seen = Seen { order: vec![3, 2, 0, 1], dims: vec![self.inputs, own, kh, kw] };
        let init = self.init.weight(fan_in, self.inputs / groups * kh * kw);
        let kernel = g.parameter_seen(&format!("{}.weight", self.path), &[kh, kw, own, self.inputs], seen, init);
        let mut y = x.transpose(&[0, 2, 3, 1]).convolve_back(&kernel, self.by, size);
        if self.bias {
            y = y + g.parameter(&format!("{}.bias", self.path), &[self.outputs], self.init.bias(fan_in));
        }
        y.transpose(&[0, 3, 1, 2])
    }

    fn describe(&self) -> String {
        let [kh, kw] = self.kernel;
        format!("ConvTranspose2d {}→{} {kh}×{kw}", self.inputs, self.outputs)
    }
}
