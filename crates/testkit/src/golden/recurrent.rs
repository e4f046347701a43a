use std::collections::BTreeMap;

use citius_graph::{Graph, Tensor};
use citius_nn::{Adam, Cell, Learning, Module, Recurrent, forecaster, gru, lstm, mse, rnn, rnn_relu};
use serde::Deserialize;

use super::{Packed, load};
use crate::compare::assert_none;
use crate::{Evaluate, Tolerance, Values, compare};

#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Case {
    cell: String,
    inputs: usize,
    hidden: usize,
    layers: usize,
    bias: bool,
    bidirectional: bool,
    batch_first: bool,
    x: Packed,
    starts: Vec<Packed>,
    lengths: Option<Vec<f64>>,
    parameters: BTreeMap<String, Packed>,
    /// Outputs, last states, last cells.
    results: Vec<Packed>,
    cotangents: Vec<Packed>,
    grad_x: Packed,
    grad_starts: Vec<Packed>,
    grads: BTreeMap<String, Packed>,
}

#[derive(Deserialize)]
struct Model {
    cell: String,
    layers: usize,
    rate: f64,
    initial: BTreeMap<String, Packed>,
    batches: Vec<Batch>,
    grads: BTreeMap<String, Packed>,
    losses: Vec<f64>,
    #[serde(rename = "final")]
    last: BTreeMap<String, Packed>,
}

#[derive(Deserialize)]
struct Batch {
    x: Packed,
    y: Packed,
}

/// Recurrent layers with all their gradients, and forecasters through ten steps of Adam.
#[track_caller]
pub fn recurrent(executor: &dyn Evaluate, tolerance: Tolerance) {
    let file = load::<File>("recurrent");
    let layer = |case: &Case| check(case, executor, tolerance).err().map(|e| format!("{}: {e}", label(case)));
    let model = |model: &Model| {
        follow(model, executor, tolerance).err().map(|e| format!("forecaster {} ×{}: {e}", model.cell, model.layers))
    };
    let failures = file.cases.iter().filter_map(layer).chain(file.models.iter().filter_map(model)).collect();
    let count = file.cases.len() + file.models.len();
    assert_none(&format!("golden recurrent layers on {}", executor.name()), count, failures);
}

fn label(c: &Case) -> String {
    let both = if c.bidirectional { " both ways" } else { "" };
    format!("{} {}→{} ×{}{both} on {:?}, lengths {:?}", c.cell, c.inputs, c.hidden, c.layers, c.x.shape, c.lengths)
}

