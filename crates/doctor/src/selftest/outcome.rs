//! What an examination of the doctor came to.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::faults::{Fault, Level, NOT_COVERED};
use crate::{Trial, Verdict};

/// One program that was looked at.
#[derive(Clone, Debug)]
pub struct Seen {
    pub number: usize,
    pub fault: Option<Fault>,
    pub program: &'static str,
    pub seed: u64,
    /// Causes that were told, the likeliest first.
    pub findings: Vec<&'static str>,
    /// What speaks for them.
    pub evidence: Vec<String>,
    /// What trying the fix of the first came to, where it was right.
    pub trial: Option<Trial>,
    /// The same from fresh seeds, where it was confirmed.
    pub again: Option<Trial>,
    /// Why it was not tried.
    pub untried: Option<String>,
    /// Why nothing could be looked at.
    pub problem: Option<String>,
    pub seconds: f64,
}

impl Seen {
    /// Whether a cause names what was put in.
    fn names(&self, cause: &str) -> bool {
        self.fault.is_some_and(|fault| fault.cause == cause || fault.also.contains(&cause))
    }

    pub fn found(&self) -> bool {
        self.findings.iter().any(|cause| self.names(cause))
    }

    pub fn first(&self) -> bool {
        self.findings.first().is_some_and(|cause| self.names(cause))
    }

    fn level(&self) -> Option<Level> {
        self.fault.map(|fault| fault.level)
    }

    fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.trial.iter().chain(&self.again)
    }

    /// Seeds from 100 on were never looked at while thresholds were set.
    fn held_out(&self) -> bool {
        self.seed >= 100
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let what = self.fault.map_or("clean", |fault| fault.cause);
        let level = self.level().map_or(String::new(), |level| format!("{level:?}").to_lowercase());
        let mark = match self.fault {
            None if self.findings.is_empty() => "ok",
            None => "ALARM",
            Some(_) if self.first() => "ok",
            Some(_) if self.found() => "later",
            Some(_) => "MISSED",
        };
        let told = if self.findings.is_empty() { "nothing".to_owned() } else { self.findings.join(", ") };
        write!(f, "{mark:6} {what} {level} in {} seed {}: {told} ({:.1} s)", self.program, self.seed, self.seconds)?;
        if let Some(trial) = &self.trial {
            let Trial { speedup, interval: (low, high), .. } = trial;
            write!(f, ", fix {} ({speedup:.2} times [{low:.2}, {high:.2}])", trial.verdict.name())?;
        }
        if let Some(again) = &self.again {
            write!(f, ", on fresh seeds {:.2} times", again.speedup)?;
        }
        for trial in self.trials().filter(|trial| trial.random_confirmed) {
            let times = trial.random.unwrap_or(f64::NAN);
            write!(f, ", RANDOM {} confirmed ({times:.2} times)", trial.random_change)?;
        }
        if let Some(why) = &self.untried {
            write!(f, ", fix not tried: {why}")?;
        }
        if mark == "ALARM" || mark == "MISSED" {
            self.evidence.iter().try_for_each(|numbers| write!(f, "; {numbers}"))?;
        }
        match &self.problem {
            Some(problem) => write!(f, " {problem}"),
            None => Ok(()),
        }
    }
}

/// All programs.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seen: Vec<Seen>,
}

/// So many of so many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    pub n: usize,
    pub of: usize,
}

impl Part {
    /// Nothing of nothing has none.
    pub fn share(self) -> Option<f64> {
        (self.of > 0).then(|| self.n as f64 / self.of as f64)
    }

    fn at_least(self, share: f64) -> bool {
        self.share().is_none_or(|s| s >= share)
    }

    fn at_most(self, share: f64) -> bool {
        self.share().is_none_or(|s| s <= share)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.share() {
            Some(share) => write!(f, "{} of {} ({:.1}%)", self.n, self.of, 100.0 * share),
            None => write!(f, "none tried"),
        }
    }
}

