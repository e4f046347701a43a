use citius_graph::Tensor;

/// A layer or model: describes what it is, and records what it does. It holds no numbers; parameters are declared by name
/// in the graph of `x`, and the executor owns them.
pub trait Module {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor;

    /// One line for people: `Linear 784→128`.
    fn describe(&self) -> String;
}

impl<M: Module + ?Sized> Module for Box<M> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        (**self).forward(x)
    }
    fn describe(&self) -> String {
        (**self).describe()
    }
}
