//! Losses, one file each: a prediction and a target give one number, the mean over all elements (or rows), or their sum.
//! Shapes must agree; nothing is broadcast in silence.

mod bce;
mod cross_entropy;
mod huber;
mod mae;
mod mse;
mod nll;
mod quantile;

use citius_graph::{DType, Graph, Tensor};
use serde::{Deserialize, Deserializer, Serialize};

pub use bce::bce_with_logits;
pub use cross_entropy::cross_entropy;
pub use huber::huber;
pub use mae::mae;
pub use mse::mse;
pub use nll::nll;
pub use quantile::quantile;

use crate::ByName;

/// A loss by name with its settings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Loss {
    Mse,
    Mae,
    Huber {
        #[serde(default = "one")]
        delta: f64,
    },
    /// From logits `[n,c]` and i32 classes `[n]`.
    CrossEntropy {
        #[serde(default)]
        label_smoothing: f64,
        /// One per class.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class_weights: Option<Vec<f64>>,
    },
    /// From logarithms of probabilities `[n,c]` and i32 classes `[n]`, such as a log-softmax gives.
    Nll,
    /// From logits and targets in `[0, 1]`.
    Bce {
        /// Weight of the positive answer: one number, or one per output.
        #[serde(default, deserialize_with = "one_or_more", skip_serializing_if = "Option::is_none")]
        pos_weight: Option<Vec<f64>>,
    },
    /// From an output per level of a quantile, the pinball loss.
    Quantile {
        /// The levels, rising, between 0 and 1; open: the median and an interval of 80%.
        #[serde(default = "median_and_80_percent")]
        quantiles: Vec<f64>,
    },
}

impl ByName for Loss {
    fn by_name(name: &str) -> Result<Loss, String> {
        crate::config::from_name(name)
    }
}

impl Loss {
    /// The names of its settings.
    pub fn settings(&self) -> &'static [&'static str] {
        match self {
            Loss::Mse | Loss::Mae | Loss::Nll => &[],
            Loss::Huber { .. } => &["delta"],
            Loss::CrossEntropy { .. } => &["label_smoothing", "class_weights"],
            Loss::Bce { .. } => &["pos_weight"],
            Loss::Quantile { .. } => &["quantiles"],
        }
    }

    /// Refuses settings that no training can mean, for so many outputs.
    pub fn check(&self, outputs: usize) -> Result<(), String> {
        match self {
            Loss::Huber { delta } if !(delta.is_finite() && *delta > 0.0) => {
                Err(format!("the delta of huber is {delta}, it must be a number above 0"))
            }
            Loss::CrossEntropy { label_smoothing, .. } if !(0.0..1.0).contains(label_smoothing) => {
                Err(format!("label_smoothing is {label_smoothing}, it must be at least 0 and below 1"))
            }
            Loss::CrossEntropy { class_weights: Some(weights), .. } => {
                weights_fit("class_weights", "classes", weights, outputs)
            }
            // one number is for all outputs
            Loss::Bce { pos_weight: Some(weights) } => {
                weights_fit("pos_weight", "outputs", weights, if weights.len() == 1 { 1 } else { outputs })
            }
            Loss::Quantile { quantiles } => quantile::wrong_levels(quantiles).map_or(Ok(()), Err),
            Loss::Mse | Loss::Mae | Loss::Nll | Loss::Huber { .. } | Loss::CrossEntropy { .. } | Loss::Bce { .. } => {
                Ok(())
            }
        }
    }

    /// The levels of the quantiles it predicts; none for every other loss.
    pub fn quantiles(&self) -> &[f64] {
        match self {
            Loss::Quantile { quantiles } => quantiles,
            Loss::Mse | Loss::Mae | Loss::Nll | Loss::Huber { .. } | Loss::CrossEntropy { .. } | Loss::Bce { .. } => {
                &[]
            }
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Loss::Mse => "mse",
            Loss::Mae => "mae",
            Loss::Huber { .. } => "huber",
            Loss::CrossEntropy { .. } => "cross-entropy",
            Loss::Nll => "nll",
            Loss::Bce { .. } => "bce",
            Loss::Quantile { .. } => "quantile",
        }
    }

    #[track_caller]
    pub fn apply(&self, prediction: &Tensor, target: &Tensor) -> Tensor {
        match self {
            Loss::Mse => mse(prediction, target),
            Loss::Mae => mae(prediction, target),
            Loss::Huber { delta } => huber(prediction, target, *delta),
            Loss::CrossEntropy { label_smoothing, class_weights } => {
                cross_entropy(prediction, target, *label_smoothing, class_weights.as_deref())
            }
            Loss::Nll => nll(prediction, target),
            Loss::Bce { pos_weight } => bce_with_logits(prediction, target, pos_weight.as_deref()),
            Loss::Quantile { quantiles } => quantile(prediction, target, quantiles),
        }
    }
}

fn weights_fit(what: &str, of: &str, weights: &[f64], count: usize) -> Result<(), String> {
    if weights.len() != count {
        return Err(format!("{what} has {} numbers for {count} {of}; give one for each", weights.len()));
    }
    if let Some(wrong) = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
        return Err(format!("{what} has a {wrong}, they must be numbers of at least 0"));
    }
    match weights.iter().any(|w| *w > 0.0) {
        true => Ok(()),
        false => Err(format!("{what} are all 0: nothing would be learned")),
    }
}

