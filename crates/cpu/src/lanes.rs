//! Sixteen numbers side by side: kernels written over [`Lanes`] are compiled for each instruction set.

use crate::math::{LN2_HIGH, LN2_LOW};

pub const LANES: usize = 16;

/// One cache line, one vector of the widest kind.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Line(pub [f32; LANES]);

/// SAFETY of all methods: the machine has the instruction set of the type; pointers lead to sixteen values.
pub trait Lanes: Copy {
    /// Accumulators that fit the registers beside a few operands.
    const ACCUMULATORS: usize;
    /// Whether multiply-adds round once.
    const FUSED: bool;

    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn add(self, y: Self) -> Self;
    unsafe fn sub(self, y: Self) -> Self;
    unsafe fn mul(self, y: Self) -> Self;
    /// `self·y + z`
    unsafe fn mul_add(self, y: Self, z: Self) -> Self;
    /// `z − self·y`
    unsafe fn neg_mul_add(self, y: Self, z: Self) -> Self;
    /// Not-a-number stays.
    unsafe fn clamp(self, low: f32, high: f32) -> Self;
    unsafe fn round(self) -> Self;
    /// `self·2^n`, n a whole number within ±126
    unsafe fn scale(self, n: Self) -> Self;
    unsafe fn reciprocal(self) -> Self;
    /// `self < y ? then : otherwise`
    unsafe fn less(self, y: Self, then: Self, otherwise: Self) -> Self;
    /// Writes `to[r][c] = from[c][r]` for `r < height`, `c < width`, both at most 16.
    unsafe fn turn(from: *const f32, from_line: usize, to: *mut f32, to_line: usize, height: usize, width: usize);
}

/// P with eʳ ≈ 1 + r + r²·P(r) on ±½·ln 2, highest power first: within 1e-7, and within 3e-9 where small results matter.
const EXP: [f32; 4] = [0.008_312_501, 0.041_890_33, 0.166_671_16, 0.499_992_3];
const EXP_NEAR: [f32; 5] = [0.001_381_453_9, 0.008_368_745, 0.041_668_39, 0.166_665_21, 0.499_999_94];

/// (n, eʳ − 1) with x = n·ln 2 + r
#[inline(always)]
unsafe fn exp_parts<V: Lanes, const N: usize>(x: V, polynomial: [f32; N]) -> (V, V) {
    let n = x.mul(V::splat(std::f32::consts::LOG2_E)).round();
    let r = match V::FUSED {
        true => n.neg_mul_add(V::splat(std::f32::consts::LN_2), x),
        false => n.neg_mul_add(V::splat(LN2_LOW), n.neg_mul_add(V::splat(LN2_HIGH), x)),
    };
    let mut p = V::splat(polynomial[0]);
    for c in &polynomial[1..] {
        p = p.mul_add(r, V::splat(*c));
    }
    (n, p.mul_add(r.mul(r), r))
}

/// `1/(1 + e⁻ˣ)`
#[inline(always)]
pub unsafe fn sigmoid<V: Lanes>(x: V) -> V {
    let one = V::splat(1.0);
    let (n, p) = exp_parts(V::splat(0.0).sub(x).clamp(-87.0, 87.0), EXP);
    p.add(one).scale(n).add(one).reciprocal()
}

/// `(e²ˣ − 1)/(e²ˣ + 1)`, the difference without cancellation
#[inline(always)]
pub unsafe fn tanh<V: Lanes>(x: V) -> V {
    let one = V::splat(1.0);
    let (n, p) = exp_parts(x.add(x).clamp(-20.0, 20.0), EXP_NEAR);
    let power = one.scale(n);
    let less_one = power.mul_add(p, power.sub(one));
    less_one.mul(less_one.add(V::splat(2.0)).reciprocal())
}

/// Whatever vectors the compiler finds for sixteen numbers in a row; `FMA` where the machine has it.
#[derive(Clone, Copy)]
pub struct Plain<const FMA: bool>([f32; LANES]);

impl<const FMA: bool> Plain<FMA> {
    #[inline(always)]
    fn zip(self, y: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let mut z = self.0;
        z.iter_mut().zip(y.0).for_each(|(x, y)| *x = f(*x, y));
        Plain(z)
    }

    #[inline(always)]
    fn each(self, f: impl Fn(f32) -> f32) -> Self {
        Plain(self.0.map(f))
    }
}

