//! Map ops: one scalar expression and its derivative, rendered by every executor. One file each, one line in [`ALL`].

pub mod abs;
pub mod add;
pub mod choose;
pub mod clamp;
pub mod compare;
pub mod cos;
pub mod div;
pub mod elu;
pub mod exp;
pub mod floor;
pub mod gelu;
pub mod gelu_tanh;
pub mod leaky_relu;
pub mod log;
pub mod maximum;
pub mod minimum;
pub mod mul;
pub mod neg;
pub mod pow;
pub mod pow_tensor;
pub mod relu;
pub mod sigmoid;
pub mod silu;
pub mod softplus;
pub mod sqrt;
pub mod square;
pub mod sub;
pub mod tanh;

use std::fmt;
use std::panic::Location;

use super::Vjp;
use crate::scalar::{Scalar, Var};
use crate::{DType, Node, Op, Shape, Tensor};

/// The registry: tests, documentation and executors read it.
pub static ALL: &[&MapDef] = &[
    &abs::ABS,
    &add::ADD,
    &choose::CHOOSE,
    &clamp::CLAMP,
    &compare::LT,
    &compare::LE,
    &compare::GT,
    &compare::GE,
    &compare::EQ,
    &compare::NE,
    &cos::COS,
    &div::DIV,
    &elu::ELU,
    &exp::EXP,
    &floor::FLOOR,
    &gelu::GELU,
    &gelu_tanh::GELU_TANH,
    &leaky_relu::LEAKY_RELU,
    &log::LOG,
    &maximum::MAXIMUM,
    &minimum::MINIMUM,
    &mul::MUL,
    &neg::NEG,
    &pow::POW,
    &pow_tensor::POW_TENSOR,
    &relu::RELU,
    &sigmoid::SIGMOID,
    &silu::SILU,
    &softplus::SOFTPLUS,
    &sqrt::SQRT,
    &square::SQUARE,
    &sub::SUB,
    &tanh::TANH,
];

pub struct MapDef {
    pub name: &'static str,
    pub arity: usize,
    /// Attributes for the tests of the registry (a slope, bounds, an exponent).
    pub sample_attrs: &'static [f64],
    /// The value: inputs are `Input(0)`, `Input(1)`, …
    pub expr: fn(&mut Scalar, &[Var], &[f64]) -> Var,
    /// Gradients of the inputs as graph code.
    pub vjp: fn(&Vjp) -> Vec<Option<Tensor>>,
    /// Points where the derivative exists: checked against finite differences.
    pub samples: &'static [&'static [f64]],
    /// Points where it does not, with the gradient we define there (PyTorch's).
    pub kinks: &'static [Kink],
}

/// A point and the gradient of each input there.
pub struct Kink {
    pub at: &'static [f64],
    pub grad: &'static [f64],
}

impl fmt::Debug for MapDef {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Records a map op: checks types, stretches the inputs to a common shape, folds constants.
pub(crate) fn apply(def: &'static MapDef, attrs: &[f64], inputs: &[&Tensor], at: &'static Location<'static>) -> Tensor {
    let graph = inputs[0].graph();
    let _line = graph.attributed(at.file(), at.line());
    let fail = |problem: String| {
        graph.fail(def.name, problem, at);
        inputs[0].clone()
    };
    if let Some(t) = inputs.iter().find(|t| t.dtype() != DType::F32) {
        return fail(format!("needs f32, got {} {}; use to_f32()", t.dtype(), t.shape()));
    }
    let mut shape = inputs[0].shape();
    for t in &inputs[1..] {
        match Shape::broadcast(&shape, &t.shape()) {
            Some(common) => shape = common,
            None => return fail(format!("{shape} and {} do not broadcast", t.shape())),
        }
    }
    let constants: Vec<Option<f64>> = inputs.iter().map(|t| t.as_constant()).collect();
    if let Some(values) = constants.iter().copied().collect::<Option<Vec<f64>>>() {
        return graph.scalar(def.eval(&values, attrs)).broadcast_to(shape.dims());
    }
    let unchanged = match (def.name, constants.as_slice()) {
        ("add", [Some(0.0), _]) | ("mul", [Some(1.0), _]) => Some(1),
        ("add" | "sub", [_, Some(0.0)]) | ("mul" | "div", [_, Some(1.0)]) => Some(0),
        _ => None,
    };
    if let Some(i) = unchanged {
        return inputs[i].broadcast_to(shape.dims());
    }
    if let Some((perm, stored)) = as_stored(inputs, &shape) {
        // on the way out transposes meet and cancel
        return apply(def, attrs, &stored.iter().collect::<Vec<_>>(), at).transpose(&perm);
    }
    let ids: Vec<_> = inputs.iter().map(|t| t.broadcast_to(shape.dims()).id()).collect();
    graph.add_at(Op::Map { def, attrs: attrs.to_vec() }, &ids, shape, DType::F32, at)
}

/// Where all inputs are the same transpose, or single numbers: that transpose, and what it is of.
fn as_stored(inputs: &[&Tensor], shape: &Shape) -> Option<(Vec<usize>, Vec<Tensor>)> {
    let graph = inputs[0].graph();
    let (mut common, mut stored) = (None, Vec::new());
    for t in inputs {
        if t.elements() == 1 {
            stored.push(t.reshape(&[]));
            continue;
        }
        let (perm, source) = match &graph.0.borrow().nodes[t.id()] {
            Node { op: Op::Transpose { perm }, inputs, .. } if t.shape() == *shape => (perm.clone(), inputs[0]),
            _ => return None,
        };
        if common.get_or_insert_with(|| perm.clone()) != &perm {
            return None;
        }
        stored.push(graph.tensor(source));
    }
    common.map(|perm| (perm, stored))
}

impl MapDef {
    /// Records the op; there must be `arity` inputs. How an op of your own enters a graph.
    #[track_caller]
    pub fn apply(&'static self, attrs: &[f64], inputs: &[&Tensor]) -> Tensor {
        assert_eq!(inputs.len(), self.arity, "{} takes {} inputs", self.name, self.arity);
        apply(self, attrs, inputs, Location::caller())
    }

    /// The expression at one point, in f64.
    pub fn eval(&self, inputs: &[f64], attrs: &[f64]) -> f64 {
        let mut scalar = Scalar::default();
        let x: Vec<Var> = (0..self.arity).map(|i| scalar.input(i)).collect();
        let y = (self.expr)(&mut scalar, &x, attrs);
        scalar.eval(inputs, y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_samples_fit() {
        for (i, def) in ALL.iter().enumerate() {
            assert!(ALL[..i].iter().all(|other| other.name != def.name), "{} twice", def.name);
            assert!(!def.samples.is_empty(), "{} has no samples", def.name);
            assert!(def.samples.iter().all(|s| s.len() == def.arity), "{}", def.name);
            assert!(def.kinks.iter().all(|k| k.at.len() == def.arity && k.grad.len() == def.arity), "{}", def.name);
        }
    }
}
