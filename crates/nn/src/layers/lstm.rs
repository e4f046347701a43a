use citius_graph::ops::recurrence::Cell;

use super::recurrent::Recurrent;

/// PyTorch's `nn.LSTM`. With the rows of each weight in the order i, f, g, o and `a = x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh`:
/// `i, f, o = σ(a)`, `g = tanh(a)`, `c' = f∘c + i∘g`, `h' = o∘tanh(c')`.
pub fn lstm(path: impl Into<String>, inputs: usize, hidden: usize) -> Recurrent {
    Recurrent::new(path, Cell::Lstm, inputs, hidden)
}
