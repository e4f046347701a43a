use citius_graph::{Graph, Init, Tensor};

/// Which steps of an accumulation update, k steps each.
pub(crate) struct Pace {
    graph: Graph,
    /// Updates made before this step.
    pub made: Tensor,
    /// 1 in the k-th step, 0 in the others.
    pub applies: Tensor,
}

impl Pace {
    #[track_caller]
    pub fn new(g: &Graph, k: usize) -> Pace {
        // counted by itself: the step number is a rounded f32 after 2²⁴ steps
        let phase = g.state("accumulate.phase", &[], Init::Zeros);
        let applies = phase.ge(&g.scalar(k as f64 - 1.0));
        g.assign(&phase, &applies.choose(&g.scalar(0.0), &(&phase + 1.0)));
        // ¼ more: no rounding of the quotient can cross a whole number
        let made = ((g.step() - &phase) / k as f64 + 0.25).floor();
        Pace { graph: g.clone(), applies, made }
    }

    /// The gradient summed since the last update, kept as `{name}.accumulated` and emptied by an update.
    #[track_caller]
    pub fn accumulate(&self, name: &str, gradient: &Tensor) -> Tensor {
        let named = |parameter: &str| format!("{parameter}.accumulated");
        let kept = self.graph.state_of(name, &gradient.dims(), Init::Zeros, named);
        let sum = &kept + gradient;
        self.graph.assign(&kept, &self.applies.choose(&self.graph.scalar(0.0), &sum));
        sum
    }
}
