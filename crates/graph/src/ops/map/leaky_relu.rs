//! `x > 0 ? x : slope·x`; its gradient at 0 is the slope.

use super::{Kink, MapDef};

pub static LEAKY_RELU: MapDef = MapDef {
    name: "leaky_relu",
    arity: 1,
    sample_attrs: &[0.01],
    expr: |s, x, attrs| {
        let (zero, slope) = (s.c(0.0), s.c(attrs[0]));
        let (positive, leak) = (s.lt(zero, x[0]), s.mul(x[0], slope));
        s.select(positive, x[0], leak)
    },
    vjp: |v| {
        let positive = v.x[0].constant(0.0).lt(&v.x[0]);
        vec![Some(positive.choose(v.dy, &(v.dy * v.attrs[0])))]
    },
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[Kink { at: &[0.0], grad: &[0.01] }],
};
