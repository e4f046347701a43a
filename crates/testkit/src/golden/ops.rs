use citius_graph::ops::map;
use citius_graph::{DType, Graph, Tensor};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Cases, Packed, load};
use crate::compare::assert_none;
use crate::{Evaluate, Tolerance, Values, compare};

#[derive(Deserialize)]
struct Case {
    op: String,
    attrs: Map<String, Value>,
    inputs: Vec<Packed>,
    output: Packed,
    cotangent: Option<Packed>,
    grads: Vec<Option<Packed>>,
}

/// Every op's output and vector-Jacobian product.
#[track_caller]
pub fn ops(executor: &dyn Evaluate, tolerance: Tolerance) {
    let cases = load::<Cases<Case>>("ops").cases;
    let run = |case: &Case| check(case, executor, tolerance).err().map(|e| format!("{}: {e}", label(case)));
    let failures = cases.iter().filter_map(run).collect();
    assert_none(&format!("golden ops on {}", executor.name()), cases.len(), failures);
}

fn label(case: &Case) -> String {
    let shapes: Vec<String> = case.inputs.iter().map(|x| format!("{:?}", x.shape)).collect();
    format!("{} {} {}", case.op, shapes.join(" "), Value::Object(case.attrs.clone()))
}

fn check(case: &Case, executor: &dyn Evaluate, tolerance: Tolerance) -> Result<(), String> {
    let g = Graph::new();
    let mut values = Values::new();
    let mut x = Vec::new();
    for (i, input) in case.inputs.iter().enumerate() {
        let dtype = if case.op == "gather_rows" && i == 1 { DType::I32 } else { DType::F32 };
        x.push(g.input_of(&format!("x{i}"), &input.shape, dtype));
        values.insert(format!("x{i}"), input.data.clone());
    }
    let y = build(case, &x)?.to_f32();
    if y.dims() != case.output.shape {
        return Err(format!("output is {}, expected {:?}", y.shape(), case.output.shape));
    }
    g.output("y", &y);
    let wanted: Vec<usize> = (0..x.len()).filter(|&i| case.grads[i].is_some()).collect();
    if let Some(cotangent) = &case.cotangent {
        let c = g.input("cotangent", &cotangent.shape);
        values.insert("cotangent".into(), cotangent.data.clone());
        let of: Vec<Tensor> = wanted.iter().map(|&i| x[i].clone()).collect();
        for (i, d) in wanted.iter().zip(g.gradients(&(y * c).sum_all(), &of)) {
            g.output(&format!("grad of input {i}"), &d.unwrap_or_else(|| g.full(0.0, &x[*i].dims())));
        }
    }
    g.check().map_err(|e| e.to_string())?;
    let outputs = executor.run(&g, &Values::new(), &[values])?.remove(0);
    compare(&outputs["y"], &case.output.data, tolerance)?;
    for i in wanted {
        let (name, expected) = (format!("grad of input {i}"), case.grads[i].iter().flat_map(|g| g.data.clone()));
        compare(&outputs[&name], &expected.collect::<Vec<_>>(), tolerance).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

fn build(case: &Case, x: &[Tensor]) -> Result<Tensor, String> {
    let whole = |v: &Value| v.as_u64().map(|n| n as usize);
    let list = |key: &str| -> Result<Vec<usize>, String> {
        let values = case.attrs.get(key).and_then(Value::as_array).ok_or(format!("no {key}"))?;
        values.iter().map(whole).collect::<Option<_>>().ok_or(format!("{key} is not whole numbers"))
    };
    let number = |key: &str| case.attrs.get(key).and_then(whole).ok_or(format!("no {key}"));
    let truth = |key: &str| case.attrs.get(key).and_then(Value::as_bool).ok_or(format!("no {key}"));
    Ok(match case.op.as_str() {
        "matmul" => {
            let turn = |t: &Tensor, turned: bool| if turned { t.t() } else { t.clone() };
            turn(&x[0], truth("ta")?).matmul(&turn(&x[1], truth("tb")?))
        }
        "sum" => x[0].sum(&list("axes")?, truth("keepdims")?),
        "mean" => x[0].mean(&list("axes")?, truth("keepdims")?),
        "max" => x[0].max(&list("axes")?, truth("keepdims")?),
        "argmax" => match list("axes")?[..] {
            // with the axis kept, PyTorch's result has it with size 1
            [axis] => x[0].argmax(axis).reshape(&case.output.shape),
            _ => x[0].flatten(0).argmax(0),
        },
        "broadcast_to" => x[0].broadcast_to(&list("shape")?),
        "reshape" => x[0].reshape(&list("shape")?),
        "transpose" => x[0].transpose(&list("perm")?),
        "slice" => x[0].slice(number("axis")?, number("start")?, number("end")?),
        "concat" => Tensor::concat(x, number("axis")?),
        "gather_rows" => x[0].gather_rows(&x[1]),
        "softmax" => x[0].softmax(number("axis")?),
        "log_softmax" => x[0].log_softmax(number("axis")?),
        name => {
            let name = if name == "where" { "choose" } else { name };
            let def = map::ALL.iter().find(|def| def.name == name).ok_or(format!("no op {name}"))?;
            let keys = ["slope", "alpha", "min", "max", "exponent"];
            let attrs: Vec<f64> = keys.iter().filter_map(|k| case.attrs.get(*k)?.as_f64()).collect();
            def.apply(&attrs, &x.iter().collect::<Vec<_>>())
        }
    })
}
