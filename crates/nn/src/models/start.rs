use citius_graph::{Init, Names, Tensor};

use crate::{Module, WeightInit};

/// A network whose weights start otherwise than its layers would have it.
pub(super) struct Started {
    pub net: Box<dyn Module>,
    /// Of all weights; each layer's own where it is the default.
    pub all: WeightInit,
    /// Of those that a pattern covers; the first that does counts.
    pub some: Vec<(String, WeightInit)>,
}

impl Module for Started {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let (all, some) = (self.all, self.some.clone());
        let _starting = x.graph().starting(move |name, dims| {
            match some.iter().find(|(pattern, _)| Names::covered(pattern, name)) {
                Some((_, own)) => Some(as_told(*own, dims)),
                None => start(all, name, dims),
            }
        });
        let _line = x.graph().called_here();
        self.net.forward(x)
    }

    fn describe(&self) -> String {
        self.net.describe()
    }
}

/// Weights are what has two axes or more, `[out,in,…]`; biases start as they do beside such weights. Scales of norms stay 1.
fn start(init: WeightInit, name: &str, dims: &[usize]) -> Option<Init> {
    if init == WeightInit::Default {
        return None;
    }
    let bias = name.rsplit('.').next().is_some_and(|last| last.starts_with("bias"));
    let window: usize = dims.iter().skip(2).product();
    match dims {
        &[outputs, inputs, ..] => Some(init.weight(inputs * window, outputs * window)),
        _ if bias => Some(init.bias(1)),
        _ => None,
    }
}

/// What a pattern covers starts so, biases too.
fn as_told(init: WeightInit, dims: &[usize]) -> Init {
    let window: usize = dims.iter().skip(2).product();
    let (outputs, inputs) = (dims.first().copied().unwrap_or(1), dims.get(1).copied().unwrap_or(1));
    init.weight(inputs * window, outputs * window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByName, Frame, Network, RowShape};
    use citius_graph::Graph;

    #[test]
    fn weights_of_every_network_can_be_told_how_to_start() {
        let picture = RowShape::Picture { channels: 1, height: 16, width: 16 };
        let series = RowShape::Series { length: 5, features: 3 };
        for (network, row) in [
            (Network::Mlp, picture),
            (Network::by_name("vgg").unwrap(), picture),
            (Network::by_name("gru").unwrap(), series),
        ] {
            let init = WeightInit::Normal { mean: 0.0, std: 5.0 };
            let inits = vec![("fc.*".to_owned(), WeightInit::Zeros)];
            let frame = Frame { init, inits, ..Frame::plain(row, 10) };
            let g = Graph::new();
            network.build(&frame).unwrap().forward(&g.input("x", &[4, row.elements()]));
            g.check().unwrap();
            let biases = g.leaves().into_iter().filter(|l| l.name.contains("bias") && l.name.starts_with("fc."));
            assert!(biases.into_iter().all(|l| l.init == Init::Zeros));
            for leaf in g.leaves().iter().filter(|l| l.name.contains("weight") && g.tensor(l.node).rank() >= 2) {
                let wanted = match leaf.name.starts_with("fc.") {
                    true => Init::Zeros,
                    false => Init::Normal { mean: 0.0, std: 5.0 },
                };
                assert_eq!(leaf.init, wanted, "{} of {}", leaf.name, network.name());
            }
        }
    }
}
