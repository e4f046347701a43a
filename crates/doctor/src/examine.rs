//! From a configuration to findings: evidence gathered, checks asked, causes before their consequences.

use std::rc::Rc;
use std::time::{Duration, Instant};

use citius_data::{Features, PreparationNote};
use citius_train::{Input, Problem, Settings, Wishes, choose};

use crate::checks;
use crate::evidence::dynamic::Subject;
use crate::evidence::{DataFacts, Dynamic, Evidence, Ledger, Speed, Statics};
use crate::finding::{Finding, Severity};
use crate::progress::Progress;
use crate::report;
use crate::what_if::WhatIf;

/// How closely to look.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time for the training under probes, and up to 20 times as much where steps are long; and for questions of what would be if.
    /// Trials have a budget of their own.
    pub look: Duration,
    pub ask: Duration,
    /// Time for the speed of steps, as they are and otherwise; up to three seconds more where a price would be vague.
    pub time: Duration,
    pub cpu: citius_cpu::Options,
    /// Causes that are not wanted.
    pub silence: Vec<String>,
    /// Who hears what is being done.
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            look: Duration::from_millis(3000),
            ask: Duration::from_secs(8),
            time: Duration::from_millis(800),
            cpu: citius_cpu::Options::default(),
            silence: Vec::new(),
            progress: Progress::default(),
        }
    }
}

/// What was looked at, and what was found.
pub struct Examination {
    pub evidence: Evidence,
    /// The likeliest cause first.
    pub findings: Vec<Finding>,
    pub seconds: f64,
}

impl Examination {
    /// Findings that ask for something to be done.
    pub fn serious(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.severity > Severity::Note)
    }
}

/// Looks at a configuration as `citius train` would run it.
pub fn examine(wishes: &Wishes, options: &Options) -> Examination {
    examine_run(wishes, None, options)
}

/// The same, with what a run of it came to.
pub fn examine_run(wishes: &Wishes, ledger: Option<Ledger>, options: &Options) -> Examination {
    let started = Instant::now();
    let mut evidence = Evidence { wishes: wishes.clone(), ledger, ..Evidence::default() };
    options.progress.tell("reading the data", None);
    match Problem::read(wishes) {
        Ok(problem) => gather(Rc::new(problem), options, true, &mut evidence),
        Err(error) => evidence.cannot_start = Some(error.to_string()),
    }
    options.progress.tell("asking what would be if", Some(options.ask));
    let findings = look(&evidence, options);
    Examination { evidence, findings, seconds: started.elapsed().as_secs_f64() }
}

/// Looks at the settings and the rows alone: no step is taken.
pub fn glance(problem: &Problem, wishes: &Wishes, settings: &Settings) -> Vec<Finding> {
    let mut evidence = Evidence { wishes: wishes.clone(), task: Some(problem.task), ..Evidence::default() };
    evidence.settings = Some(settings.clone());
    evidence.statics = Some(Statics::of(settings, &problem.train.form()));
    if let Some(train) = problem.train.resident() {
        evidence.data = Some(facts(problem, train, false));
    }
    look(&evidence, &Options::default())
}

/// How many times as long as it was given a look may take where steps are long.
const PATIENCE: f64 = 20.0;
/// What warming up takes besides the time for speed.
const LONGER: Duration = Duration::from_secs(3);
/// Rows that are brought into memory where a loader brings them.
const SAMPLE: usize = 4096;

