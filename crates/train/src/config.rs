//! What a person asks for, from flags or from a TOML file; everything left open is chosen by [`crate::auto`].

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use citius_data::picture::{Mix, Transform};
use citius_data::source::GapFill;
use citius_data::{Escaped, OnError, PrepareOptions, TextEncoding};
use citius_nn::{
    Activation, ByName, Head, HiddenLayer, LayerMode, Loss, Network, OptimizerConfig, Reduction, ScheduleConfig,
    WeightInit, name_or_table,
};
use serde::{Deserialize, Deserializer, Serialize};

use citius_cuda::Precision;

use crate::{Device, Rate, TrainError};

macro_rules! wishes {
    ($($(#[$meta:meta])* $name:ident: $kind:ty $(=> $purpose:literal)?,)*) => {
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

        /// Wishes that know which of them were read: one that was given and that nothing has read is an error
        /// ([`TrackedWishes::refuse_unread`]), so that no setting is accepted and ignored.
        pub struct TrackedWishes<'a> {
            $(pub(crate) $name: Tracked<'a, $kind>,)*
        }

        impl<'a> TrackedWishes<'a> {
            pub fn new(wishes: &'a Wishes) -> TrackedWishes<'a> {
                TrackedWishes { $($name: Tracked { value: &wishes.$name, read: Cell::new(false) },)* }
            }

            /// Names of those that were given and not read, each with what it is for.
            fn unread(&self) -> Vec<(&'static str, &'static str)> {
                let mut unread = Vec::new();
                $(if self.$name.value.is_some() && !self.$name.read.get() {
                    unread.push((stringify!($name), concat!($($purpose)?)));
                })*
                unread
            }

            /// Marks those that were read while the data was.
            pub(crate) fn mark_read(&self, names: &[&'static str]) {
                $(if names.contains(&stringify!($name)) {
                    self.$name.read.set(true);
                })*
            }

            /// Names of those that were read.
            pub(crate) fn read(&self) -> Vec<&'static str> {
                let mut read = Vec::new();
                $(if self.$name.read.get() {
                    read.push(stringify!($name));
                })*
                read
            }
        }
    };
}

wishes! {
    /// A table, or a directory with the four MNIST files.
    source: PathBuf,
    /// Column name or 0-based index; the last column when open.
    #[serde(deserialize_with = "text_or_number")]
    target: String => "tables and series",
    /// `regression`, `binary` or `classes`.
    task: String => "tables",
    /// Files of 0-based row numbers, one per line.
    train_rows: PathBuf,
    test_rows: PathBuf,
    /// Share of the training rows that decides when to stop.
    validation: f64,
    /// Share of all rows kept for the final judgement.
    test: f64,
    /// Further tokens for a missing cell.
    #[serde(deserialize_with = "one_or_more")]
    missing: Vec<String> => "tables",
    /// Columns to read as text whatever they hold.
    #[serde(deserialize_with = "one_or_more")]
    text: Vec<String> => "tables",
    /// Columns to leave out, by name or index.
    #[serde(deserialize_with = "one_or_more")]
    drop: Vec<String> => "tables",
    /// The only columns to use, by name or index.
    #[serde(deserialize_with = "one_or_more")]
    only: Vec<String> => "tables",
    /// Whether the first line holds names.
    header: bool => "tables",
    delimiter: String => "tables",
    /// The encoding of a text that is not UTF-8: `latin-1`, `utf-16`, `shift_jis`.
    encoding: TextEncoding => "tables and texts",
    /// How columns become inputs.
    prepare: PrepareOptions => "tables, series and pictures",
    /// What the source is, where it cannot be told: table, pictures, series or text.
    kind: SourceKind,
    /// Rows of a table, or characters of a text, that predict what follows.
    window: usize => "series and texts",
    /// From a window to the next.
    stride: usize => "series and texts",
    /// Rows to predict behind a window.
    horizon: usize => "series",
    /// The column that says when each row of a series was, by name or index; `none`: rows are in the order of the file.
    #[serde(deserialize_with = "text_or_number")]
    time: String => "series",
    /// What takes the place of a missing value of a series: `previous`, `linear`, or `refuse`.
    fill: GapFill => "series",
    /// Sides of the square that pictures are brought to.
    size: usize => "folders of pictures",
    /// What is done to training pictures, anew in every epoch.
    augment: Vec<Transform> => "pictures",
    /// Training pictures mixed with each other, and their labels alike: `{ name = "mixup", alpha = 0.2 }`, or cutmix.
    mix: Mix => "pictures",
    /// Threads that load, besides those that train; `auto` or open: as many as turn out fastest.
    workers: Workers => "rows that are loaded",
    /// Batches held ready.
    prefetch: usize => "rows that are loaded",
    /// Whether batches lie in pinned memory on their way to a GPU, as they do unless told.
    pinned: bool => "rows that are loaded",
    /// Memory for data: what needs more is read as it is needed.
    memory: Bytes,
    /// What to do about rows that cannot be read.
    on_error: OnError => "pictures, and rows that are read in blocks",
    /// Share of the training and validation rows that get a label of another.
    label_noise: f64,
    /// Every training and validation row gets the label of some other: there is nothing left to learn.
    shuffle_labels: bool,
    /// Microseconds of work to prepare each row, as if it had to be decoded; a loader brings the rows then.
    delay: f64,

    /// The network by name, or a table with `name` and its sizes.
    #[serde(deserialize_with = "named")]
    model: Network,
    /// Units of an mlp's hidden layers.
    #[serde(deserialize_with = "units")]
    hidden: Vec<usize>,
    activation: Activation,
    dropout: f64,
    /// An mlp's hidden layers one by one, instead of `hidden`.
    layers: Vec<HiddenLayer>,
    /// How the weights of the network start.
    #[serde(deserialize_with = "named")]
    init: WeightInit,
    /// How those start whose names a pattern covers: `{ "fc.*" = "zeros" }`.
    inits: Inits,
    /// What the outputs go through at the end of the network.
    #[serde(deserialize_with = "named")]
    head: Head,
    #[serde(deserialize_with = "loss")]
    loss: Loss,
    /// Levels of the quantiles to predict of a number, rising, in place of the number alone: `[0.1, 0.5, 0.9]`.
    quantiles: Vec<f64> => "numbers to predict",
    /// Of two classes, the one whose precision, recall and F1 are reported: `fraud`.
    positive: String,
    /// `mean`, or `sum` over the batch; also within `loss`, and so are the next two.
    reduction: Reduction,
    /// Take each prediction against all targets of the batch, as a target `[n]` against a prediction `[n,1]` is in PyTorch.
    broadcast: bool,
    /// Take a loss that does not fit the task.
    misfit: bool,
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
    /// Share of the run after which a plain average of the weights begins, used in their place; 0 for none.
    swa: f64,
    /// Compute blocks of the network again on the way back instead of keeping their values; open: where memory is short.
    recompute: bool,
    /// Memory for what a step computes.
    step_memory: Bytes,
    /// Train anew on all rows once the best number of epochs is known.
    refit: bool,
    seed: u64,
    /// Weights to begin with: a safetensors file, or the directory of a run.
    weights: PathBuf,
    /// Tensors of that file to leave out, by name or pattern.
    #[serde(deserialize_with = "one_or_more")]
    ignore: Vec<String> => "weights to begin with: --weights",
    /// Make the last layer anew even where the file's fits.
    new_head: bool => "weights to begin with: --weights",
    /// What stays as it is, by name or pattern; `body` is all but the last layer.
    #[serde(deserialize_with = "one_or_more")]
    freeze: Vec<String>,
    /// What no gradient reaches though it is meant to be trained, by name or pattern.
    #[serde(deserialize_with = "one_or_more")]
    detach: Vec<String>,
    /// Mode of the network's layers while it trains, and while it is judged.
    mode: LayerMode,
    validation_mode: LayerMode,
    /// Factors of the learning rate by name or pattern: `layer1.*=0.1`.
    rates: Vec<Rate>,
    /// Where the steps run; `auto` or open: on the faster device.
    device: Device,
    /// Of large products: `fp32`; on a GPU `tf32`, `bf16` or `fp16`; `bf16` also on processors that gain from it (AMX, AMD's AVX512-BF16).
    precision: Precision,
    /// Causes that the doctor leaves out.
    #[serde(deserialize_with = "one_or_more")]
    silence: Vec<String>,
}

/// A wish that notes when it is read.
pub struct Tracked<'a, T> {
    value: &'a Option<T>,
    read: Cell<bool>,
}

impl<T> Deref for Tracked<'_, T> {
    type Target = Option<T>;

    fn deref(&self) -> &Option<T> {
        self.read.set(true);
        self.value
    }
}

impl<T> Tracked<'_, T> {
    /// Whether it was given; that alone is no use of it.
    pub(crate) fn is_given(&self) -> bool {
        self.value.is_some()
    }
}

