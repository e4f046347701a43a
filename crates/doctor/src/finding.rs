//! What was found, said as a good colleague would.

use std::fmt;

use citius_nn::HiddenLayer;
use citius_train::{Counterfactual, Wishes};
use serde::Serialize;
use toml::{Table, Value};

use crate::trials::Trial;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing needs to be done.
    Note,
    /// Costs time or quality.
    Warning,
    /// Keeps the network from learning what it could.
    Fault,
}

/// One cause, with what speaks for it and what to do.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Stable name, one of [`crate::causes::ALL`].
    pub cause: &'static str,
    pub severity: Severity,
    /// One or two sentences.
    pub what: String,
    pub evidence: Vec<Number>,
    /// Seconds to the target that it costs, as a trial has shown.
    pub cost: Option<f64>,
    /// What a run of as many epochs takes longer for it: measured, of what makes steps slow.
    pub price: Option<Price>,
    pub fix: Option<Fix>,
    /// From 0 to 1.
    pub sure: f64,
    /// The finding this one is a consequence of.
    pub follows: Option<&'static str>,
    /// What trying the fix came to; or why it was not tried.
    pub trial: Option<Trial>,
    pub untried: Option<String>,
    /// How to have it left out.
    pub silence: String,
}

/// Seconds of the whole run, for the same number of rows; and the ends of the 95% interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Price {
    pub seconds: f64,
    pub low: f64,
    pub high: f64,
}

/// A number with its name.
#[derive(Clone, Debug, Serialize)]
pub struct Number {
    pub name: String,
    pub value: f64,
}

/// A change of the configuration.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Fix {
    /// What it does, for people.
    pub what: String,
    pub changes: Vec<Change>,
}

/// One key of the settings file.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Change {
    /// `prepare.scale`: tables within tables.
    pub key: String,
    /// `None` removes the key.
    pub value: Option<Value>,
}

impl Finding {
    pub fn new(cause: &'static str, severity: Severity, what: impl Into<String>) -> Finding {
        debug_assert!(crate::causes::known(cause), "{cause} is not in causes.rs");
        Finding {
            cause,
            severity,
            what: what.into(),
            evidence: Vec::new(),
            cost: None,
            price: None,
            fix: None,
            sure: 0.9,
            follows: None,
            trial: None,
            untried: None,
            silence: format!("silence = [\"{cause}\"] in the settings file, or --silence {cause}"),
        }
    }

    /// Adds a number that speaks for it.
    pub fn because(mut self, name: impl Into<String>, value: f64) -> Finding {
        self.evidence.push(Number { name: name.into(), value });
        self
    }

    /// What its removal saves, by what was measured.
    pub fn saves(mut self, other: &Counterfactual) -> Finding {
        self.price = Some(Price { seconds: other.saves, low: other.saves_low, high: other.saves_high });
        self
    }

    pub fn fix(mut self, fix: Fix) -> Finding {
        self.fix = Some(fix);
        self
    }

    pub fn sure(mut self, sure: f64) -> Finding {
        self.sure = sure;
        self
    }
}

impl Fix {
    pub fn new(what: impl Into<String>) -> Fix {
        Fix { what: what.into(), changes: Vec::new() }
    }

    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Fix {
        self.changes.push(Change { key: key.to_owned(), value: Some(value.into()) });
        self
    }

    /// The hidden layers one by one.
    pub fn layers(self, layers: Vec<HiddenLayer>) -> Fix {
        let alone = Wishes { layers: Some(layers), ..Wishes::default() };
        match table(&alone).ok().and_then(|mut table| table.remove("layers")) {
            Some(value) => self.set("layers", value),
            None => self,
        }
    }

    pub fn remove(mut self, key: &str) -> Fix {
        self.changes.push(Change { key: key.to_owned(), value: None });
        self
    }

