use citius_graph::{Graph, Init, Tensor};

/// 10-64-1 regression with Adam, written out by hand.
fn step(batch: usize) -> Graph {
    let g = Graph::new();
    let table = g.input("x", &[1000, 10]);
    let targets = g.input("y", &[1000, 1]);
    let rows = g.input_of("rows", &[batch], citius_graph::DType::I32);
    let (x, y) = (table.gather_rows(&rows), targets.gather_rows(&rows));
    let layer = |name: &str, x: &Tensor, a: usize, b: usize| {
        let w = g.parameter_stored_transposed(&format!("{name}.weight"), [b, a], Init::Zeros);
        let bias = g.parameter(&format!("{name}.bias"), &[b], Init::Zeros);
        x.matmul(&w.t()) + bias
    };
    let h = layer("0", &x, 10, 64).relu();
    let out = layer("2", &h, 64, 1);
    let loss = (out - y).square().mean_all();
    g.output("loss", &loss);
    let parameters = g.trainable();
    let tensors: Vec<Tensor> = parameters.iter().map(|p| p.1.clone()).collect();
    let t = g.step() + 1.0;
    let scale = 1e-3 / (1.0 - (&t * 0.9f64.ln()).exp());
    for ((leaf, p), dp) in parameters.iter().zip(g.gradients(&loss, &tensors)) {
        let dp = dp.unwrap();
        let m = g.state(&format!("{}.m", leaf.name), p.shape().dims(), Init::Zeros);
        let v = g.state(&format!("{}.v", leaf.name), p.shape().dims(), Init::Zeros);
        let m2 = &m * 0.9 + &dp * 0.1;
        let v2 = &v * 0.999 + dp.square() * 0.001;
        g.assign(p, &(p - &scale * &m2 / (v2.sqrt() + 1e-8)));
        g.assign(&m, &m2);
        g.assign(&v, &v2);
        g.output(&format!("grad.{}", leaf.name), &dp.square().sum_all());
    }
    g
}

/// The printed plan of a whole step, compared line by line: a change of any pass shows here. After an intended change, write
/// the new text with `UPDATE=1 cargo test -p citius-plan`.
#[test]
fn the_plan_reads_as_expected() {
    let g = step(32);
    let text = citius_plan::compile(&g).unwrap_or_else(|e| panic!("{e}\n{g}")).to_string();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/regress.plan");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap());
}
