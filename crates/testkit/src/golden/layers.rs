use std::collections::BTreeMap;

use citius_graph::{DType, Graph, Leaf, LeafKind, Mode, Tensor};
use citius_nn::{
    Activation, BatchNorm, Conv1d, Conv2d, ConvTranspose2d, Dropout2d, Embedding, Flatten, GlobalPool, GroupNorm,
    Identity, InstanceNorm, LayerNorm, LearnedPositions, Linear, Masks, Module, MultiheadAttention, Pool, Residual,
    RmsNorm, RotaryPositions, SinusoidalPositions, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer, Upsample,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Cases, Packed, leaves, load};
use crate::compare::assert_none;
use crate::{Evaluate, Tolerance, Values, compare};

#[derive(Deserialize)]
struct Case {
    layer: String,
    attrs: Map<String, Value>,
    mode: String,
    inputs: BTreeMap<String, Packed>,
    state: BTreeMap<String, Packed>,
    output: Packed,
    cotangent: Packed,
    grads: BTreeMap<String, Packed>,
    after: BTreeMap<String, Packed>,
}

/// Every layer: output, gradients of inputs and parameters, and what it keeps for the next step.
#[track_caller]
pub fn layers(executor: &dyn Evaluate, tolerance: Tolerance) {
    let cases = load::<Cases<Case>>("layers").cases;
    let run = |case: &Case| check(case, executor, tolerance).err().map(|e| format!("{}: {e}", label(case)));
    let failures = cases.iter().filter_map(run).collect();
    assert_none(&format!("golden layers on {}", executor.name()), cases.len(), failures);
}

fn label(case: &Case) -> String {
    let shapes: Vec<String> = case.inputs.iter().map(|(name, x)| format!("{name} {:?}", x.shape)).collect();
    format!("{} {} in {} of {}", case.layer, Value::Object(case.attrs.clone()), case.mode, shapes.join(", "))
}

fn check(case: &Case, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let g = Graph::with_mode(if case.mode == "train" { Mode::Train } else { Mode::Eval });
    let input = |(name, x): (&String, &Packed)| {
        let dtype = if name == "indices" || name == "padding" { DType::I32 } else { DType::F32 };
        (name.clone(), g.input_of(name, &x.shape, dtype))
    };
    let inputs: BTreeMap<String, Tensor> = case.inputs.iter().map(input).collect();
    let y = build(case, &inputs)?;
    g.check().map_err(|e| e.to_string())?;
    if y.dims() != case.output.shape {
        return Err(format!("output is {}, expected {:?}", y.shape(), case.output.shape));
    }
    g.output("y", &y);
    let wanted = |leaf: &Leaf| case.grads.contains_key(leaves::user_name(leaf));
    let wanted: Vec<Leaf> = g.leaves().into_iter().filter(wanted).collect();
    let of: Vec<Tensor> = wanted.iter().map(|leaf| g.tensor(leaf.node)).collect();
    let loss = (y * g.input("cotangent", &case.cotangent.shape)).sum_all();
    for ((leaf, t), gradient) in wanted.iter().zip(&of).zip(g.gradients(&loss, &of)) {
        let gradient = gradient.unwrap_or_else(|| g.full(0.0, &t.dims()));
        g.output(&format!("grad {}", leaf.name), &gradient);
    }
    for (leaf, value) in g.updates() {
        let name = g.leaves().into_iter().find(|l| l.node == leaf).map(|l| l.name).ok_or("an update of no leaf")?;
        g.output(&format!("after {name}"), &g.tensor(value));
    }
    // in eval mode a layer does not ask how many batches it has seen
    let mut state = case.state.clone();
    state.retain(|name, _| !name.ends_with("num_batches_tracked") || case.mode == "train");
    let known = g.leaves().into_iter().filter(|l| l.kind != LeafKind::Input);
    if let Some(leaf) = known.into_iter().find(|l| !state.contains_key(leaves::user_name(l))) {
        return Err(format!("the graph has \"{}\", PyTorch has not", leaf.name));
    }
    let initial = leaves::stored(&g, &state)?;
    let mut values: Values = case.inputs.iter().map(|(name, x)| (name.clone(), x.data.clone())).collect();
    values.insert("cotangent".into(), case.cotangent.data.clone());

    let outputs = executor.run(&g, &initial, &[values])?.remove(0);
    compare(&outputs["y"], &case.output.data, tolerance)?;
    for (kind, expected) in [("grad", &case.grads), ("after", &case.after)] {
        for (name, expected) in expected {
            let actual = leaves::whole(&g, name, |leaf| outputs.get(&format!("{kind} {leaf}")).cloned())?;
            compare(&actual, &expected.data, tolerance).map_err(|e| format!("{kind} {name}: {e}"))?;
        }
    }
    Ok(())
}

