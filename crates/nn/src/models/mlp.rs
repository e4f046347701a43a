use citius_graph::Tensor;

use super::hidden_layer::{Block, HiddenLayer};
use crate::layers::Split;
use crate::{Activation, Dropout, Linear, Module, Sequential, WeightInit};

/// A multilayer perceptron `sizes[0] → … → sizes[n]`: linear, activation, dropout (when above 0), …, linear.
/// Parameters are named as PyTorch's `nn.Sequential` of the same layers names them: `0.weight`, `2.weight`, ….
pub fn mlp(sizes: &[usize], activation: Activation, dropout: f64) -> Mlp {
    let hidden = sizes.get(1..sizes.len().saturating_sub(1)).unwrap_or(&[]);
    let layers = hidden.iter().map(|units| HiddenLayer::new(*units)).collect();
    Mlp { sizes: sizes.to_vec(), layers, activation, dropout, init: WeightInit::Default, whole: false }
}

#[derive(Clone, Debug)]
pub struct Mlp {
    sizes: Vec<usize>,
    /// The hidden ones.
    layers: Vec<HiddenLayer>,
    /// Of layers that have none of their own; so are `dropout` and `init`.
    activation: Activation,
    dropout: f64,
    init: WeightInit,
    whole: bool,
}

impl Mlp {
    /// `inputs → layers → outputs`, each layer with what it says for itself.
    pub fn of_layers(inputs: usize, layers: &[HiddenLayer], outputs: usize) -> Mlp {
        let units = layers.iter().map(|layer| layer.units);
        let sizes = [inputs].into_iter().chain(units).chain([outputs]).collect();
        let (activation, init) = (Activation::Relu, WeightInit::Default);
        Mlp { sizes, layers: layers.to_vec(), activation, dropout: 0.0, init, whole: false }
    }

    /// Keeps wide layers in one piece instead of in strips, which serve the cores of a processor: the same function with the same
    /// parameters, for devices that share memory otherwise.
    pub fn whole(mut self) -> Mlp {
        self.whole = true;
        self
    }

    pub fn activation(mut self, activation: Activation) -> Mlp {
        self.activation = activation;
        self
    }

    pub fn dropout(mut self, dropout: f64) -> Mlp {
        self.dropout = dropout;
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
        let linear = |number: usize, i: usize| {
            let init = self.layers.get(i).and_then(|layer| layer.init).unwrap_or(self.init);
            Linear::new(number.to_string(), self.sizes[i], self.sizes[i + 1]).init(init)
        };
        let links = self.sizes.len().saturating_sub(1);
        let mut i = 0;
        while i < links {
            let first = linear(number, i);
            let Some(layer) = self.layers.get(i) else {
                layers.push(first);
                break;
            };
            let (activation, dropout) = self.of(layer);
            // a split pair is plain: nothing but the activation lies between its halves
            let next = self.layers.get(i + 1);
            let splits = layer.is_plain() && next.is_none_or(HiddenLayer::is_plain);
            if !self.whole && splits && Split::worthwhile(self.sizes[i], self.sizes[i + 1]) {
                number += Block::count(layer, dropout);
                let second = linear(number, i + 1);
                layers.push(Split::new(first, activation, dropout, second));
                i += 1;
                let Some(layer) = next else { break };
                // what follows the second of the pair
                let (activation, dropout) = self.of(layer);
                layers.push(activation);
                if dropout != 0.0 {
                    layers.push(Dropout::new(dropout));
                }
                number += Block::count(layer, dropout);
            } else if layer.is_plain() {
                layers.push(first);
                layers.push(activation);
                if dropout != 0.0 {
                    layers.push(Dropout::new(dropout));
                }
                number += Block::count(layer, dropout);
            } else {
                layers.push(Block { linear: first, activation, dropout, layer: layer.clone(), number });
                number += Block::count(layer, dropout);
            }
            i += 1;
        }
        layers
    }

