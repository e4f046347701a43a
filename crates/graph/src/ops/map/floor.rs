//! The integer below; its gradient is 0.

use super::MapDef;
use crate::scalar::Unary;

pub static FLOOR: MapDef = MapDef {
    name: "floor",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| s.unary(Unary::Floor, x[0]),
    vjp: |v| {
        let _ = v;
        vec![None]
    },
    samples: &[&[-1.5], &[0.25], &[2.75]],
    kinks: &[],
};
