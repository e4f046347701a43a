use citius_graph::Tensor;

use super::Identity;
use crate::Module;

/// `y = body(x) + shortcut(x)`; the shortcut is the identity unless given, and both must end with the same sizes.
pub struct Residual {
    body: Box<dyn Module>,
    shortcut: Box<dyn Module>,
}

impl Residual {
    pub fn new(body: impl Module + 'static) -> Residual {
        Residual { body: Box::new(body), shortcut: Box::new(Identity) }
    }

    pub fn shortcut(mut self, shortcut: impl Module + 'static) -> Residual {
        self.shortcut = Box::new(shortcut);
        self
    }
}

impl Module for Residual {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let (body, shortcut) = (self.body.forward(x), self.shortcut.forward(x));
        if body.shape() != shortcut.shape() {
            let problem = format!("the body gives {}, the shortcut {}", body.shape(), shortcut.shape());
            g.report(&self.describe(), problem);
            return body;
        }
        body + shortcut
    }

    fn describe(&self) -> String {
        format!("Residual ({} + {})", self.body.describe(), self.shortcut.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Linear;
    use citius_graph::Graph;

    #[test]
    fn sides_must_agree() {
        let g = Graph::new();
        Residual::new(Linear::new("0", 4, 1)).forward(&g.input("x", &[2, 4]));
        let message = g.check().unwrap_err().to_string();
        assert!(message.contains("the body gives [2,1], the shortcut [2,4]"), "{message}");
        assert!(message.contains("Residual (Linear 4→1 + Identity)") && message.contains("residual.rs"), "{message}");
        let g = Graph::new();
        let projected = Residual::new(Linear::new("0", 4, 3)).shortcut(Linear::new("1", 4, 3));
        assert_eq!(projected.forward(&g.input("x", &[2, 4])).dims(), [2, 3]);
        assert!(g.check().is_ok());
    }
}
