//! `1 / (1 + e⁻ˣ)`.

use super::MapDef;

pub static SIGMOID: MapDef = MapDef {
    name: "sigmoid",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| {
        let one = s.c(1.0);
        let n = s.neg(x[0]);
        let e = s.exp(n);
        let d = s.add(e, one);
        s.div(one, d)
    },
    vjp: |v| vec![Some(v.dy * (v.y * (1.0 - v.y)))],
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};
