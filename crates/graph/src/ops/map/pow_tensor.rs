//! `xʸ`, element by element, for positive x: `e^(y·log x)`.

use super::MapDef;

pub static POW_TENSOR: MapDef = MapDef {
    name: "pow_tensor",
    arity: 2,
    sample_attrs: &[],
    expr: |s, x, _| {
        let l = s.log(x[0]);
        let l = s.mul(l, x[1]);
        s.exp(l)
    },
    vjp: |v| {
        // dx = y·x^(y−1), dy = x^y·log x
        let (x, p) = (&v.x[0], &v.x[1]);
        vec![Some(v.dy * v.y * p / x), Some(v.dy * v.y * x.log())]
    },
    samples: &[&[0.5, 2.0], &[2.0, -1.5], &[3.0, 0.5]],
    kinks: &[],
};
