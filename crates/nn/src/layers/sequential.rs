use citius_graph::Tensor;

use crate::Module;

/// Layers one after the other.
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Module>>,
}

impl Sequential {
    pub fn new() -> Sequential {
        Sequential::default()
    }

    pub fn with(mut self, layer: impl Module + 'static) -> Sequential {
        self.push(layer);
        self
    }

    pub fn push(&mut self, layer: impl Module + 'static) {
        self.layers.push(Box::new(layer));
    }

    pub fn len(&self) -> usize {
        self.layers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

impl Module for Sequential {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = x.graph().called_here();
        self.layers.iter().enumerate().fold(x.clone(), |h, (i, layer)| {
            let _layer = h.graph().scope(format!("{i} {}", layer.describe()));
            layer.forward(&h)
        })
    }

    fn describe(&self) -> String {
        self.layers.iter().map(|l| l.describe()).collect::<Vec<_>>().join(", ")
    }
}
