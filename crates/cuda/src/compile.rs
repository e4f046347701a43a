//! CUDA C++ to machine code through NVRTC, kept on disk by content: the same kernel is compiled once on a machine.

use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::nvrtc::{result, sys};

use crate::error::CudaError;

/// Machine code for this architecture.
pub fn compile(source: &str, capability: (i32, i32)) -> Result<Vec<u8>, CudaError> {
    // SAFETY: only looks whether the library can be loaded.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoCompiler);
    }
    let failed = |e: result::NvrtcError| CudaError::Compile(format!("{e}"));
    let text = CString::new(source).map_err(|e| CudaError::Compile(e.to_string()))?;
    let program = result::create_program(&text, Some(c"step.cu")).map_err(failed)?;
    let options = options(capability);
    // SAFETY: the program was just created and is destroyed below.
    unsafe {
        let compiled = result::compile_program(program, &options);
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

/// Machine code for each source, from disk where it is known; the others are compiled side by side.
pub fn compile_all(sources: &[&str], capability: (i32, i32)) -> Result<Vec<Vec<u8>>, CudaError> {
    let next = AtomicUsize::new(0);
    let work = || {
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < sources.len());
        std::iter::from_fn(take).map(|i| (i, Cache::usual().get(sources[i], capability, compile))).collect::<Vec<_>>()
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

fn options(capability: (i32, i32)) -> Vec<String> {
    // with what Hopper alone has
    let own = if capability == (9, 0) { "a" } else { "" };
    let arch = format!("--gpu-architecture=sm_{}{}{own}", capability.0, capability.1);
    // subnormals are flushed, as on the CPU; division and square root may be off by two units in the last place
    [
        arch.as_str(),
        "--std=c++17",
        "-diag-suppress=177",
        "--ftz=true",
        "--prec-div=false",
        "--prec-sqrt=false",
        "--fmad=true",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// SAFETY: the program is compiled.
unsafe fn cubin(program: sys::nvrtcProgram) -> Result<Vec<u8>, result::NvrtcError> {
    let mut size = 0;
    sys::nvrtcGetCUBINSize(program, &mut size).result()?;
    let mut image = vec![0u8; size];
    sys::nvrtcGetCUBIN(program, image.as_mut_ptr() as *mut _).result()?;
    Ok(image)
}

/// Compiled kernels on disk. A file is `MAGIC`, a checksum, the machine code; anything else is compiled again.
pub struct Cache {
    folder: Option<PathBuf>,
}

const MAGIC: &[u8; 8] = b"citiusK1";

impl Cache {
    /// In the user's cache folder; `CITIUS_CACHE` names another.
    pub fn usual() -> Cache {
        let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"));
        let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        let folder = std::env::var_os("CITIUS_CACHE").map(PathBuf::from).or(base.map(|b| b.join("citius")));
        Cache { folder: folder.map(|f| f.join("kernels")) }
    }

    pub fn at(folder: &Path) -> Cache {
        Cache { folder: Some(folder.to_owned()) }
    }

    /// The kernel from disk, or compiled now and kept; and whether it was there.
    pub fn get(
        &self,
        source: &str,
        capability: (i32, i32),
        compile: impl FnOnce(&str, (i32, i32)) -> Result<Vec<u8>, CudaError>,
    ) -> Result<(Vec<u8>, bool), CudaError> {
        let file = self.folder.as_ref().map(|f| f.join(format!("{}.cubin", key(source, capability))));
        if let Some(image) = file.as_deref().and_then(read) {
            return Ok((image, true));
        }
        let image = compile(source, capability)?;
        if let Some(file) = &file {
            // a cache that cannot be written only costs time
            let _ = write(file, &image);
        }
        Ok((image, false))
    }
}

fn key(source: &str, capability: (i32, i32)) -> String {
    let hash = |salt: u64| {
        let mut h = DefaultHasher::new();
        (salt, env!("CARGO_PKG_VERSION"), options(capability), source).hash(&mut h);
        h.finish()
    };
    format!("{:016x}{:016x}", hash(0), hash(1))
}

fn checksum(image: &[u8]) -> u64 {
    let mut h = DefaultHasher::new();
    image.hash(&mut h);
    h.finish()
}

fn read(file: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(file).ok()?;
    let (magic, rest) = bytes.split_at_checked(MAGIC.len())?;
    let (sum, image) = rest.split_at_checked(8)?;
    (magic == MAGIC && sum == checksum(image).to_le_bytes()).then(|| image.to_vec())
}

/// Whole or not at all.
fn write(file: &Path, image: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let part = file.with_extension(format!("{}.part", std::process::id()));
    let bytes = [MAGIC.as_slice(), &checksum(image).to_le_bytes(), image].concat();
    std::fs::write(&part, bytes)?;
    std::fs::rename(&part, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_compiled_again() {
        let folder = std::env::temp_dir().join(format!("citius-cache-test-{}", std::process::id()));
        let cache = Cache::at(&folder);
        let code = |_: &str, _: (i32, i32)| Ok(vec![1, 2, 3]);
        let never = |_: &str, _: (i32, i32)| -> Result<Vec<u8>, CudaError> { panic!("it was there") };
        assert_eq!(cache.get("x", (9, 0), code).unwrap(), (vec![1, 2, 3], false));
        assert_eq!(cache.get("x", (9, 0), never).unwrap(), (vec![1, 2, 3], true));
        assert!(!cache.get("x", (8, 0), code).unwrap().1, "another architecture");
        for file in std::fs::read_dir(&folder).unwrap() {
            let file = file.unwrap().path();
            let mut bytes = std::fs::read(&file).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            std::fs::write(&file, &bytes).unwrap();
        }
        assert!(!cache.get("x", (9, 0), code).unwrap().1, "a flipped bit");
        for file in std::fs::read_dir(&folder).unwrap() {
            std::fs::write(file.unwrap().path(), b"cit").unwrap();
        }
        assert!(!cache.get("x", (9, 0), code).unwrap().1, "cut short");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
