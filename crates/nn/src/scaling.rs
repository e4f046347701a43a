use citius_graph::{Graph, Init, Tensor};

/// Keeps gradients in the range of 16-bit floats: they are computed of a multiple of the loss. A step whose gradients are not
/// finite updates nothing and makes the multiple smaller; many good steps in a row make it larger. Defaults are PyTorch's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LossScaling {
    pub initial: f64,
    /// Factors of a larger and of a smaller multiple.
    pub growth: f64,
    pub backoff: f64,
    /// Updates in a row before the multiple grows.
    pub interval: usize,
}

impl Default for LossScaling {
    fn default() -> LossScaling {
        LossScaling { initial: 65536.0, growth: 2.0, backoff: 0.5, interval: 2000 }
    }
}

/// The multiple in a step's graph.
pub(crate) struct LossScale {
    scaling: LossScaling,
    pub scale: Tensor,
}

impl LossScale {
    #[track_caller]
    pub fn new(g: &Graph, scaling: LossScaling) -> LossScale {
        LossScale { scaling, scale: g.state("loss_scale", &[], Init::Constant(scaling.initial as f32)) }
    }

    #[track_caller]
    pub fn apply(&self, loss: &Tensor) -> Tensor {
        loss * &self.scale
    }

    #[track_caller]
    pub fn remove(&self, gradient: &Tensor) -> Tensor {
        gradient * (1.0 / &self.scale)
    }

    /// 1 where the norm is a number, 0 where it is infinite or not a number.
    #[track_caller]
    pub fn finite(&self, norm: &Tensor) -> Tensor {
        norm.le(&norm.constant(f32::MAX as f64))
    }

    /// Adapts the multiple. `due`: 1 in the steps that would update. Returns 1 in the steps that do, and the number of the update,
    /// which a skipped step does not count.
    #[track_caller]
    pub fn settle(&self, norm: &Tensor, due: Option<&Tensor>) -> (Tensor, Tensor) {
        let g = norm.graph();
        let finite = self.finite(norm);
        let applies = due.map_or(finite.clone(), |due| due * &finite);
        let made = g.state("loss_scale.updates", &[], Init::Zeros);
        let in_a_row = g.state("loss_scale.in_a_row", &[], Init::Zeros);
        let count = &made + 1.0;
        let row = &in_a_row + 1.0;
        let grows = row.ge(&g.scalar(self.scaling.interval as f64));
        let grown = grows.choose(&(&self.scale * self.scaling.growth), &self.scale);
        let scale = finite.choose(&grown, &(&self.scale * self.scaling.backoff));
        let row = finite.choose(&grows.choose(&g.scalar(0.0), &row), &g.scalar(0.0));
        let when_due = |new: &Tensor, old: &Tensor| due.map_or(new.clone(), |due| due.choose(new, old));
        g.assign(&self.scale, &when_due(&scale, &self.scale));
        g.assign(&in_a_row, &when_due(&row, &in_a_row));
        g.assign(&made, &applies.choose(&count, &made));
        (applies, count)
    }
}
