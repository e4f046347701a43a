use citius_graph::{DType, Tensor};
use serde::{Deserialize, Serialize};

use crate::{Dropout, Embedding, LayerNorm, Linear, Module};

/// A residual network for rows of numbers `[n,numbers]` and categories, as codes, i32 `[n,categories]` → `[n,outputs]`.
/// Embeddings `embeddings.0` … beside the numbers, linear layer `input`, blocks `blocks.0` …, `norm`, relu, linear
/// layer `head`. A block is `x + linear2(relu(linear1(norm(x))))`, with dropout after each linear layer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableNet {
    pub numbers: usize,
    /// For each category, how many codes it has and the width they are given; see [`TableNet::embedding_width`].
    #[serde(default)]
    pub categories: Vec<(usize, usize)>,
    pub width: usize,
    /// Width between the linear layers of a block.
    pub hidden: usize,
    pub blocks: usize,
    pub outputs: usize,
    #[serde(default)]
    pub dropout: f64,
}

impl TableNet {
    /// A good width for a category of `codes` codes: 1.6·codes^0.56, at most 64.
    pub fn embedding_width(codes: usize) -> usize {
        ((1.6 * (codes as f64).powf(0.56)).round() as usize).clamp(1, 64)
    }

    /// `numbers` `[n,numbers]`, `codes` i32 `[n,categories]`.
    #[track_caller]
    pub fn forward_mixed(&self, numbers: &Tensor, codes: &Tensor) -> Tensor {
        let g = numbers.graph();
        let _line = g.called_here();
        let (rows, columns) = (numbers.dims().first().copied(), codes.dims());
        if codes.dtype() != DType::I32
            || columns.len() != 2
            || columns[1] != self.categories.len()
            || rows != Some(columns[0])
        {
            let wanted = format!("i32 [{},{}]", rows.unwrap_or(0), self.categories.len());
            let problem = format!("codes are {} {}, must be {wanted}", codes.dtype(), codes.shape());
            g.report(&self.describe(), problem);
            return g.full(0.0, &[1, self.outputs]);
        }
        let embedded = self.categories.iter().enumerate().map(|(i, &(codes_of, width))| {
            let column = codes.slice(1, i, i + 1).reshape(&[columns[0]]);
            Embedding::new(format!("embeddings.{i}"), codes_of, width).forward(&column)
        });
        let all: Vec<Tensor> = [numbers.clone()].into_iter().chain(embedded).collect();
        self.tower(&Tensor::concat(&all, 1))
    }

    #[track_caller]
    fn tower(&self, x: &Tensor) -> Tensor {
        let inputs = self.numbers + self.categories.iter().map(|c| c.1).sum::<usize>();
        let h = Linear::new("input", inputs, self.width).forward(x);
        let h = (0..self.blocks).fold(h, |h, i| {
            let layer = |name: &str| format!("blocks.{i}.{name}");
            let inner = LayerNorm::new(layer("norm"), self.width).forward(&h);
            let inner = Linear::new(layer("linear1"), self.width, self.hidden).forward(&inner).relu();
            let inner = Dropout::new(self.dropout).forward(&inner);
            let inner = Linear::new(layer("linear2"), self.hidden, self.width).forward(&inner);
            h + Dropout::new(self.dropout).forward(&inner)
        });
        let h = LayerNorm::new("norm", self.width).forward(&h).relu();
        Linear::new("head", self.width, self.outputs).forward(&h)
    }
}

impl Module for TableNet {
    /// Rows of numbers alone.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        if !self.categories.is_empty() {
            let problem = format!("has {} categories, which go through forward_mixed", self.categories.len());
            x.graph().report(&self.describe(), problem);
            return x.graph().full(0.0, &[1, self.outputs]);
        }
        self.tower(x)
    }

    fn describe(&self) -> String {
        let TableNet { numbers, categories, width, blocks, outputs, .. } = self;
        format!("table net {numbers} numbers, {} categories, {blocks} × {width}, {outputs} outputs", categories.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn codes_must_fit() {
        let model = TableNet {
            numbers: 3,
            categories: vec![(5, 2), (9, 3)],
            width: 8,
            hidden: 16,
            blocks: 2,
            outputs: 1,
            dropout: 0.0,
        };
        for (dims, dtype) in [(&[4, 3][..], DType::I32), (&[5, 2][..], DType::I32), (&[4, 2][..], DType::F32)] {
            let g = Graph::new();
            model.forward_mixed(&g.input("x", &[4, 3]), &g.input_of("codes", dims, dtype));
            let message = g.check().unwrap_err().to_string();
            assert!(message.contains("must be i32 [4,2]") && message.contains("table_net.rs"), "{message}");
        }
        let g = Graph::new();
        model.forward(&g.input("x", &[4, 3]));
        assert!(g.check().unwrap_err().to_string().contains("forward_mixed"));
    }

    #[test]
    fn widths_of_embeddings() {
        assert_eq!([0, 1, 2, 10, 1000, 1_000_000].map(TableNet::embedding_width), [1, 2, 2, 6, 64, 64]);
    }
}
