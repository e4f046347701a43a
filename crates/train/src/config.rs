//! What a person asks for, from flags or from a TOML file; everything left open is chosen by [`crate::auto`].

use std::path::{Path, PathBuf};

use citius_data::PrepareOptions;
use citius_nn::{Activation, ByName, Loss, OptimizerConfig, ScheduleConfig, name_or_table};
use serde::{Deserialize, Deserializer, Serialize};

use crate::TrainError;

macro_rules! wishes {
    ($($(#[$meta:meta])* $name:ident: $kind:ty,)*) => {
        /// Wishes for a run; `None` leaves the choice to us. Keys of a settings file are the flags' names.
        #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Wishes {
            $($(#[$meta])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$kind>,)*
        }

        impl Wishes {
            /// These, and where they are open those of `other`.
            pub fn or(self, other: Wishes) -> Wishes {
                Wishes { $($name: self.$name.or(other.$name),)* }
            }

            /// Names of the wishes that are not open, as flags.
            pub fn given(&self) -> Vec<String> {
                let mut given = Vec::new();
                $(if self.$name.is_some() {
                    given.push(format!("--{}", stringify!($name).replace('_', "-")));
                })*
                given
            }
        }

        const KEYS: &[&str] = &[$(stringify!($name)),*];
    };
}

wishes! {
    /// A table, or a directory with the four MNIST files.
    source: PathBuf,
    /// Column name or 0-based index; the last column when open.
    target: String,
    /// `regression`, `binary` or `classes`.
    task: String,
    /// Files of 0-based row numbers, one per line.
    train_rows: PathBuf,
    test_rows: PathBuf,
    /// Share of the training rows that decides when to stop.
    validation: f64,
    /// Share of all rows kept for the final judgement.
    test: f64,
    /// Further tokens for a missing cell.
    missing: Vec<String>,
    /// Columns to read as text whatever they hold.
    text: Vec<String>,
    /// Whether the first line holds names.
    header: bool,
    delimiter: String,
    /// How columns become inputs.
    prepare: PrepareOptions,

    hidden: Vec<usize>,
    activation: Activation,
    dropout: f64,
    #[serde(deserialize_with = "loss")]
    loss: Loss,
    #[serde(deserialize_with = "named")]
    optimizer: OptimizerConfig,
    lr: f64,
    #[serde(deserialize_with = "named")]
    schedule: ScheduleConfig,
    weight_decay: f64,
    clip_norm: f64,
    accumulate: usize,
    batch_size: usize,
    epochs: usize,
    /// Validations without improvement before stopping; 0 never stops early.
    patience: usize,
    /// Decay of the running average of the weights; 0 for none.
    average: f64,
    /// Train anew on all rows once the best number of epochs is known.
    refit: bool,
    seed: u64,
}

impl Wishes {
    /// Reads a TOML file; a misspelt key is named, with the nearest known one.
    pub fn read(path: &Path) -> Result<Wishes, TrainError> {
        let bytes = crate::files::read(path)?;
        let problem = |problem: String| TrainError::Config { file: path.display().to_string(), problem };
        let text = String::from_utf8(bytes).map_err(|_| problem("not UTF-8 text".into()))?;
        Wishes::parse(&text).map_err(problem)
    }

    fn parse(text: &str) -> Result<Wishes, String> {
        toml::from_str(text).map_err(|error| {
            let place = error.span().map_or(String::new(), |span| {
                format!("line {}: ", text[..span.start.min(text.len())].matches('\n').count() + 1)
            });
            format!("{place}{}", said(error.message()))
        })
    }
}

/// serde's message, with a suggestion instead of a long list where a key is misspelt.
fn said(message: &str) -> String {
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    let Some(unknown) = unknown else { return message.to_owned() };
    let keys: Vec<String> = KEYS.iter().map(|key| key.replace('_', "-")).collect();
    match nearest(unknown, keys.iter().map(String::as_str)) {
        Some(near) => format!("no setting `{unknown}`; did you mean `{near}`?"),
        None if message.contains("`batch-size`") => format!("no setting `{unknown}`; there are {}", keys.join(", ")),
        None => message.to_owned(),
    }
}

pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.replace('_', "-").to_lowercase();
    names
        .map(|name| (strsim::jaro_winkler(&wanted, name), name))
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

fn named<'de, D: Deserializer<'de>, T: ByName>(deserializer: D) -> Result<Option<T>, D::Error> {
    name_or_table(deserializer).map(Some)
}

/// `"auto"` leaves the loss open.
fn loss<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Loss>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Name(String),
        Table(Loss),
    }
    match Given::deserialize(deserializer)? {
        Given::Name(name) if name == "auto" => Ok(None),
        Given::Name(name) => Loss::by_name(&name).map(Some).map_err(serde::de::Error::custom),
        Given::Table(loss) => Ok(Some(loss)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_nn::Sgd;

    #[test]
    fn a_whole_file() {
        let text = "hidden = [128, 64]\nlr = 0.01\nloss = \"huber\"\nbatch-size = 32\n\
                    schedule = \"cosine\"\n[optimizer]\nname = \"sgd\"\nmomentum = 0.9\n";
        let wishes = Wishes::parse(text).unwrap();
        assert_eq!(wishes.hidden, Some(vec![128, 64]));
        assert_eq!(wishes.loss, Some(Loss::Huber { delta: 1.0 }));
        assert_eq!(wishes.optimizer, Some(OptimizerConfig::Sgd(Sgd { momentum: 0.9, ..Sgd::default() })));
        assert_eq!(wishes.given(), ["--hidden", "--loss", "--optimizer", "--lr", "--schedule", "--batch-size"]);
        let flags = Wishes { lr: Some(0.1), ..Wishes::default() };
        let both = flags.or(wishes);
        assert_eq!((both.lr, both.batch_size), (Some(0.1), Some(32)));
    }

    #[test]
    fn auto_leaves_the_loss_open() {
        assert_eq!(Wishes::parse("loss = \"auto\"").unwrap(), Wishes::default());
    }

    #[test]
    fn mistakes_name_line_and_near_key() {
        let message = Wishes::parse("lr = 0.1\nepoch = 3\n").unwrap_err();
        assert_eq!(message, "line 2: no setting `epoch`; did you mean `epochs`?");
        let message = Wishes::parse("batch_size = 3\n").unwrap_err();
        assert!(message.contains("did you mean `batch-size`?"), "{message}");
        assert!(Wishes::parse("zzz = 1").unwrap_err().contains("hidden, activation"));
        assert!(Wishes::parse("lr = \"fast\"").unwrap_err().contains("line 1"));
        assert!(Wishes::parse("optimizer = \"adan\"").unwrap_err().contains("adamw"));
        assert!(Wishes::parse("lr = ").unwrap_err().contains("line 1"));
    }
}