impl TrackedWishes<'_> {
    /// An error that names what was given and not read; `source` says what the data is.
    pub(crate) fn refuse_unread(&self, source: &str) -> Result<(), TrainError> {
        let Some((name, purpose)) = self.unread().into_iter().next() else { return Ok(()) };
        let flag = name.replace('_', "-");
        let why = match purpose {
            "" => format!("--{flag} is not used with {source}"),
            purpose => format!("--{flag} is for {purpose}, and the source is {source}"),
        };
        Err(TrainError::Setting(format!("{why}; leave it out")))
    }
}

/// Ways to start by pattern; the first in the order of the alphabet that covers a name counts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Inits(pub BTreeMap<String, NamedInit>);

/// A [`WeightInit`] by name, or as a table.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NamedInit(#[serde(deserialize_with = "name_or_table")] pub WeightInit);

/// What a source is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    Table,
    Pictures,
    Series,
    Text,
}

impl SourceKind {
    /// As in a settings file.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::Table => "table",
            SourceKind::Pictures => "pictures",
            SourceKind::Series => "series",
            SourceKind::Text => "text",
        }
    }
}

/// A number of threads, or `auto`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workers(pub Option<usize>);

/// A number of bytes: `512MB`, `2 GiB`, `1000000`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

macro_rules! by_text {
    ($($kind:ty),*) => {$(
        impl Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.to_string())
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(untagged)]
                enum Given {
                    Number(u64),
                    Text(String),
                }
                let text = match Given::deserialize(deserializer)? {
                    Given::Number(number) => number.to_string(),
                    Given::Text(text) => text,
                };
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

by_text!(Workers, Bytes, Device, Rate);

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(workers) => workers.fmt(f),
            None => f.write_str("auto"),
        }
    }
}

