use crate::isa::Isa;

/// A plain loop worth running with the widest vectors of the machine, outside this crate's kernels (drawing the rows of a
/// batch). Mark `run` as `#[inline(always)]`: it is compiled again inside [`widest`] for each instruction set.
pub trait Plain {
    type Output;
    fn run(self) -> Self::Output;
}

/// Runs `f` compiled for the widest vectors of this machine.
#[inline]
pub fn widest<F: Plain>(f: F) -> F::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
        unsafe fn avx512<F: Plain>(f: F) -> F::Output {
            f.run()
        }
        #[target_feature(enable = "avx2,fma")]
        unsafe fn avx2<F: Plain>(f: F) -> F::Output {
            f.run()
        }
        match Isa::detect() {
            // SAFETY: `detect` has just found these features.
            Isa::Avx512 | Isa::Amx => return unsafe { avx512(f) },
            // SAFETY: as above.
            Isa::Avx2 => return unsafe { avx2(f) },
            Isa::Portable => {}
        }
    }
    f.run()
}
