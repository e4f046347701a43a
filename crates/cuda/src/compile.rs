//! CUDA C++ to machine code through NVRTC, kept on disk by content: the same kernel is compiled once on a machine.

use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::nvrtc::{result, sys};

use crate::error::CudaError;

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
    if Cache::usual().is_empty() {
        // what keeps it from compiling is said when it has to
        let _ = compile("extern \"C\" __global__ void nothing() {}", (8, 0), Care::Full);
    }
}

/// Machine code for each source, from disk where it is known; the others are compiled side by side.
pub fn compile_all(sources: &[(&str, Care)], capability: (i32, i32)) -> Result<Vec<Vec<u8>>, CudaError> {
    let next = AtomicUsize::new(0);
    let work = || {
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < sources.len());
        let image = |i: usize| Cache::usual().get(sources[i].0, capability, sources[i].1, compile);
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

fn options(capability: (i32, i32), care: Care) -> Vec<String> {
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

    /// Whether nothing has been kept yet.
    pub fn is_empty(&self) -> bool {
        let entries = self.folder.as_ref().and_then(|folder| std::fs::read_dir(folder).ok());
        entries.is_none_or(|mut entries| entries.next().is_none())
    }

    /// The kernel from disk, or compiled now and kept; and whether it was there.
    pub fn get(
        &self,
        source: &str,
        capability: (i32, i32),
        care: Care,
        compile: impl FnOnce(&str, (i32, i32), Care) -> Result<Vec<u8>, CudaError>,
    ) -> Result<(Vec<u8>, bool), CudaError> {
        let file = self.folder.as_ref().map(|f| f.join(format!("{}.cubin", key(source, capability, care))));
        if let Some(image) = file.as_deref().and_then(read) {
            return Ok((image, true));
        }
        let image = compile(source, capability, care)?;
        if let Some(file) = &file {
            // a cache that cannot be written only costs time
            let _ = write(file, &image);
        }
        Ok((image, false))
    }
}

fn key(source: &str, capability: (i32, i32), care: Care) -> String {
    let hash = |salt: u64| {
        let mut h = DefaultHasher::new();
        (salt, env!("CARGO_PKG_VERSION"), options(capability, care), source).hash(&mut h);
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
        let code = |_: &str, _: (i32, i32), _: Care| Ok(vec![1, 2, 3]);
        let never = |_: &str, _: (i32, i32), _: Care| -> Result<Vec<u8>, CudaError> { panic!("it was there") };
        assert!(cache.is_empty());
        assert_eq!(cache.get("x", (9, 0), Care::Full, code).unwrap(), (vec![1, 2, 3], false));
        assert_eq!(cache.get("x", (9, 0), Care::Full, never).unwrap(), (vec![1, 2, 3], true));
        assert!(!cache.get("x", (8, 0), Care::Full, code).unwrap().1, "another architecture");
        assert!(!cache.get("x", (9, 0), Care::Little, code).unwrap().1, "compiled otherwise");
        assert!(!cache.is_empty());
        for file in std::fs::read_dir(&folder).unwrap() {
            let file = file.unwrap().path();
            let mut bytes = std::fs::read(&file).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            std::fs::write(&file, &bytes).unwrap();
        }
        assert!(!cache.get("x", (9, 0), Care::Full, code).unwrap().1, "a flipped bit");
        for file in std::fs::read_dir(&folder).unwrap() {
            std::fs::write(file.unwrap().path(), b"cit").unwrap();
        }
        assert!(!cache.get("x", (9, 0), Care::Full, code).unwrap().1, "cut short");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
