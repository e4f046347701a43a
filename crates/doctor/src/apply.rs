//! Writes the mended configuration beside the old one, whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use citius_train::Wishes;

use crate::finding::{Finding, Severity};
use crate::trials::Verdict;

/// The configuration with the fixes that are believed: those that trials confirmed, and those that could not be tried; never one that does
/// harm. Also how many there are.
pub fn mended(wishes: &Wishes, findings: &[Finding]) -> Result<(Wishes, Vec<String>), String> {
    let mut mended = wishes.clone();
    let mut applied = Vec::new();
    let serious = findings.iter().filter(|f| f.severity > Severity::Note);
    for (i, finding) in serious.enumerate() {
        let Some(fix) = finding.fix.as_ref().filter(|fix| !fix.changes.is_empty()) else { continue };
        let believed = match &finding.trial {
            Some(trial) => trial.verdict == Verdict::Confirmed || (i == 0 && trial.verdict == Verdict::NotConfirmed),
            None => true,
        };
        if !believed {
            continue;
        }
        // two fixes may change one key: the likelier comes first and stays
        match fix.apply(&mended) {
            Ok(changed) if changed != mended => {
                mended = changed;
                applied.push(format!("{}: {fix}", finding.cause));
            }
            Ok(_) => {}
            Err(problem) => return Err(format!("the fix of {} does not fit: {problem}", finding.cause)),
        }
    }
    Ok((mended, applied))
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

/// Writes it to a file beside, then gives it its name.
pub fn write(path: &Path, wishes: &Wishes, applied: &[String]) -> Result<(), String> {
    let text = toml::to_string_pretty(wishes).map_err(|error| error.to_string())?;
    let head: String = applied.iter().map(|line| format!("# {}\n", line.replace('\n', " "))).collect();
    let text = format!("# mended by citius doctor\n{head}{text}");
    // what is written can be read
    Wishes::parse(&text)
        .map_err(|problem| format!("internal error: the mended configuration cannot be read: {problem}"))?;
    let beside = path.with_extension("toml.part");
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    fs::write(&beside, text).map_err(failed)?;
    fs::rename(&beside, path).map_err(|error| {
        let _ = fs::remove_file(&beside);
        failed(error)
    })
}
