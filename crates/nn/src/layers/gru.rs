use citius_graph::ops::recurrence::Cell;

use super::recurrent::Recurrent;

/// PyTorch's `nn.GRU`. With the rows of each weight in the order r, z, n:
/// `r, z = σ(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh)`, `n = tanh(x·W_ihᵀ + b_ih + r∘(h·W_hhᵀ + b_hh))`, `h' = (1−z)∘n + z∘h`.
pub fn gru(path: impl Into<String>, inputs: usize, hidden: usize) -> Recurrent {
    Recurrent::new(path, Cell::Gru, inputs, hidden)
}
