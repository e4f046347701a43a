//! Elementary functions in f32, branch-free so that loops over them vectorise. The x86 code generator emits the same formulas.

/// Polynomial coefficients, highest power first.
pub const EXP: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
pub const LN2_HIGH: f32 = 0.693_359_4;
pub const LN2_LOW: f32 = -2.121_944_4e-4;
/// Beyond these, e^x is infinite or 0.
pub const EXP_MAX: f32 = 90.0;
pub const EXP_MIN: f32 = -110.0;

pub const LOG: [f32; 9] = [
    7.037_683_6e-2,
    -1.151_461e-1,
    1.167_699_8e-1,
    -1.242_014_1e-1,
    1.424_932_3e-1,
    -1.666_805_7e-1,
    2.000_071_5e-1,
    -2.499_999_4e-1,
    3.333_333e-1,
];

/// tanh x = x + x³·P(x²) below this, 1 − 2/(e^2|x| + 1) with the sign of x above.
pub const TANH_SMALL: f32 = 0.625;
pub const TANH: [f32; 5] = [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1];

/// erf x ≈ x·P(x²)/Q(x²) on ±4.
pub const ERF_MAX: f32 = 4.0;
pub const ERF_P: [f32; 7] =
    [-2.726_142_3e-10, 2.770_681_5e-8, -2.101_024e-6, -5.692_506_4e-5, -7.349_906e-4, -2.954_6e-3, -1.609_603_3e-2];
pub const ERF_Q: [f32; 5] = [-1.456_607_2e-5, -2.133_740_6e-4, -1.682_827e-3, -7.373_329e-3, -1.426_474e-2];

/// cos r on ±π/2, in r².
pub const COS: [f32; 7] = [2.087_675_7e-9, -2.755_732e-7, 2.480_158_7e-5, -1.388_888_9e-3, 4.166_666_8e-2, -0.5, 1.0];
/// π in three parts, the first two exact in few bits.
pub const PI: [f32; 3] = [3.140_625, 9.676_534e-4, 5.126_688_6e-12];

#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut y = coefficients[0];
    for c in &coefficients[1..] {
        y = y * x + c;
    }
    y
}

#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = if x > EXP_MAX { EXP_MAX } else { x };
    let x = if x < EXP_MIN { EXP_MIN } else { x };
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let y = polynomial(r, EXP) * (r * r) + r + 1.0;
    // 2^n in two factors, so that n = 128 and n < −126 come out right
    let n = n as i32;
    let half = n >> 1;
    let power = |e: i32| f32::from_bits(((e + 127) << 23) as u32);
    y * power(half) * power(n - half)
}

#[inline(always)]
pub fn log(x: f32) -> f32 {
    let bits = x.to_bits() as i32;
    // x = m·2^e with m in [√½, √2)
    let e = (bits - 0x3f35_04f3) >> 23;
    let m = f32::from_bits((bits - (e << 23)) as u32);
    let (e, r) = (e as f32, m - 1.0);
    let z = r * r;
    let y = polynomial(r, LOG) * r * z + e * LN2_LOW - 0.5 * z;
    let y = r + y + e * LN2_HIGH;
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x < f32::MIN_POSITIVE { f32::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let large = (1.0 - 2.0 / (exp(2.0 * a) + 1.0)).copysign(x);
    let z = x * x;
    let small = polynomial(z, TANH) * z * x + x;
    if a < TANH_SMALL { small } else { large }
}

#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let c = if x > ERF_MAX { ERF_MAX } else { x };
    let c = if c < -ERF_MAX { -ERF_MAX } else { c };
    let z = c * c;
    let y = c * polynomial(z, ERF_P) / polynomial(z, ERF_Q);
    if x.abs() >= ERF_MAX { 1.0f32.copysign(x) } else { y }
}

#[inline(always)]
pub fn cos(x: f32) -> f32 {
    let n = (x * std::f32::consts::FRAC_1_PI).round_ties_even();
    let r = x - n * PI[0] - n * PI[1] - n * PI[2];
    let half = n * 0.5;
    let sign = 1.0 - 4.0 * (half - half.floor());
    polynomial(r * r, COS) * sign
}

/// As PyTorch: not-a-number wins.
#[inline(always)]
pub fn max(a: f32, b: f32) -> f32 {
    let m = if a > b { a } else { b };
    if a.is_nan() { a } else { m }
}

#[inline(always)]
pub fn min(a: f32, b: f32) -> f32 {
    let m = if a < b { a } else { b };
    if a.is_nan() { a } else { m }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(f: fn(f32) -> f32, g: fn(f64) -> f64, from: f32, to: f32) -> f64 {
        let n = 200_000;
        let error = |i: i32| {
            let x = from + (to - from) * i as f32 / n as f32;
            let (y, z) = (f(x) as f64, g(x as f64));
            (y - z).abs() / z.abs().max(1e-6)
        };
        (0..=n).map(error).fold(0.0, f64::max)
    }

    #[test]
    fn close_to_f64() {
        assert!(worst(exp, f64::exp, -80.0, 88.0) < 3e-7);
        assert!(worst(log, f64::ln, 1e-6, 0.9) < 3e-7);
        assert!(worst(log, f64::ln, 1.1, 1e6) < 3e-7);
        assert!(worst(tanh, f64::tanh, -10.0, 10.0) < 5e-7);
        assert!(worst(erf, citius_graph::scalar::erf, -5.0, 5.0) < 6e-7);
        assert!((0..1000).all(|i| (cos(i as f32 * 0.1) as f64 - (i as f32 as f64 * 0.1f32 as f64).cos()).abs() < 1e-5));
    }

    #[test]
    fn edges() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert!(exp(f32::NAN).is_nan() && log(-1.0).is_nan() && log(f32::NAN).is_nan());
        assert_eq!(log(0.0), f32::NEG_INFINITY);
        assert_eq!(log(1.0), 0.0);
        assert_eq!(log(f32::INFINITY), f32::INFINITY);
        assert!(tanh(100.0) == 1.0 && tanh(-100.0) == -1.0 && erf(9.0) == 1.0 && tanh(f32::NAN).is_nan());
        assert!(max(f32::NAN, 1.0).is_nan() && max(1.0, f32::NAN).is_nan() && min(f32::NAN, 0.0).is_nan());
    }
}
