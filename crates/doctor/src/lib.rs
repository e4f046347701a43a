//! Why a training is slow or does not learn: evidence, findings, and fixes that were tried.
//!
//! ```text
//! causes.rs     the stable names of what can be wrong
//! evidence/     what is known: static, data, dynamic, ledger
//! checks/       one file per symptom, and their list
//! finding.rs    what was found, and the change of configuration that mends it
//! examine.rs    evidence gathered, checks asked, causes before consequences
//! score.rs      how good a network is, under any loss
//! trials.rs     fixes tried against a control
//! ```

pub mod causes;
pub mod checks;
pub mod evidence;
mod examine;
mod finding;
mod score;
mod trials;

pub use evidence::{Evidence, Kind};
pub use examine::{Examination, Options, examine};
pub use finding::{Change, Finding, Fix, Number, Severity};
pub use trials::{Trial, Verdict};
