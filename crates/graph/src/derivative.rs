//! Derivative: graph → graph. One walk from the loss to the leaves; each op's rule lives in the op's file.

use std::collections::HashSet;

use crate::again::Replays;
use crate::graph::{Graph, NodeId, Phase};
use crate::ops::{self, Op, Vjp};
use crate::{DType, Tensor};

impl Graph {
    /// The gradient of a scalar `loss` with respect to each of `of`, recorded in the same graph.
    /// `None` where the loss does not depend on it, or only through `detach`.
    #[track_caller]
    pub fn gradients(&self, loss: &Tensor, of: &[Tensor]) -> Vec<Option<Tensor>> {
        if loss.elements() != 1 {
            loss.fail("gradients", format!("the loss must be one number, this is {}; use mean_all()", loss.shape()));
            return vec![None; of.len()];
        }
        let _phase = self.phase(Phase::Backward);
        let last = loss.id();
        let wanted: Vec<NodeId> = of.iter().map(|t| t.id()).collect();
        let is_wanted: HashSet<NodeId> = wanted.iter().copied().collect();
        let nodes = self.nodes();
        let mut replays = Replays::new(self);
        // needed[n]: a wanted tensor is reached from n
        let mut needed = vec![false; last + 1];
        for id in 0..=last {
            let through = !matches!(nodes[id].op, Op::Detach) && nodes[id].inputs.iter().any(|&i| needed[i]);
            needed[id] = is_wanted.contains(&id) || (through && nodes[id].dtype == DType::F32);
        }
        let mut gradient: Vec<Option<Tensor>> = vec![None; last + 1];
        gradient[last] = needed[last].then(|| self.full(1.0, loss.shape().dims()));
        for id in (0..=last).rev() {
            let Some(dy) = gradient[id].clone().filter(|_| needed[id]) else { continue };
            let node = &nodes[id];
            let attrs: &[f64] = if let Op::Map { attrs, .. } = &node.op { attrs } else { &[] };
            // a gradient belongs to the line of the op it comes from
            let _line = self.attributed(node.place.file, node.place.line);
            let _layer = node.place.layer.clone().map(|layer| self.scope(layer));
            let (x, y) = replays.seen(self, &nodes, id, &dy);
            let dx = ops::vjp(&node.op, &Vjp { x: &x, y: &y, dy: &dy, attrs });
            for (&input, d) in node.inputs.iter().zip(dx) {
                if let (true, Some(d)) = (needed[input], d) {
                    gradient[input] = Some(match gradient[input].take() {
                        Some(sum) => sum.joined_sum(&d).unwrap_or_else(|| sum + d),
                        None => d,
                    });
                }
            }
        }
        wanted.iter().map(|&id| gradient.get(id).cloned().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Graph, Init, Tensor};

    #[test]
    fn detach_cuts_and_unused_is_none() {
        let g = Graph::new();
        let a = g.parameter("a", &[2], Init::Zeros);
        let b = g.parameter("b", &[2], Init::Zeros);
        let c = g.parameter("c", &[2], Init::Zeros);
        let loss = (&a * b.detach()).sum_all();
        let d = g.gradients(&loss, &[a, b, c]);
        assert!(d[0].is_some() && d[1].is_none() && d[2].is_none());
        assert!(g.check().is_ok());
    }

    /// Values that are joined alike are added part by part; the rule of one of them still holds when it is differentiated once more.
    #[test]
    fn rules_survive_a_sum_of_joined_parts() {
        let g = Graph::new();
        let (x, ab) = (g.parameter("x", &[4], Init::Zeros), g.parameter("ab", &[4], Init::Zeros));
        let halves = |t: &Tensor| Tensor::concat(&[t.slice(0, 0, 2).detach(), t.slice(0, 2, 4).detach()], 0);
        let straight = halves(&ab).with_gradient(&[&ab], |v| vec![Some(v.dy.clone())]);
        let other = halves(&g.input("other", &[4]));
        let sum = straight.joined_sum(&other).expect("joined alike");
        let d = g.gradients(&(&x * &sum).sum_all(), &[x, ab]);
        assert!(d.iter().all(|d| d.is_some()));
        assert!(g.check().is_ok());
    }

    #[test]
    fn loss_must_be_scalar() {
        let g = Graph::new();
        let a = g.parameter("a", &[2], Init::Zeros);
        g.gradients(&a.clone(), std::slice::from_ref(&a));
        let message = g.check().unwrap_err().to_string();
        assert!(message.contains("must be one number") && message.contains("derivative.rs"), "{message}");
    }
}
