//! GELU by its tanh approximation: `½x(1 + tanh(√(2/π)(x + 0.044715x³)))`.

use super::MapDef;
use crate::scalar::Unary;

pub static GELU_TANH: MapDef = MapDef {
    name: "gelu_tanh",
    arity: 1,
    sample_attrs: &[],
    expr: |s, x, _| {
        let (half, one, c, k) = (s.c(0.5), s.c(1.0), s.c(C), s.c(K));
        let x2 = s.mul(x[0], x[0]);
        let p = s.mul(x2, k);
        let p = s.add(p, one);
        let p = s.mul(p, x[0]);
        let p = s.mul(p, c);
        let t = s.unary(Unary::Tanh, p);
        let t = s.add(t, one);
        let h = s.mul(x[0], half);
        s.mul(h, t)
    },
    vjp: |v| {
        // u = c(x + kx³), t = tanh u: ½(1+t) + ½x(1−t²)·c(1+3kx²)
        let x = &v.x[0];
        let x2 = x.square();
        let t = (x * (&x2 * K + 1.0) * C).tanh();
        let slope = (1.0 - t.square()) * (x2 * (3.0 * K) + 1.0) * (0.5 * C);
        vec![Some(v.dy * ((t + 1.0) * 0.5 + x * slope))]
    },
    samples: &[&[-3.0], &[-1.0], &[-0.25], &[0.25], &[1.0], &[3.0]],
    kinks: &[],
};

/// `√(2/π)`
const C: f64 = 0.797_884_560_802_865_4;
const K: f64 = 0.044715;