impl FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Workers, String> {
        match text {
            "auto" => Ok(Workers(None)),
            number => number.parse().map(|n| Workers(Some(n))).map_err(|_| "write a number, or auto".to_owned()),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
        let unit: u64 = match text.trim()[digits.len()..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1000,
            "m" | "mb" => 1_000_000,
            "g" | "gb" => 1_000_000_000,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            other => return Err(format!("{other:?} is no unit of memory; write it like 512MB or 2GiB")),
        };
        let number: f64 = digits.parse().map_err(|_| "write memory like 512MB or 2GiB".to_owned())?;
        match number * unit as f64 {
            bytes if bytes >= 0.0 && bytes < u64::MAX as f64 => Ok(Bytes(bytes as u64)),
            _ => Err(format!("{text} is no amount of memory")),
        }
    }
}

impl Wishes {
    /// The names of all settings, as keys of a settings file.
    pub fn keys() -> Vec<String> {
        KEYS.iter().map(|key| key.replace('_', "-")).collect()
    }

    /// Reads a TOML file; a misspelt key is named, with the nearest known one.
    pub fn read(path: &Path) -> Result<Wishes, TrainError> {
        let bytes = crate::files::read_settings(path)?;
        let problem = |problem: String| TrainError::Config { file: path.escaped(), problem };
        let text = String::from_utf8(bytes).map_err(|_| problem("not UTF-8 text".into()))?;
        Wishes::parse(&text).map_err(problem)
    }

