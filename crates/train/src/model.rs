//! A trained model on disk: `model.json` says what it is, `model.safetensors` holds the weights under PyTorch's names.

use std::path::{Path, PathBuf};

use citius_cpu::Options;
use citius_data::source::Vocabulary;
use citius_data::whole::sync_folder;
use citius_data::{Checksum, Task};
use citius_graph::{Graph, LeafKind, Mode};
use citius_nn::{Activation, Head, Module, Network, RowShape, mlp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::predictor::Predictor;
use crate::problem::{Input, Problem, RowsFrom};
use crate::report::Report;
use crate::tensors::{TensorFile, Tensors};
use crate::{Choice, Device, Sampling, Settings, TrainError, Writer, files};

const FORMAT: &str = "citius-model";
const VERSION: u64 = 1;
const AGAIN: &str = "train the model again, or copy the file again";

/// `model.json`
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModelCard {
    pub format: String,
    pub version: u64,
    /// Version of the program that wrote it.
    pub citius: String,
    pub architecture: Architecture,
    /// Preprocessing and what the outputs mean.
    pub input: Input,
    pub settings: Settings,
    pub choices: Vec<Choice>,
    pub report: Report,
    /// Of the weights that belong to this description.
    pub checksum: String,
    /// A checksum of this description without it; nothing is checked where it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// The network.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Architecture {
    Mlp {
        sizes: Vec<usize>,
        activation: Activation,
        dropout: f64,
    },
    /// As the settings describe it.
    Network {
        name: String,
    },
}

/// A model read back.
pub struct SavedModel {
    pub card: ModelCard,
    pub(crate) predictor: Predictor,
}

/// Saves what is needed to use the model. Killed between any two steps, it leaves the old model or the new one.
pub(crate) fn save(
    directory: &Path,
    predictor: &Predictor,
    problem: &Problem,
    settings: &Settings,
    choices: &[Choice],
    report: &Report,
) -> Result<(), TrainError> {
    let mut tensors = TensorFile::with_note("format", "pt");
    for name in predictor.parameters() {
        if let Some(view) = predictor.weights().view(&name) {
            tensors.add(name, view);
        }
    }
    let mut card = ModelCard {
        format: FORMAT.into(),
        version: VERSION,
        citius: env!("CARGO_PKG_VERSION").into(),
        architecture: match &settings.network {
            Network::Mlp if settings.details.is_plain_mlp() && settings.details.head == Head::None => {
                Architecture::Mlp {
                    sizes: settings.sizes(problem.train.width(), problem.train.outputs()),
                    activation: settings.activation,
                    dropout: settings.dropout,
                }
            }
            other => Architecture::Network { name: other.name().to_owned() },
        },
        input: problem.input.clone(),
        settings: settings.clone(),
        choices: choices.to_vec(),
        report: report.clone(),
        checksum: tensors.checksum(),
        seal: None,
    };
    card.seal = Some(card.seal(directory)?);
    // the description is what counts: it names the weights by their checksum, wherever they are until the last step
    tensors.save(&directory.join(staged(&card.checksum)))?;
    write_json(&directory.join("model.json"), &card)?;
    settle(directory)
}

impl ModelCard {
    /// The seal that fits the description.
    fn seal(&self, directory: &Path) -> Result<String, TrainError> {
        let internal = |e| TrainError::saved(directory, format!("cannot be described: {e}"), "please report this");
        // numbers as they are read back
        let text = serde_json::to_vec(&ModelCard { seal: None, ..self.clone() }).map_err(internal)?;
        serde_json::from_slice(&text).map(|value| seal_of(&value)).map_err(internal)
    }
}

/// The checksum of a description, whatever the order of its keys and its blanks.
fn seal_of(description: &Value) -> String {
    let mut sum = Checksum::default();
    sum.add(description.to_string().as_bytes());
    sum.text()
}

/// Weights on their way to `model.safetensors`.
fn staged(checksum: &str) -> String {
    format!("{STAGED}{checksum}.safetensors")
}

const STAGED: &str = "model-";

/// Completes what a killed process began: weights that the description names get their usual name, others are removed.
pub(crate) fn settle(directory: &Path) -> Result<(), TrainError> {
    let card = read_card(&directory.join("model.json"));
    let wanted = card.as_ref().map(|card| staged(&card.checksum)).unwrap_or_default();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let ours = name.strip_prefix(STAGED).and_then(|rest| rest.strip_suffix(".safetensors"));
        if !ours.is_some_and(|sum| sum.starts_with("xxh64-")) {
            continue;
        }
        let weights = directory.join("model.safetensors");
        match name == wanted {
            true => {
                std::fs::rename(entry.path(), &weights).map_err(|error| TrainError::file("write", &weights, &error))?;
                sync_folder(directory);
            }
            false => drop(std::fs::remove_file(entry.path())),
        }
    }
    Ok(())
}

