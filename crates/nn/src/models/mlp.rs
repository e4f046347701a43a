use citius_graph::Tensor;

use crate::{Activation, Dropout, Linear, Module, Sequential, WeightInit};

/// A multilayer perceptron `sizes[0] → … → sizes[n]`: linear, activation, dropout (when above 0), …, linear.
/// Parameters are named as PyTorch's `nn.Sequential` of the same layers names them: `0.weight`, `2.weight`, ….
pub fn mlp(sizes: &[usize], activation: Activation, dropout: f64) -> Mlp {
    Mlp { sizes: sizes.to_vec(), activation, dropout, init: WeightInit::Default, probes: true }
}

#[derive(Clone, Debug)]
pub struct Mlp {
    sizes: Vec<usize>,
    activation: Activation,
    dropout: f64,
    init: WeightInit,
    probes: bool,
}

impl Mlp {
    pub fn init(mut self, init: WeightInit) -> Mlp {
        self.init = init;
        self
    }

    /// Whether relu layers keep a record of dead units while training (on unless told otherwise).
    pub fn probes(mut self, probes: bool) -> Mlp {
        self.probes = probes;
        self
    }

    pub fn layers(&self) -> Sequential {
        let mut layers = Sequential::new();
        let links = self.sizes.len().saturating_sub(1);
        for (i, pair) in self.sizes.windows(2).enumerate() {
            layers.push(Linear::new(layers.len().to_string(), pair[0], pair[1]).init(self.init));
            if i + 1 == links {
                break;
            }
            match self.probes {
                true => layers.push(self.activation.probed(layers.len().to_string())),
                false => layers.push(self.activation),
            }
            if self.dropout != 0.0 {
                layers.push(Dropout::new(self.dropout));
            }
        }
        layers
    }
}

impl Module for Mlp {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        if self.sizes.len() < 2 {
            x.graph().report("mlp", format!("sizes are {:?}: needs at least an input and an output", self.sizes));
        }
        self.layers().forward(x)
    }

    /// `mlp 784-128-64-10 relu, dropout 0.1`
    fn describe(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(|s| s.to_string()).collect();
        let dropout = if self.dropout == 0.0 { String::new() } else { format!(", dropout {}", self.dropout) };
        format!("mlp {} {}{dropout}", sizes.join("-"), self.activation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::{Graph, LeafKind};

    fn parameters(model: &Mlp) -> Vec<String> {
        let g = Graph::new();
        model.forward(&g.input("x", &[32, 784]));
        g.check().unwrap();
        g.leaves().into_iter().filter(|l| l.kind == LeafKind::Parameter).map(|l| l.name).collect()
    }

    #[test]
    fn names_are_pytorchs() {
        let plain = mlp(&[784, 128, 64, 10], Activation::Relu, 0.0);
        assert_eq!(parameters(&plain), ["0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"]);
        let dropped = mlp(&[784, 128, 10], Activation::Gelu, 0.1);
        assert_eq!(parameters(&dropped), ["0.weight", "0.bias", "3.weight", "3.bias"]);
        assert_eq!(dropped.describe(), "mlp 784-128-10 gelu, dropout 0.1");
    }

    #[test]
    fn mistakes_name_the_layer() {
        let g = Graph::new();
        mlp(&[4, 8, 2], Activation::Relu, 0.0).forward(&g.input("x", &[32, 5]));
        let message = g.check().unwrap_err().to_string();
        assert!(message.contains("in 0 Linear 4→8"), "{message}");
        let g = Graph::new();
        mlp(&[4], Activation::Relu, 0.0).forward(&g.input("x", &[32, 4]));
        assert!(g.check().is_err());
    }

    #[test]
    fn dead_units_are_watched_while_training() {
        let states = |g: Graph, probes| {
            mlp(&[4, 8, 2], Activation::Relu, 0.0).probes(probes).forward(&g.input("x", &[32, 4]));
            g.leaves().into_iter().filter(|l| l.kind == LeafKind::State).map(|l| l.name).collect::<Vec<_>>()
        };
        assert_eq!(states(Graph::new(), true), ["probe.active.1"]);
        assert!(states(Graph::new(), false).is_empty());
        assert!(states(Graph::with_mode(citius_graph::Mode::Eval), true).is_empty());
    }
}