    pub fn parse(text: &str) -> Result<Wishes, String> {
        let wishes: Wishes = toml::from_str(text).map_err(|error| {
            let place = error.span().map_or(String::new(), |span| {
                format!("line {}: ", text[..span.start.min(text.len())].matches('\n').count() + 1)
            });
            format!("{place}{}", said(error.message()).replace('\n', ", ").escaped())
        })?;
        let all: toml::Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        match all.get("loss").and_then(toml::Value::as_table) {
            Some(told) => wishes.with_loss(told),
            None => Ok(wishes),
        }
    }

    /// As [`Wishes::parse`] reads it.
    pub fn to_toml(&self) -> Result<String, String> {
        toml::to_string_pretty(self).map_err(|error| error.to_string())
    }

    /// From the JSON of a checkpoint.
    pub fn from_json(value: serde_json::Value) -> Result<Wishes, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    /// What the table of a loss says beside the loss itself.
    fn with_loss(mut self, told: &toml::Table) -> Result<Wishes, String> {
        let (name, own) = self.loss.as_ref().map_or(("auto", [].as_slice()), |loss| (loss.name(), loss.settings()));
        for (key, value) in told {
            let wrong = |want: &str| format!("{key} of the loss is {value}; write {want}");
            match key.as_str() {
                "reduction" => {
                    self.reduction = Some(value.clone().try_into().map_err(|_| wrong("\"mean\" or \"sum\""))?);
                }
                "broadcast" => self.broadcast = Some(value.as_bool().ok_or_else(|| wrong("true or false"))?),
                "misfit" => self.misfit = Some(value.as_bool().ok_or_else(|| wrong("true or false"))?),
                "name" => {}
                key if own.contains(&key) => {}
                _ => {
                    let all = [own, &["reduction", "broadcast", "misfit"]].concat().join(", ");
                    return Err(format!("the loss {name} has no setting `{key}`; it has {all}"));
                }
            }
        }
        Ok(self)
    }
}

/// Of the command, not of the run.
const FLAGS_ALONE: [&str; 6] = ["out", "json", "threads", "isa", "checkpoint-every", "resume"];

/// serde's message, with a suggestion instead of a long list where a key is misspelt.
fn said(message: &str) -> String {
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    let Some(unknown) = unknown else { return message.to_owned() };
    if FLAGS_ALONE.contains(&unknown) {
        return format!("{unknown} changes nothing in what is trained and is no setting: give the flag --{unknown}");
    }
    // within a table such as `schedule`, serde's message lists the keys of that table
    let keys: Vec<String> = match message.contains("`batch-size`") {
        true => Wishes::keys(),
        false => message.split('`').skip(3).step_by(2).map(str::to_owned).collect(),
    };
    match nearest(unknown, keys.iter().map(String::as_str)) {
        Some(near) => format!("no setting `{unknown}`; did you mean `{near}`?"),
        None if keys.is_empty() => message.to_owned(),
        None => format!("no setting `{unknown}`; there are {}", keys.join(", ")),
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

/// A column by its name, or by its number.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(match OneOrMore::deserialize(deserializer)? {
        OneOrMore::Number(number) => number.to_string(),
        OneOrMore::Text(text) => text,
        OneOrMore::List(_) => return Err(serde::de::Error::custom("write one column, by name or number")),
    }))
}

