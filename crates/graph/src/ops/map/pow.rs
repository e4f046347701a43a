//! `xᵖ` for a number p. Negative bases are defined for whole p.

use super::MapDef;
use crate::scalar::{Scalar, Unary, Var};

pub static POW: MapDef = MapDef {
    name: "pow",
    arity: 1,
    sample_attrs: &[3.0],
    expr: |s, x, attrs| power(s, x[0], attrs[0]),
    vjp: |v| {
        let p = v.attrs[0];
        if p == 0.0 {
            return vec![None];
        }
        vec![Some(v.dy * (v.x[0].pow(p - 1.0) * p))]
    },
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};

/// Whole exponents up to 8 by multiplication, ½ by a root, others by `e^(p·log|x|)` with the sign of an odd power.
fn power(s: &mut Scalar, x: Var, p: f64) -> Var {
    if p == 0.5 {
        return s.unary(Unary::Sqrt, x);
    }
    if p.fract() == 0.0 && p.abs() <= 8.0 {
        let mut y = s.c(1.0);
        for bit in (0..4).rev() {
            y = s.mul(y, y);
            if p.abs() as u32 >> bit & 1 == 1 {
                y = s.mul(y, x);
            }
        }
        let one = s.c(1.0);
        return if p < 0.0 { s.div(one, y) } else { y };
    }
    let (base, exponent) = (if p.fract() == 0.0 { s.unary(Unary::Abs, x) } else { x }, s.c(p));
    let l = s.log(base);
    let l = s.mul(l, exponent);
    let y = s.exp(l);
    if p.fract() == 0.0 && p as i64 % 2 != 0 {
        let (zero, n) = (s.c(0.0), s.neg(y));
        let negative = s.lt(x, zero);
        return s.select(negative, n, y);
    }
    y
}
