//! Quotient.

use super::MapDef;

pub static DIV: MapDef = MapDef {
    name: "div",
    arity: 2,
    sample_attrs: &[],
    expr: |s, x, _| s.div(x[0], x[1]),
    vjp: |v| {
        // y = a/b: da = dy/b, db = −dy·y/b
        let da = v.dy / &v.x[1];
        vec![Some(da.clone()), Some(-(da * v.y))]
    },
    samples: &[&[-2.0, 0.5], &[0.3, -1.5], &[2.0, 3.0]],
    kinks: &[],
};
