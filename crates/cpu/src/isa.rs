use std::fmt;
use std::sync::LazyLock;

/// What the processor, and the operating system under us, really offer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Isa {
    /// Whatever the compiler's baseline is (SSE2 on x86-64, NEON on AArch64).
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, DQ, BW and VL: kernels generated for the plan.
    Avx512,
    /// The same, and units that multiply matrices of bfloat16 (AMX): large products.
    Amx,
}

impl Isa {
    /// The best one here. Detection asks the operating system too, not the processor's flag alone.
    pub fn detect() -> Isa {
        static FOUND: LazyLock<Isa> = LazyLock::new(find);
        *FOUND
    }

    /// All that work on this machine, for tests that run on each.
    pub fn available() -> Vec<Isa> {
        let all = [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Amx];
        all.into_iter().filter(|&isa| isa <= Isa::detect()).collect()
    }
}

fn find() -> Isa {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        if avx512 {
            return if has_matrix_units() { Isa::Amx } else { Isa::Avx512 };
        }
        if avx2 {
            return Isa::Avx2;
        }
    }
    Isa::Portable
}

/// The processor has AMX-TILE and AMX-BF16, the system keeps their state, and lets this process use them: tiles are large, and
/// a process that has not asked is stopped at the first one.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn has_matrix_units() -> bool {
    use std::arch::x86_64::{__cpuid_count, _xgetbv};
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    /// Shape and contents of tiles, in the system's mask of what it keeps.
    const KEPT: u64 = 3 << 17;
    const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
    const TILES: libc::c_ulong = 18;
    // the system keeps vectors of 512 bits, as has been found, and so has an answer here
    // numbers are rounded and packed by vectors
    if !is_x86_feature_detected!("avx512bf16") || __cpuid_count(7, 0).edx & (BF16 | TILE) != BF16 | TILE {
        return false;
    }
    /// SAFETY: the system uses `xsave`, which AVX implies.
    #[target_feature(enable = "xsave")]
    unsafe fn kept() -> u64 {
        _xgetbv(0)
    }
    // SAFETY: called after AVX-512 was found; the system call asks for a permission, and changes nothing else.
    unsafe { kept() & KEPT == KEPT && libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILES) == 0 }
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn has_matrix_units() -> bool {
    false
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "AVX2",
            Isa::Avx512 => "AVX-512",
            Isa::Amx => "AMX",
        })
    }
}