/// The description and the weights it names; while they are being replaced, once more.
fn read_pair(directory: &Path) -> Result<(ModelCard, Tensors), TrainError> {
    let usual = directory.join("model.safetensors");
    let mut tries = 0;
    loop {
        let card = read_card(&directory.join("model.json"))?;
        let staged = directory.join(staged(&card.checksum));
        let read = |path: &Path| Tensors::load(path, AGAIN);
        // nobody but us makes a file of this name
        let tensors = if staged.is_file() { read(&staged).or_else(|_| read(&usual)) } else { read(&usual) };
        tries += 1;
        match tensors {
            Ok(tensors) if tensors.matches(&card.checksum) || tries == 3 => return Ok((card, tensors)),
            Err(error) if tries == 3 => return Err(error),
            _ => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    }
}

/// Weights and biases of an mlp with layers of these sizes.
fn mlp_weights(sizes: &[usize]) -> u128 {
    sizes
        .windows(2)
        .fold(0, |sum: u128, pair| sum.saturating_add((pair[0] as u128 + 1).saturating_mul(pair[1] as u128)))
}

/// Refuses a file that holds another number of weights than its network has.
fn expect_weights(file: &Path, stored: usize, needed: u128) -> Result<(), TrainError> {
    match needed == stored as u128 {
        true => Ok(()),
        false => {
            let problem = format!("holds {stored} weights, the network in model.json has {needed}");
            Err(TrainError::saved(file, problem, AGAIN))
        }
    }
}

/// Numbers that a model is saved with, found by tracing it: nothing of their size is taken.
pub(crate) fn weights_of(model: &dyn Module, row: RowShape) -> u128 {
    let g = Graph::with_mode(Mode::Eval);
    model.forward(&row.input(&g, 2)); // one row alone has no variance
    let kept = g.leaves().into_iter().filter(|l| l.kind != LeafKind::Input);
    kept.map(|l| g.tensor(l.node).elements() as u128).sum()
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let internal = |e| TrainError::saved(path, format!("cannot be written: {e}"), "please report this");
    let mut text = serde_json::to_vec_pretty(value).map_err(internal)?;
    text.push(b'\n');
    files::write_whole(path, &text)
}

impl SavedModel {
    /// Reads a model from its directory, or from a path to one of its files.
    pub fn load(path: &Path, options: Options) -> Result<SavedModel, TrainError> {
        let directory = directory_of(path)?;
        let (card, tensors) = read_pair(&directory)?;
        let weights = directory.join("model.safetensors");
        let (inputs, outputs) = (card.input.width(), card.input.outputs());
        let damaged = |problem: &str| TrainError::saved(&directory.join("model.json"), problem, AGAIN);
        // the file bounds the network before anything of its size is allocated
        let stored: usize = tensors.by_name.values().map(|(_, values)| values.len()).sum();
        let model: Box<dyn Module> = match &card.architecture {
            Architecture::Mlp { sizes, activation, dropout } => {
                let ends = card.settings.sizes(inputs, outputs);
                if sizes.len() < 2 || (sizes.first(), sizes.last()) != (ends.first(), ends.last()) {
                    return Err(damaged("the network does not fit the preprocessing"));
                }
                // by its numbers alone: tracing takes time and memory for each layer
                expect_weights(&weights, stored, mlp_weights(sizes))?;
                Box::new(mlp(sizes, *activation, *dropout))
            }
            Architecture::Network { .. } => {
                let fits = card.settings.row.is_none_or(|row| row.elements() == inputs);
                if !fits {
                    return Err(damaged("the network does not fit the preprocessing"));
                }
                card.settings.model_for(Device::Cpu, inputs, outputs)?
            }
        };
        let row = card.settings.row_of(inputs);
        expect_weights(&weights, stored, weights_of(model.as_ref(), row))?;
        if !tensors.matches(&card.checksum) {
            return Err(TrainError::saved(&weights, "is not the one that model.json describes", AGAIN));
        }
        if let Some((name, at)) = tensors.not_finite() {
            let problem = format!("element {at} of tensor {name:?} is not a finite number, so no answer would be");
            return Err(TrainError::saved(&weights, problem, "train the model again"));
        }
        let mut predictor = Predictor::new(model, row, options)?;
        for name in predictor.parameters() {
            let expected = predictor.weights().shape_of(&name);
            let found = tensors.by_name.get(&name);
            match found {
                Some((shape, values)) if Some(shape) == expected.as_ref() => {
                    predictor.weights_mut().set_user_view(&name, values);
                }
                _ => {
                    return Err(TrainError::saved(
                        &weights,
                        format!("tensor {name:?} is missing or of another shape"),
                        AGAIN,
                    ));
                }
            }
        }
        Ok(SavedModel { card, predictor })
    }

    pub fn task(&self) -> Task {
        self.card.input.task()
    }

    /// The names of the quantiles that it predicts, as columns: `price_q0.1`; none unless it was trained for them.
    pub fn quantile_names(&self) -> Vec<String> {
        let target = self.card.input.target_name();
        self.card.settings.loss.quantiles().iter().map(|level| format!("{target}_q{level}")).collect()
    }

    /// Of a model that says which token comes next at every place.
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        match &self.card.input {
            Input::Rows(rows) => match &rows.from {
                RowsFrom::Tokens { vocabulary, .. } => Some(vocabulary),
                _ => None,
            },
            Input::Table { .. } | Input::Images { .. } => None,
        }
    }

    /// Goes on with a text.
    pub fn writer(&mut self, prompt: &str, sampling: Sampling) -> Result<Writer<'_>, TrainError> {
        let Some(vocabulary) = self.vocabulary() else {
            return Err(TrainError::Setting("the model was not trained to go on with a text".into()));
        };
        let unknown =
            |c: char| TrainError::Setting(format!("the model has never seen the character {c:?}; leave it out"));
        let tokens = vocabulary.encode(prompt).map_err(unknown)?;
        let size = (self.card.input.width(), self.card.input.outputs());
        Writer::new(&mut self.predictor, size, tokens, sampling)
    }
}

