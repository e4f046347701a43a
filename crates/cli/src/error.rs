//! Why a command did not do what it was asked, and with which exit code.

use std::fmt;

use citius_data::{DataError, Escaped};
use citius_train::TrainError;

pub enum Failure {
    /// The command cannot be met as given.
    Usage(String),
    Failed(String),
}

/// How a command ended when nothing went wrong with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    Well,
    /// The training diverged: a result, though not the one wanted.
    Badly,
    Interrupted,
}

impl Failure {
    pub fn failed(problem: String) -> Failure {
        Failure::Failed(problem)
    }

    pub fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failure::Usage(problem) | Failure::Failed(problem) => f.write_str(problem),
        }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Failure {
        let problem = match &error {
            // what a compiler of kernels says has lines of its own
            TrainError::Cuda(_) | TrainError::Lost { .. } => error.to_string(),
            _ => error.to_string().escaped(),
        };
        match error.is_usage() {
            true => Failure::Usage(problem),
            false => Failure::Failed(problem),
        }
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Failure {
        Failure::Failed(error.to_string().escaped())
    }
}

impl From<Done> for u8 {
    fn from(done: Done) -> u8 {
        match done {
            Done::Well => 0,
            Done::Badly => 1,
            Done::Interrupted => 130,
        }
    }
}
