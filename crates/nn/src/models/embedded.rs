use citius_graph::{Init, Tensor};

use super::TableNet;
use crate::Module;

/// Categories of a table that have learned vectors (entity embeddings), in front of a network.
///
/// Rows `[n,width]` hold a code, a whole number `0..codes`, in each of the columns of `categories`. Such a column is
/// replaced by the vector of its code, a row of the parameter `embeddings.{i}.weight` `[codes,vector]`; the other columns
/// come first, as they are.
pub(super) struct Embedded {
    pub net: Box<dyn Module>,
    /// Column and number of codes of each category, columns rising.
    pub categories: Vec<(usize, usize)>,
}

/// Codes are compared with all that there are, `n·codes` numbers; beyond this hashing is the better way.
const MOST_CODES: usize = 10_000;

impl Embedded {
    /// Inputs of the network behind the vectors; `Err` says what does not fit.
    pub fn inputs(width: usize, categories: &[(usize, usize)]) -> Result<usize, String> {
        let mut inputs = width;
        for (i, &(column, codes)) in categories.iter().enumerate() {
            if column >= width || codes == 0 || (i > 0 && categories[i - 1].0 >= column) {
                return Err(format!(
                    "embeddings: column {column} of {codes} codes does not fit rows of {width} inputs"
                ));
            }
            if codes > MOST_CODES {
                return Err(format!(
                    "categorical = \"embedding\": a column has {codes} labels, at most {MOST_CODES} can have vectors; use \
                     categorical = {{ hash = 256 }} for it"
                ));
            }
            inputs += TableNet::embedding_width(codes) - 1;
        }
        Ok(inputs)
    }
}

impl Module for Embedded {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let width = x.dims()[1];
        let (mut parts, mut vectors, mut from) = (Vec::new(), Vec::new(), 0);
        for (i, &(column, codes)) in self.categories.iter().enumerate() {
            if from < column {
                parts.push(x.slice(1, from, column));
            }
            from = column + 1;
            let _layer = g.scope(format!("embeddings.{i}"));
            let dims = [codes, TableNet::embedding_width(codes)];
            let table = g.parameter(&format!("embeddings.{i}.weight"), &dims, Init::Normal { mean: 0.0, std: 1.0 });
            // [n,codes], 1 at the code
            let chosen = x.slice(1, column, column + 1).eq(&g.iota(codes).reshape(&[1, codes]));
            vectors.push(chosen.matmul(&table));
        }
        if from < width {
            parts.push(x.slice(1, from, width));
        }
        parts.append(&mut vectors);
        self.net.forward(&if parts.len() == 1 { parts.swap_remove(0) } else { Tensor::concat(&parts, 1) })
    }

    fn describe(&self) -> String {
        let vector = |&(_, codes): &(usize, usize)| format!("{codes}×{}", TableNet::embedding_width(codes));
        let vectors: Vec<String> = self.categories.iter().map(vector).collect();
        format!("embeddings {}, {}", vectors.join(" "), self.net.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, Network, RowShape};
    use citius_graph::Graph;

    #[test]
    fn codes_become_vectors_beside_the_numbers() {
        let row = RowShape::Flat { width: 4 };
        let frame = Frame { embeddings: vec![(1, 10), (3, 2)], hidden: vec![8], ..Frame::plain(row, 1) };
        let g = Graph::new();
        assert_eq!(Network::Mlp.build(&frame).unwrap().forward(&row.input(&g, 5)).dims(), [5, 1]);
        g.check().unwrap();
        let dims = |name: &str| g.leaves().iter().find(|l| l.name == name).map(|l| g.tensor(l.node).dims());
        assert_eq!(dims("embeddings.0.weight"), Some(vec![10, 6]));
        assert_eq!(dims("embeddings.1.weight"), Some(vec![2, 2]));
        // kept as [in,out]
        assert_eq!(dims("0.weight"), Some(vec![2 + 6 + 2, 8]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Embedded::inputs(2, &[(2, 3)]).unwrap_err().contains("does not fit"));
        assert!(Embedded::inputs(2, &[(1, 3), (0, 3)]).unwrap_err().contains("does not fit"));
        assert!(Embedded::inputs(2, &[(0, 1_000_000)]).unwrap_err().contains("hash"));
        let row = RowShape::Picture { channels: 1, height: 16, width: 16 };
        let frame = Frame { embeddings: vec![(1, 10)], ..Frame::plain(row, 1) };
        let network = Network::Lenet { channels: [4, 4], hidden: 8 };
        assert!(network.build(&frame).err().unwrap().contains("--model mlp"));
    }
}
