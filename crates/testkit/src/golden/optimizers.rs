use std::collections::BTreeMap;

use citius_graph::{Graph, Init, Tensor};
use citius_nn::{Adam, Clip, Learning, LossScaling, OptimizerConfig, Sgd, mse};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Packed, leaves, load};
use crate::compare::assert_none;
use crate::{Evaluate, Tolerance, Values, compare};

#[derive(Deserialize)]
struct File {
    initial: Vec<f64>,
    gradients: Vec<Vec<f64>>,
    cases: Vec<Case>,
    muon: Vec<Matrix>,
    clipping: Vec<Clipping>,
    accumulation: Accumulation,
    scaling: Scaling,
}

#[derive(Deserialize)]
struct Case {
    optimizer: String,
    attrs: Map<String, Value>,
    params: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Matrix {
    attrs: Map<String, Value>,
    initial: Packed,
    gradients: Vec<Vec<f64>>,
    params: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Clipping {
    clip: String,
    limit: f64,
    grads: Vec<Packed>,
    total_norm: Option<f64>,
    clipped: Vec<Packed>,
}

#[derive(Deserialize)]
struct Accumulation {
    lr: f64,
    micro_batches: usize,
    weight: Packed,
    bias: Packed,
    updates: Vec<Accumulated>,
}

#[derive(Deserialize)]
struct Accumulated {
    batches: Vec<Batch>,
    losses: Vec<f64>,
    grads: Two,
    after: Two,
}

#[derive(Deserialize)]
struct Batch {
    x: Packed,
    y: Packed,
}

#[derive(Deserialize)]
struct Two {
    weight: Packed,
    bias: Packed,
}

#[derive(Deserialize)]
struct Scaling {
    lr: f64,
    initial: f64,
    growth: f64,
    backoff: f64,
    interval: usize,
    /// Steps whose first gradient is infinite.
    overflows: Vec<usize>,
    scales: Vec<f64>,
    params: Vec<Vec<f64>>,
}

/// Eight updates of every optimiser, clipping, accumulation, and loss scaling.
#[track_caller]
pub fn optimizers(executor: &dyn Evaluate, tolerance: Tolerance) {
    let file = load::<File>("optimizers");
    let mut failures = Vec::new();
    for case in &file.cases {
        let label = format!("{} {}", case.optimizer, Value::Object(case.attrs.clone()));
        failures.extend(updates(case, &file, executor, tolerance).err().map(|e| format!("{label}: {e}")));
    }
    for (case, turned) in file.muon.iter().flat_map(|case| [(case, false), (case, true)]) {
        let stored = if turned { "stored transposed" } else { "" };
        let label = format!("muon {:?} {stored} {}", case.initial.shape, Value::Object(case.attrs.clone()));
        failures.extend(matrix(case, turned, executor, tolerance).err().map(|e| format!("{label}: {e}")));
    }
    for case in &file.clipping {
        let label = format!("clip by {} {}", case.clip, case.limit);
        failures.extend(clipping(case, executor, tolerance).err().map(|e| format!("{label}: {e}")));
    }
    failures.extend(accumulation(&file.accumulation, executor, tolerance).err().map(|e| format!("accumulation: {e}")));
    failures.extend(scaling(&file, executor, tolerance).err().map(|e| format!("loss scaling: {e}")));
    let count = file.cases.len() + 2 * file.muon.len() + file.clipping.len() + 2;
    assert_none(&format!("golden optimizers on {}", executor.name()), count, failures);
}

/// An optimiser and its learning rate from PyTorch's settings.
pub(super) fn by_pytorchs_name(name: &str, mut attrs: Map<String, Value>) -> Result<(OptimizerConfig, f64), String> {
    let lr = attrs.remove("lr").and_then(|v| v.as_f64()).ok_or("no lr")?;
    attrs.insert("name".into(), name.into());
    Ok((serde_json::from_value(Value::Object(attrs)).map_err(|e| e.to_string())?, lr))
}

/// The gradient of Σ p·g with respect to p is g, whatever p.
fn with_gradients(grads: &[&[usize]]) -> (Graph, Tensor) {
    let graph = Graph::new();
    let term = |(i, dims): (usize, &&[usize])| {
        let p = graph.parameter(&format!("p{i}"), dims, Init::Zeros);
        (p * graph.input(&format!("g{i}"), dims)).sum_all()
    };
    let loss = grads.iter().enumerate().map(term).reduce(|a, b| a + b).unwrap_or_else(|| graph.scalar(0.0));
    (graph, loss)
}

fn updates(case: &Case, file: &File, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let (optimizer, lr) = by_pytorchs_name(&case.optimizer, case.attrs.clone())?;
    let (g, loss) = with_gradients(&[&[file.initial.len()]]);
    let learned = Learning::new(optimizer, lr).record(&loss).map_err(|e| e.to_string())?;
    g.output("after", &learned.parameters[0].value);
    let initial = Values::from([("p0".to_string(), file.initial.clone())]);
    let inputs: Vec<Values> = file.gradients.iter().map(|d| Values::from([("g0".to_string(), d.clone())])).collect();
    let outputs = executor.run(&g, &initial, &inputs)?;
    for (i, (outputs, expected)) in outputs.iter().zip(&case.params).enumerate() {
        compare(&outputs["after"], expected, tolerance).map_err(|e| format!("update {}: {e}", i + 1))?;
    }
    Ok(())
}

fn matrix(case: &Matrix, turned: bool, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let (optimizer, lr) = by_pytorchs_name("muon", case.attrs.clone())?;
    let g = Graph::new();
    let dims: [usize; 2] = case.initial.shape.clone().try_into().map_err(|_| "not a matrix")?;
    let p = match turned {
        true => g.parameter_stored_transposed("p", dims, Init::Zeros),
        false => g.parameter("p", &dims, Init::Zeros),
    };
    let learning = Learning::new(optimizer, lr);
    let learned = learning.record(&(p * g.input("g", &dims)).sum_all()).map_err(|e| e.to_string())?;
    g.output("after", &learned.parameters[0].value);
    let initial = leaves::stored(&g, &BTreeMap::from([("p".to_string(), case.initial.clone())]))?;
    let inputs: Vec<Values> = case.gradients.iter().map(|d| Values::from([("g".to_string(), d.clone())])).collect();
    let outputs = executor.run(&g, &initial, &inputs)?;
    for (i, (outputs, expected)) in outputs.iter().zip(&case.params).enumerate() {
        let after = leaves::whole(&g, "p", |_| outputs.get("after").cloned())?;
        compare(&after, expected, tolerance).map_err(|e| format!("update {}: {e}", i + 1))?;
    }
    Ok(())
}

fn clipping(case: &Clipping, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let clip = match case.clip.as_str() {
        "norm" => Clip::Norm { max_norm: case.limit },
        "value" => Clip::Value { limit: case.limit },
        other => return Err(format!("no clip {other}")),
    };
    let shapes: Vec<&[usize]> = case.grads.iter().map(|t| t.shape.as_slice()).collect();
    let (g, loss) = with_gradients(&shapes);
    // from 0 with rate 1, the new value is minus the clipped gradient
    let learning = Learning::new(Sgd::default(), 1.0).clip(Some(clip));
    let learned = learning.record(&loss).map_err(|e| e.to_string())?;
    for p in &learned.parameters {
        g.output(&p.name, &-&p.value);
    }
    let inputs = case.grads.iter().enumerate().map(|(i, t)| (format!("g{i}"), t.data.clone())).collect();
    let outputs = executor.run(&g, &Values::new(), &[inputs])?.remove(0);
    for (i, expected) in case.clipped.iter().enumerate() {
        compare(&outputs[&format!("p{i}")], &expected.data, tolerance)?;
    }
    match case.total_norm {
        Some(norm) => compare(&outputs["grad_norm"], &[norm], tolerance).map_err(|e| format!("norm: {e}")),
        None => Ok(()),
    }
}

fn accumulation(case: &Accumulation, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let g = Graph::new();
    let (rows, features) = match case.updates[0].batches[0].x.shape[..] {
        [rows, features] => (rows, features),
        _ => return Err("x is not a matrix".into()),
    };
    let w = g.parameter("weight", &case.weight.shape, Init::Zeros);
    let b = g.parameter("bias", &case.bias.shape, Init::Zeros);
    let prediction = g.input("x", &[rows, features]).matmul(&w.reshape(&[features, 1])).reshape(&[rows]) + b;
    let loss = mse(&prediction, &g.input("y", &[rows]));
    let learning = Learning::new(Sgd::default(), case.lr).accumulate(case.micro_batches);
    for p in &learning.record(&loss).map_err(|e| e.to_string())?.parameters {
        g.output(&format!("grad {}", p.name), &p.gradient);
        g.output(&format!("after {}", p.name), &p.value);
    }
    let initial = [("weight", &case.weight), ("bias", &case.bias)];
    let initial = initial.into_iter().map(|(name, t)| (name.to_string(), t.data.clone())).collect();
    let batches = case.updates.iter().flat_map(|u| &u.batches);
    let inputs: Vec<Values> = batches
        .map(|b| Values::from([("x".to_string(), b.x.data.clone()), ("y".to_string(), b.y.data.clone())]))
        .collect();
    let outputs = executor.run(&g, &initial, &inputs)?;
    for (i, (steps, update)) in outputs.chunks(case.micro_batches).zip(&case.updates).enumerate() {
        let losses: Vec<f64> = steps.iter().map(|o| o["loss"][0]).collect();
        compare(&losses, &update.losses, tolerance).map_err(|e| format!("losses {i}: {e}"))?;
        let last = &steps[steps.len() - 1];
        for (name, expected) in [
            ("grad weight", &update.grads.weight),
            ("grad bias", &update.grads.bias),
            ("after weight", &update.after.weight),
            ("after bias", &update.after.bias),
        ] {
            compare(&last[name], &expected.data, tolerance).map_err(|e| format!("{name} {i}: {e}"))?;
        }
    }
    Ok(())
}

fn scaling(file: &File, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let Scaling { lr, initial, growth, backoff, interval, .. } = file.scaling;
    let (g, loss) = with_gradients(&[&[file.initial.len()]]);
    let scaling = LossScaling { initial, growth, backoff, interval };
    let learned = Learning::new(Adam::default(), lr).scaling(Some(scaling)).record(&loss).map_err(|e| e.to_string())?;
    g.output("after", &learned.parameters[0].value);
    let start = Values::from([("p0".to_string(), file.initial.clone())]);
    let inputs = file.gradients.iter().enumerate().map(|(i, gradient)| {
        let mut gradient = gradient.clone();
        if file.scaling.overflows.contains(&i) {
            gradient[0] = f64::INFINITY;
        }
        Values::from([("g0".to_string(), gradient)])
    });
    let outputs = executor.run(&g, &start, &inputs.collect::<Vec<_>>())?;
    for (i, outputs) in outputs.iter().enumerate() {
        compare(&outputs["loss_scale"], &[file.scaling.scales[i]], tolerance).map_err(|e| format!("scale {i}: {e}"))?;
        compare(&outputs["after"], &file.scaling.params[i], tolerance).map_err(|e| format!("update {i}: {e}"))?;
    }
    Ok(())
}
