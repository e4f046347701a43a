//! What planning costs, in kernels looked at: a straight line in the depth of a network.

use citius_graph::{Graph, Init, Tensor};
use citius_plan::compile_counted;

/// A step of `layers` linear layers of 2 units, each with a momentum of its own.
fn deep(layers: usize) -> Graph {
    let g = Graph::new();
    let mut x = g.input("x", &[8, 2]);
    let mut parameters: Vec<Tensor> = Vec::new();
    for layer in 0..layers {
        let w = g.parameter(&format!("{layer}.weight"), &[2, 2], Init::Zeros);
        let b = g.parameter(&format!("{layer}.bias"), &[2], Init::Zeros);
        x = (x.matmul(&w) + &b).relu();
        parameters.extend([w, b]);
    }
    let loss = x.square().mean_all();
    let gradients = g.gradients(&loss, &parameters);
    for (i, (p, d)) in parameters.iter().zip(gradients).enumerate() {
        let m = g.state(&format!("{i}.momentum"), p.shape().dims(), Init::Zeros);
        let moved = &m * 0.9 + d.expect("every parameter has a gradient");
        g.assign(p, &(p - &moved * 0.1));
        g.assign(&m, &moved);
    }
    g.output("loss", &loss);
    g
}

#[test]
fn planning_a_network_twice_as_deep_takes_twice_the_work() {
    let work = |layers: usize| compile_counted(&deep(layers)).expect("a plan").1;
    let (short, long, longer) = (work(200), work(400), work(800));
    assert!(long as f64 <= 2.4 * short as f64, "{short} kernels looked at for 200 layers, {long} for 400");
    assert!(longer as f64 <= 2.4 * long as f64, "{long} kernels looked at for 400 layers, {longer} for 800");
    // no pass compares all pairs: 800 layers make some 8,000 kernels
    assert!(longer < 20_000_000, "{longer} kernels looked at for 800 layers");
}
