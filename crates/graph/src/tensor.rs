use std::ops::{Add, Div, Mul, Neg, Sub};
use std::panic::Location;

use crate::graph::{Graph, NodeId};
use crate::ops::map::{self, MapDef};
use crate::{DType, Op, Shape};

/// A handle to a value of a traced graph. Carries no data and no type parameters.
///
/// A shape mistake does not panic: the graph keeps it (see [`Graph::check`]) and tracing goes on with a placeholder.
#[derive(Clone)]
pub struct Tensor {
    graph: Graph,
    id: NodeId,
}

impl Tensor {
    pub(crate) fn new(graph: Graph, id: NodeId) -> Tensor {
        Tensor { graph, id }
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }
    pub fn id(&self) -> NodeId {
        self.id
    }
    pub fn shape(&self) -> Shape {
        self.graph.0.borrow().nodes[self.id].shape.clone()
    }
    pub fn dtype(&self) -> DType {
        self.graph.0.borrow().nodes[self.id].dtype
    }
    pub fn dims(&self) -> Vec<usize> {
        self.shape().dims().to_vec()
    }
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }
    pub fn elements(&self) -> usize {
        self.shape().elements()
    }
    /// The number, when this is a constant.
    pub fn as_constant(&self) -> Option<f64> {
        let inner = self.graph.0.borrow();
        let mut id = self.id;
        loop {
            match inner.nodes[id].op {
                Op::Constant(c) => return Some(c),
                Op::Broadcast | Op::Reshape => id = inner.nodes[id].inputs[0],
                _ => return None,
            }
        }
    }

    /// A scalar constant in the same graph.
    #[track_caller]
    pub fn constant(&self, value: f64) -> Tensor {
        self.graph.scalar(value)
    }

    /// The same value, through which no gradient flows.
    #[track_caller]
    pub fn detach(&self) -> Tensor {
        self.graph.add(Op::Detach, &[self.id], self.shape(), self.dtype())
    }

    #[track_caller]
    pub(crate) fn map(def: &'static MapDef, attrs: &[f64], inputs: &[&Tensor]) -> Tensor {
        map::apply(def, attrs, inputs, Location::caller())
    }

    #[track_caller]
    pub(crate) fn fail(&self, op: &str, problem: String) {
        self.graph.fail(op, problem, Location::caller());
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident = $def:path;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                Tensor::map(&$def, &[], &[self])
            }
        )*}
    };
}

unary_methods! {
    abs = map::abs::ABS;
    square = map::square::SQUARE;
    sqrt = map::sqrt::SQRT;
    exp = map::exp::EXP;
    /// Natural logarithm.
    log = map::log::LOG;
    relu = map::relu::RELU;
    /// `x · Φ(x)`, exact.
    gelu = map::gelu::GELU;
    /// GELU by its tanh approximation.
    gelu_tanh = map::gelu_tanh::GELU_TANH;
    /// `x · sigmoid(x)`, also called swish.
    silu = map::silu::SILU;
    sigmoid = map::sigmoid::SIGMOID;
    tanh = map::tanh::TANH;
    /// `log(1 + eˣ)` without overflow.
    softplus = map::softplus::SOFTPLUS;
    cos = map::cos::COS;
    /// The integer below; no gradient.
    floor = map::floor::FLOOR;
}

impl Tensor {
    #[track_caller]
    pub fn pow(&self, exponent: f64) -> Tensor {
        Tensor::map(&map::pow::POW, &[exponent], &[self])
    }
    /// `self^exponent`, element by element; defined for positive bases.
    #[track_caller]
    pub fn pow_tensor(&self, exponent: &Tensor) -> Tensor {
        Tensor::map(&map::pow_tensor::POW_TENSOR, &[], &[self, exponent])
    }
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        Tensor::map(&map::leaky_relu::LEAKY_RELU, &[slope], &[self])
    }
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        Tensor::map(&map::elu::ELU, &[alpha], &[self])
    }
    #[track_caller]
    pub fn clamp(&self, low: f64, high: f64) -> Tensor {
        Tensor::map(&map::clamp::CLAMP, &[low, high], &[self])
    }
    #[track_caller]
    pub fn minimum(&self, other: &Tensor) -> Tensor {
        Tensor::map(&map::minimum::MINIMUM, &[], &[self, other])
    }
    #[track_caller]
    pub fn maximum(&self, other: &Tensor) -> Tensor {
        Tensor::map(&map::maximum::MAXIMUM, &[], &[self, other])
    }
    /// 1 where `self < other`, 0 elsewhere.
    #[track_caller]
    pub fn lt(&self, other: &Tensor) -> Tensor {
        Tensor::map(&map::compare::LT, &[], &[self, other])
    }
    #[track_caller]
    pub fn le(&self, other: &Tensor) -> Tensor {
        Tensor::map(&map::compare::LE, &[], &[self, other])
    }
    #[track_caller]
    pub fn gt(&self, other: &Tensor) -> Tensor {
        Tensor::map(&map::compare::GT, &[], &[self, other])
    }
    #[track_caller]
    pub fn ge(&self, other: &Tensor) -> Tensor {
        Tensor::map(&map::compare::GE, &[], &[self, other])
    }
    #[track_caller]
    pub fn eq(&self, other: &Tensor) -> Tensor {
        Tensor::map(&map::compare::EQ, &[], &[self, other])
    }
    #[track_caller]
    pub fn ne(&self, other: &Tensor) -> Tensor {
        Tensor::map(&map::compare::NE, &[], &[self, other])
    }
    /// `self ≠ 0 ? then : otherwise`, element by element.
    #[track_caller]
    pub fn choose(&self, then: &Tensor, otherwise: &Tensor) -> Tensor {
        Tensor::map(&map::choose::CHOOSE, &[], &[self, then, otherwise])
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $def:path) => {
        impl $trait<&Tensor> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                Tensor::map(&$def, &[], &[self, other])
            }
        }
        impl $trait<Tensor> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                Tensor::map(&$def, &[], &[self, &other])
            }
        }
        impl $trait<&Tensor> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                Tensor::map(&$def, &[], &[&self, other])
            }
        }
        impl $trait<Tensor> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                Tensor::map(&$def, &[], &[&self, &other])
            }
        }
        impl $trait<f64> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: f64) -> Tensor {
                Tensor::map(&$def, &[], &[self, &self.constant(other)])
            }
        }
        impl $trait<f64> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: f64) -> Tensor {
                Tensor::map(&$def, &[], &[&self, &self.constant(other)])
            }
        }
        impl $trait<&Tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                Tensor::map(&$def, &[], &[&other.constant(self), other])
            }
        }
        impl $trait<Tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                Tensor::map(&$def, &[], &[&other.constant(self), &other])
            }
        }
    };
}

operator!(Add, add, map::add::ADD);
operator!(Sub, sub, map::sub::SUB);
operator!(Mul, mul, map::mul::MUL);
operator!(Div, div, map::div::DIV);

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::map(&map::neg::NEG, &[], &[self])
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::map(&map::neg::NEG, &[], &[&self])
    }
}
