use citius_graph::Tensor;

use crate::Module;

/// Merges all axes after the first: `[n,c,h,w]` to `[n,c·h·w]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flatten;

impl Module for Flatten {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.flatten(1)
    }

    fn describe(&self) -> String {
        "Flatten".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn rows_stay() {
        let g = Graph::new();
        assert_eq!(Flatten.forward(&g.input("x", &[2, 3, 4, 5])).dims(), [2, 60]);
        assert_eq!(Flatten.forward(&g.input("y", &[2])).dims(), [2, 1]);
        assert!(g.check().is_ok());
    }
}
