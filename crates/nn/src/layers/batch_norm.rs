use citius_graph::{Init, Mode, Tensor, Vjp};

use super::norm::{Moments, channels_last, deviations};
use crate::Module;

/// `y = (x − mean)/√(variance + eps) · weight + bias` by channel, as PyTorch's `BatchNorm1d` and `BatchNorm2d`:
/// parameters `{path}.weight` and `{path}.bias`, states `{path}.running_mean`, `{path}.running_var` `[c]` and
/// `{path}.num_batches_tracked`.
///
/// While training, the moments are the batch's, and the running ones move towards them, the variance without bias:
/// `running' = (1 − momentum)·running + momentum·batch`. In eval mode the running ones are used, and also while training where
/// they are frozen ([`citius_graph::Graph::freeze`]).
#[derive(Clone, Debug)]
pub struct BatchNorm {
    path: String,
    channels: usize,
    pictures: bool,
    eps: f64,
    momentum: Option<f64>,
    affine: bool,
}

impl BatchNorm {
    /// For `[n,c]` and `[n,c,l]`.
    pub fn new_1d(path: impl Into<String>, channels: usize) -> BatchNorm {
        BatchNorm { path: path.into(), channels, pictures: false, eps: 1e-5, momentum: Some(0.1), affine: true }
    }

    /// For `[n,c,h,w]`.
    pub fn new_2d(path: impl Into<String>, channels: usize) -> BatchNorm {
        BatchNorm { pictures: true, ..BatchNorm::new_1d(path, channels) }
    }

    pub fn eps(mut self, eps: f64) -> BatchNorm {
        self.eps = eps;
        self
    }

    /// `None`: the running moments are the plain mean over all batches so far.
    pub fn momentum(mut self, momentum: Option<f64>) -> BatchNorm {
        self.momentum = momentum;
        self
    }

    /// Without weight and bias when `false`.
    pub fn affine(mut self, affine: bool) -> BatchNorm {
        self.affine = affine;
        self
    }

    fn mistake(&self, x: &Tensor) -> Option<String> {
        let (c, dims) = (self.channels, x.dims());
        let (fits, wanted) = match self.pictures {
            true => (dims.len() == 4, format!("[n,{c},h,w]")),
            false => (dims.len() == 2 || dims.len() == 3, format!("[n,{c}] or [n,{c},l]")),
        };
        if !fits || dims[1] != c {
            return Some(format!("input is {}, must be {wanted}", x.shape()));
        }
        let alone = self.moments(x) == Mode::Train && x.elements() <= c;
        alone.then(|| {
            let shape = x.shape();
            format!("input is {shape}: one value per channel has no variance to train with; use more rows a batch")
        })
    }

    /// Whose moments are used: the batch's while training, or the running ones.
    fn moments(&self, x: &Tensor) -> Mode {
        let frozen = x.graph().is_frozen(&format!("{}.running_mean", self.path));
        if frozen { Mode::Eval } else { x.graph().mode() }
    }

    /// The running moments move towards those of a batch with `count` values per channel.
    #[track_caller]
    fn track(&self, batch: &Moments, count: usize) {
        let g = batch.mean.graph();
        let seen = g.state(&format!("{}.num_batches_tracked", self.path), &[], Init::Zeros);
        let now_seen = &seen + 1.0;
        let share = match self.momentum {
            Some(momentum) => g.scalar(momentum),
            None => 1.0 / &now_seen,
        };
        let unbiased = &batch.variance * (count as f64 / (count as f64 - 1.0));
        for (state, moment) in [(self.running_mean(&seen), &batch.mean), (self.running_var(&seen), &unbiased)] {
            let moment = moment.reshape(&[self.channels]);
            g.assign(&state, &(&state + (moment - &state) * &share));
        }
        g.assign(&seen, &now_seen);
    }

    /// Weight and bias, if it has any.
    #[track_caller]
    fn parameters(&self, near: &Tensor) -> Option<[Tensor; 2]> {
        let of = |name: &str, init| near.graph().parameter(&format!("{}.{name}", self.path), &[self.channels], init);
        self.affine.then(|| [of("weight", Init::Constant(1.0)), of("bias", Init::Zeros)])
    }

    #[track_caller]
    fn running_mean(&self, near: &Tensor) -> Tensor {
        near.graph().state(&format!("{}.running_mean", self.path), &[self.channels], Init::Zeros)
    }

    #[track_caller]
    fn running_var(&self, near: &Tensor) -> Tensor {
        near.graph().state(&format!("{}.running_var", self.path), &[self.channels], Init::Constant(1.0))
    }
}