    /// Activation and dropout of a layer.
    fn of(&self, layer: &HiddenLayer) -> (Activation, f64) {
        (layer.activation.unwrap_or(self.activation), layer.dropout.unwrap_or(self.dropout))
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

    /// `mlp 784-128-64-10 relu, dropout 0.1`, or where layers differ `mlp 784 → 128 relu → 64 tanh, dropout 0.5 → 10`
    fn describe(&self) -> String {
        let alike = self.layers.iter().all(|l| l.is_plain() && self.of(l) == (self.activation, self.dropout));
        if !alike {
            let blocks = self.layers.iter().map(|layer| {
                let (activation, dropout) = self.of(layer);
                let linear = Linear::new("", 0, layer.units);
                Block { linear, activation, dropout, layer: layer.clone(), number: 0 }.describe()
            });
            let (first, last) = (self.sizes[0].to_string(), self.sizes[self.sizes.len() - 1].to_string());
            return format!("mlp {}", [first].into_iter().chain(blocks).chain([last]).collect::<Vec<_>>().join(" → "));
        }
        let sizes: Vec<String> = self.sizes.iter().map(|s| s.to_string()).collect();
        let dropout = if self.dropout == 0.0 { String::new() } else { format!(", dropout {}", self.dropout) };
        format!("mlp {} {}{dropout}", sizes.join("-"), self.activation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{LayerMode, LayerNormKind};
    use crate::{Learning, Sgd};
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
    fn layers_that_differ() {
        let plain = |units: usize| HiddenLayer::new(units);
        let normed = HiddenLayer { norm: Some(LayerNormKind::Batch), residual: true, ..plain(48) };
        let tanh = HiddenLayer { activation: Some(Activation::Tanh), dropout: Some(0.5), ..plain(16) };
        let model = Mlp::of_layers(784, &[plain(48), normed, tanh], 10);
        let names = parameters(&model);
        let expected = ["0.bias", "0.weight", "2.bias", "2.weight", "3.bias", "3.weight", "5.bias", "5.weight"];
        assert_eq!(names, [&expected[..], &["8.bias", "8.weight"]].concat());
        assert_eq!(model.describe(), "mlp 784 → 48 relu → 48 relu, batch norm, residual → 16 tanh, dropout 0.5 → 10");
        let alike = Mlp::of_layers(784, &[plain(128), plain(64)], 10);
        let traced = |model: &Mlp| {
            let g = Graph::new();
            model.forward(&g.input("x", &[32, 784]));
            g.to_string()
        };
        assert_eq!(traced(&alike), traced(&mlp(&[784, 128, 64, 10], Activation::Relu, 0.0)));
    }

    #[test]
    fn a_detached_layer_cuts_what_comes_before_it() {
        let cut = HiddenLayer { detach: true, ..HiddenLayer::new(16) };
        let model = Mlp::of_layers(8, &[HiddenLayer::new(16), cut], 1);
        let step = |allow: bool| {
            let g = Graph::new();
            let loss = model.forward(&g.input("x", &[4, 8])).square().mean_all();
            Learning::new(Sgd::default(), 0.1).allow_unreached(allow).record(&loss).map(|l| (l.parameters.len(), g))
        };
        assert!(step(false).err().unwrap().to_string().contains("does not depend on 0.weight, 0.bias"));
        let (trained, g) = step(true).unwrap();
        assert_eq!(trained, 4);
        assert!(g.warnings()[0].to_string().contains("no gradient reaches 0.weight, 0.bias"));
    }

    #[test]
    fn a_layer_keeps_its_own_mode() {
        for (mode, random) in [(Some(LayerMode::Eval), 1), (None, 2)] {
            let own = HiddenLayer { mode, dropout: Some(0.5), ..HiddenLayer::new(16) };
            let g = Graph::new();
            let other = HiddenLayer { dropout: Some(0.5), ..HiddenLayer::new(16) };
            Mlp::of_layers(8, &[own, other], 1).forward(&g.input("x", &[4, 8]));
            assert_eq!(g.nodes().iter().filter(|n| n.op.name() == "random").count(), random, "{g}");
            assert_eq!(g.mode(), citius_graph::Mode::Train);
        }
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
