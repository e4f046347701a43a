//! The doctor examined: faulty and clean programs, and whether it tells what was put into them.
//!
//! ```text
//! data.rs       what they learn from, drawn here
//! programs.rs   programs with nothing wrong
//! faults.rs     what is put into them
//! outcome.rs    recall, precision, false alarms, confusions
//! ```

mod data;
mod faults;
mod outcome;
mod programs;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use citius_train::Wishes;
use toml::{Table, Value};

pub use data::{Data, Folder};
pub use faults::{Fault, Level, NOT_COVERED};
pub use outcome::{Outcome, Seen};
pub use programs::Program;

use crate::{Finding, Number, Options, Progress, Severity, Verdict, examine, try_again, try_fixes};

/// How much of the suite to run.
#[derive(Clone, Debug)]
pub struct SelfTest {
    /// Seeds of each faulty program; thresholds were set with those below 100; bench/DOCTOR.md tells what they have seen of others.
    pub seeds: Vec<u64>,
    /// Seeds of each clean program.
    pub clean_seeds: Vec<u64>,
    /// Of the faults take every so many.
    pub every: usize,
    /// Programs that learn from pictures too.
    pub pictures: bool,
    /// Time to look at one program, and to ask what would be if.
    pub look: Duration,
    pub ask: Duration,
    /// Time to try the fix of the first finding where it is right, and as long to try it again from fresh seeds where it is confirmed; none:
    /// it is not tried.
    pub trial: Duration,
    /// Causes or programs to look at alone; all if there are none.
    pub only: Vec<String>,
    /// Programs that are looked at at a time.
    pub threads: usize,
}

impl SelfTest {
    /// All of it.
    pub fn full() -> SelfTest {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        SelfTest {
            seeds: vec![1, 101],
            clean_seeds: (1..=20).collect(),
            every: 1,
            pictures: true,
            look: Options::default().look,
            ask: Options::default().ask,
            trial: Duration::from_secs(12),
            only: Vec::new(),
            threads,
        }
    }

    /// What a test has time for: some faults of programs without pictures, one seed.
    pub fn reduced() -> SelfTest {
        SelfTest {
            seeds: vec![1],
            clean_seeds: vec![1],
            every: 5,
            pictures: false,
            look: Duration::from_millis(800),
            ask: Duration::from_secs(2),
            trial: Duration::ZERO,
            ..SelfTest::full()
        }
    }

    /// Whether there is a cause or a program of this name.
    pub fn knows(name: &str) -> bool {
        name == "clean"
            || crate::causes::known(name)
            || faults::ALL.iter().any(|fault| fault.program.name == name)
            || programs::CLEAN.iter().any(|program| program.name == name)
    }

    /// Runs it; `told` hears of each program as it is done.
    pub fn run(&self, told: &(dyn Fn(&Seen) + Sync)) -> std::io::Result<Outcome> {
        let folder = Folder::new()?;
        let cases = self.cases(&folder)?;
        let next = AtomicUsize::new(0);
        let seen = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let one = case.examine(self);
                        told(&one);
                        if let Ok(mut seen) = seen.lock() {
                            seen.push(one);
                        }
                    }
                });
            }
        });
        let mut seen = seen.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        seen.sort_by_key(|one| one.number);
        Ok(Outcome { seen })
    }

    fn cases(&self, folder: &Folder) -> std::io::Result<Vec<Case>> {
        let mut cases = Vec::new();
        let wanted = |cause: &str, program: &Program| {
            self.only.is_empty() || self.only.iter().any(|only| only == cause || only == program.name)
        };
        for (number, fault) in faults::ALL.iter().enumerate() {
            if !number.is_multiple_of(self.every.max(1)) || !wanted(fault.cause, &fault.program) {
                continue;
            }
            if fault.program.data == Data::Digits && !self.pictures {
                continue;
            }
            for &seed in &self.seeds {
                let source = folder.draw(fault.data.unwrap_or(fault.program.data), seed)?;
                let wishes = settings(fault.program.settings, fault.settings, seed);
                cases.push(Case {
                    number: cases.len(),
                    fault: Some(*fault),
                    program: fault.program,
                    seed,
                    source,
                    wishes,
                });
            }
        }
        for (number, program) in programs::CLEAN.iter().enumerate() {
            if !wanted("clean", program) || (self.every > 1 && number > 1) {
                continue;
            }
            for &seed in &self.clean_seeds {
                let source = folder.draw(program.data, seed)?;
                let wishes = settings(program.settings, "", seed);
                cases.push(Case { number: cases.len(), fault: None, program: *program, seed, source, wishes });
            }
        }
        Ok(cases)
    }
}

