//! Why a training is slow or does not learn: evidence, findings, and fixes that were tried.
//!
//! ```text
//! causes.rs     the stable names of what can be wrong
//! evidence/     what is known: static, data, dynamic, ledger
//! checks/       one file per symptom, and their list
//! finding.rs    what was found, and the change of configuration that mends it
//! examine.rs    evidence gathered, checks asked, causes before consequences
//! selftest/     the doctor examined
//! score.rs      how good a network is, under any loss
//! arm.rs        one training of a comparison
//! what_if.rs    what another setting would have come to
//! watch.rs      the short check in every run
//! trials.rs     fixes tried against a control
//! clock.rs      time, beside other work
//! progress.rs   what the doctor is doing
//! apply.rs      the mended configuration, written
//! report.rs     an examination as text and as JSON
//! ```
//!
//! Not covered: label-changing augmentation that a loader does (turning, warping: it gives pictures only one way; mirroring in the step is covered),
//! `disk-bound` (files in the cache of the system cannot be told from a fast disk), and label noise of numbers and of two classes (heavy tails and
//! overlap look the same).

mod apply;
mod arm;
pub mod causes;
pub mod checks;
mod clock;
pub mod evidence;
mod examine;
mod finding;
mod progress;
mod report;
mod score;
pub mod selftest;
mod trials;
mod watch;
mod what_if;

pub use apply::{Mended, fixed_path, mended, write};
pub use evidence::{Evidence, Kind};
pub use examine::{Examination, Options, examine, examine_run, glance, look};
pub use finding::{Change, Finding, Fix, Number, Price, Severity};
pub use progress::Progress;
pub use trials::{Trial, Verdict, try_again, try_fixes};
pub use watch::{Doctor, Watch};
pub use what_if::{Answer, WhatIf};
