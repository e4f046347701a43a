use std::collections::BTreeMap;

use citius_graph::{DType, Graph, Tensor};
use citius_nn::models::{Gpt, LeNet, Mixer, NLinear, ResNet, ResNet9, TableNet, TransformerClassifier, Vgg, Vit};
use citius_nn::{Activation, Clip, Learning, Module, mlp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Packed, leaves, load, losses, optimizers};
use crate::compare::assert_none;
use crate::{Evaluate, Tolerance, Values, compare};

#[derive(Deserialize)]
struct File {
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    name: String,
    architecture: String,
    attrs: Map<String, Value>,
    loss: String,
    optimizer: String,
    optimizer_attrs: Map<String, Value>,
    clip_norm: Option<f64>,
    initial: BTreeMap<String, Packed>,
    /// `x`, `y`, and what else the model takes.
    batches: Vec<BTreeMap<String, Packed>>,
    grads: BTreeMap<String, Packed>,
    losses_f64: Vec<f64>,
    grad_norms: Vec<f64>,
    #[serde(rename = "final")]
    last: BTreeMap<String, Packed>,
}

/// Ten losses of each model within `losses` of PyTorch's f64 run; gradients, norms and final weights, which PyTorch
/// gives in f32, within 1e-5 and 1e-4.
#[track_caller]
pub fn models(executor: &dyn Evaluate, losses: Tolerance) {
    let models = load::<File>("models").models;
    let run = |model: &Model| check(model, executor, losses).err().map(|e| format!("{}: {e}", model.name));
    let failures = models.iter().filter_map(run).collect();
    assert_none(&format!("golden models on {}", executor.name()), models.len(), failures);
}

fn check(model: &Model, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let g = Graph::new();
    let prediction = predict(model, &g)?;
    let batch = &model.batches[0];
    let loss = losses::by_pytorchs_name(&model.loss, Map::new())?;
    let loss = match model.loss.as_str() {
        "cross_entropy" => {
            // each token of a text has a class of its own
            let classes = prediction.dims().last().copied().unwrap_or(1);
            let rows = prediction.elements() / classes.max(1);
            let y = g.input_of("y", &batch["y"].shape, DType::I32);
            loss.apply(&prediction.reshape(&[rows, classes]), &y.reshape(&[rows]))
        }
        _ => loss.apply(&prediction, &g.input("y", &batch["y"].shape)),
    };
    let (optimizer, lr) = optimizers::by_pytorchs_name(&model.optimizer, model.optimizer_attrs.clone())?;
    let learning = Learning::new(optimizer, lr).clip(model.clip_norm.map(|max_norm| Clip::Norm { max_norm }));
    let learned = learning.record(&loss).map_err(|e| e.to_string())?;
    for p in &learned.parameters {
        g.output(&format!("grad {}", p.name), &p.gradient);
        g.output(&format!("after {}", p.name), &p.value);
    }
    let initial = model.initial.iter().map(|(name, t)| (name.clone(), narrow(t))).collect();
    let initial = leaves::stored(&g, &initial)?;
    let values = |batch: &BTreeMap<String, Packed>| batch.iter().map(|(n, t)| (n.clone(), narrow(t).data)).collect();
    let inputs: Vec<Values> = model.batches.iter().map(values).collect();

    let outputs = executor.run(&g, &initial, &inputs)?;
    let read = |name: &str| outputs.iter().map(|o| o[name][0]).collect::<Vec<_>>();
    compare(&read("loss"), &model.losses_f64, tolerance).map_err(|e| format!("losses: {e}"))?;
    compare(&read("grad_norm"), &model.grad_norms, Tolerance::new(2e-5, 1e-7)).map_err(|e| format!("norms: {e}"))?;
    for (name, expected) in &model.grads {
        let actual = leaves::whole(&g, name, |leaf| outputs[0].get(&format!("grad {leaf}")).cloned())?;
        compare(&actual, &expected.data, Tolerance::new(1e-5, 1e-6)).map_err(|e| format!("grad {name}: {e}"))?;
    }
    for (name, expected) in &model.last {
        let last = &outputs[outputs.len() - 1];
        let actual = leaves::whole(&g, name, |leaf| last.get(&format!("after {leaf}")).cloned())?;
        compare(&actual, &expected.data, Tolerance::new(1e-4, 1e-5)).map_err(|e| format!("final {name}: {e}"))?;
    }
    Ok(())
}

fn predict(model: &Model, g: &Graph) -> Result<Tensor, String> {
    let input = |name: &str, dtype: DType| {
        let given = model.batches[0].get(name).ok_or(format!("no {name}"))?;
        Ok::<Tensor, String>(g.input_of(name, &given.shape, dtype))
    };
    let (numbers, tokens) = (|| input("x", DType::F32), || input("x", DType::I32));
    Ok(match model.architecture.as_str() {
        "mlp" => {
            let Layers { sizes, activation } = sized(model)?;
            mlp(&sizes, activation, 0.0).forward(&numbers()?)
        }
        "transformer-classifier" => sized::<TransformerClassifier>(model)?.forward(&tokens()?),
        "gpt" => sized::<Gpt>(model)?.forward(&tokens()?),
        "vit" => sized::<Vit>(model)?.forward(&numbers()?),
        "mixer" => sized::<Mixer>(model)?.forward(&numbers()?),
        "lenet" => sized::<LeNet>(model)?.forward(&numbers()?),
        "vgg" => sized::<Vgg>(model)?.forward(&numbers()?),
        "resnet" => sized::<ResNet>(model)?.forward(&numbers()?),
        "resnet-9" => sized::<ResNet9>(model)?.forward(&numbers()?),
        "nlinear" => sized::<NLinear>(model)?.forward(&numbers()?),
        "table-net" => sized::<TableNet>(model)?.forward_mixed(&numbers()?, &input("codes", DType::I32)?),
        other => return Err(format!("no architecture {other}")),
    })
}

#[derive(Deserialize)]
struct Layers {
    sizes: Vec<usize>,
    activation: Activation,
}

fn sized<T: DeserializeOwned>(model: &Model) -> Result<T, String> {
    serde_json::from_value(Value::Object(model.attrs.clone())).map_err(|e| e.to_string())
}

/// The file holds the shortest decimals of f32 numbers.
fn narrow(t: &Packed) -> Packed {
    Packed { shape: t.shape.clone(), data: t.data.iter().map(|&x| x as f32 as f64).collect() }
}
