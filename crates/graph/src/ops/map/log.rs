//! Natural logarithm.

use super::MapDef;

pub static LOG: MapDef = MapDef {
    name: "log",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| s.log(x[0]),
    vjp: |v| vec![Some(v.dy / &v.x[0])],
    samples: &[&[0.1], &[0.5], &[1.0], &[7.0]],
    kinks: &[],
};
