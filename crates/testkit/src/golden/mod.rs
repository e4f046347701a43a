//! PyTorch's numbers from `golden/*.json`, one file of checks for each file of numbers.

mod init;
mod layers;
mod leaves;
mod losses;
mod models;
mod ops;
mod optimizers;
mod recurrent;
mod schedules;

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use init::init;
pub use layers::layers;
pub use losses::losses;
pub use models::models;
pub use ops::ops;
pub use optimizers::optimizers;
pub use recurrent::recurrent;
pub use schedules::schedules;

/// A tensor in the files, row-major.
#[derive(Clone, Debug, Deserialize)]
struct Packed {
    shape: Vec<usize>,
    data: Vec<f64>,
}

#[derive(Deserialize)]
struct Cases<T> {
    cases: Vec<T>,
}

fn load<T: DeserializeOwned>(name: &str) -> T {
    // a test carried to another machine runs in a copy of the repository
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden");
    let folder = if folder.is_dir() { folder } else { "golden".into() };
    let path = folder.join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
