//! Cosine.

use super::MapDef;
use crate::scalar::Unary;

pub static COS: MapDef = MapDef {
    name: "cos",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| s.unary(Unary::Cos, x[0]),
    vjp: |v| {
        // −sin x = cos(x + π/2)
        vec![Some(v.dy * (&v.x[0] + std::f64::consts::FRAC_PI_2).cos())]
    },
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};
