//! `max(x, 0)`; its gradient at 0 is 0.

use super::{Kink, MapDef};

pub static RELU: MapDef = MapDef {
    name: "relu",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| {
        let zero = s.c(0.0);
        s.max(x[0], zero)
    },
    vjp: |v| {
        let zero = v.y.constant(0.0);
        vec![Some(zero.lt(v.y).choose(v.dy, &zero))]
    },
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[Kink { at: &[0.0], grad: &[0.0] }],
};