/// Shares of some of the programs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shares {
    /// Faulty programs.
    pub cases: usize,
    /// Share of them whose fault was told, and told first.
    pub recall: f64,
    pub first: f64,
    /// Share of what was told that names what was put in.
    pub precision: f64,
}

impl Outcome {
    /// Of the faults that count: moderate and severe ones, held out or not.
    pub fn shares(&self, of: impl Fn(&Seen) -> bool) -> Shares {
        let some: Vec<&Seen> = self.seen.iter().filter(|s| s.fault.is_some() && of(s)).collect();
        let share = |n: usize, of: usize| if of == 0 { 1.0 } else { n as f64 / of as f64 };
        let told: usize = some.iter().map(|s| s.findings.len()).sum();
        let right: usize = some.iter().map(|s| s.findings.iter().filter(|c| s.names(c)).count()).sum();
        let count = |f: &dyn Fn(&Seen) -> bool| some.iter().filter(|s| f(s)).count();
        Shares {
            cases: some.len(),
            recall: share(count(&Seen::found), some.len()),
            first: share(count(&Seen::first), some.len()),
            precision: share(right, told),
        }
    }

    /// Of moderate and severe faults; precision with the alarms on clean programs.
    pub fn counted(&self) -> Shares {
        let counts = |s: &Seen| s.level() >= Some(Level::Moderate);
        let shares = self.shares(counts);
        let told: usize = self.seen.iter().filter(|s| s.fault.is_some() && counts(s)).map(|s| s.findings.len()).sum();
        let all = told + self.false_alarms();
        Shares { precision: if all == 0 { 1.0 } else { shares.precision * told as f64 / all as f64 }, ..shares }
    }

    /// Findings on clean programs.
    pub fn false_alarms(&self) -> usize {
        self.seen.iter().filter(|s| s.fault.is_none()).map(|s| s.findings.len()).sum()
    }

    pub fn clean(&self) -> usize {
        self.seen.iter().filter(|s| s.fault.is_none()).count()
    }

    /// Of the fixes tried, how many were confirmed.
    pub fn confirmed(&self) -> Part {
        let tried = || self.seen.iter().filter_map(|s| s.trial.as_ref());
        Part { n: tried().filter(|t| t.verdict == Verdict::Confirmed).count(), of: tried().count() }
    }

    /// Of the confirmed fixes, how many shorten the time to the target on seeds that no trial has seen.
    pub fn hold(&self) -> Part {
        let again = || self.seen.iter().filter_map(|s| s.again.as_ref());
        Part { n: again().filter(|t| t.speedup > 1.0).count(), of: again().count() }
    }

    /// Of the random changes tried beside fixes, how many would have been confirmed.
    pub fn random_confirmed(&self) -> Part {
        let random = || self.seen.iter().flat_map(Seen::trials).filter(|t| t.random.is_some());
        Part { n: random().filter(|t| t.random_confirmed).count(), of: random().count() }
    }

    /// What is asked of the doctor. What was not looked at is not asked.
    pub fn passes(&self) -> bool {
        let all = self.counted();
        let told = all.recall >= 0.9 && all.precision >= 0.9 && all.first >= 0.8 && self.false_alarms() == 0;
        told && self.hold().at_least(0.9) && self.random_confirmed().at_most(0.05)
    }

    /// What shares are made of: those of several self-tests can be added up. `told` and `right` of moderate and severe faults alone.
    fn counts(&self) -> Value {
        let counted = || self.seen.iter().filter(|s| s.level() >= Some(Level::Moderate));
        let right = |s: &Seen| s.findings.iter().filter(|cause| s.names(cause)).count();
        json!({
            "cases": counted().count(),
            "found": counted().filter(|s| s.found()).count(),
            "first": counted().filter(|s| s.first()).count(),
            "told": counted().map(|s| s.findings.len()).sum::<usize>(),
            "right": counted().map(right).sum::<usize>(),
            "clean": self.clean(),
            "alarms": self.false_alarms(),
            "trials": self.confirmed().of,
            "confirmed": self.confirmed().n,
            "tried_again": self.hold().of,
            "hold": self.hold().n,
            "random_changes": self.random_confirmed().of,
            "random_confirmed": self.random_confirmed().n,
            "broken": self.seen.iter().filter(|s| s.problem.is_some()).count(),
        })
    }

