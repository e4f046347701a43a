//! The short check in every run: settings and rows before the first step, then what the events tell; a line for each finding, once, and
//! nothing where all is well.

use std::panic::resume_unwind;
use std::thread::{Scope, ScopedJoinHandle};

use citius_train::{Details, Event, Problem, Settings, Training, Wishes};

use crate::examine::{Examination, Options, examine, glance};
use crate::finding::Severity;
use crate::score::constant_loss;

/// Share of a layer's units without any gradient in an epoch that is not usual.
const MANY_ASLEEP: f64 = 0.6;
/// Rows beyond which looking at them takes longer than a person waits; nothing is looked at then.
const MOST_VALUES: usize = 1 << 26;
/// Steps after which a loss that is still a constant's is no accident.
const PATIENCE: u64 = 500;

/// Listens to a run.
pub struct Watch<'scope> {
    looking: Option<ScopedJoinHandle<'scope, Seen>>,
    /// Loss of the best constant answer.
    constant: Option<f64>,
    silence: Vec<String>,
    steps_per_epoch: u64,
    out: String,
    first: Option<f64>,
    said: Vec<&'static str>,
}

/// What settings and rows tell before the first step.
struct Seen {
    findings: Vec<Event>,
    constant: Option<f64>,
}

impl Seen {
    fn of(problem: &Problem, wishes: &Wishes, settings: &Settings) -> Seen {
        let form = problem.train.form();
        let few = form.rows.saturating_mul(form.width) <= MOST_VALUES;
        let findings = if few { glance(problem, wishes, settings) } else { Vec::new() };
        let serious = findings.into_iter().filter(|f| f.severity > Severity::Note);
        let said = |f: crate::Finding| {
            let fix =
                f.fix.as_ref().filter(|fix| !fix.changes.is_empty()).map_or(String::new(), |fix| format!("; {fix}"));
            Event::Finding { cause: f.cause.to_owned(), message: format!("{}{fix}", f.what) }
        };
        // learned vectors change the network, not what a constant answer costs
        let details = Details { embeddings: Vec::new(), ..settings.details.clone() };
        let mean = details == Details::default();
        let constant = problem.train.resident().filter(|_| mean).and_then(|t| constant_loss(&settings.loss, &t.target));
        Seen { findings: serious.map(said).collect(), constant }
    }
}

impl<'scope> Watch<'scope> {
    /// Looks at settings and rows while the step is being compiled; what it sees is said before the first one.
    pub fn new<'env>(
        scope: &'scope Scope<'scope, 'env>,
        problem: &'env Problem,
        wishes: &'env Wishes,
        settings: &'env Settings,
    ) -> Watch<'scope> {
        Watch {
            looking: Some(scope.spawn(|| Seen::of(problem, wishes, settings))),
            constant: None,
            silence: wishes.silence.clone().unwrap_or_default(),
            steps_per_epoch: 0,
            out: String::new(),
            first: None,
            said: Vec::new(),
        }
    }

    fn say(&mut self, cause: &'static str, message: String) -> Vec<Event> {
        if self.said.contains(&cause) || self.silence.iter().any(|s| s == cause) {
            return Vec::new();
        }
        self.said.push(cause);
        vec![Event::Finding { cause: cause.to_owned(), message }]
    }
}

impl citius_train::Watch for Watch<'_> {
    fn hear(&mut self, event: &Event) -> Vec<Event> {
        match event {
            Event::RunStarted { steps_per_epoch, out, .. } => {
                (self.steps_per_epoch, self.out) = (*steps_per_epoch, out.clone());
                Vec::new()
            }
            Event::Ready { .. } => {
                let Some(looking) = self.looking.take() else { return Vec::new() };
                let seen = looking.join().unwrap_or_else(|panic| resume_unwind(panic));
                self.constant = seen.constant;
                seen.findings
            }
            Event::Units { layers } => {
                // the outputs are no hidden units
                let asleep =
                    |l: &&citius_train::Asleep| l.units >= 16 && l.asleep as f64 > MANY_ASLEEP * l.units as f64;
                match layers.iter().find(asleep) {
                    Some(l) => {
                        let what = format!(
                            "{} of {} units of layer {} got no gradient in the first epoch",
                            l.asleep, l.units, l.layer
                        );
                        self.say("dead-units", format!("{what}; citius doctor {} says why", self.out))
                    }
                    None => Vec::new(),
                }
            }
            Event::EpochEnded { epoch, loss, lr, .. } => {
                let first = *self.first.get_or_insert(*loss);
                if *epoch >= 3 && *loss > 3.0 * first && *loss > 0.0 {
                    let what =
                        format!("the loss has risen from {first:.4} to {loss:.4} at a learning rate of {lr:.1e}");
                    return self.say("learning-rate-too-high", format!("{what}; a lower one may help"));
                }
                let long = *epoch >= 5 && self.steps_per_epoch * *epoch as u64 >= PATIENCE;
                match self.constant {
                    Some(constant) if long && *loss > 0.99 * constant && !self.said.contains(&"stuck") => {
                        self.said.push("stuck");
                        let what = format!(
                            "after {epoch} epochs the loss is {loss:.4}, that of a constant answer is {constant:.4}"
                        );
                        vec![Event::Warning {
                            message: format!("{what}; citius doctor {} looks for the reason", self.out),
                        }]
                    }
                    _ => Vec::new(),
                }
            }
            Event::Diverged(divergence) => {
                let what = format!("{}; citius doctor {} looks for the reason", divergence.what, self.out);
                self.say("non-finite", what)
            }
            _ => Vec::new(),
        }
    }
}

/// `training.doctor()`
pub trait Doctor {
    /// Looks at a training before it is run.
    fn doctor(&self) -> Examination;
}

impl Doctor for Training {
    fn doctor(&self) -> Examination {
        examine(self.wishes(), &Options::default())
    }
}

impl Doctor for Wishes {
    fn doctor(&self) -> Examination {
        examine(self, &Options::default())
    }
}
