use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use crate::{Embedding, Linear, Module, TransformerEncoder, TransformerEncoderLayer};

/// Classes of sequences of tokens: i32 `[batch,tokens] → [batch,classes]`. Embedding `emb`, encoder layers `layers.0`
/// …, mean over the tokens, linear layer `fc`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerClassifier {
    /// Number of different tokens.
    pub vocabulary: usize,
    pub width: usize,
    pub heads: usize,
    pub layers: usize,
    pub classes: usize,
    /// Width between the two linear layers of each encoder layer.
    #[serde(default = "feedforward")]
    pub feedforward: usize,
    #[serde(default = "dropout")]
    pub dropout: f64,
}

impl Default for TransformerClassifier {
    /// PyTorch's defaults where it has them.
    fn default() -> Self {
        let (feedforward, dropout) = (feedforward(), dropout());
        TransformerClassifier { vocabulary: 100, width: 256, heads: 4, layers: 2, classes: 10, feedforward, dropout }
    }
}

impl Module for TransformerClassifier {
    #[track_caller]
    fn forward(&self, tokens: &Tensor) -> Tensor {
        let g = tokens.graph();
        let _line = g.called_here();
        if tokens.rank() != 2 || tokens.dims()[1] == 0 {
            let problem = format!("input is {}, must be [batch,tokens] with at least one token", tokens.shape());
            g.report(&self.describe(), problem);
            return g.full(0.0, &[1, self.classes]);
        }
        let layer = TransformerEncoderLayer::new("", self.width, self.heads);
        let layer = layer.feedforward(self.feedforward).dropout(self.dropout);
        let h = Embedding::new("emb", self.vocabulary, self.width).forward(tokens);
        let h = TransformerEncoder::new("", layer, self.layers).forward(&h);
        Linear::new("fc", self.width, self.classes).forward(&h.mean(&[1], false))
    }

    fn describe(&self) -> String {
        let Self { vocabulary, width, heads, layers, classes, .. } = self;
        format!("transformer {vocabulary} tokens, {layers} × {width} by {heads} heads, {classes} classes")
    }
}

fn feedforward() -> usize {
    2048
}

fn dropout() -> f64 {
    0.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::{DType, Graph};

    #[test]
    fn mistakes_are_named() {
        let model = TransformerClassifier::default();
        for (dims, dtype) in [(&[4][..], DType::I32), (&[4, 0][..], DType::I32), (&[4, 5][..], DType::F32)] {
            let g = Graph::new();
            model.forward(&g.input_of("x", dims, dtype));
            let message = g.check().unwrap_err().to_string();
            assert!(message.contains("transformer_classifier.rs"), "{message}");
        }
        let g = Graph::new();
        let odd = TransformerClassifier { heads: 3, ..model };
        odd.forward(&g.input_of("x", &[4, 5], DType::I32));
        assert!(g.check().unwrap_err().to_string().contains("3 heads do not divide a width of 256"));
    }
}
