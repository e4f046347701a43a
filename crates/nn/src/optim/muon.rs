use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::{AdamW, Optimizer, Update};

/// Matrices move along the nearest orthogonal matrix to their momentum (Jordan et al. 2024), as PyTorch's: `b' =
/// momentum·b + (1−momentum)·g`, `d = g + momentum·(b' − g)` for Nesterov's or `b'`, `p' = p·(1 − rate·weight_decay) −
/// rate·size·ortho(d)`.
///
/// `ortho` starts from `x = d/‖d‖` and takes `steps` times `s = x·xᵀ`, `x' = a·x + (b·s + c·s·s)·x`, which brings all
/// singular values near 1; here in f32, PyTorch rounds to bf16. Parameters that are not matrices get [`AdamW`] at the
/// same rate. A parameter kept in parts is a matrix for each.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Muon {
    pub momentum: f64,
    pub nesterov: bool,
    pub weight_decay: f64,
    /// a, b and c.
    pub coefficients: (f64, f64, f64),
    pub eps: f64,
    pub steps: usize,
    pub size: MuonSize,
    /// Of what is not a matrix.
    pub others: AdamW,
    /// Climbs instead: for what is to become large. A loss is to become small.
    #[serde(skip_serializing_if = "super::is_false")]
    pub maximize: bool,
}

/// What the rate is multiplied by for a matrix `[out,in]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MuonSize {
    /// `√max(1, out/in)`
    #[default]
    Original,
    /// `0.2·√max(out, in)`, so that a rate that suits AdamW suits.
    MatchRmsAdamw,
}

impl Default for Muon {
    fn default() -> Self {
        Muon {
            momentum: 0.95,
            nesterov: true,
            weight_decay: 0.1,
            coefficients: (3.4445, -4.775, 2.0315),
            eps: 1e-7,
            steps: 5,
            size: MuonSize::Original,
            others: AdamW::default(),
            maximize: false,
        }
    }
}

impl Optimizer for Muon {
    #[track_caller]
    fn update(&self, u: &Update) -> Tensor {
        let seen = u.graph().leaves().into_iter().find(|l| l.name == u.name).and_then(|l| l.seen);
        let (dims, turned) = (u.parameter.dims(), seen.is_some());
        let [rows, columns] = match (&dims[..], seen.map(|seen| seen.dims).as_deref()) {
            (&[rows, columns], _) => [rows, columns],
            // the matrix behind a flattened picture, whose inputs have axes of their own; their order changes nothing here
            (stored, Some(&[outputs, inputs])) if stored.last() == Some(&outputs) => [inputs, outputs],
            _ => return AdamW { maximize: self.maximize, ..self.others }.update(u),
        };
        let gradient = &u.downhill(self.maximize);
        let (outputs, inputs) = if turned { (columns, rows) } else { (rows, columns) };
        let buffer = u.state("momentum_buffer");
        let buffer = u.keep(&buffer, &(&buffer + (gradient - &buffer) * (1.0 - self.momentum)));
        let direction = match self.nesterov {
            true => gradient + (buffer - gradient) * self.momentum,
            false => buffer,
        };
        let size = match self.size {
            MuonSize::Original => (outputs as f64 / inputs.max(1) as f64).max(1.0).sqrt(),
            MuonSize::MatchRmsAdamw => 0.2 * (outputs.max(inputs) as f64).sqrt(),
        };
        let kept = u.parameter * (1.0 - u.rate * self.weight_decay);
        let direction = self.orthogonal(&direction.reshape(&[rows, columns])).reshape(&dims);
        kept - u.rate * size * direction
    }
}

impl Muon {
    #[track_caller]
    fn orthogonal(&self, direction: &Tensor) -> Tensor {
        // the smaller square: [rows,columns] with rows ≤ columns
        let tall = direction.dims()[0] > direction.dims()[1];
        let x = if tall { direction.t() } else { direction.clone() };
        let norm = x.square().sum_all().sqrt().maximum(&x.constant(self.eps));
        let (a, b, c) = self.coefficients;
        let near = (0..self.steps).fold(x * (1.0 / norm), |x, _| {
            let square = x.matmul(&x.t());
            let mix = &square * b + square.matmul(&square) * c;
            &x * a + mix.matmul(&x)
        });
        if tall { near.t() } else { near }
    }
}
