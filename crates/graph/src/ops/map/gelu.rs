//! `x · Φ(x)` with the normal distribution function Φ, exact.

use super::MapDef;
use crate::Tensor;
use crate::scalar::Unary;

pub static GELU: MapDef = MapDef {
    name: "gelu",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| {
        let (half, one, scale) = (s.c(0.5), s.c(1.0), s.c(std::f64::consts::FRAC_1_SQRT_2));
        let z = s.mul(x[0], scale);
        let e = s.unary(Unary::Erf, z);
        let e = s.add(e, one);
        let h = s.mul(x[0], half);
        s.mul(h, e)
    },
    vjp: |v| {
        // Φ(x) + x·φ(x); Φ from erf by way of y would divide by x, so φ and Φ are written out
        let x = &v.x[0];
        let density =
            (x.square() * -0.5).exp() * (0.5 * std::f64::consts::FRAC_1_SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI);
        let cumulative = Tensor::map(&NORMAL_CDF, &[], &[x]);
        vec![Some(v.dy * (cumulative + x * density))]
    },
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};

/// `Φ(x) = ½(1 + erf(x/√2))`, for the derivative alone.
static NORMAL_CDF: MapDef = MapDef {
    name: "normal_cdf",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| {
        let (half, one, scale) = (s.c(0.5), s.c(1.0), s.c(std::f64::consts::FRAC_1_SQRT_2));
        let z = s.mul(x[0], scale);
        let e = s.unary(Unary::Erf, z);
        let e = s.add(e, one);
        s.mul(e, half)
    },
    vjp: |v| {
        let density =
            (v.x[0].square() * -0.5).exp() * (0.5 * std::f64::consts::FRAC_1_SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI);
        vec![Some(v.dy * density)]
    },
    samples: &[],
    kinks: &[],
};