impl Module for BatchNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(format!("{} {}", self.path, self.describe()));
        if let Some(problem) = self.mistake(x) {
            g.report(&self.describe(), problem);
            return x.clone();
        }
        let (there, back) = channels_last(x.rank());
        let last = x.transpose(&there);
        let y = match self.moments(x) {
            Mode::Train => {
                let all_but_channels: Vec<usize> = (0..x.rank() - 1).collect();
                let (deviation, batch) = deviations(&last, &all_but_channels);
                self.track(&batch, x.elements() / self.channels);
                let inverse = 1.0 / (&batch.variance + self.eps).sqrt();
                let parameters = self.parameters(x);
                let y = scaled(&(&deviation * &inverse), &parameters);
                let of = [&last, &batch.mean, &inverse].into_iter().chain(parameters.iter().flatten());
                y.with_gradient(&of.collect::<Vec<_>>(), gradients)
            }
            Mode::Eval => {
                let inverse = 1.0 / (self.running_var(x) + self.eps).sqrt();
                scaled(&((&last - self.running_mean(x)) * inverse), &self.parameters(x))
            }
        };
        y.transpose(&back)
    }

    fn describe(&self) -> String {
        format!("BatchNorm{} {}", if self.pictures { "2d" } else { "1d" }, self.channels)
    }
}

#[track_caller]
fn scaled(normal: &Tensor, parameters: &Option<[Tensor; 2]>) -> Tensor {
    match parameters {
        Some([weight, bias]) => normal * weight + bias,
        None => normal.clone(),
    }
}

/// Of x, its mean, the inverse of its deviation, weight and bias, with x̂ = (x − mean)·inverse:
///
/// `dbias = Σ dy`, `dweight = Σ dy·x̂`, `dx = (dy − dbias/n − x̂·dweight/n)·inverse·weight`.
///
/// That is what follows from the moments' own gradients, with two sums over the batch in one pass where these take three in two.
fn gradients(v: &Vjp) -> Vec<Option<Tensor>> {
    let [x, mean, inverse, parameters @ ..] = v.x else { return vec![] };
    let axes: Vec<usize> = (0..x.rank() - 1).collect();
    let channels = x.dims()[x.rank() - 1];
    let normal = (x - mean) * inverse;
    let bias = v.dy.sum(&axes, true);
    let weight = (v.dy * &normal).sum(&axes, true);
    let share = channels as f64 / x.elements() as f64;
    let centred = v.dy - (&bias + &normal * &weight) * share;
    let scale = match parameters {
        [own, ..] => inverse * own,
        [] => inverse.clone(),
    };
    let of_parameters = [weight, bias].map(|sum| Some(sum.reshape(&[channels])));
    let of_moments = [None, None];
    let all = std::iter::once(Some(centred * scale)).chain(of_moments).chain(of_parameters);
    all.take(v.x.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::{Graph, Op};

    fn message(layer: BatchNorm, dims: &[usize]) -> String {
        let g = Graph::new();
        layer.forward(&g.input("x", dims));
        g.check().unwrap_err().to_string()
    }

    #[test]
    fn mistakes_name_layer_line_and_shape() {
        let wrong = message(BatchNorm::new_2d("bn", 3), &[4, 2, 5, 5]);
        assert!(wrong.contains("input is [4,2,5,5], must be [n,3,h,w]") && wrong.contains("batch_norm.rs"), "{wrong}");
        assert!(wrong.contains("in bn BatchNorm2d 3"), "{wrong}");
        assert!(message(BatchNorm::new_1d("bn", 3), &[4, 3, 5, 5]).contains("must be [n,3] or [n,3,l]"));
    }

    #[test]
    fn a_batch_of_one_value_trains_nothing_but_predicts() {
        let alone = message(BatchNorm::new_1d("bn", 3), &[1, 3]);
        assert!(alone.contains("one value per channel"), "{alone}");
        let g = Graph::with_mode(Mode::Eval);
        BatchNorm::new_1d("bn", 3).forward(&g.input("x", &[1, 3]));
        assert!(g.check().is_ok() && g.updates().is_empty());
        let g = Graph::new();
        BatchNorm::new_2d("bn", 3).forward(&g.input("x", &[1, 3, 2, 2]));
        assert!(g.check().is_ok());
    }

    #[test]
    fn transposes_of_neighbours_cancel() {
        let g = Graph::new();
        let pictures = g.input("x", &[2, 4, 4, 3]);
        let y = BatchNorm::new_2d("bn", 3).forward(&pictures.transpose(&[0, 3, 1, 2])).transpose(&[0, 2, 3, 1]);
        assert!(!matches!(g.nodes()[y.id()].op, Op::Transpose { .. }), "{g}");
        let moved = |n: &citius_graph::Node| matches!(n.op, Op::Transpose { .. }) && n.inputs.contains(&pictures.id());
        // only what was written before the layer, which nobody reads
        assert_eq!(g.nodes().iter().filter(|n| moved(n)).count(), 1);
    }
}
