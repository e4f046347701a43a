use std::collections::BTreeMap;

use citius_graph::{DType, Graph, Tensor};
use citius_nn::{Activation, Clip, Learning, Module, mlp};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Packed, load, losses, optimizers};
use crate::compare::assert_none;
use crate::{Evaluate, Tolerance, Values, compare};

#[derive(Deserialize)]
struct File {
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    name: String,
    sizes: Vec<usize>,
    activation: String,
    loss: String,
    optimizer: String,
    optimizer_attrs: Map<String, Value>,
    clip_norm: Option<f64>,
    initial: BTreeMap<String, Packed>,
    batches: Vec<Batch>,
    grads: BTreeMap<String, Packed>,
    losses_f64: Vec<f64>,
    grad_norms: Vec<f64>,
    #[serde(rename = "final")]
    last: BTreeMap<String, Packed>,
}

#[derive(Deserialize)]
struct Batch {
    x: Packed,
    y: Packed,
}

/// Ten losses of three MLPs within `losses` of PyTorch's f64 run; gradients, norms and final weights, which PyTorch gives in
/// f32, within 1e-5 and 1e-4.
#[track_caller]
pub fn models(executor: &dyn Evaluate, losses: Tolerance) {
    let models = load::<File>("models").models;
    let run = |model: &Model| check(model, executor, losses).err().map(|e| format!("{}: {e}", model.name));
    let failures = models.iter().filter_map(run).collect();
    assert_none(&format!("golden models on {}", executor.name()), models.len(), failures);
}

fn check(model: &Model, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let g = Graph::new();
    let batch = &model.batches[0];
    let dtype = if model.loss == "cross_entropy" { DType::I32 } else { DType::F32 };
    let net = mlp(&model.sizes, Activation::by_name(&model.activation)?, 0.0);
    let prediction = net.forward(&g.input("x", &batch.x.shape));
    let loss = losses::by_pytorchs_name(&model.loss, Map::new())?;
    let loss = loss.apply(&prediction, &g.input_of("y", &batch.y.shape, dtype));
    let (optimizer, lr) = optimizers::by_pytorchs_name(&model.optimizer, model.optimizer_attrs.clone())?;
    let learning = Learning::new(optimizer, lr).clip(model.clip_norm.map(|max_norm| Clip::Norm { max_norm }));
    let learned = learning.record(&loss).map_err(|e| e.to_string())?;
    // outputs are turned as PyTorch sees them, inputs as they are stored
    let leaf = |name: &str| g.leaves().into_iter().find(|l| l.name == name);
    let as_seen = |t: &Tensor, name: &str| match leaf(name).and_then(|l| l.seen) {
        Some(seen) => t.transpose(&seen.order).reshape(&seen.dims),
        None => t.clone(),
    };
    for p in &learned.parameters {
        g.output(&format!("grad {}", p.name), &as_seen(&p.gradient, &p.name));
        g.output(&format!("after {}", p.name), &as_seen(&p.value, &p.name));
    }
    let stored = |(name, t): (&String, &Packed)| {
        let values = match leaf(name).and_then(|l| l.seen.map(|seen| (l.node, seen))) {
            Some((node, seen)) => seen.to_stored(&g.tensor(node).dims(), &narrow(t)),
            None => narrow(t),
        };
        (name.clone(), values)
    };
    let initial = model.initial.iter().map(stored).collect();
    let inputs: Vec<Values> = model
        .batches
        .iter()
        .map(|b| Values::from([("x".to_string(), narrow(&b.x)), ("y".to_string(), narrow(&b.y))]))
        .collect();

    let outputs = executor.run(&g, &initial, &inputs)?;
    let read = |name: &str| outputs.iter().map(|o| o[name][0]).collect::<Vec<_>>();
    compare(&read("loss"), &model.losses_f64, tolerance).map_err(|e| format!("losses: {e}"))?;
    compare(&read("grad_norm"), &model.grad_norms, Tolerance::new(2e-5, 1e-7)).map_err(|e| format!("norms: {e}"))?;
    for (name, expected) in &model.grads {
        let actual = &outputs[0][&format!("grad {name}")];
        compare(actual, &expected.data, Tolerance::new(1e-5, 1e-6)).map_err(|e| format!("grad {name}: {e}"))?;
    }
    for (name, expected) in &model.last {
        let actual = &outputs[outputs.len() - 1][&format!("after {name}")];
        compare(actual, &expected.data, Tolerance::new(1e-4, 1e-5)).map_err(|e| format!("final {name}: {e}"))?;
    }
    Ok(())
}

/// The file holds the shortest decimals of f32 numbers.
fn narrow(t: &Packed) -> Vec<f64> {
    t.data.iter().map(|&x| x as f32 as f64).collect()
}
