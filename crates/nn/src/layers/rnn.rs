use citius_graph::ops::recurrence::Cell;

use super::recurrent::Recurrent;

/// PyTorch's `nn.RNN`: `h' = tanh(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh)`.
pub fn rnn(path: impl Into<String>, inputs: usize, hidden: usize) -> Recurrent {
    Recurrent::new(path, Cell::Tanh, inputs, hidden)
}

/// PyTorch's `nn.RNN` with `nonlinearity="relu"`: `h' = relu(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh)`.
pub fn rnn_relu(path: impl Into<String>, inputs: usize, hidden: usize) -> Recurrent {
    Recurrent::new(path, Cell::Relu, inputs, hidden)
}
