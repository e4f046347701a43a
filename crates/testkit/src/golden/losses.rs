use citius_graph::{DType, Graph};
use citius_nn::Loss;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Cases, Packed, load};
use crate::compare::assert_none;
use crate::{Evaluate, Tolerance, Values, compare};

#[derive(Deserialize)]
struct Case {
    loss: String,
    attrs: Map<String, Value>,
    prediction: Packed,
    target: Packed,
    value: f64,
    grad: Packed,
}

/// Every loss and its gradient with respect to the prediction.
#[track_caller]
pub fn losses(executor: &dyn Evaluate, tolerance: Tolerance) {
    let cases = load::<Cases<Case>>("losses").cases;
    let run = |case: &Case| {
        let label = format!("{} {:?} {}", case.loss, case.prediction.shape, Value::Object(case.attrs.clone()));
        check(case, executor, tolerance).err().map(|e| format!("{label}: {e}"))
    };
    let failures = cases.iter().filter_map(run).collect();
    assert_none(&format!("golden losses on {}", executor.name()), cases.len(), failures);
}

fn check(case: &Case, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let loss = by_pytorchs_name(&case.loss, case.attrs.clone())?;
    // a class, or the share of each
    let classes = case.loss == "cross_entropy" && case.target.shape.len() == 1;
    let dtype = if classes { DType::I32 } else { DType::F32 };
    let g = Graph::new();
    let prediction = g.input("prediction", &case.prediction.shape);
    let value = loss.apply(&prediction, &g.input_of("target", &case.target.shape, dtype));
    g.output("value", &value);
    let grad = g.gradients(&value, &[prediction]).remove(0).ok_or("no gradient")?;
    g.output("grad", &grad);
    let inputs = [("prediction", &case.prediction), ("target", &case.target)];
    let inputs: Values = inputs.into_iter().map(|(name, t)| (name.to_string(), t.data.clone())).collect();
    let outputs = executor.run(&g, &Values::new(), &[inputs])?.remove(0);
    compare(&outputs["value"], &[case.value], tolerance)?;
    compare(&outputs["grad"], &case.grad.data, tolerance).map_err(|e| format!("grad: {e}"))
}

pub(super) fn by_pytorchs_name(name: &str, mut attrs: Map<String, Value>) -> Result<Loss, String> {
    let name = if name == "bce_with_logits" { "bce".to_string() } else { name.replace('_', "-") };
    attrs.insert("name".into(), name.into());
    serde_json::from_value(Value::Object(attrs)).map_err(|e| e.to_string())
}
