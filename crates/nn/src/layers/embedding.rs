use citius_graph::{DType, Init, Tensor};

use crate::Module;

/// Rows of a learned table, as PyTorch's: parameter `{path}.weight` `[rows,width]`; i32 indices of any shape `[…]` give
/// `[…,width]`.
///
/// The row of the padding index starts at 0 and gets no gradient. Data that is bound to a run is checked before the first step
/// ([`citius_graph::Limit`]); where an index is computed or fed, one outside the table gives a row that is not a number, so that a run
/// stops and says so, rather than a row of another token.
#[derive(Clone, Debug)]
pub struct Embedding {
    path: String,
    rows: usize,
    width: usize,
    padding: Option<usize>,
    std: f64,
}

impl Embedding {
    pub fn new(path: impl Into<String>, rows: usize, width: usize) -> Embedding {
        Embedding { path: path.into(), rows, width, padding: None, std: 1.0 }
    }

    pub fn padding(mut self, index: Option<usize>) -> Embedding {
        self.padding = index;
        self
    }

    /// The table starts with normal numbers of this deviation; PyTorch's is 1.
    pub fn std(mut self, std: f64) -> Embedding {
        self.std = std;
        self
    }

    /// The table, `[rows,width]`.
    #[track_caller]
    pub fn table(&self, near: &Tensor) -> Tensor {
        let std = self.std as f32;
        let init = match self.padding {
            Some(row) => Init::NormalBut { std, zeros: (row * self.width, (row + 1) * self.width) },
            None => Init::Normal { mean: 0.0, std },
        };
        near.graph().parameter(&format!("{}.weight", self.path), &[self.rows, self.width], init)
    }
}

impl Module for Embedding {
    #[track_caller]
    fn forward(&self, indices: &Tensor) -> Tensor {
        let g = indices.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        let mut dims = indices.dims();
        dims.push(self.width);
        let problem = if indices.dtype() != DType::I32 {
            Some(format!("indices are {} {}, must be i32", indices.dtype(), indices.shape()))
        } else if self.rows == 0 {
            Some("the table has no rows".to_string())
        } else {
            let outside = self.padding.filter(|&row| row >= self.rows);
            outside.map(|row| format!("padding index {row} is outside the table of {} rows", self.rows))
        };
        if let Some(problem) = problem {
            g.report(&self.describe(), problem);
            return g.full(0.0, &dims);
        }
        g.limit(indices, "token", self.rows);
        let found = self.table(indices).gather_rows(indices);
        dims.pop();
        dims.push(1);
        let index = indices.to_f32().reshape(&dims);
        let inside = index.ge(&g.scalar(0.0)) * index.lt(&g.scalar(self.rows as f64));
        let found = match self.padding {
            Some(row) => index.eq(&g.scalar(row as f64)).choose(&found.detach(), &found),
            None => found,
        };
        inside.choose(&found, &g.scalar(f64::NAN))
    }

    fn describe(&self) -> String {
        format!("Embedding {}×{}", self.rows, self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::{Graph, Shape};

    #[test]
    fn any_shape_of_indices() {
        let g = Graph::new();
        for (i, dims) in [&[][..], &[3], &[3, 4], &[2, 3, 4]].iter().enumerate() {
            let y = Embedding::new("emb", 10, 5).forward(&g.input_of(&format!("i{i}"), dims, DType::I32));
            assert_eq!(y.dims(), [dims, &[5][..]].concat());
        }
        assert!(g.check().is_ok() && g.verify().is_ok());
    }

    #[test]
    fn mistakes_name_layer_and_line() {
        let g = Graph::new();
        Embedding::new("emb", 10, 5).forward(&g.input("x", &[3]));
        let message = g.check().unwrap_err().to_string();
        assert!(
            message.contains("Embedding 10×5") && message.contains("indices are f32 [3], must be i32"),
            "{message}"
        );
        assert!(message.contains("in emb Embedding") && message.contains("embedding.rs"), "{message}");
        let g = Graph::new();
        Embedding::new("emb", 10, 5).padding(Some(10)).forward(&g.input_of("x", &[3], DType::I32));
        assert!(g.check().unwrap_err().to_string().contains("padding index 10 is outside the table of 10 rows"));
    }

    #[test]
    fn the_padding_row_starts_at_zero() {
        let g = Graph::new();
        Embedding::new("emb", 3, 2).padding(Some(1)).forward(&g.input_of("x", &[3], DType::I32));
        let leaf = g.leaves().into_iter().find(|l| l.name == "emb.weight").unwrap();
        let start = leaf.init.values(0, &leaf.name, &Shape::new(&[3, 2]), None);
        assert!(start[2..4] == [0.0, 0.0] && start.iter().filter(|&&v| v != 0.0).count() == 4, "{start:?}");
    }
}
