//! The most arithmetic that a core can do: multiply-adds in registers, none of which waits for another.

use std::hint::black_box;

use crate::isa::Isa;

/// Chains that do not depend on each other: enough to keep two units of five cycles busy.
const CHAINS: usize = 12;

/// Takes so many turns, with the widest vectors of this machine; the FLOPs that were done.
pub fn multiply_add(turns: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    match Isa::detect() {
        // SAFETY: `detect` has just found these features.
        Isa::Avx512 | Isa::Amx => return unsafe { avx512(turns) },
        // SAFETY: as above.
        Isa::Avx2 => return unsafe { avx2(turns) },
        Isa::Portable => {}
    }
    let (factor, term) = (black_box(0.999f32), black_box(0.001f32));
    let mut sums = [[1.0f32; 4]; CHAINS];
    for _ in 0..turns {
        sums.iter_mut().flatten().for_each(|sum| *sum = *sum * factor + term);
    }
    black_box(sums);
    2 * 4 * CHAINS * turns
}

/// SAFETY: the processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512(turns: usize) -> usize {
    use std::arch::x86_64::*;
    let (factor, term) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
    let mut sums = [_mm512_set1_ps(1.0); CHAINS];
    for _ in 0..turns {
        sums.iter_mut().for_each(|sum| *sum = _mm512_fmadd_ps(*sum, factor, term));
    }
    black_box(sums);
    2 * 16 * CHAINS * turns
}

/// SAFETY: the processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(turns: usize) -> usize {
    use std::arch::x86_64::*;
    let (factor, term) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
    let mut sums = [_mm256_set1_ps(1.0); CHAINS];
    for _ in 0..turns {
        sums.iter_mut().for_each(|sum| *sum = _mm256_fmadd_ps(*sum, factor, term));
    }
    black_box(sums);
    2 * 8 * CHAINS * turns
}