/// `3` or `[1, 3]`; nothing where it was left open.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<f64>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "write a number, or a list of them")]
    enum OneOrMore {
        One(f64),
        More(Vec<f64>),
    }
    Ok(Option::deserialize(deserializer)?.map(|given| match given {
        OneOrMore::One(one) => vec![one],
        OneOrMore::More(more) => more,
    }))
}

/// What becomes of the terms of a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    #[default]
    Mean,
    /// Grows with the batch, and the gradient with it.
    Sum,
}

impl Loss {
    /// As [`Loss::apply`], reduced as told. A sum has as many terms as the mean: elements, or rows where a row has one class.
    #[track_caller]
    pub fn reduced(&self, prediction: &Tensor, target: &Tensor, reduction: Reduction) -> Tensor {
        let mean = self.apply(prediction, target);
        match reduction {
            Reduction::Mean => mean,
            Reduction::Sum => mean * self.terms(prediction, target),
        }
    }

    /// What a mean is divided by, a scalar.
    #[track_caller]
    fn terms(&self, prediction: &Tensor, target: &Tensor) -> Tensor {
        let (g, dims) = (prediction.graph(), prediction.dims());
        let rows = dims.first().copied().unwrap_or(1);
        match self {
            Loss::CrossEntropy { class_weights: Some(weights), .. }
                if target.dtype() == DType::I32 && dims.len() == 2 && weights.len() == dims[1] =>
            {
                (target.to_f32().reshape(&[rows, 1]).eq(&g.iota(dims[1])) * vector(g, weights)).sum_all()
            }
            Loss::CrossEntropy { .. } | Loss::Nll => g.scalar(rows as f64),
            Loss::Mse | Loss::Mae | Loss::Huber { .. } | Loss::Bce { .. } | Loss::Quantile { .. } => {
                g.scalar(prediction.elements() as f64)
            }
        }
    }
}

/// Prediction `[n,1]` and target `[n,1]` as `[n,n]`, each against all: what comes of a target `[n]` where shapes are stretched in
/// silence, as NumPy's and PyTorch's are. It is hardly ever meant, hence the warning.
#[track_caller]
pub fn broadcast(prediction: &Tensor, target: &Tensor) -> (Tensor, Tensor) {
    let (g, dims) = (prediction.graph(), prediction.dims());
    let [n, 1] = dims[..] else {
        let problem = format!("prediction is {}, only [n,1] can be taken against a target [n]", prediction.shape());
        g.report("broadcast", problem);
        return (prediction.clone(), target.clone());
    };
    if target.dims() != dims {
        return (prediction.clone(), target.clone()); // the loss reports it
    }
    let problem = format!("prediction [{n},1] and target [{n}] are stretched to [{n},{n}]: each is held against all");
    g.warn_of("loss", problem);
    (prediction.broadcast_to(&[n, n]), target.reshape(&[1, n]).broadcast_to(&[n, n]))
}

/// Reports unequal shapes, with a hint where one reshape is the answer; and warns of rows that see one another.
#[track_caller]
fn same_shape(loss: &str, prediction: &Tensor, target: &Tensor) -> bool {
    let (p, t) = (prediction.dims(), target.dims());
    if p == t {
        prediction.graph().warn_of_mixed_rows(prediction);
        return true;
    }
    let squeezed = |dims: &[usize]| dims.iter().copied().filter(|&d| d != 1).collect::<Vec<_>>();
    let hint = match squeezed(&p) == squeezed(&t) {
        true => format!("; did you mean target.reshape(&{p:?})?"),
        false => String::new(),
    };
    let (p, t) = (prediction.shape(), target.shape());
    prediction.graph().report(loss, format!("prediction is {p}, target is {t}: shapes must be equal{hint}"));
    false
}

/// A constant vector.
#[track_caller]
fn vector(graph: &Graph, values: &[f64]) -> Tensor {
    match values {
        [] => graph.full(0.0, &[0]),
        [first, rest @ ..] if rest.iter().all(|v| v == first) => graph.full(*first, &[values.len()]),
        _ => Tensor::concat(&values.iter().map(|&v| graph.full(v, &[1])).collect::<Vec<_>>(), 0),
    }
}

fn one() -> f64 {
    1.0
}

fn median_and_80_percent() -> Vec<f64> {
    vec![0.1, 0.5, 0.9]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_broadcast_in_silence() {
        for loss in ["mse", "mae", "huber", "bce"] {
            let g = Graph::new();
            Loss::by_name(loss).unwrap().apply(&g.input("p", &[32]), &g.input("t", &[32, 1]));
            let message = g.check().unwrap_err().to_string();
            assert!(message.contains("[32], target is [32,1]"), "{message}");
            assert!(message.contains("did you mean target.reshape(&[32])?"), "{message}");
            assert!(message.contains("losses/mod.rs"), "{message}");
        }
    }

    #[test]
    fn cross_entropy_wants_logits_and_classes() {
        let ce = Loss::by_name("cross-entropy").unwrap();
        let message = |p: &[usize], t: &[usize], dtype: DType| {
            let g = Graph::new();
            ce.apply(&g.input("p", p), &g.input_of("t", t, dtype));
            g.check().unwrap_err().to_string()
        };
        assert!(message(&[32, 10], &[32], DType::F32).contains("i32"));
        assert!(message(&[32, 10], &[32, 1], DType::I32).contains("target.reshape(&[32])"));
        assert!(message(&[32], &[32], DType::I32).contains("[n,c]"));
        assert!(message(&[32, 10], &[31], DType::I32).contains("31"));
    }
}