/// A program with a fault in it, or none.
struct Case {
    number: usize,
    fault: Option<Fault>,
    program: Program,
    seed: u64,
    source: std::path::PathBuf,
    wishes: Result<Wishes, String>,
}

impl Case {
    fn examine(&self, test: &SelfTest) -> Seen {
        let mut seen = Seen {
            number: self.number,
            fault: self.fault,
            program: self.program.name,
            seed: self.seed,
            findings: Vec::new(),
            evidence: Vec::new(),
            trial: None,
            again: None,
            untried: None,
            problem: None,
            seconds: 0.0,
        };
        let wishes = match &self.wishes {
            Ok(wishes) => Wishes { source: Some(self.source.clone()), ..wishes.clone() },
            Err(problem) => return Seen { problem: Some(problem.clone()), ..seen },
        };
        let cpu = citius_cpu::Options { threads: 1, ..citius_cpu::Options::default() };
        let mut found = examine(&wishes, &Options { look: test.look, ask: test.ask, cpu, ..Options::default() });
        seen.seconds = found.seconds;
        let noted = |cause: &str| faults::NOTES.contains(&cause) && self.fault.is_some_and(|f| f.cause == cause);
        let counts = || found.findings.iter().filter(|f| f.severity > Severity::Note || noted(f.cause));
        seen.findings = counts().map(|f| f.cause).collect();
        let numbers = |f: &Finding| f.evidence.iter().map(Number::to_string).collect::<Vec<_>>().join(", ");
        seen.evidence = counts().map(numbers).collect();
        if seen.first() && !test.trial.is_zero() {
            found.findings.retain(|f| f.cause == seen.findings[0]);
            try_fixes(&mut found, test.trial, cpu, &Progress::default());
            if let Some(finding) = found.findings.first() {
                (seen.trial, seen.untried) = (finding.trial.clone(), finding.untried.clone());
            }
            let confirmed = seen.trial.as_ref().is_some_and(|trial| trial.verdict == Verdict::Confirmed);
            if let Some(fix) = found.findings.first().and_then(|f| f.fix.as_ref()).filter(|_| confirmed) {
                seen.again = try_again(&found, fix, test.trial, cpu).ok();
            }
        }
        seen
    }
}

/// A program's settings with those of a fault in their place.
fn settings(program: &str, fault: &str, seed: u64) -> Result<Wishes, String> {
    let read = |text: &str| toml::from_str::<Table>(text).map_err(|error| format!("{}: {text}", error.message()));
    let mut table = read(program)?;
    let fault = read(fault)?;
    // layers say what hidden would
    if fault.contains_key("layers") {
        table.remove("hidden");
    }
    table.extend(fault);
    table.insert("seed".to_owned(), Value::Integer(seed as i64));
    let text = toml::to_string(&table).map_err(|error| error.to_string())?;
    Wishes::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_train::Training;

    #[test]
    fn every_program_and_every_fault_can_be_told() {
        let folder = Folder::new().unwrap();
        let test = SelfTest { seeds: vec![1], clean_seeds: vec![1], ..SelfTest::full() };
        for case in test.cases(&folder).unwrap() {
            let wishes = case.wishes.unwrap_or_else(|problem| panic!("{problem}"));
            let training = Training::new(Wishes { source: Some(case.source), ..wishes });
            // one fault is that a loss is refused
            let refused = case.fault.is_some_and(|f| f.settings == "loss = \"cross-entropy\"");
            assert_eq!(training.is_err(), refused, "{:?}: {:?}", case.fault, training.err());
            assert!(case.fault.is_none_or(|fault| crate::causes::known(fault.cause)));
        }
    }
}
