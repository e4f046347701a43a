//! What can go wrong between a data set and a saved model, said so that a person can act on it.

use std::io;
use std::path::Path;

use citius_cpu::CpuError;
use citius_cuda::CudaError;
use citius_data::{DataError, Escaped};
use citius_graph::TraceError;
use citius_plan::CompileError;

#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    Data(#[from] DataError),

    /// A mistake in the traced model.
    #[error(transparent)]
    Trace(#[from] TraceError),

    #[error(transparent)]
    Compile(#[from] CompileError),

    #[error(transparent)]
    Cpu(#[from] CpuError),

    /// A GPU that cannot be used.
    #[error(transparent)]
    Cuda(#[from] CudaError),

    /// A GPU that failed in mid-run.
    #[error("{error}; {next}")]
    Lost { error: CudaError, next: String },

    /// Memory that this process cannot have.
    #[error(
        "there is not enough memory for {what}: use a smaller network or a smaller batch, close other programs, or raise the limit"
    )]
    NoMemory { what: String },

    /// A flag or a line of a settings file that cannot be met.
    #[error("{0}")]
    Setting(String),

    /// A settings file.
    #[error("{}: {problem}", file.escaped())]
    Config { file: String, problem: String },

    /// A file or directory that cannot be read or written.
    #[error("cannot {doing} {}: {problem}{next}", path.escaped())]
    File { doing: &'static str, path: String, problem: String, next: String },

    /// A saved model or checkpoint that is cut short, damaged, or of another version.
    #[error("{}: {problem}; {next}", path.escaped())]
    Saved { path: String, problem: String, next: String },
}

impl TrainError {
    /// Whether what was asked for cannot be met, on this machine or at all: nothing was begun.
    pub fn is_usage(&self) -> bool {
        use CudaError::*;
        match self {
            TrainError::Setting(_) | TrainError::Config { .. } => true,
            // all others are about what is missing on this machine
            TrainError::Cuda(error) => !matches!(
                error,
                Compile(_) | OutOfMemory { .. } | Input { .. } | OutOfRange(_) | Missing(_) | Plan(_) | Device { .. }
            ),
            _ => false,
        }
    }

    pub(crate) fn file(doing: &'static str, path: &Path, error: &io::Error) -> TrainError {
        let (problem, next) = match error.kind() {
            io::ErrorKind::StorageFull => ("the disk is full", "; free some space, or choose another place with --out"),
            // of the process: ulimit -f
            io::ErrorKind::FileTooLarge if doing != "read" => (
                "the file grows larger than its limit (ulimit -f, or the file system's)",
                "; raise the limit, or choose another place with --out",
            ),
            io::ErrorKind::OutOfMemory => ("there is not enough memory", "; close other programs, or raise the limit"),
            io::ErrorKind::QuotaExceeded => ("your disk quota is used up", "; choose another place with --out"),
            io::ErrorKind::ReadOnlyFilesystem => ("the file system is read-only", "; choose another place with --out"),
            io::ErrorKind::PermissionDenied if doing != "read" => {
                ("permission denied", "; choose another place with --out")
            }
            io::ErrorKind::PermissionDenied => ("permission denied", ""),
            io::ErrorKind::NotFound => ("no such file", ""),
            _ => ("", ""),
        };
        let problem = if problem.is_empty() { error.to_string() } else { problem.to_owned() };
        TrainError::File { doing, path: path.escaped(), problem, next: next.to_owned() }
    }

    pub(crate) fn no_memory(what: &str) -> TrainError {
        TrainError::NoMemory { what: what.to_owned() }
    }

    pub(crate) fn saved(path: &Path, problem: impl Into<String>, next: impl Into<String>) -> TrainError {
        TrainError::Saved { path: path.escaped(), problem: problem.into(), next: next.into() }
    }
}