fn gather(problem: Rc<Problem>, options: &Options, steps: bool, evidence: &mut Evidence) {
    evidence.task = Some(problem.task);
    evidence.problem = Some(problem.clone());
    match choose(&problem, &evidence.wishes) {
        Ok((settings, _)) => evidence.settings = Some(settings),
        Err(error) => evidence.cannot_start = Some(error.to_string()),
    }
    if let Some(settings) = &evidence.settings {
        let statics = Statics::of(settings, &problem.train.form());
        if let Some(mistake) = &statics.mistake {
            evidence.cannot_start = Some(mistake.clone());
        }
        evidence.statics = Some(statics);
    }
    let mut sampled = None;
    if problem.train.resident().is_none() {
        match problem.train.sample(SAMPLE, 0) {
            Ok(sample) => sampled = sample.map(Rc::new),
            Err(error) => evidence.missing.push(format!("rows could not be loaded: {error}")),
        }
    }
    if let Some(settings) = evidence.settings.as_ref().filter(|_| evidence.cannot_start.is_none() && steps) {
        options.progress.tell("timing steps, as they are and otherwise", Some(options.time + LONGER));
        match Speed::of(&problem.train, settings, evidence.device(), options.cpu, options.time) {
            Ok(mut speed) => {
                speed.run = evidence.ledger.as_ref().and_then(|ledger| ledger.time.clone());
                evidence.speed = Some(speed);
            }
            Err(error) => evidence.missing.push(format!("the speed of steps: {error}")),
        }
    }
    let Some(train) = problem.train.resident().or(sampled.as_deref()) else {
        evidence.missing.push("rows and steps: these rows cannot be held in memory as they are".to_owned());
        return;
    };
    evidence.data = Some(facts(&problem, train, true));
    let able = evidence.cannot_start.is_none() && steps;
    let Some(settings) = evidence.settings.clone().filter(|_| able) else { return };
    let step = evidence.processor_step(options.cpu);
    let rows = Dynamic::least_rows(&settings, train) as f64;
    let seconds = step * rows / settings.batch_size.clamp(1, train.rows.max(1)) as f64;
    if seconds > PATIENCE * options.look.as_secs_f64() {
        evidence.missing.push(format!(
            "how it learns: a step takes {} on the processor, and the least that tells anything {}; a smaller batch or network takes less, \
             and --look {:.0}s has time for it",
            report::seconds(step),
            report::seconds(seconds),
            (1.2 * seconds / PATIENCE).ceil()
        ));
        return;
    }
    let subject = Subject {
        settings: &settings,
        train,
        validation: problem.validation.as_ref(),
        cpu: options.cpu,
        budget: options.look,
    };
    options
        .progress
        .tell("watching it learn, from several seeds", Some(options.look.max(Duration::from_secs_f64(seconds))));
    match Dynamic::of(&subject) {
        Ok(dynamic) => {
            evidence.what_if = Some(WhatIf::new(problem.clone(), sampled.clone(), &dynamic, options.cpu, options.ask));
            evidence.dynamic = Some(dynamic);
        }
        Err(error) => evidence.missing.push(format!("no steps could be taken: {error}")),
    }
}

fn facts(problem: &Problem, train: &citius_data::Dataset, thorough: bool) -> DataFacts {
    let names = match &problem.input {
        Input::Table { preparation } => preparation.feature_names(),
        Input::Images { .. } | Input::Rows(_) => Vec::new(),
    };
    let flat = matches!(problem.input, Input::Table { .. }) && !matches!(train.features, Features::I32 { .. });
    let mut facts = DataFacts::of(train, problem.validation.as_ref(), &names, flat, thorough);
    if let Input::Table { preparation } = &problem.input {
        let hashed = preparation.hashed_words();
        facts.columns.iter_mut().zip(hashed).for_each(|(column, hashed)| column.hashed_word = hashed);
    }
    if let Input::Table { preparation } = &problem.input {
        let constant = preparation.notes().iter().filter(|note| matches!(note, PreparationNote::Constant { .. }));
        facts.dropped = constant.map(PreparationNote::to_string).collect();
    }
    facts
}

/// Asks all checks, and puts causes before their consequences.
pub fn look(evidence: &Evidence, options: &Options) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for check in checks::ALL {
        let silent = |cause: &str| {
            options.silence.iter().any(|s| s == cause)
                || evidence.wishes.silence.as_ref().is_some_and(|names| names.iter().any(|s| s == cause))
        };
        // a consequence of what is known already needs no experiment of its own
        let explained = findings.iter().any(|f| {
            f.severity == Severity::Fault
                && checks::ALL.iter().any(|c| c.cause() == f.cause && c.accounts_for(check.cause()))
        });
        if silent(check.cause()) || explained || !check.needs().iter().all(|kind| evidence.has(*kind)) {
            continue;
        }
        findings.extend(check.look(evidence));
    }
    ranked(findings)
}

/// A finding that a graver one explains is a consequence: told, but not as something to mend.
fn ranked(mut findings: Vec<Finding>) -> Vec<Finding> {
    let serious: Vec<&'static str> = findings.iter().filter(|f| f.severity > Severity::Note).map(|f| f.cause).collect();
    for finding in &mut findings {
        let explains = |cause: &str, other: &str| {
            let check = checks::ALL.iter().find(|check| check.cause() == cause);
            check.is_some_and(|check| check.accounts_for(other))
        };
        let place = |cause: &str| checks::ALL.iter().position(|check| check.cause() == cause);
        // of two that explain each other, the earlier is the cause
        let mutual = |cause: &str| explains(finding.cause, cause) && place(cause) > place(finding.cause);
        finding.follows = serious.iter().copied().find(|cause| explains(cause, finding.cause) && !mutual(cause));
        if finding.follows.is_some() {
            finding.severity = Severity::Note;
        }
    }
    let place = |cause: &str| checks::ALL.iter().position(|check| check.cause() == cause).unwrap_or(usize::MAX);
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(place(a.cause).cmp(&place(b.cause))));
    findings
}