fn check(case: &Case, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let g = Graph::new();
    let mut values = Values::new();
    let mut input = |name: String, t: &Packed| {
        values.insert(name.clone(), t.data.clone());
        g.input(&name, &t.shape)
    };
    let x = input("x".into(), &case.x);
    let starts: Vec<Tensor> = case.starts.iter().enumerate().map(|(i, s)| input(format!("start {i}"), s)).collect();
    let lengths = case.lengths.as_ref().map(|l| {
        let packed = Packed { shape: vec![l.len()], data: l.clone() };
        input("lengths".into(), &packed)
    });
    let cotangents: Vec<Tensor> =
        case.cotangents.iter().enumerate().map(|(i, c)| input(format!("cotangent {i}"), c)).collect();
    let layer = build(case)?;
    let sequence = layer.walk(&x, &starts, lengths.as_ref());
    let results: Vec<Tensor> = [sequence.output, sequence.last].into_iter().chain(sequence.cell).collect();
    let mut expected: Vec<(String, &Packed)> = Vec::new();
    let mut terms = Vec::new();
    for (i, (result, packed)) in results.iter().zip(&case.results).enumerate() {
        if result.dims() != packed.shape {
            return Err(format!("result {i} is {}, expected {:?}", result.shape(), packed.shape));
        }
        g.output(&format!("result {i}"), result);
        expected.push((format!("result {i}"), packed));
        terms.push((result * &cotangents[i]).sum_all());
    }
    let loss = terms.into_iter().reduce(|a, b| a + b).ok_or("no results")?;
    let leaves: Vec<_> = g.trainable();
    let of: Vec<Tensor> = [x].into_iter().chain(starts).chain(leaves.iter().map(|l| l.1.clone())).collect();
    let mut found = g.gradients(&loss, &of).into_iter();
    let mut output = |name: String, packed, turned: bool| {
        let d = found.next().flatten().ok_or(format!("no {name}"))?;
        g.output(&name, &if turned { d.t() } else { d });
        expected.push((name, packed));
        Ok::<(), String>(())
    };
    output("gradient of x".into(), &case.grad_x, false)?;
    for (i, packed) in case.grad_starts.iter().enumerate() {
        output(format!("gradient of start {i}"), packed, false)?;
    }
    let mut initial = Values::new();
    for (leaf, _) in &leaves {
        let (start, grad) = (case.parameters.get(&leaf.name), case.grads.get(&leaf.name));
        let (start, grad) = start.zip(grad).ok_or(format!("PyTorch has no {}", leaf.name))?;
        initial.insert(leaf.name.clone(), stored(start, leaf.seen.is_some()));
        output(format!("gradient of {}", leaf.name), grad, leaf.seen.is_some())?;
    }
    if leaves.len() != case.parameters.len() {
        return Err(format!("{} parameters, PyTorch has {}", leaves.len(), case.parameters.len()));
    }
    g.check().map_err(|e| e.to_string())?;
    let outputs = executor.run(&g, &initial, &[values])?.remove(0);
    for (name, packed) in expected {
        compare(&outputs[&name], &packed.data, tolerance).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

fn build(case: &Case) -> Result<Recurrent, String> {
    let layer = match cell(&case.cell)? {
        Cell::Tanh => rnn,
        Cell::Relu => rnn_relu,
        Cell::Gru => gru,
        Cell::Lstm => lstm,
    };
    let layer = layer("", case.inputs, case.hidden).layers(case.layers).bias(case.bias);
    Ok(layer.bidirectional(case.bidirectional).batch_first(case.batch_first))
}

fn cell(name: &str) -> Result<Cell, String> {
    match name {
        "tanh" => Ok(Cell::Tanh),
        "relu" => Ok(Cell::Relu),
        "gru" => Ok(Cell::Gru),
        "lstm" => Ok(Cell::Lstm),
        _ => Err(format!("no cell {name}")),
    }
}

fn follow(model: &Model, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let g = Graph::new();
    let first = &model.batches[0];
    let net = forecaster(cell(&model.cell)?, first.x.shape[2], 20, 1).layers(model.layers);
    let loss = mse(&net.forward(&g.input("x", &first.x.shape)), &g.input("y", &first.y.shape));
    let learned = Learning::new(Adam::default(), model.rate).record(&loss).map_err(|e| e.to_string())?;
    let transposed = |name: &str| g.leaves().iter().any(|l| l.name == name && l.seen.is_some());
    for p in &learned.parameters {
        let turned = |t: &Tensor| if transposed(&p.name) { t.t() } else { t.clone() };
        g.output(&format!("grad {}", p.name), &turned(&p.gradient));
        g.output(&format!("after {}", p.name), &turned(&p.value));
    }
    let initial = model.initial.iter().map(|(name, t)| (name.clone(), stored(t, transposed(name)))).collect();
    let batch = |b: &Batch| Values::from([("x".into(), b.x.data.clone()), ("y".into(), b.y.data.clone())]);
    let outputs = executor.run(&g, &initial, &model.batches.iter().map(batch).collect::<Vec<_>>())?;
    let losses: Vec<f64> = outputs.iter().map(|o| o["loss"][0]).collect();
    // rounding grows from step to step
    let later = Tolerance::new(tolerance.relative * 20.0, tolerance.absolute * 20.0);
    let close = Tolerance::new(later.relative.min(1e-5), later.absolute.min(1e-6));
    compare(&losses, &model.losses, close).map_err(|e| format!("losses: {e}"))?;
    for (name, expected) in &model.grads {
        compare(&outputs[0][&format!("grad {name}")], &expected.data, tolerance)
            .map_err(|e| format!("grad {name}: {e}"))?;
    }
    for (name, expected) in &model.last {
        compare(&outputs[outputs.len() - 1][&format!("after {name}")], &expected.data, later)
            .map_err(|e| format!("final {name}: {e}"))?;
    }
    Ok(())
}

/// PyTorch's `[out,in]` as stored.
fn stored(t: &Packed, transposed: bool) -> Vec<f64> {
    let &[r, c] = &t.shape[..] else { return t.data.clone() };
    match transposed {
        true => (0..c).flat_map(|j| (0..r).map(move |i| t.data[i * c + j])).collect(),
        false => t.data.clone(),
    }
}
