//! A layer, a loss and an optimiser of your own, in your own crate: graph code, differentiated, fused and compiled like ours.
//! `cargo run --release -p citius --example 02_your_own_layer_and_optimizer`

use citius::nn::Update;
use citius::prelude::*;

/// `y = x ∘ s + x`, with a learned s for each feature.
struct Gate(usize);

impl Module for Gate {
    fn forward(&self, x: &Tensor) -> Tensor {
        let s = x.graph().parameter("gate.scale", &[self.0], Init::Zeros);
        x * s + x
    }

    fn describe(&self) -> String {
        format!("Gate {}", self.0)
    }
}

/// `mean log cosh(prediction − target)`: square near 0, straight far away.
fn log_cosh(prediction: &Tensor, target: &Tensor) -> Tensor {
    let d = prediction - target;
    // log cosh d = softplus(2d) − d − log 2
    ((&d * 2.0).softplus() - &d - std::f64::consts::LN_2).mean_all()
}

/// Sign descent with momentum: every parameter moves by the learning rate.
struct SignDescent;

impl Optimizer for SignDescent {
    fn update(&self, u: &Update) -> Tensor {
        let momentum = u.state("momentum");
        let m = u.keep(&momentum, &(&momentum * 0.9 + u.gradient * 0.1));
        let zero = m.constant(0.0);
        u.parameter - u.rate * (zero.lt(&m) - m.lt(&zero))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let g = Graph::new();
    let model = Sequential::new().with(Gate(10)).with(Linear::new("head", 10, 1));
    let loss = log_cosh(&model.forward(&g.input("x", &[32, 10])), &g.input("y", &[32, 1]));
    let learned = Learning::new(SignDescent, 1e-3).record(&loss)?;
    for p in &learned.parameters {
        println!("{:<12} {}", p.name, p.value.shape());
    }
    // your expressions stand in the same kernels as ours, with your lines beside them
    println!("\n{}", compile(&g)?);
    Ok(())
}
