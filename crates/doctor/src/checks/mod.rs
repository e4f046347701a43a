//! One file per symptom. A check says what evidence it needs, its threshold and why, and what it explains: a finding that another one
//! explains is told as its consequence.

use crate::evidence::{Evidence, Kind};
use crate::finding::Finding;

/// Looks for one symptom.
pub trait Check: Sync {
    /// The cause it raises.
    fn cause(&self) -> &'static str;

    /// Without these it is silent.
    fn needs(&self) -> &'static [Kind];

    /// When it speaks, and why then.
    fn threshold(&self) -> &'static str;

    /// Causes that are consequences of this one.
    fn explains(&self) -> &'static [&'static str] {
        &[]
    }

    /// What it finds; nothing is the usual answer.
    fn look(&self, evidence: &Evidence) -> Vec<Finding>;
}

/// All checks, causes before their consequences: of two findings as grave and as sure, the earlier one is told first.
pub const ALL: &[&dyn Check] = &[];