fn directory_of(path: &Path) -> Result<PathBuf, TrainError> {
    let own = ["model.json", "model.safetensors"];
    if path.is_file() && path.file_name().is_some_and(|n| own.iter().any(|own| n == *own)) {
        return Ok(path.parent().map_or_else(PathBuf::new, Path::to_path_buf));
    }
    if path.join("model.json").is_file() {
        return Ok(path.to_path_buf());
    }
    let (problem, next) = match (path.exists(), path.join("checkpoint.safetensors").exists()) {
        (false, _) => ("no such model", "give the directory that `citius train` wrote, such as runs/houses-1"),
        (true, true) => ("holds a checkpoint but no finished model", "finish it with `citius train --resume` first"),
        (true, false) => {
            ("is not a model: there is no model.json in it", "give the directory that `citius train` wrote")
        }
    };
    Err(TrainError::saved(path, problem, next))
}

fn read_card(path: &Path) -> Result<ModelCard, TrainError> {
    let damaged = |problem: String| TrainError::saved(path, problem, AGAIN);
    let value: Value = serde_json::from_slice(&files::read_description(path)?)
        .map_err(|e| damaged(format!("cut short or damaged ({e})")))?;
    if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
        return Err(damaged("is not the description of a citius model".into()));
    }
    match value.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(other) if other > VERSION => {
            let problem = format!("has format version {other}, this citius reads version {VERSION}");
            return Err(TrainError::saved(path, problem, "use a newer citius"));
        }
        _ => return Err(damaged(format!("has an unknown format version, this citius reads version {VERSION}"))),
    }
    let mut bare = value.clone();
    let seal = bare.as_object_mut().and_then(|description| description.remove("seal"));
    let card: ModelCard = serde_json::from_value(value).map_err(|e| damaged(format!("damaged ({e})")))?;
    if seal.is_some_and(|seal| seal.as_str() != Some(&seal_of(&bare))) {
        let next = "copy the file again; if the change was meant, remove its line \"seal\"";
        return Err(TrainError::saved(path, "was changed after it was saved", next));
    }
    Ok(card)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::{RunOptions, Silent, Training, Wishes};

    /// A model trained for so many epochs.
    fn trained(folder: &Path, epochs: usize) -> PathBuf {
        let source = folder.join("points.csv");
        let rows = (0..60).map(|i| format!("{},{},{}\n", i % 7, i % 11, (i % 7) * 2 - i % 11));
        fs::write(&source, format!("a,b,y\n{}", rows.collect::<String>())).unwrap();
        let out = folder.join(format!("run{epochs}"));
        let wishes = Wishes { source: Some(source), epochs: Some(epochs), ..Wishes::default() };
        let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
        Training::new(wishes).unwrap().run(&options, &mut Silent, &AtomicBool::new(false)).unwrap();
        out
    }

    /// After each step of replacing one model by another, one of them can be used, and the next start completes the rest.
    #[test]
    fn a_model_can_be_used_wherever_its_replacement_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (trained(folder.path(), 1), trained(folder.path(), 2));
        let sum = |at: &Path| SavedModel::load(at, Options::default()).unwrap().card.checksum;
        let (before, after) = (sum(&old), sum(&new));
        assert_ne!(before, after);
        // the weights are there, the description is not yet
        fs::copy(new.join("model.safetensors"), old.join(staged(&after))).unwrap();
        assert_eq!(sum(&old), before);
        let names =
            || fs::read_dir(&old).unwrap().flatten().filter(|e| e.file_name().to_string_lossy().starts_with(STAGED));
        settle(&old).unwrap();
        assert_eq!((sum(&old), names().count()), (before, 0));
        // the description is there, the weights have not got their name yet
        fs::copy(new.join("model.safetensors"), old.join(staged(&after))).unwrap();
        fs::copy(new.join("model.json"), old.join("model.json")).unwrap();
        assert_eq!(sum(&old), after);
        settle(&old).unwrap();
        assert_eq!((sum(&old), names().count()), (after, 0));
        assert!(fs::read(old.join("model.safetensors")).unwrap() == fs::read(new.join("model.safetensors")).unwrap());
    }

    /// A mean of a column, say, that nothing else would notice.
    #[test]
    fn a_description_that_was_changed_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let out = trained(folder.path(), 1);
        let path = out.join("model.json");
        let text = fs::read_to_string(&path).unwrap();
        let load = || SavedModel::load(&out, Options::default());
        let at = text.find("\"mean\": ").unwrap() + "\"mean\": ".len();
        let other = if text.as_bytes()[at] == b'7' { "8" } else { "7" };
        let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        fs::write(&path, &changed).unwrap();
        let message = load().err().unwrap().to_string();
        assert!(message.contains("was changed after it was saved") && message.contains("\"seal\""), "{message}");
        // who means it removes the seal; other blanks are no change
        let sealed = |line: &&str| !line.contains("\"seal\"");
        let bare = changed.lines().filter(sealed).collect::<Vec<_>>().join("\n").replace("\",\n}", "\"\n}");
        fs::write(&path, bare).unwrap();
        load().unwrap();
        let compact: Value = serde_json::from_str(&text).unwrap();
        fs::write(&path, compact.to_string()).unwrap();
        load().unwrap();
    }

    #[test]
    fn weights_that_are_no_numbers_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let out = trained(folder.path(), 1);
        let mut tensors = Tensors::load(&out.join("model.safetensors"), "").unwrap();
        let mut card = read_card(&out.join("model.json")).unwrap();
        tensors.by_name.get_mut("0.bias").unwrap().1[3] = f32::NAN;
        (card.checksum, card.seal) = (tensors.file().checksum(), None);
        tensors.file().save(&out.join("model.safetensors")).unwrap();
        write_json(&out.join("model.json"), &card).unwrap();
        let message = SavedModel::load(&out, Options::default()).err().unwrap().to_string();
        assert!(message.contains("element 3 of tensor \"0.bias\" is not a finite number"), "{message}");
    }

    #[test]
    fn a_network_of_a_million_layers_is_refused_by_its_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let out = trained(folder.path(), 1);
        let mut card = read_card(&out.join("model.json")).unwrap();
        let Architecture::Mlp { sizes, .. } = &mut card.architecture else { panic!("an mlp") };
        let last = sizes.len() - 1;
        sizes.splice(last..last, vec![1; 1_000_000]);
        card.seal = None;
        write_json(&out.join("model.json"), &card).unwrap();
        let message = SavedModel::load(&out, Options::default()).err().unwrap().to_string();
        assert!(message.contains("weights, the network in model.json has 2"), "{message}");
    }
}
