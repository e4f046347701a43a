//! Comparisons: 1 where true, 0 elsewhere. No gradient.

use super::MapDef;
use crate::scalar::{Binary, Scalar, Var};

macro_rules! comparison {
    ($id:ident, $name:literal, $expr:expr) => {
        pub static $id: MapDef = MapDef {
            name: $name,
            arity: 2,
            sample_attrs: &[],
            expr: $expr,
            vjp: |_| vec![None, None],
            samples: &[&[-2.0, 0.5], &[0.5, -2.0]],
            kinks: &[],
        };
    };
}

comparison!(LT, "lt", |s, x, _| s.lt(x[0], x[1]));
comparison!(LE, "le", |s, x, _| s.binary(Binary::Le, x[0], x[1]));
comparison!(GT, "gt", |s, x, _| s.lt(x[1], x[0]));
comparison!(GE, "ge", |s, x, _| s.binary(Binary::Le, x[1], x[0]));
comparison!(EQ, "eq", |s, x, _| s.binary(Binary::Eq, x[0], x[1]));
comparison!(NE, "ne", |s, x, _| not_equal(s, x[0], x[1]));

fn not_equal(s: &mut Scalar, a: Var, b: Var) -> Var {
    let (one, equal) = (s.c(1.0), s.binary(Binary::Eq, a, b));
    s.sub(one, equal)
}
