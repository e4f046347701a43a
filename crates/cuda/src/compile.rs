//! CUDA C++ to machine code through NVRTC, kept on disk ([`KernelCache`]): the same kernel is compiled once on a machine.

use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::nvrtc::{result, sys};

use crate::error::CudaError;
use crate::kernel_cache::KernelCache;

/// How well a kernel is compiled. Which products and sums are rounded together may differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Care {
    /// For the fastest kernel.
    Full,
    /// In half the time, by several threads, for a kernel that takes a quarter to a half longer.
    Little,
}

/// Machine code for this architecture.
pub fn compile(source: &str, capability: (i32, i32), care: Care) -> Result<Vec<u8>, CudaError> {
    // SAFETY: only looks whether the library can be loaded.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoCompiler);
    }
    let failed = |e: result::NvrtcError| CudaError::Compile(format!("{e}"));
    let text = CString::new(source).map_err(|e| CudaError::Compile(e.to_string()))?;
    let program = result::create_program(&text, Some(c"step.cu")).map_err(failed)?;
    // SAFETY: the program was just created and is destroyed below.
    unsafe {
        let mut compiled = result::compile_program(program, &options(capability, care));
        // a compiler from before there was a choice
        if care == Care::Little && compiled == Err(result::NvrtcError(sys::nvrtcResult::NVRTC_ERROR_INVALID_OPTION)) {
            compiled = result::compile_program(program, &options(capability, Care::Full));
        }
        let outcome = match compiled {
            Ok(()) => cubin(program).map_err(failed),
            Err(_) => {
                let log = result::get_program_log(program).unwrap_or_default();
                let log: Vec<u8> = log.into_iter().map(|c| c as u8).take_while(|c| *c != 0).collect();
                Err(CudaError::Compile(String::from_utf8_lossy(&log).into_owned()))
            }
        };
        let _ = result::destroy_program(program);
        outcome
    }
}

/// Loads the compiler where it will be needed: on a machine that has compiled nothing yet. It is 80 MB to read from the disk, which
/// can be done while something else is.
pub fn load_compiler() {
    if KernelCache::usual().is_empty() {
        // what keeps it from compiling is said when it has to
        let _ = compile("extern \"C\" __global__ void nothing() {}", (8, 0), Care::Full);
    }
}

/// Machine code for each source, from disk where it is known; the others are compiled side by side.
pub fn compile_all(sources: &[(&str, Care)], capability: (i32, i32)) -> Result<Vec<Vec<u8>>, CudaError> {
    let (next, cache) = (AtomicUsize::new(0), KernelCache::usual());
    let work = || {
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < sources.len());
        let image = |i: usize| cache.get(sources[i].0, capability, sources[i].1, compile);
        std::iter::from_fn(take).map(|i| (i, image(i))).collect::<Vec<_>>()
    };
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(sources.len());
    let mut images: Vec<_> = std::thread::scope(|scope| {
        let working: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let panicked = |_| CudaError::Compile("the compiler panicked".into());
        working.into_iter().map(|thread| thread.join().map_err(panicked)).collect::<Result<Vec<_>, _>>()
    })?
    .into_iter()
    .flatten()
    .collect();
    images.sort_by_key(|(i, _)| *i);
    images.into_iter().map(|(_, image)| image.map(|(image, _)| image)).collect()
}

pub(crate) fn options(capability: (i32, i32), care: Care) -> Vec<String> {
    // with what Hopper alone has
    let own = if capability == (9, 0) { "a" } else { "" };
    let arch = format!("--gpu-architecture=sm_{}{}{own}", capability.0, capability.1);
    // subnormals are flushed, as on the CPU; division and square root may be off by two units in the last place
    let always = [
        arch.as_str(),
        "--std=c++17",
        "-diag-suppress=177",
        "--ftz=true",
        "--prec-div=false",
        "--prec-sqrt=false",
        "--fmad=true",
    ];
    // so many threads whatever the machine has: how a kernel is divided among them shows in its code
    let quickly: &[&str] = match care {
        Care::Full => &[],
        Care::Little => &["--Ofast-compile=min", "--split-compile=8"],
    };
    always.iter().chain(quickly).map(|&option| option.to_owned()).collect()
}

/// SAFETY: the program is compiled.
unsafe fn cubin(program: sys::nvrtcProgram) -> Result<Vec<u8>, result::NvrtcError> {
    let mut size = 0;
    sys::nvrtcGetCUBINSize(program, &mut size).result()?;
    let mut image = vec![0u8; size];
    sys::nvrtcGetCUBIN(program, image.as_mut_ptr() as *mut _).result()?;
    Ok(image)
}
