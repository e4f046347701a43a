//! A block of up to 16×16 turned in registers: four rounds of exchanges between rows, each at twice the distance. Few lines are woven.

use std::arch::x86_64::*;

/// Writes `to[r][c] = from[c][r]` for `r < height`, `c < width`, both from 1 to 16.
///
/// SAFETY: lines `c < width` of `from` hold `height` values, lines `r < height` of `to` have room for `width`; the machine has
/// AVX-512F.
#[target_feature(enable = "avx512f")]
pub unsafe fn turn_block(
    from: *const f32,
    from_line: usize,
    to: *mut f32,
    to_line: usize,
    height: usize,
    width: usize,
) {
    let mask = |n: usize| if n >= 16 { 0xFFFF } else { (1u16 << n) - 1 };
    // always sixteen lines, so that they stay in registers: those that are not there are read as none of the last
    let mut a = [_mm512_setzero_ps(); 16];
    for (c, line) in a.iter_mut().enumerate() {
        let there = if c < width { mask(height) } else { 0 };
        *line = _mm512_maskz_loadu_ps(there, from.add(c.min(width - 1) * from_line));
    }
    // pairs of values, then pairs of pairs, within blocks of four lanes
    let mut b = [_mm512_setzero_ps(); 16];
    for i in 0..8 {
        b[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    for i in 0..4 {
        let pd = |x: __m512| _mm512_castps_pd(x);
        let ps = |x: __m512d| _mm512_castpd_ps(x);
        a[4 * i] = ps(_mm512_unpacklo_pd(pd(b[4 * i]), pd(b[4 * i + 2])));
        a[4 * i + 1] = ps(_mm512_unpackhi_pd(pd(b[4 * i]), pd(b[4 * i + 2])));
        a[4 * i + 2] = ps(_mm512_unpacklo_pd(pd(b[4 * i + 1]), pd(b[4 * i + 3])));
        a[4 * i + 3] = ps(_mm512_unpackhi_pd(pd(b[4 * i + 1]), pd(b[4 * i + 3])));
    }
    // now a[4q + j], block k holds row 4k + j of columns 4q..4q+4: blocks change places
    for j in 0..4 {
        let (p, q, r, s) = (a[j], a[4 + j], a[8 + j], a[12 + j]);
        let low = _mm512_shuffle_f32x4::<0x88>(p, q);
        let high = _mm512_shuffle_f32x4::<0xDD>(p, q);
        let low2 = _mm512_shuffle_f32x4::<0x88>(r, s);
        let high2 = _mm512_shuffle_f32x4::<0xDD>(r, s);
        b[j] = _mm512_shuffle_f32x4::<0x88>(low, low2);
        b[8 + j] = _mm512_shuffle_f32x4::<0xDD>(low, low2);
        b[4 + j] = _mm512_shuffle_f32x4::<0x88>(high, high2);
        b[12 + j] = _mm512_shuffle_f32x4::<0xDD>(high, high2);
    }
    if (height, width) == (16, 16) {
        for (r, line) in b.iter().enumerate() {
            _mm512_storeu_ps(to.add(r * to_line), *line);
        }
        return;
    }
    for (r, line) in b.iter().enumerate() {
        let there = if r < height { mask(width) } else { 0 };
        _mm512_mask_storeu_ps(to.add(r.min(height - 1) * to_line), there, *line);
    }
}

/// Writes `to[r][c] = from[c][r]` for sixteen `r` and `c < W`, the results from end to end.
///
/// SAFETY: `W` lines of `from`, `line` apart, hold sixteen values, `to` has room for them all; the machine has AVX-512F.
#[target_feature(enable = "avx512f")]
pub unsafe fn weave_block<const W: usize>(from: *const f32, line: usize, to: *mut f32) {
    let lines: [__m512; W] = std::array::from_fn(|c| _mm512_loadu_ps(from.add(c * line)));
    for v in 0..W {
        // element e of the result is value e / W of line e % W
        let turns: [i32; 16] = std::array::from_fn(|lane| ((16 * v + lane) / W) as i32);
        let turns = _mm512_loadu_si512(turns.as_ptr() as *const _);
        let mut woven = _mm512_setzero_ps();
        for (c, values) in lines.iter().enumerate() {
            let there = (0..16).filter(|lane| (16 * v + lane) % W == c).fold(0u16, |mask, lane| mask | 1 << lane);
            woven = _mm512_mask_permutexvar_ps(woven, there, turns, *values);
        }
        _mm512_storeu_ps(to.add(16 * v), woven);
    }
}
