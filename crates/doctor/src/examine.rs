//! From a configuration to findings: evidence gathered, checks asked, causes before their consequences.

use std::time::{Duration, Instant};

use citius_data::Features;
use citius_train::{Input, Problem, Wishes, choose};

use crate::checks;
use crate::evidence::dynamic::Subject;
use crate::evidence::{DataFacts, Dynamic, Evidence, Statics};
use crate::finding::{Finding, Severity};

/// How closely to look.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time for looking at the training itself; trials have a budget of their own.
    pub look: Duration,
    pub cpu: citius_cpu::Options,
    /// Causes that are not wanted.
    pub silence: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { look: Duration::from_secs(4), cpu: citius_cpu::Options::default(), silence: Vec::new() }
    }
}

/// What was looked at, and what was found.
pub struct Examination {
    pub evidence: Evidence,
    /// The likeliest cause first.
    pub findings: Vec<Finding>,
    pub problem: Option<Problem>,
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
    let started = Instant::now();
    let mut evidence = Evidence { wishes: wishes.clone(), ..Evidence::default() };
    let problem = match Problem::read(wishes) {
        Ok(problem) => Some(problem),
        Err(error) => {
            evidence.cannot_start = Some(error.to_string());
            None
        }
    };
    if let Some(problem) = &problem {
        gather(problem, options, &mut evidence);
    }
    let findings = look(&evidence, options);
    Examination { evidence, findings, problem, seconds: started.elapsed().as_secs_f64() }
}

/// Rows that are brought into memory where a loader brings them.
const SAMPLE: usize = 4096;

fn gather(problem: &Problem, options: &Options, evidence: &mut Evidence) {
    evidence.task = Some(problem.task);
    match choose(problem, &evidence.wishes) {
        Ok((settings, _)) => evidence.settings = Some(settings),
        Err(error) => evidence.cannot_start = Some(error.to_string()),
    }
    let form = problem.train.form();
    if let Some(settings) = &evidence.settings {
        let statics = Statics::of(settings, &form);
        if let Some(mistake) = &statics.mistake {
            evidence.cannot_start = Some(mistake.clone());
        }
        evidence.statics = Some(statics);
    }
    let sampled;
    let train = match problem.train.resident() {
        Some(train) => Some(train),
        None => match problem.train.sample(SAMPLE, 0) {
            Ok(sample) => {
                sampled = sample;
                sampled.as_ref()
            }
            Err(error) => {
                evidence.missing.push(format!("rows could not be loaded: {error}"));
                None
            }
        },
    };
    let Some(train) = train else { return };
    let names = match &problem.input {
        Input::Table { preparation } => preparation.feature_names(),
        Input::Images { .. } | Input::Rows(_) => Vec::new(),
    };
    let flat = matches!(problem.input, Input::Table { .. }) && !matches!(train.features, Features::I32 { .. });
    evidence.data = Some(DataFacts::of(train, problem.validation.as_ref(), &names, flat));
    let Some(settings) = evidence.settings.clone().filter(|_| evidence.cannot_start.is_none()) else { return };
    let subject = Subject {
        settings: &settings,
        train,
        validation: problem.validation.as_ref(),
        cpu: options.cpu,
        budget: options.look,
    };
    match Dynamic::of(&subject) {
        Ok(dynamic) => evidence.dynamic = Some(dynamic),
        Err(error) => evidence.missing.push(format!("no steps could be taken: {error}")),
    }
}

/// Asks all checks, and puts causes before their consequences.
pub fn look(evidence: &Evidence, options: &Options) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in checks::ALL {
        if check.needs().iter().all(|kind| evidence.has(*kind)) && !options.silence.iter().any(|s| s == check.cause()) {
            findings.extend(check.look(evidence));
        }
    }
    ranked(findings)
}

/// A finding that a graver one explains is a consequence: told, but not as something to mend.
fn ranked(mut findings: Vec<Finding>) -> Vec<Finding> {
    let serious: Vec<&'static str> = findings.iter().filter(|f| f.severity > Severity::Note).map(|f| f.cause).collect();
    for finding in &mut findings {
        let explains = |cause: &&'static str| {
            let check = checks::ALL.iter().find(|check| check.cause() == *cause);
            check.is_some_and(|check| check.explains().contains(&finding.cause))
        };
        finding.follows = serious.iter().copied().find(|cause| *cause != finding.cause && explains(cause));
        if finding.follows.is_some() {
            finding.severity = Severity::Note;
        }
    }
    let place = |cause: &str| checks::ALL.iter().position(|check| check.cause() == cause).unwrap_or(usize::MAX);
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(place(a.cause).cmp(&place(b.cause))));
    findings
}
