use citius_graph::Init;
use citius_nn::WeightInit;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::load;
use crate::compare::assert_none;

#[derive(Deserialize)]
struct File {
    fan_in: usize,
    fan_out: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    init: String,
    attrs: Map<String, Value>,
    bound: Option<f64>,
    std: Option<f64>,
}

/// Bounds and deviations of the initialisers.
#[track_caller]
pub fn init() {
    let file = load::<File>("init");
    let run = |case: &Case| {
        let found = match start(case, file.fan_in, file.fan_out) {
            Ok(Init::Uniform { low, high }) if low == -high => (Some(high as f64), None),
            Ok(Init::Normal { mean: 0.0, std }) => (None, Some(std as f64)),
            other => return Some(format!("{}: {other:?}", case.init)),
        };
        let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => (a / b - 1.0).abs() < 1e-6,
            (a, b) => a.is_none() && b.is_none(),
        };
        let ok = near(found.0, case.bound) && near(found.1, case.std);
        (!ok).then(|| format!("{}: {found:?}, expected {:?} {:?}", case.init, case.bound, case.std))
    };
    let failures = file.cases.iter().filter_map(run).collect();
    assert_none("golden init", file.cases.len(), failures);
}

fn start(case: &Case, fan_in: usize, fan_out: usize) -> Result<Init, String> {
    // kaiming with a = √5 is how PyTorch writes its default
    let init = match case.init.as_str() {
        "linear_bias" => return Ok(WeightInit::Default.bias(fan_in)),
        "linear_weight" => WeightInit::Default,
        "kaiming_uniform" if case.attrs.contains_key("a") => WeightInit::Default,
        name => {
            let mut attrs = case.attrs.clone();
            attrs.insert("name".into(), name.replace('_', "-").into());
            serde_json::from_value(Value::Object(attrs)).map_err(|e| e.to_string())?
        }
    };
    Ok(init.weight(fan_in, fan_out))
}
