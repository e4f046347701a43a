use citius_graph::Tensor;

use crate::layers::Split;
use crate::{Activation, Dropout, Linear, Module, Sequential, WeightInit};

/// A multilayer perceptron `sizes[0] → … → sizes[n]`: linear, activation, dropout (when above 0), …, linear.
/// Parameters are named as PyTorch's `nn.Sequential` of the same layers names them: `0.weight`, `2.weight`, ….
pub fn mlp(sizes: &[usize], activation: Activation, dropout: f64) -> Mlp {
    Mlp { sizes: sizes.to_vec(), activation, dropout, init: WeightInit::Default, whole: false }
}

#[derive(Clone, Debug)]
pub struct Mlp {
    sizes: Vec<usize>,
    activation: Activation,
    dropout: f64,
    init: WeightInit,
    whole: bool,
}

impl Mlp {
    /// Keeps wide layers in one piece instead of in strips, which serve the cores of a processor: the same function with the same
    /// parameters, for devices that share memory otherwise.
    pub fn whole(mut self) -> Mlp {
        self.whole = true;
        self
    }

    pub fn init(mut self, init: WeightInit) -> Mlp {
        self.init = init;
        self
    }

    pub fn layers(&self) -> Sequential {
        let mut layers = Sequential::new();
        // number of the next layer in PyTorch's count, which knows no split layers
        let mut number = 0;
        let hidden_layers = if self.dropout != 0.0 { 3 } else { 2 };
        let linear =
            |number: usize, i: usize| Linear::new(number.to_string(), self.sizes[i], self.sizes[i + 1]).init(self.init);
        let links = self.sizes.len().saturating_sub(1);
        let mut i = 0;
        while i < links {
            let first = linear(number, i);
            if i + 1 == links {
                layers.push(first);
                break;
            }
            if !self.whole && Split::worthwhile(self.sizes[i], self.sizes[i + 1]) {
                let second = linear(number + hidden_layers, i + 1);
                layers.push(Split::new(first, self.activation, self.dropout, second));
                i += 1;
                number += hidden_layers;
                if i + 1 == links {
                    break;
                }
            } else {
                layers.push(first);
            }
            // the activation after a layer that stays whole, or after the second of a split pair
            layers.push(self.activation);
            if self.dropout != 0.0 {
                layers.push(Dropout::new(self.dropout));
            }
            number += hidden_layers;
            i += 1;
        }
        layers
    }
}

impl Module for Mlp {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
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
        let parameters = g.leaves().into_iter().filter(|l| l.kind == LeafKind::Parameter);
        let mut names: Vec<String> = parameters.map(|l| l.part.map_or(l.name, |p| p.whole)).collect();
        names.sort();
        names.dedup();
        names
    }

    #[test]
    fn names_are_pytorchs() {
        let plain = mlp(&[784, 128, 64, 10], Activation::Relu, 0.0);
        assert_eq!(parameters(&plain), ["0.bias", "0.weight", "2.bias", "2.weight", "4.bias", "4.weight"]);
        let dropped = mlp(&[784, 128, 10], Activation::Gelu, 0.1);
        assert_eq!(parameters(&dropped), ["0.bias", "0.weight", "3.bias", "3.weight"]);
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
}
