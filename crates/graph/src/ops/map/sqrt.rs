//! Square root.

use super::MapDef;
use crate::scalar::Unary;

pub static SQRT: MapDef = MapDef {
    name: "sqrt",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| s.unary(Unary::Sqrt, x[0]),
    vjp: |v| vec![Some(v.dy * 0.5 / v.y)],
    samples: &[&[0.1], &[0.5], &[1.0], &[7.0]],
    kinks: &[],
};
