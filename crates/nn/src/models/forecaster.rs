use citius_graph::Tensor;
use citius_graph::ops::recurrence::Cell;

use crate::layers::{Recurrent, gru, lstm, rnn, rnn_relu};
use crate::{Linear, Module};

/// What a sequence `[N,T,in]` leads to: a recurrent layer `rnn` with the batch first, whose output at the last step goes through a
/// linear layer `fc` to `[N,out]`: values to come, or the scores of classes.
pub fn forecaster(cell: Cell, inputs: usize, hidden: usize, outputs: usize) -> Forecaster {
    let layer = match cell {
        Cell::Tanh => rnn,
        Cell::Relu => rnn_relu,
        Cell::Gru => gru,
        Cell::Lstm => lstm,
    };
    let rnn = layer("rnn", inputs, hidden).batch_first(true);
    Forecaster { rnn, outputs }
}

#[derive(Clone, Debug)]
pub struct Forecaster {
    rnn: Recurrent,
    outputs: usize,
}

impl Forecaster {
    pub fn layers(mut self, layers: usize) -> Forecaster {
        self.rnn = self.rnn.layers(layers);
        self
    }

    /// See [`Recurrent::whole`].
    pub fn whole(mut self) -> Forecaster {
        self.rnn = self.rnn.whole();
        self
    }

    /// Between layers.
    pub fn dropout(mut self, p: f64) -> Forecaster {
        self.rnn = self.rnn.dropout(p);
        self
    }
}

impl Module for Forecaster {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        let sequence = self.rnn.walk(x, &[], None);
        // in one direction, the topmost of the last states is the output at the last step
        let last = sequence.last;
        let (count, rows, width) = (last.dims()[0], last.dims()[1], last.dims()[2]);
        let top = last.slice(0, count - 1, count).reshape(&[rows, width]);
        Linear::new("fc", width, self.outputs).forward(&top)
    }

    fn describe(&self) -> String {
        format!("{} → {}", self.rnn.describe(), self.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn reads_the_last_state() {
        let g = Graph::new();
        let y = forecaster(Cell::Gru, 10, 20, 1).forward(&g.input("x", &[32, 100, 10]));
        assert_eq!(y.dims(), [32, 1]);
        let names: Vec<String> = g.leaves().into_iter().map(|l| l.name).collect();
        assert!(names.contains(&"rnn.weight_hh_l0".into()) && names.contains(&"fc.bias".into()), "{names:?}");
        assert!(g.check().is_ok());
    }
}
