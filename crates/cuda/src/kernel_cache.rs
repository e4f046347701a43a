//! Compiled kernels on disk, so that the same kernel is compiled once on a machine.
//!
//! A file holds everything that its kernel was compiled from: another source, architecture or compiler option never gets it, whatever
//! the file is called. Code that runs on the GPU is read from folders of this user alone: one that others may write to is not used.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::compile::{Care, options};
use crate::error::CudaError;

/// The folder of compiled kernels, or none.
#[derive(Debug)]
pub struct KernelCache {
    folder: Option<PathBuf>,
    /// Why the usual folder is not used.
    refused: Option<String>,
}

const MAGIC: &[u8; 8] = b"citiusK2";

impl KernelCache {
    /// In the user's cache folder; `CITIUS_CACHE` names another.
    pub fn usual() -> KernelCache {
        let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"));
        let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        let folder = std::env::var_os("CITIUS_CACHE").map(PathBuf::from).or(base.map(|b| b.join("citius")));
        match folder {
            Some(folder) => KernelCache::at(&folder.join("kernels")),
            None => KernelCache { folder: None, refused: None },
        }
    }

    /// In this folder, unless others may write to it.
    pub fn at(folder: &Path) -> KernelCache {
        match exposed(folder) {
            None => KernelCache { folder: Some(folder.to_owned()), refused: None },
            Some(problem) => {
                let next = "kernels are compiled anew in each run; make the folder yours alone (chmod go-w), or name another by \
                            CITIUS_CACHE";
                KernelCache { folder: None, refused: Some(format!("{problem}: {next}")) }
            }
        }
    }

    /// Why the folder is not used, and what that means.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
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
        let origin = origin(source, capability, care);
        let file = self.folder.as_ref().map(|folder| folder.join(format!("{:016x}.cubin", hash(&origin))));
        if let Some(image) = file.as_deref().and_then(|file| read(file, &origin)) {
            return Ok((image, true));
        }
        let image = compile(source, capability, care)?;
        if let Some(file) = &file {
            // a cache that cannot be written only costs time
            let _ = write(file, &origin, &image);
        }
        Ok((image, false))
    }
}

/// All that decides the machine code.
fn origin(source: &str, capability: (i32, i32), care: Care) -> String {
    format!("{}\n{}\n{source}", env!("CARGO_PKG_VERSION"), options(capability, care).join(" "))
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// `MAGIC`, a checksum, the length of the origin, the origin, the machine code; anything else is compiled again.
fn read(file: &Path, origin: &str) -> Option<Vec<u8>> {
    let bytes = std::fs::read(file).ok()?;
    let (magic, rest) = bytes.split_at_checked(MAGIC.len())?;
    let (sum, body) = rest.split_at_checked(8)?;
    if magic != MAGIC || sum != hash(body).to_le_bytes() {
        return None;
    }
    let (length, rest) = body.split_at_checked(8)?;
    let (found, image) = rest.split_at_checked(origin.len())?;
    (length == (origin.len() as u64).to_le_bytes() && found == origin.as_bytes()).then(|| image.to_vec())
}

/// Whole or not at all.
fn write(file: &Path, origin: &str, image: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    create(folder)?;
    let body = [&(origin.len() as u64).to_le_bytes(), origin.as_bytes(), image].concat();
    let mut part = tempfile::NamedTempFile::new_in(folder)?;
    part.write_all(&[MAGIC.as_slice(), &hash(&body[..]).to_le_bytes(), &body].concat())?;
    part.persist(file).map_err(|error| error.error)?;
    Ok(())
}

/// The folder, for this user alone.
fn create(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Why a folder, or one that it is in, is not this user's alone.
#[cfg(unix)]
fn exposed(folder: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    let full = std::path::absolute(folder).ok()?;
    // of what is not there yet, the nearest folder that is
    let there = full.ancestors().find(|folder| folder.exists())?;
    let real = std::fs::canonicalize(there).ok()?;
    for (depth, folder) in real.ancestors().enumerate() {
        let Ok(meta) = std::fs::metadata(folder) else { continue };
        let owned = meta.uid() == own || meta.uid() == 0;
        // in a sticky folder such as /tmp others cannot rename what is not theirs
        let sticky = depth > 0 && meta.mode() & 0o1000 != 0;
        if !owned || meta.mode() & 0o022 != 0 && !sticky {
            let problem = if owned { "others may write to it" } else { "it belongs to another user" };
            return Some(format!("the cache of kernels in {folder:?} is not used, {problem}"));
        }
    }
    None
}

#[cfg(not(unix))]
fn exposed(_: &Path) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(_: &str, _: (i32, i32), _: Care) -> Result<Vec<u8>, CudaError> {
        Ok(vec![1, 2, 3])
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect()
    }

    #[test]
    fn a_damaged_file_is_compiled_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("kernels");
        let cache = KernelCache::at(&folder);
        let never = |_: &str, _: (i32, i32), _: Care| -> Result<Vec<u8>, CudaError> { panic!("it was there") };
        assert!(cache.is_empty());
        assert_eq!(cache.get("x", (9, 0), Care::Full, code).unwrap(), (vec![1, 2, 3], false));
        assert_eq!(cache.get("x", (9, 0), Care::Full, never).unwrap(), (vec![1, 2, 3], true));
        assert!(!cache.get("x", (8, 0), Care::Full, code).unwrap().1, "another architecture");
        assert!(!cache.get("x", (9, 0), Care::Little, code).unwrap().1, "compiled otherwise");
        assert!(!cache.is_empty());
        for file in files(&folder) {
            let mut bytes = std::fs::read(&file).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            std::fs::write(&file, &bytes).unwrap();
        }
        assert!(!cache.get("x", (9, 0), Care::Full, code).unwrap().1, "a flipped bit");
        files(&folder).iter().for_each(|file| std::fs::write(file, b"cit").unwrap());
        assert!(!cache.get("x", (9, 0), Care::Full, code).unwrap().1, "cut short");
    }

    #[test]
    fn a_file_of_another_kernel_is_not_taken_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("kernels");
        let cache = KernelCache::at(&folder);
        cache.get("x", (9, 0), Care::Full, |_, _, _| Ok(vec![6, 6, 6])).unwrap();
        let other = std::fs::read(&files(&folder)[0]).unwrap();
        cache.get("y", (9, 0), Care::Full, code).unwrap();
        files(&folder).iter().for_each(|file| std::fs::write(file, &other).unwrap());
        assert_eq!(cache.get("y", (9, 0), Care::Full, code).unwrap(), (vec![1, 2, 3], false));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("kernels");
        let cache = KernelCache::at(&folder);
        cache.get("x", (9, 0), Care::Full, code).unwrap();
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        let with_mode = |folder: &Path, mode: u32| {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for exposed in [&folder, &top.path().to_owned()] {
            with_mode(exposed, 0o777);
            let cache = KernelCache::at(&folder);
            assert!(cache.refused().is_some_and(|why| why.contains("CITIUS_CACHE")), "{exposed:?}");
            assert!(!cache.get("x", (9, 0), Care::Full, code).unwrap().1);
            with_mode(exposed, 0o755);
            assert!(KernelCache::at(&folder).get("x", (9, 0), Care::Full, code).unwrap().1);
        }
    }
}