/// `"fc.*"` or `["fc.*", "conv1.*"]`.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let text = |one: OneOrMore| match one {
        OneOrMore::Number(number) => Ok(number.to_string()),
        OneOrMore::Text(text) => Ok(text),
        OneOrMore::List(_) => Err(serde::de::Error::custom("write a list of names, as in [\"a\", \"b\"]")),
    };
    match OneOrMore::deserialize(deserializer)? {
        OneOrMore::List(list) => list.into_iter().map(text).collect::<Result<_, _>>().map(Some),
        one => Ok(Some(vec![text(one)?])),
    }
}

/// `[64, 32]`, `64`, or `"none"`.
fn units<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<usize>>, D::Error> {
    let units = |one: OneOrMore| match one {
        OneOrMore::Number(number) => usize::try_from(number).ok(),
        OneOrMore::Text(_) | OneOrMore::List(_) => None,
    };
    let all = match OneOrMore::deserialize(deserializer)? {
        OneOrMore::Text(text) if text == "none" => Some(Vec::new()),
        OneOrMore::List(list) => list.into_iter().map(units).collect(),
        one => units(one).map(|one| vec![one]),
    };
    all.map(Some).ok_or_else(|| serde::de::Error::custom("write the units of each layer, as in [64, 32], or \"none\""))
}

/// What stands behind a key that takes one or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write a name, a number, or a list of them")]
enum OneOrMore {
    Number(i64),
    Text(String),
    List(Vec<OneOrMore>),
}

