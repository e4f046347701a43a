use citius_graph::{Init, Tensor};

use super::positions::tokens;
use crate::Module;

/// `y = x + weight[0..t]` for x `[…,t,width]`, with parameter `{path}.weight` `[longest,width]`.
#[derive(Clone, Debug)]
pub struct LearnedPositions {
    path: String,
    longest: usize,
    width: usize,
    std: f64,
}

impl LearnedPositions {
    pub fn new(path: impl Into<String>, longest: usize, width: usize) -> LearnedPositions {
        LearnedPositions { path: path.into(), longest, width, std: 1.0 }
    }

    /// The table starts with normal numbers of this deviation; that of PyTorch's `nn.Embedding` is 1.
    pub fn std(mut self, std: f64) -> LearnedPositions {
        self.std = std;
        self
    }
}

impl Module for LearnedPositions {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let (longest, width) = (self.longest, self.width);
        let Some(tokens) = tokens(x, width).filter(|&t| t <= longest) else {
            g.report(&self.describe(), format!("input is {}, must be […,t,{width}] with t ≤ {longest}", x.shape()));
            return x.clone();
        };
        let init = Init::Normal { mean: 0.0, std: self.std as f32 };
        x + g.parameter(&format!("{}.weight", self.path), &[longest, width], init).slice(0, 0, tokens)
    }

    fn describe(&self) -> String {
        format!("LearnedPositions {}×{}", self.longest, self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn mistakes_name_layer_and_shape() {
        let g = Graph::new();
        LearnedPositions::new("pos", 4, 8).forward(&g.input("x", &[2, 5, 8]));
        let message = g.check().unwrap_err().to_string();
        assert!(message.contains("in pos LearnedPositions 4×8") && message.contains("with t ≤ 4"), "{message}");
    }
}
