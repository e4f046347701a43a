use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use crate::{Linear, Module, WeightInit};

/// What follows a window of a series, column by column: `[n,length,columns] → [n,horizon·columns]`, the columns innermost. Each column is
/// measured from its last value, goes through the linear layer `linear` over time, the same for all of them, and the last value is
/// added again: NLinear of Zeng et al., "Are Transformers Effective for Time Series Forecasting?". It begins as the predictor that says
/// the last value will stay.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NLinear {
    pub length: usize,
    pub columns: usize,
    pub horizon: usize,
}

impl Module for NLinear {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let NLinear { length, columns, horizon } = *self;
        let rows = x.dims().first().copied().unwrap_or(0);
        if x.dims() != [rows, length, columns] || length == 0 {
            let problem = format!("input is {}, must be [n,{length},{columns}] with a length of at least 1", x.shape());
            g.report(&self.describe(), problem);
            return g.full(0.0, &[1, horizon * columns]);
        }
        let last = x.slice(1, length - 1, length); // [n,1,columns]
        let past = (x - &last).transpose(&[0, 2, 1]).reshape(&[rows * columns, length]);
        let change = Linear::new("linear", length, horizon).init(WeightInit::Zeros).forward(&past);
        let ahead = change.reshape(&[rows, columns, horizon]).transpose(&[0, 2, 1]) + last;
        ahead.reshape(&[rows, horizon * columns])
    }

    fn describe(&self) -> String {
        let NLinear { length, columns, horizon } = self;
        format!("nlinear {length}→{horizon} of {columns} {}", if *columns == 1 { "column" } else { "columns" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn a_window_of_another_length_is_named() {
        let net = NLinear { length: 8, columns: 2, horizon: 3 };
        let g = Graph::new();
        assert_eq!(net.forward(&g.input("x", &[4, 8, 2])).dims(), [4, 6]);
        g.check().unwrap();
        let g = Graph::new();
        net.forward(&g.input("x", &[4, 9, 2]));
        let message = g.check().unwrap_err().to_string();
        assert!(message.contains("[4,9,2], must be [n,8,2]") && message.contains("nlinear.rs"), "{message}");
    }
}