impl<const FMA: bool> Lanes for Plain<FMA> {
    const ACCUMULATORS: usize = 4;
    const FUSED: bool = FMA;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Plain([x; LANES])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Plain(*(from as *const [f32; LANES]))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        *(to as *mut [f32; LANES]) = self.0;
    }
    #[inline(always)]
    unsafe fn add(self, y: Self) -> Self {
        self.zip(y, |x, y| x + y)
    }
    #[inline(always)]
    unsafe fn sub(self, y: Self) -> Self {
        self.zip(y, |x, y| x - y)
    }
    #[inline(always)]
    unsafe fn mul(self, y: Self) -> Self {
        self.zip(y, |x, y| x * y)
    }
    #[inline(always)]
    unsafe fn mul_add(self, y: Self, z: Self) -> Self {
        let mut sum = z.0;
        for (i, sum) in sum.iter_mut().enumerate() {
            *sum = if FMA { self.0[i].mul_add(y.0[i], *sum) } else { self.0[i] * y.0[i] + *sum };
        }
        Plain(sum)
    }
    #[inline(always)]
    unsafe fn neg_mul_add(self, y: Self, z: Self) -> Self {
        self.each(|x| -x).mul_add(y, z)
    }
    #[inline(always)]
    unsafe fn clamp(self, low: f32, high: f32) -> Self {
        self.each(|x| if x < low { low } else { x }).each(|x| if x > high { high } else { x })
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        self.each(f32::round_ties_even)
    }
    #[inline(always)]
    unsafe fn scale(self, n: Self) -> Self {
        self.zip(n, |x, n| x * f32::from_bits(((n as i32 + 127) << 23) as u32))
    }
    #[inline(always)]
    unsafe fn reciprocal(self) -> Self {
        self.each(|x| 1.0 / x)
    }
    #[inline(always)]
    unsafe fn less(self, y: Self, then: Self, otherwise: Self) -> Self {
        let mut z = then.0;
        for (i, z) in z.iter_mut().enumerate() {
            *z = if self.0[i] < y.0[i] { *z } else { otherwise.0[i] };
        }
        Plain(z)
    }
    #[inline(always)]
    unsafe fn turn(from: *const f32, from_line: usize, to: *mut f32, to_line: usize, height: usize, width: usize) {
        for r in 0..height {
            for c in 0..width {
                *to.add(r * to_line + c) = *from.add(c * from_line + r);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::Lanes;

    impl Lanes for __m512 {
        const ACCUMULATORS: usize = 16;
        const FUSED: bool = true;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            _mm512_set1_ps(x)
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            _mm512_loadu_ps(from)
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            _mm512_storeu_ps(to, self)
        }
        #[inline(always)]
        unsafe fn add(self, y: Self) -> Self {
            _mm512_add_ps(self, y)
        }
        #[inline(always)]
        unsafe fn sub(self, y: Self) -> Self {
            _mm512_sub_ps(self, y)
        }
        #[inline(always)]
        unsafe fn mul(self, y: Self) -> Self {
            _mm512_mul_ps(self, y)
        }
        #[inline(always)]
        unsafe fn mul_add(self, y: Self, z: Self) -> Self {
            _mm512_fmadd_ps(self, y, z)
        }
        #[inline(always)]
        unsafe fn neg_mul_add(self, y: Self, z: Self) -> Self {
            _mm512_fnmadd_ps(self, y, z)
        }
        #[inline(always)]
        unsafe fn clamp(self, low: f32, high: f32) -> Self {
            // of two operands the second is given back when one is not a number
            _mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), self))
        }
        #[inline(always)]
        unsafe fn round(self) -> Self {
            _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self)
        }
        #[inline(always)]
        unsafe fn scale(self, n: Self) -> Self {
            _mm512_scalef_ps(self, n)
        }
        #[inline(always)]
        unsafe fn reciprocal(self) -> Self {
            // 14 bits, doubled by one step of Newton's
            let r = _mm512_rcp14_ps(self);
            let rest = _mm512_fnmadd_ps(self, r, _mm512_set1_ps(1.0));
            _mm512_fmadd_ps(r, rest, r)
        }
        #[inline(always)]
        unsafe fn less(self, y: Self, then: Self, otherwise: Self) -> Self {
            _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self, y), otherwise, then)
        }
        #[inline(always)]
        unsafe fn turn(from: *const f32, from_line: usize, to: *mut f32, to_line: usize, height: usize, width: usize) {
            crate::x86::turn_block(from, from_line, to, to_line, height, width)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    fn worst<V: Lanes>(f: unsafe fn(V) -> V, exact: fn(f64) -> f64) -> f64 {
        let mut worst = 0.0f64;
        for i in 0..4000 {
            let x: [f32; LANES] = std::array::from_fn(|lane| ((i * LANES + lane) as f32 / 32_000.0 - 1.0) * 12.0);
            let mut y = [0.0; LANES];
            // SAFETY: callers have asked `Isa::available`.
            unsafe { f(V::load(x.as_ptr())).store(y.as_mut_ptr()) };
            for (x, y) in x.into_iter().zip(y) {
                let exact = exact(x as f64);
                worst = worst.max((y as f64 - exact).abs() / exact.abs().max(1e-30));
            }
        }
        worst
    }

    #[test]
    fn close_to_f64() {
        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
        assert!(worst::<Plain<false>>(sigmoid, logistic) < 3e-7);
        assert!(worst::<Plain<false>>(tanh, f64::tanh) < 5e-7);
        #[cfg(target_arch = "x86_64")]
        if Isa::detect() >= Isa::Avx512 {
            use std::arch::x86_64::__m512;
            assert!(worst::<__m512>(sigmoid, logistic) < 3e-7);
            assert!(worst::<__m512>(tanh, f64::tanh) < 5e-7);
        }
    }

    #[test]
    fn edges() {
        let mut x = [0.0; LANES];
        x[..5].copy_from_slice(&[0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0]);
        let (mut s, mut t) = ([0.0f32; LANES], [0.0f32; LANES]);
        // SAFETY: any machine runs these.
        unsafe {
            sigmoid(Plain::<false>::load(x.as_ptr())).store(s.as_mut_ptr());
            tanh(Plain::<false>::load(x.as_ptr())).store(t.as_mut_ptr());
        }
        assert!(s[0] == 0.5 && s[1] == 1.0 && s[2] < 1e-37 && s[3].is_nan());
        assert!(t[0] == 0.0 && t[1] == 1.0 && t[2] == -1.0 && t[3].is_nan());
    }
}
