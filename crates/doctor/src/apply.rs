//! Writes the mended configuration beside the old one, whole or not at all.

use std::path::{Path, PathBuf};

use citius_data::Escaped;
use citius_train::Wishes;

use crate::examine::Examination;
use crate::finding::Fix;
use crate::trials::{Trial, Verdict};

/// A configuration with fixes in it.
#[derive(Clone, Debug)]
pub struct Mended {
    pub wishes: Wishes,
    /// All changes together, and a line for each fix: `cause: changes`.
    pub fix: Fix,
    pub applied: Vec<String>,
    /// Fixes that were left out, and why.
    pub left: Vec<String>,
    /// What trying it came to, where a single trial tells.
    pub trial: Option<Trial>,
}

/// The configuration with the fixes that trials confirmed. One exception: where the training cannot start as it is there is no control to
/// try a fix against, and the first fix is taken untried. `most`: of the confirmed ones take no more.
pub fn mended(examination: &Examination, most: usize) -> Result<Mended, String> {
    let wishes = &examination.evidence.wishes;
    let mut mended =
        Mended { wishes: wishes.clone(), fix: Fix::new("all together"), applied: vec![], left: vec![], trial: None };
    let no_control = examination.evidence.cannot_start.is_some();
    for finding in examination.serious() {
        let Some(fix) = finding.fix.as_ref().filter(|fix| !fix.changes.is_empty()) else { continue };
        let (cause, trial) = (finding.cause, finding.trial.as_ref());
        let why_not = match trial.map(|trial| trial.verdict) {
            Some(Verdict::Confirmed) if mended.applied.len() < most => None,
            Some(Verdict::Confirmed) => Some("together with the others it was not confirmed".to_owned()),
            Some(verdict) => Some(format!("its trial says {}", verdict.name())),
            None if no_control && mended.applied.is_empty() => None,
            None => Some(finding.untried.clone().unwrap_or_else(|| "it was not tried".to_owned())),
        };
        if let Some(why) = why_not {
            mended.left.push(format!("{cause}: {why}"));
            continue;
        }
        // two fixes may change one key: the likelier comes first and stays
        let rest: Vec<_> = fix.changes.iter().filter(|c| mended.fix.changes.iter().all(|m| m.key != c.key)).collect();
        mended.fix.changes.extend(rest.into_iter().cloned());
        let changed =
            mended.fix.apply(wishes).map_err(|problem| format!("the fix of {cause} does not fit: {problem}"))?;
        if changed != mended.wishes {
            let untried = if trial.is_none() { " (untried: the training could not start without it)" } else { "" };
            mended.wishes = changed;
            mended.trial = trial.cloned().filter(|_| mended.applied.is_empty());
            mended.applied.push(format!("{cause}: {fix}{untried}"));
        }
    }
    Ok(mended)
}

/// `X.toml` becomes `X.fixed.toml`; a source that was given without a file gets `SOURCE.fixed.toml` in the current directory.
pub fn fixed_path(config: Option<&Path>, source: Option<&Path>) -> PathBuf {
    match (config, source) {
        (Some(config), _) => config.with_extension("fixed.toml"),
        (None, Some(source)) => {
            let name = source.file_stem().map_or("run".into(), |stem| stem.to_string_lossy().into_owned());
            PathBuf::from(format!("{name}.fixed.toml"))
        }
        (None, None) => PathBuf::from("run.fixed.toml"),
    }
}

/// Whole or not at all.
pub fn write(path: &Path, mended: &Mended) -> Result<(), String> {
    let text = mended.wishes.to_toml()?;
    let head: String = mended.applied.iter().map(|line| format!("# {}\n", line.replace('\n', " "))).collect();
    let text = format!("# mended by citius doctor\n{head}{text}");
    // what is written can be read
    Wishes::parse(&text)
        .map_err(|problem| format!("internal error: the mended configuration cannot be read: {problem}"))?;
    citius_data::write_whole(path, text.as_bytes()).map_err(|error| format!("cannot write {}: {error}", path.escaped()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;
    use crate::finding::{Finding, Severity};

    fn trial(verdict: Verdict) -> Trial {
        Trial {
            verdict,
            seeds: 4,
            before: 2.0,
            after: 1.0,
            never: false,
            lost: false,
            speedup: 2.0,
            interval: (1.8, 2.2),
            target: 0.1,
            random: None,
            random_change: String::new(),
            random_confirmed: false,
        }
    }

    fn examined(trials: &[Option<Verdict>], cannot_start: bool) -> Examination {
        let finding = |(i, verdict): (usize, &Option<Verdict>)| {
            let fix = Fix::new("").set(["lr", "epochs", "batch-size"][i], [1i64, 50, 32][i]);
            let finding =
                Finding::new(["learning-rate-too-low", "too-few-epochs", "batch-too-large"][i], Severity::Fault, "");
            Finding { trial: verdict.map(trial), ..finding.fix(fix) }
        };
        let cannot_start = cannot_start.then(|| "it cannot".to_owned());
        let evidence = Evidence { cannot_start, ..Evidence::default() };
        let findings = trials.iter().enumerate().map(finding).collect();
        Examination { evidence, findings, seconds: 0.0 }
    }

    #[test]
    fn only_what_was_confirmed_is_written() {
        use Verdict::{Confirmed, Harmful, NotConfirmed};
        let some = mended(&examined(&[Some(NotConfirmed), Some(Confirmed), Some(Harmful)], false), usize::MAX).unwrap();
        assert_eq!((some.wishes.lr, some.wishes.epochs, some.wishes.batch_size), (None, Some(50), None));
        assert_eq!((some.applied.len(), some.left.len()), (1, 2), "{some:?}");
        assert!(some.trial.is_some_and(|trial| trial.after < trial.before));
        let both = mended(&examined(&[Some(Confirmed), Some(Confirmed), None], false), usize::MAX).unwrap();
        assert!(
            both.applied.len() == 2 && both.fix.changes.len() == 2 && both.trial.is_none(),
            "tried together: {both:?}"
        );
        assert_eq!(mended(&examined(&[Some(Confirmed), Some(Confirmed)], false), 1).unwrap().applied.len(), 1);
        // nothing was tried
        assert!(mended(&examined(&[None, None], false), usize::MAX).unwrap().applied.is_empty());
        let stuck = mended(&examined(&[None, None], true), usize::MAX).unwrap();
        assert!(stuck.applied.len() == 1 && stuck.applied[0].contains("untried"), "{stuck:?}");
    }
}
