use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use crate::{
    Activation, Dropout, Embedding, LearnedPositions, Linear, Module, TransformerEncoder, TransformerEncoderLayer,
};

/// Logits of the next token for each token: i32 `[batch,tokens] → [batch,tokens,vocabulary]`. Embeddings `tokens` and
/// `positions`, causal layers `layers.0` … with norms first and gelu, 4·width between their linear layers, `norm`, and
/// `head`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpt {
    /// Number of different tokens.
    pub vocabulary: usize,
    /// The longest sequence.
    pub context: usize,
    pub width: usize,
    pub heads: usize,
    pub layers: usize,
    #[serde(default)]
    pub dropout: f64,
    /// The head is the table of tokens, turned, rather than a parameter `head.weight`.
    #[serde(default)]
    pub tied: bool,
}

impl Module for Gpt {
    #[track_caller]
    fn forward(&self, tokens: &Tensor) -> Tensor {
        let g = tokens.graph();
        let _line = g.called_here();
        let longest = self.context;
        if tokens.rank() != 2 || !(1..=longest).contains(&tokens.dims()[1]) {
            let problem = format!("input is {}, must be [batch,tokens] with 1 to {longest} tokens", tokens.shape());
            g.report(&self.describe(), problem);
            return g.full(0.0, &[1, 1, self.vocabulary]);
        }
        let embedding = Embedding::new("tokens", self.vocabulary, self.width).std(0.02);
        let positions = LearnedPositions::new("positions", longest, self.width).std(0.02);
        let layer = TransformerEncoderLayer::new("", self.width, self.heads)
            .feedforward(4 * self.width)
            .dropout(self.dropout)
            .activation(Activation::Gelu)
            .norm_first(true)
            .causal(true);
        let h = Dropout::new(self.dropout).forward(&positions.forward(&embedding.forward(tokens)));
        let h = TransformerEncoder::new("", layer, self.layers).norm(true).forward(&h);
        match self.tied {
            true => {
                let (batch, count) = (tokens.dims()[0], tokens.dims()[1]);
                let rows = h.reshape(&[batch * count, self.width]);
                rows.matmul(&embedding.table(&h).t()).reshape(&[batch, count, self.vocabulary])
            }
            false => Linear::new("head", self.width, self.vocabulary).bias(false).forward(&h),
        }
    }

    fn describe(&self) -> String {
        let Gpt { vocabulary, context, width, heads, layers, .. } = self;
        format!("gpt {vocabulary} tokens, {context} at once, {layers} × {width} by {heads} heads")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::{DType, Graph};

    #[test]
    fn too_long_a_text_is_named() {
        let model = Gpt { vocabulary: 65, context: 8, width: 12, heads: 2, layers: 1, dropout: 0.0, tied: true };
        let g = Graph::new();
        model.forward(&g.input_of("x", &[4, 9], DType::I32));
        let message = g.check().unwrap_err().to_string();
        assert!(message.contains("with 1 to 8 tokens") && message.contains("gpt.rs"), "{message}");
        let g = Graph::new();
        assert_eq!(model.forward(&g.input_of("x", &[4, 8], DType::I32)).dims(), [4, 8, 65]);
        assert!(g.check().is_ok() && !g.leaves().iter().any(|l| l.name == "head.weight"));
    }
}
