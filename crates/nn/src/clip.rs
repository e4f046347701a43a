use citius_graph::Tensor;
use serde::{Deserialize, Serialize};

use crate::ByName;

/// Keeps gradients from being too large. Formulas are PyTorch's.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Clip {
    /// All gradients together are scaled by `min(1, max_norm/(norm + 1e-6))`.
    Norm {
        #[serde(default = "one")]
        max_norm: f64,
    },
    /// Each element is brought into `±limit`.
    Value {
        #[serde(default = "one")]
        limit: f64,
    },
}

impl ByName for Clip {
    fn by_name(name: &str) -> Result<Clip, String> {
        crate::config::from_name(name)
    }
}

impl Clip {
    /// `norm` is the common norm of all gradients, a scalar: see [`global_norm`].
    #[track_caller]
    pub fn apply(self, gradients: &[Tensor], norm: &Tensor) -> Vec<Tensor> {
        match self {
            Clip::Norm { max_norm } => {
                let scale = (max_norm / (norm + 1e-6)).minimum(&norm.constant(1.0));
                gradients.iter().map(|g| g * &scale).collect()
            }
            Clip::Value { limit } => gradients.iter().map(|g| g.clamp(-limit, limit)).collect(),
        }
    }
}

/// `√Σ gᵢ²` over the elements of all tensors; `None` of nothing.
#[track_caller]
pub fn global_norm(gradients: &[Tensor]) -> Option<Tensor> {
    gradients.iter().map(|g| g.square().sum_all()).reduce(|a, b| a + b).map(|total| total.sqrt())
}

fn one() -> f64 {
    1.0
}
