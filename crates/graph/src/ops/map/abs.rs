//! Absolute value; its gradient at 0 is 0.

use super::{Kink, MapDef};
use crate::scalar::Unary;

pub static ABS: MapDef = MapDef {
    name: "abs",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| s.unary(Unary::Abs, x[0]),
    vjp: |v| {
        let zero = v.x[0].constant(0.0);
        let sign = zero.lt(&v.x[0]) - v.x[0].lt(&zero);
        vec![Some(v.dy * sign)]
    },
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[Kink { at: &[0.0], grad: &[0.0] }],
};