/// `"auto"` leaves the loss open.
fn loss<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Loss>, D::Error> {
    struct Open(Option<Loss>);
    impl<'de> Deserialize<'de> for Open {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Open, D::Error> {
            Loss::deserialize(deserializer).map(|loss| Open(Some(loss)))
        }
    }
    impl ByName for Open {
        fn by_name(name: &str) -> Result<Open, String> {
            match name {
                "auto" => Ok(Open(None)),
                name => Loss::by_name(name).map(|loss| Open(Some(loss))),
            }
        }
    }
    name_or_table(deserializer).map(|Open(loss)| loss)
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
    fn one_stands_for_a_list_of_one() {
        let text = "target = -1\nhidden = 64\nmissing = \"red\"\nfreeze = [\"a.*\", \"b\"]\ntext = 3";
        let wishes = Wishes::parse(text).unwrap();
        assert_eq!((wishes.target.as_deref(), wishes.hidden), (Some("-1"), Some(vec![64])));
        assert_eq!(wishes.missing, Some(vec!["red".to_owned()]));
        assert_eq!((wishes.freeze.map_or(0, |f| f.len()), wishes.text), (2, Some(vec!["3".to_owned()])));
        assert_eq!(Wishes::parse("hidden = \"none\"").unwrap().hidden, Some(vec![]));
        assert!(Wishes::parse("hidden = [3, -1]").unwrap_err().contains("as in [64, 32]"));
        assert!(Wishes::parse("freeze = true").unwrap_err().contains("write a name"));
        assert!(Wishes::parse("threads = 2").unwrap_err().contains("give the flag --threads"));
    }

    #[test]
    fn amounts_of_memory_and_workers() {
        for (text, bytes) in [("1000", 1000), ("512MB", 512_000_000), ("2 GiB", 2 << 30), ("1.5k", 1500)] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
        }
        assert!("lots".parse::<Bytes>().is_err() && "5 parsecs".parse::<Bytes>().is_err());
        let wishes = Wishes::parse("workers = \"auto\"\nmemory = \"64MB\"\non-error = \"skip\"").unwrap();
        assert_eq!((wishes.workers, wishes.memory), (Some(Workers(None)), Some(Bytes(64_000_000))));
        assert_eq!(Wishes::parse("workers = 3").unwrap().workers, Some(Workers(Some(3))));
    }

    #[test]
    fn devices() {
        let device = |text: &str| Wishes::parse(&format!("device = \"{text}\"")).map(|w| w.device);
        assert_eq!(device("auto"), Ok(Some(Device::Auto)));
        assert_eq!(device("cpu"), Ok(Some(Device::Cpu)));
        assert_eq!(device("cuda"), Ok(Some(Device::Cuda(0))));
        assert_eq!(device("cuda:2"), Ok(Some(Device::Cuda(2))));
        assert_eq!(Device::Cuda(2).to_string(), "cuda:2");
        for wrong in ["gpu", "cuda:", "cuda:-1", "cuda:x", "CPU", ""] {
            let message = device(wrong).unwrap_err();
            assert!(message.starts_with("line 1") && message.contains("cuda:1 for the second GPU"), "{message}");
        }
    }

    #[test]
    fn layers_heads_and_what_else_a_network_may_have() {
        let text = r#"
            head = { name = "softmax", axis = 0 }
            init = { name = "normal", std = 5.0 }
            inits = { "fc.*" = "zeros", "conv1.weight" = { name = "constant", value = 0.5 } }
            loss = { name = "cross-entropy", label_smoothing = 0.1, reduction = "sum" }
            optimizer = { name = "adam", eps = 0.1, betas = [0.5, 0.9], maximize = true }
            mode = "eval"
            validation-mode = "train"
            detach = ["0.*"]
            label-noise = 0.3
            shuffle-labels = true
            delay = 50
            pinned = false
            [[layers]]
            units = 64
            [[layers]]
            units = 64
            activation = "tanh"
            init = "zeros"
            norm = "batch"
            residual = true
            detach = true
            dropout = 0.5
            mode = "eval"
            [prepare]
            scale = "none"
            scale-times = 2
            scale-target = "none"
        "#;
        let wishes = Wishes::parse(text).unwrap();
        assert_eq!(wishes.head, Some(Head::Softmax { axis: 0 }));
        assert_eq!(wishes.init, Some(WeightInit::Normal { mean: 0.0, std: 5.0 }));
        assert_eq!((wishes.reduction, wishes.delay), (Some(Reduction::Sum), Some(50.0)));
        assert_eq!(wishes.pinned, Some(false));
        let layers = wishes.layers.as_ref().unwrap();
        assert_eq!(layers[0], HiddenLayer::new(64));
        assert_eq!((layers[1].init, layers[1].mode), (Some(WeightInit::Zeros), Some(LayerMode::Eval)));
        assert_eq!(wishes.inits.as_ref().unwrap().0["fc.*"], NamedInit(WeightInit::Zeros));
        // as a run keeps them, and as a file that is written anew
        assert_eq!(serde_json::from_str::<Wishes>(&serde_json::to_string(&wishes).unwrap()).unwrap(), wishes);
        assert_eq!(Wishes::parse(&toml::to_string(&wishes).unwrap()).unwrap(), wishes);
    }

    #[test]
    fn what_cannot_be_meant_says_what_to_write() {
        for (text, expected) in [
            ("head = \"swish\"", "softmax"),
            ("head = { name = \"softmax\", axes = 0 }", "axis"),
            ("init = \"random\"", "kaiming-normal"),
            ("loss = { name = \"mse\", reduction = \"total\" }", "\"mean\" or \"sum\""),
            ("loss = { name = \"mse\", reducion = \"sum\" }", "no setting `reducion`"),
            ("loss = { name = \"mse\", delta = 2 }", "the loss mse has no setting `delta`"),
            ("loss = { name = \"bce\", class_weights = [1, 5] }", "it has pos_weight"),
            ("loss = { name = \"bce\", pos_weight = \"much\" }", "a number, or a list of them"),
            ("reduction = \"total\"", "`mean` or `sum`"),
            ("mode = \"evaluate\"", "`train` or `eval`"),
            ("layers = [{ activation = \"relu\" }]", "units"),
            ("layers = [{ units = 3, norm = \"group\" }]", "batch"),
            ("optimizer = { name = \"adam\", maximise = true }", "maximize"),
            ("schedule = { name = \"cosine\", batch = 3 }", "no setting `batch`; there are"),
        ] {
            let message = Wishes::parse(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
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
