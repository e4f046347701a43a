use citius_graph::Tensor;

use super::Pair;
use crate::Module;

/// The largest, or the mean, of each window of each channel: `[n,c,h,w] → [n,c,h',w']`. As PyTorch's `MaxPool2d` and `AvgPool2d`;
/// padding counts as −∞ for the largest, as 0 for the mean. Of equal largest elements the first gets the gradient.
#[derive(Clone, Debug)]
pub struct Pool {
    kind: Kind,
    size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Max,
    Mean,
}

impl Pool {
    /// Windows beside each other.
    pub fn max(size: impl Into<Pair>) -> Pool {
        Pool::new(Kind::Max, size.into().0)
    }

    /// Windows beside each other.
    pub fn mean(size: impl Into<Pair>) -> Pool {
        Pool::new(Kind::Mean, size.into().0)
    }

    fn new(kind: Kind, size: [usize; 2]) -> Pool {
        Pool { kind, size, stride: size, padding: [0, 0] }
    }

    pub fn stride(mut self, stride: impl Into<Pair>) -> Pool {
        self.stride = stride.into().0;
        self
    }

    pub fn padding(mut self, padding: impl Into<Pair>) -> Pool {
        self.padding = padding.into().0;
        self
    }
}

/// Below every number a network makes: what padding counts as for the largest.
const LOWEST: f64 = f32::MIN as f64;

impl Module for Pool {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(self.describe());
        let (dims, [h, w]) = (x.dims(), self.size);
        let too_far = (0..2).any(|side| 2 * self.padding[side] > self.size[side]);
        let wrong = match () {
            _ if dims.len() != 4 => Some(format!("input is {}, must be [n,c,h,w]", x.shape())),
            _ if self.stride.contains(&0) || h * w == 0 => {
                Some(format!("a window of {h}×{w}, {:?} apart: both must be at least 1", self.stride))
            }
            _ if too_far => Some(format!("padding of {:?} for a window of {h}×{w}: at most half of it", self.padding)),
            _ => None,
        };
        if let Some(problem) = wrong {
            g.report(&self.describe(), problem);
            return x.clone();
        }
        let [up, left] = self.padding;
        let outside = if self.kind == Kind::Max { LOWEST } else { 0.0 };
        let padded = x.transpose(&[0, 2, 3, 1]).pad_with(outside, &[(0, 0), (up, up), (left, left), (0, 0)]);
        let y = match self.kind {
            Kind::Max => padded.max_pool(self.size, self.stride),
            Kind::Mean => {
                let windows = padded.windows(1, h, self.stride[0], 1).windows(3, w, self.stride[1], 1);
                if windows.rank() != 6 {
                    return x.clone(); // larger than its input: reported
                }
                windows.mean(&[2, 4], false)
            }
        };
        y.transpose(&[0, 3, 1, 2])
    }

    fn describe(&self) -> String {
        let name = if self.kind == Kind::Max { "MaxPool2d" } else { "AvgPool2d" };
        format!("{name} {}×{}", self.size[0], self.size[1])
    }
}

/// The mean over the whole picture: `[n,c,h,w] → [n,c]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct GlobalPool;

impl Module for GlobalPool {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        let _layer = x.graph().scope(self.describe());
        if x.rank() != 4 {
            x.graph().report(&self.describe(), format!("input is {}, must be [n,c,h,w]", x.shape()));
            return x.clone();
        }
        x.transpose(&[0, 2, 3, 1]).mean(&[1, 2], false)
    }

    fn describe(&self) -> String {
        "GlobalPool".into()
    }
}
