use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use crate::{Activation, Conv2d, Dropout, Linear, Module, Pool};

/// LeCun's network as it is built today: two 5×5 convolutions, each behind it relu and a 2×2 maximum, then two linear layers.
/// `[n,c,h,w] → [n,outputs]`; parameters `conv1`, `conv2`, `fc1`, `fc2`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LeNet {
    pub inputs: usize,
    pub size: [usize; 2],
    pub channels: [usize; 2],
    pub hidden: usize,
    pub outputs: usize,
    #[serde(default)]
    pub dropout: f64,
}

impl LeNet {
    /// Height or width behind both convolutions.
    fn left(side: usize) -> usize {
        (side.saturating_sub(4) / 2).saturating_sub(4) / 2
    }
}

impl Module for LeNet {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        let [first, second] = self.channels;
        let [h, w] = self.size.map(LeNet::left);
        if h * w == 0 {
            let [height, width] = self.size;
            x.graph().report("LeNet", format!("pictures are {height}×{width}, must be at least 16×16"));
            return x.clone();
        }
        let pool = Pool::max(2);
        let x = pool.forward(&Conv2d::new("conv1", self.inputs, first, 5).forward(x).relu());
        let x = pool.forward(&Conv2d::new("conv2", first, second, 5).forward(&x).relu());
        let x = Linear::new("fc1", second * h * w, self.hidden).forward(&x.flatten(1));
        let x = Activation::Relu.forward(&x);
        let x = if self.dropout > 0.0 { Dropout::new(self.dropout).forward(&x) } else { x };
        Linear::new("fc2", self.hidden, self.outputs).forward(&x)
    }

    fn describe(&self) -> String {
        let ([a, b], [h, w]) = (self.channels, self.size);
        format!("lenet {h}×{w}×{} {a}-{b}-{}-{}", self.inputs, self.hidden, self.outputs)
    }
}
