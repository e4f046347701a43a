//! `condition ≠ 0 ? then : otherwise`; no gradient to the condition.

use super::MapDef;

pub static CHOOSE: MapDef = MapDef {
    name: "choose",
    arity: 3,
    sample_attrs: &[],
    expr: |s, x, _| s.select(x[0], x[1], x[2]),
    vjp: |v| {
        let zero = v.y.constant(0.0);
        vec![None, Some(v.x[0].choose(v.dy, &zero)), Some(v.x[0].choose(&zero, v.dy))]
    },
    samples: &[&[1.0, 2.0, 3.0], &[0.0, 2.0, 3.0], &[-1.0, 0.5, 3.0]],
    kinks: &[],
};