fn build(case: &Case, inputs: &BTreeMap<String, Tensor>) -> Result<Tensor, String> {
    let attrs = Attrs(&case.attrs);
    let only = || inputs.values().next().ok_or("no input".to_string());
    let sizes = || attrs.list("dims");
    let plain: Box<dyn Module> = match case.layer.as_str() {
        "LayerNorm" => Box::new(
            LayerNorm::over("layer", &sizes()?)
                .eps(attrs.number("eps", 1e-5))
                .affine(attrs.truth("affine", true))
                .bias(attrs.truth("bias", true)),
        ),
        "RmsNorm" => Box::new(
            RmsNorm::over("layer", &sizes()?)
                .eps(attrs.number("eps", f32::EPSILON as f64))
                .affine(attrs.truth("affine", true)),
        ),
        "GroupNorm" => Box::new(
            GroupNorm::new("layer", attrs.size("groups")?, attrs.size("channels")?)
                .eps(attrs.number("eps", 1e-5))
                .affine(attrs.truth("affine", true)),
        ),
        "InstanceNorm" => {
            Box::new(InstanceNorm::new("layer", attrs.size("channels")?).affine(attrs.truth("affine", false)))
        }
        "BatchNorm1d" => Box::new(batch_norm(&attrs, BatchNorm::new_1d("layer", attrs.size("channels")?))),
        "BatchNorm2d" => Box::new(batch_norm(&attrs, BatchNorm::new_2d("layer", attrs.size("channels")?))),
        "Flatten" => Box::new(Flatten),
        "Identity" => Box::new(Identity),
        "Dropout2d" => Box::new(Dropout2d::new(attrs.number("p", 0.5))),
        "Upsample" => Box::new(match attrs.text("how") {
            Some("nearest") => Upsample::nearest(attrs.size("factor")?),
            _ => Upsample::bilinear(attrs.size("factor")?, attrs.truth("align_corners", false)),
        }),
        "Residual" => {
            let (from, to) = (attrs.list("sizes")?[0], attrs.list("sizes")?[1]);
            let block = Residual::new(Linear::new("layer.body", from, to));
            let projected = from != to;
            Box::new(if projected { block.shortcut(Linear::new("layer.shortcut", from, to)) } else { block })
        }
        "Embedding" => Box::new(
            Embedding::new("layer", attrs.size("rows")?, attrs.size("width")?).padding(attrs.size("padding").ok()),
        ),
        "LearnedPositions" => Box::new(LearnedPositions::new("layer", attrs.size("longest")?, attrs.size("width")?)),
        "SinusoidalPositions" => Box::new(SinusoidalPositions::new(attrs.size("width")?)),
        "RotaryPositions" => Box::new(RotaryPositions::new(attrs.size("width")?).base(attrs.number("base", 10_000.0))),
        "Conv2d" => {
            let [inputs, outputs] = attrs.pair("channels", None)?;
            Box::new(
                Conv2d::new("layer", inputs, outputs, attrs.pair("kernel", None)?)
                    .stride(attrs.pair("stride", Some(1))?)
                    .padding(attrs.pair("padding", Some(0))?)
                    .dilation(attrs.pair("dilation", Some(1))?)
                    .groups(attrs.size("groups").unwrap_or(1))
                    .bias(attrs.truth("bias", true)),
            )
        }
        "Conv1d" => {
            let [inputs, outputs] = attrs.pair("channels", None)?;
            Box::new(
                Conv1d::new("layer", inputs, outputs, attrs.size("size")?)
                    .stride(attrs.size("stride").unwrap_or(1))
                    .padding(attrs.size("padding").unwrap_or(0))
                    .dilation(attrs.size("dilation").unwrap_or(1))
                    .groups(attrs.size("groups").unwrap_or(1))
                    .bias(attrs.truth("bias", true)),
            )
        }
        "ConvTranspose2d" => {
            let [inputs, outputs] = attrs.pair("channels", None)?;
            Box::new(
                ConvTranspose2d::new("layer", inputs, outputs, attrs.pair("kernel", None)?)
                    .stride(attrs.pair("stride", Some(1))?)
                    .padding(attrs.pair("padding", Some(0))?)
                    .output_padding(attrs.pair("output_padding", Some(0))?)
                    .dilation(attrs.pair("dilation", Some(1))?)
                    .groups(attrs.size("groups").unwrap_or(1))
                    .bias(attrs.truth("bias", true)),
            )
        }
        "MaxPool2d" | "AvgPool2d" => {
            let size = attrs.pair("size", None)?;
            let pool = if case.layer == "MaxPool2d" { Pool::max(size) } else { Pool::mean(size) };
            let stride = attrs.pair("stride", None).unwrap_or(size);
            Box::new(pool.stride(stride).padding(attrs.pair("padding", Some(0))?))
        }
        "GlobalPool" => Box::new(GlobalPool),
        _ => return attending(case, inputs),
    };
    Ok(plain.forward(only()?))
}

