//! Counter-based random numbers: Philox4x32-10. A value depends on (key, stream, index) alone, so masks are the same for any
//! number of threads and are recomputed rather than stored.

/// Multipliers and key increments of Philox.
pub const PHILOX_M0: u32 = 0xD251_1F53;
pub const PHILOX_M1: u32 = 0xCD9E_8D57;
pub const PHILOX_W0: u32 = 0x9E37_79B9;
pub const PHILOX_W1: u32 = 0xBB67_AE85;

/// Four random words for one counter.
#[inline(always)]
pub fn philox(key: u64, stream: u64, block: u64) -> [u32; 4] {
    let mut c = [block as u32, (block >> 32) as u32, stream as u32, (stream >> 32) as u32];
    let (mut k0, mut k1) = (key as u32, (key >> 32) as u32);
    for _ in 0..10 {
        let p0 = PHILOX_M0 as u64 * c[0] as u64;
        let p1 = PHILOX_M1 as u64 * c[2] as u64;
        c = [(p1 >> 32) as u32 ^ c[1] ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ k1, p0 as u32];
        k0 = k0.wrapping_add(PHILOX_W0);
        k1 = k1.wrapping_add(PHILOX_W1);
    }
    c
}

/// 24 random bits as a number in `[0, 1)`.
#[inline(always)]
pub fn to_unit(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

/// The `index`-th uniform number in `[0, 1)` of a stream.
pub fn uniform(key: u64, stream: u64, index: u64) -> f32 {
    to_unit(philox(key, stream, index / 4)[(index % 4) as usize])
}

/// The `index`-th standard normal number (Box-Muller).
pub fn normal(key: u64, index: u64) -> f32 {
    let w = philox(key, 1, index / 2);
    let pair = (index % 2) as usize * 2;
    let u = (w[pair] as f64 + 1.0) / 4_294_967_297.0;
    let angle = w[pair + 1] as f64 / 4_294_967_296.0 * std::f64::consts::TAU;
    ((-2.0 * u.ln()).sqrt() * angle.cos()) as f32
}

/// A key of its own for each name under a seed (FNV-1a, then a finaliser).
pub fn key_of_name(seed: u64, name: &str) -> u64 {
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325u64, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01B3));
    mix(hash ^ mix(seed))
}

/// SplitMix64's finaliser.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of Random123's philox4x32-10.
    #[test]
    fn matches_random123() {
        assert_eq!(philox(0, 0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox(u64::MAX, u64::MAX, u64::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }
}