    /// The configuration with these changes. `Err` says what does not fit.
    pub fn apply(&self, wishes: &Wishes) -> Result<Wishes, String> {
        let mut table = table(wishes)?;
        for change in &self.changes {
            change.apply(&mut table);
        }
        let text = toml::to_string(&table).map_err(|error| error.to_string())?;
        // nobody has seen the lines of this text
        Wishes::parse(&text).map_err(|problem| match problem.split_once(": ") {
            Some((place, rest)) if place.starts_with("line ") => rest.to_owned(),
            _ => problem,
        })
    }

    /// Whether it changes how rows come, and nothing that is learned from them.
    pub fn only_loads(&self) -> bool {
        const LOADING: &[&str] = &["workers", "prefetch", "memory", "delay", "pinned"];
        self.changes.iter().all(|change| LOADING.contains(&change.key.as_str()))
    }

    /// Whether the data must be read again.
    pub fn touches_data(&self) -> bool {
        const DATA: &[&str] = &[
            "source",
            "target",
            "task",
            "train-rows",
            "test-rows",
            "validation",
            "test",
            "missing",
            "text",
            "header",
            "delimiter",
            "prepare",
            "kind",
            "window",
            "stride",
            "horizon",
            "size",
            "augment",
            "mix",
            "workers",
            "prefetch",
            "pinned",
            "memory",
            "on-error",
            "label-noise",
            "shuffle-labels",
            "delay",
        ];
        self.changes.iter().any(|change| DATA.contains(&change.key.split('.').next().unwrap_or_default()))
    }
}

/// A configuration as the tree that changes are made to. By its text: reading and writing it are compiled in one crate.
fn table(wishes: &Wishes) -> Result<Table, String> {
    toml::from_str(&wishes.to_toml()?).map_err(|error| error.message().to_owned())
}

impl Change {
    fn apply(&self, table: &mut Table) {
        let mut names: Vec<&str> = self.key.split('.').collect();
        let Some(last) = names.pop() else { return };
        let mut at = table;
        for name in names {
            if self.value.is_none() && !at.contains_key(name) {
                return;
            }
            let inner = at.entry(name).or_insert_with(|| Value::Table(Table::new()));
            if let Value::String(named) = inner {
                // `optimizer = "adam"` is `[optimizer] name = "adam"`
                let name = Value::String(std::mem::take(named));
                *inner = Value::Table(Table::from_iter([("name".to_owned(), name)]));
            }
            let Value::Table(inner) = inner else { return };
            at = inner;
        }
        match &self.value {
            Some(value) => at.insert(last.to_owned(), value.clone()),
            None => at.remove(last),
        };
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Fault => "fault",
        })
    }
}

/// `lr = 0.001, prepare.scale = "standard"`
impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, change) in self.changes.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            match &change.value {
                Some(value) => write!(f, "{comma}{} = {value}", change.key)?,
                None => write!(f, "{comma}without {}", change.key)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_nn::{Adam, OptimizerConfig};

    #[test]
    fn a_fix_changes_keys_within_tables() {
        let wishes = Wishes { lr: Some(10.0), patience: Some(3), ..Wishes::default() };
        let fix = Fix::new("").set("lr", 1e-3).set("prepare.scale", "standard").remove("patience");
        let fixed = fix.apply(&wishes).unwrap();
        assert_eq!((fixed.lr, fixed.patience), (Some(1e-3), None));
        assert!(fixed.prepare.is_some() && fix.touches_data());
        assert_eq!(fix.to_string(), "lr = 0.001, prepare.scale = \"standard\", without patience");
        let adam = Adam { eps: 1.0, ..Adam::default() };
        let wishes = Wishes { optimizer: Some(OptimizerConfig::Adam(adam)), ..Wishes::default() };
        let fixed = Fix::new("").set("optimizer.eps", 1e-8).apply(&wishes).unwrap();
        assert_eq!(fixed.optimizer, Some(OptimizerConfig::Adam(Adam::default())));
        assert!(Fix::new("").set("lrr", 1.0).apply(&wishes).is_err());
    }
}
