//! An examination as text, and as JSON.

use std::fmt;

use citius_data::Escaped;
use serde_json::{Value, json};

use crate::examine::Examination;
use crate::finding::{Finding, Number, Price, Severity};
use crate::trials::{Trial, Verdict};

impl Examination {
    /// One object: what was found, and what could not be looked at.
    pub fn to_json(&self) -> Value {
        json!({
            "healthy": self.serious().next().is_none() && self.evidence.cannot_start.is_none(),
            "findings": self.findings,
            "cannot_start": self.evidence.cannot_start,
            "not_examined": self.evidence.missing,
            "seconds": self.seconds,
        })
    }
}

impl fmt::Display for Examination {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let Some(why) = &self.evidence.cannot_start {
            writeln!(f, "  cannot start: {why}")?;
        }
        for what in &self.evidence.missing {
            writeln!(f, "  not examined: {what}")?;
        }
        let (serious, notes): (Vec<&Finding>, Vec<&Finding>) =
            self.findings.iter().partition(|finding| finding.severity > Severity::Note);
        for (i, finding) in serious.iter().enumerate() {
            write!(f, "{}{finding}", if i > 0 { "\n" } else { "" })?;
        }
        if !serious.is_empty() && !notes.is_empty() {
            writeln!(f)?;
        }
        for note in &notes {
            let follows = note.follows.map_or(String::new(), |cause| format!(" (follows from {cause})"));
            writeln!(f, "  note     {}: {}{follows}", note.cause, note.what)?;
        }
        if serious.is_empty() && self.evidence.cannot_start.is_none() {
            writeln!(f, "  nothing wrong was found{}", self.looked_at())?;
        }
        Ok(())
    }
}

impl Examination {
    /// `: 21 columns, 3 seeds of 12,000 steps, 40 checks`
    fn looked_at(&self) -> String {
        let e = &self.evidence;
        let mut parts = Vec::new();
        if let Some(data) = &e.data {
            parts.push(format!("{} rows", data.rows));
        }
        if let Some(d) = &e.dynamic {
            let steps = d.runs.iter().map(|run| run.steps).max().unwrap_or(0);
            parts.push(format!("{} trainings of {steps} steps", d.runs.len()));
        }
        if let Some(ledger) = &e.ledger {
            parts.push(format!("{} epochs of the run", ledger.epochs.len()));
        }
        if parts.is_empty() { String::new() } else { format!(" in {}", parts.join(", ")) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "  {}: {}", self.severity, self.cause)?;
        writeln!(f, "    what      {}", self.what.escaped())?;
        let numbers: Vec<String> = self.evidence.iter().map(Number::to_string).collect();
        if !numbers.is_empty() {
            writeln!(f, "    evidence  {}", numbers.join("; "))?;
        }
        if let Some(Price { seconds: price, low, high }) = self.price {
            let (price, low, high) = (seconds(price), seconds(low.max(0.0)), seconds(high));
            writeln!(f, "    price     {price} of the run ({low} to {high}), for the same rows")?;
        }
        match &self.trial {
            Some(trial) if trial.never => {
                writeln!(f, "    cost      more than {} to the target, which it does not reach", seconds(trial.before))?
            }
            _ => {
                if let Some(cost) = self.cost.filter(|cost| *cost > 0.0) {
                    writeln!(f, "    cost      {} to the target", seconds(cost))?;
                }
            }
        }
        if let Some(fix) = &self.fix {
            let changes = fix.to_string();
            let changes = changes.escaped();
            writeln!(f, "    fix       {}{}{changes}", fix.what.escaped(), if changes.is_empty() { "" } else { ": " })?;
        }
        match (&self.trial, &self.untried) {
            (Some(trial), _) => writeln!(f, "    trial     {trial}")?,
            (None, Some(why)) => writeln!(f, "    trial     none: {why}")?,
            (None, None) => {}
        }
        writeln!(f, "    sure      {:.0}%", self.sure * 100.0)?;
        writeln!(f, "    silence   {}", self.silence)
    }
}

impl Trial {
    /// `12.0 ms → 3.1 ms to an error of 0.0312`
    pub fn times(&self) -> String {
        let time = |s: f64, missed: bool| format!("{}{}", if missed { "not reached in " } else { "" }, seconds(s));
        let (before, after) = (time(self.before, self.never), time(self.after, self.lost));
        format!("{before} → {after} to an error of {}", short(self.target))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {}", self.name, short(self.value))
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{}: {} ({} seeds, {:.2}× [{:.2}, {:.2}])",
            self.verdict.name(),
            self.times(),
            self.seeds,
            self.speedup,
            self.interval.0,
            self.interval.1
        )?;
        if let Some(random) = self.random {
            write!(f, "; a random change ({}) {random:.2}×", self.random_change)?;
        }
        if self.verdict == Verdict::NotConfirmed {
            write!(f, "; this fix alone does not show")?;
        }
        Ok(())
    }
}

/// Three digits.
fn short(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => x.to_string(),
        0.0 => "0".to_owned(),
        a if !(1e-3..1e6).contains(&a) => format!("{x:.2e}"),
        a if a < 1.0 => format!("{x:.3}"),
        a if a < 10.0 => format!("{x:.2}"),
        a if x.fract() == 0.0 || a >= 100.0 => format!("{x:.0}"),
        _ => format!("{x:.1}"),
    }
}

pub(crate) fn seconds(s: f64) -> String {
    match s {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