fn batch_norm(attrs: &Attrs, layer: BatchNorm) -> BatchNorm {
    let layer = layer.eps(attrs.number("eps", 1e-5)).affine(attrs.truth("affine", true));
    match attrs.0.get("momentum") {
        Some(momentum) => layer.momentum(momentum.as_f64()),
        None => layer,
    }
}

/// The layers that take masks.
fn attending(case: &Case, inputs: &BTreeMap<String, Tensor>) -> Result<Tensor, String> {
    let attrs = Attrs(&case.attrs);
    let (width, heads) = (attrs.size("width")?, attrs.size("heads")?);
    let feedforward = || attrs.size("feedforward");
    let masks = Masks {
        causal: attrs.truth("causal", false),
        padding: inputs.get("padding").cloned(),
        added: inputs.get("added").cloned(),
    };
    let (norm_first, norm) = (attrs.truth("norm_first", false), attrs.truth("norm", false));
    let activation = Activation::by_name(attrs.text("activation").unwrap_or("relu"))?;
    let input = |name: &str| inputs.get(name).ok_or(format!("no {name}"));
    let encoder = |path: &str| -> Result<TransformerEncoderLayer, String> {
        let layer = TransformerEncoderLayer::new(path, width, heads).feedforward(feedforward()?).dropout(0.0);
        Ok(layer.activation(activation).norm_first(norm_first))
    };
    let decoder = |path: &str| -> Result<TransformerDecoderLayer, String> {
        let layer = TransformerDecoderLayer::new(path, width, heads).feedforward(feedforward()?).dropout(0.0);
        Ok(layer.activation(activation).norm_first(norm_first))
    };
    Ok(match case.layer.as_str() {
        "MultiheadAttention" => {
            let layer = MultiheadAttention::new("layer", width, heads).bias(attrs.truth("bias", true));
            match inputs.get("x") {
                Some(x) => layer.forward(x),
                None => layer.attend(input("query")?, input("key")?, input("value")?, &masks),
            }
        }
        "TransformerEncoderLayer" => encoder("layer")?.encode(input("x")?, &masks),
        "TransformerEncoder" => {
            TransformerEncoder::new("layer", encoder("")?, attrs.size("count")?).norm(norm).encode(input("x")?, &masks)
        }
        "TransformerDecoderLayer" => {
            decoder("layer")?.decode(input("x")?, input("memory")?, &Masks::causal(), &Masks::default())
        }
        "TransformerDecoder" => TransformerDecoder::new("layer", decoder("")?, attrs.size("count")?).norm(norm).decode(
            input("x")?,
            input("memory")?,
            &Masks::causal(),
            &Masks::default(),
        ),
        other => return Err(format!("no layer {other}")),
    })
}

/// Settings of a case; those it does not name have PyTorch's defaults.
struct Attrs<'a>(&'a Map<String, Value>);

impl Attrs<'_> {
    fn size(&self, key: &str) -> Result<usize, String> {
        self.0.get(key).and_then(Value::as_u64).map(|n| n as usize).ok_or(format!("no {key}"))
    }

    fn list(&self, key: &str) -> Result<Vec<usize>, String> {
        let values = self.0.get(key).and_then(Value::as_array).ok_or(format!("no {key}"))?;
        let sizes = values.iter().map(|v| v.as_u64().map(|n| n as usize)).collect::<Option<_>>();
        sizes.ok_or(format!("{key} is not whole numbers"))
    }

    /// One number for both sides, or two.
    fn pair(&self, key: &str, default: Option<usize>) -> Result<[usize; 2], String> {
        let one = self.size(key).ok().or(default.filter(|_| !self.0.contains_key(key)));
        match one {
            Some(both) => Ok([both, both]),
            None => self.list(key)?.try_into().map_err(|_| format!("{key} is not a pair")),
        }
    }

    fn number(&self, key: &str, default: f64) -> f64 {
        self.0.get(key).and_then(Value::as_f64).unwrap_or(default)
    }

    fn truth(&self, key: &str, default: bool) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or(default)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }
}