    pub fn json(&self) -> Value {
        let all = self.counted();
        let held_out = self.shares(|s| s.held_out() && s.level() >= Some(Level::Moderate));
        json!({
            "recall": all.recall,
            "precision": all.precision,
            "first": all.first,
            "false_alarms": self.false_alarms(),
            "cases": all.cases,
            "clean": self.clean(),
            "confirmed": self.confirmed().share(),
            "trials": self.confirmed().of,
            "confirmed_hold": self.hold().share(),
            "tried_again": self.hold().of,
            "random_confirmed": self.random_confirmed().share(),
            "random_changes": self.random_confirmed().of,
            "counts": self.counts(),
            "held_out": { "cases": held_out.cases, "recall": held_out.recall, "precision": held_out.precision, "first": held_out.first },
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let faulty = |s: &&Seen| s.fault.is_some();
        writeln!(f, "what was put in, and what was told instead of it or beside it")?;
        let mut rows: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
        for seen in self.seen.iter().filter(faulty) {
            rows.entry(seen.fault.map_or("", |fault| fault.cause)).or_default().push(seen);
        }
        for (cause, seen) in rows {
            let found = seen.iter().filter(|s| s.found()).count();
            let first = seen.iter().filter(|s| s.first()).count();
            let mut others: BTreeMap<&str, usize> = BTreeMap::new();
            for told in seen.iter().flat_map(|s| s.findings.iter().filter(|c| !s.names(c))) {
                *others.entry(told).or_default() += 1;
            }
            let others: Vec<String> = others.iter().map(|(cause, n)| format!("{cause} {n}")).collect();
            writeln!(f, "  {cause:26} {found:3} of {:3}, first {first:3}   {}", seen.len(), others.join(", "))?;
        }
        let clean: Vec<&Seen> = self.seen.iter().filter(|s| s.fault.is_none()).collect();
        let mut alarms: BTreeMap<String, usize> = BTreeMap::new();
        for seen in &clean {
            for cause in &seen.findings {
                *alarms.entry(format!("{cause} in {}", seen.program)).or_default() += 1;
            }
        }
        let alarms: Vec<String> = alarms.iter().map(|(what, n)| format!("{what} {n}")).collect();
        writeln!(
            f,
            "  {:26} {:3} programs, {} alarms   {}",
            "clean",
            clean.len(),
            self.false_alarms(),
            alarms.join(", ")
        )?;
        writeln!(f)?;
        let line = |f: &mut fmt::Formatter, what: &str, s: Shares| {
            let Shares { cases, recall, first, precision } = s;
            writeln!(
                f,
                "{what:22} {cases:4} programs   recall {recall:.3}   precision {precision:.3}   first {first:.3}"
            )
        };
        line(f, "moderate and severe", self.counted())?;
        line(f, "  held-out seeds", self.shares(|s| s.held_out() && s.level() >= Some(Level::Moderate)))?;
        line(f, "mild", self.shares(|s| s.level() == Some(Level::Mild)))?;
        writeln!(f, "false alarms           {} on {} clean programs", self.false_alarms(), self.clean())?;
        writeln!(f, "fixes confirmed        {}", self.confirmed())?;
        writeln!(f, "  faster on fresh seeds  {}", self.hold())?;
        writeln!(f, "random changes confirmed {}", self.random_confirmed())?;
        let broken: Vec<String> = self.seen.iter().filter_map(|s| s.problem.clone()).collect();
        if !broken.is_empty() {
            writeln!(f, "{} programs could not be looked at: {}", broken.len(), broken.join("; "))?;
        }
        for (cause, why) in NOT_COVERED {
            writeln!(f, "not in the suite: {cause}, {why}")?;
        }
        Ok(())
    }
}
