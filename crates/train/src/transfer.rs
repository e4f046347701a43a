//! Beginning with what another training has learned: its weights, a new head, parts that stay as they are, and parts that learn at a
//! rate of their own.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use citius_cpu::Memory;
use citius_data::Escaped;
use citius_graph::{Graph, LeafKind, Mode, Names};
use citius_nn::{Module, RowShape};
use serde::{Deserialize, Serialize};

use crate::config::TrackedWishes;
use crate::material::Form;
use crate::problem::count;
use crate::{Choice, Device, Matching, Pretrained, Settings, TrainError};

/// The word for everything but the head.
const BODY: &str = "body";

/// What a run takes over, and what of it learns.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Transfer {
    /// A safetensors file, or the directory of a run.
    pub weights: Option<PathBuf>,
    /// Tensors of that file to leave out, by name or pattern.
    pub ignore: Vec<String>,
    /// The head is made anew even where the file's fits.
    pub new_head: bool,
    /// What stays as it is, by name or pattern.
    pub freeze: Vec<String>,
    /// The first that covers a parameter counts.
    pub rates: Vec<Rate>,
}

/// A factor of the learning rate for the parameters that a pattern covers: `layer1.*=0.1`.
#[derive(Clone, PartialEq, Debug)]
pub struct Rate {
    pub pattern: String,
    pub factor: f64,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let wrong = || format!("{text:?} is no rate; write a name or pattern and a factor, such as layer1.*=0.1");
        let (pattern, factor) = text.split_once('=').ok_or_else(wrong)?;
        let factor: f64 = factor.trim().parse().map_err(|_| wrong())?;
        if !(factor.is_finite() && factor >= 0.0) {
            return Err(format!("the factor of {pattern:?} is {factor}, it must be a number of at least 0"));
        }
        Ok(Rate { pattern: pattern.trim().to_owned(), factor })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.pattern, self.factor)
    }
}

impl Transfer {
    /// What was wished, with a line for each part that is not as usual. `settings` have the network already.
    pub(crate) fn choose(
        wishes: &TrackedWishes<'_>,
        settings: &Settings,
        form: &Form,
    ) -> Result<(Transfer, Vec<Choice>), TrainError> {
        let wrong = |problem: String| Err(TrainError::Setting(problem));
        let mut transfer = Transfer {
            weights: wishes.weights.clone(),
            ignore: wishes.ignore.clone().unwrap_or_default(),
            new_head: wishes.new_head.unwrap_or(false),
            freeze: Vec::new(),
            rates: wishes.rates.clone().unwrap_or_default(),
        };
        if transfer.weights.is_none() && (transfer.new_head || !transfer.ignore.is_empty()) {
            return wrong("--new-head and --ignore are about a file of weights: give --weights too".to_owned());
        }
        let asked = wishes.freeze.clone().unwrap_or_default();
        let details = &settings.details;
        if asked.is_empty() && transfer.rates.is_empty() && details.detach.is_empty() && details.inits.is_empty() {
            return Ok((transfer, Vec::new()));
        }
        let Anatomy { shapes, head } = Anatomy::of(settings, form)?;
        for pattern in &asked {
            match pattern.as_str() {
                BODY => transfer.freeze.extend(shapes.keys().filter(|name| !head.contains(name)).cloned()),
                _ => transfer.freeze.push(pattern.clone()),
            }
        }
        let patterns = transfer.freeze.iter().chain(transfer.rates.iter().map(|rate| &rate.pattern));
        let patterns = patterns.chain(&details.detach).chain(details.inits.iter().map(|init| &init.0));
        for pattern in patterns {
            if !shapes.keys().any(|name| Names::covered(pattern, name)) {
                let some: Vec<&str> = shapes.keys().map(String::as_str).take(6).collect();
                let more = if shapes.len() > some.len() { ", …" } else { "" };
                let problem =
                    format!("no tensor of the network is called {pattern:?}; there are {}{more}", some.join(", "));
                return wrong(problem);
            }
        }
        let frozen = Names(transfer.freeze.clone());
        let numbers = |wanted: &dyn Fn(&str) -> bool| -> usize {
            shapes.iter().filter(|(name, _)| wanted(name)).map(|(_, shape)| shape.iter().product::<usize>()).sum()
        };
        let (still, all) = (numbers(&|name| frozen.covers(name)), numbers(&|_| true));
        if still == all {
            return wrong("everything is frozen, nothing is left to train; leave some part out of --freeze".to_owned());
        }
        let mut choices = Vec::new();
        if still > 0 {
            let value = format!("{}: {} of {} numbers stay as they are", asked.join(", "), count(still), count(all));
            choices.push(Choice::new("frozen", value, ""));
        }
        if !transfer.rates.is_empty() {
            let rates: Vec<String> =
                transfer.rates.iter().map(|rate| format!("{} × {}", rate.pattern, rate.factor)).collect();
            choices.push(Choice::new("rates", rates.join(", "), "of the learning rate"));
        }
        Ok((transfer, choices))
    }
}

/// A file that fits a network, to begin with.
pub(crate) struct Start {
    file: Pretrained,
    how: Matching,
}

impl Start {
    /// Reads the file that the settings name, and says in a line what is taken from it.
    pub fn read(settings: &Settings, form: &Form) -> Result<Option<(Start, Choice)>, TrainError> {
        let Some(path) = &settings.transfer.weights else { return Ok(None) };
        let file = Pretrained::read(path)?;
        let Anatomy { shapes, head } = Anatomy::of(settings, form)?;
        let prefix = file.prefix_for(shapes.keys().map(String::as_str));
        let differs = |name: &String| file.shape_for(&prefix, name) != shapes.get(name).map(Vec::as_slice);
        let anew = settings.transfer.new_head || head.iter().any(differs);
        let why = match (head.iter().find(|name| differs(name)), settings.transfer.new_head) {
            (_, true) => "as told".to_owned(),
            (Some(name), false) => match file.shape_for(&prefix, name).and_then(|shape| shape.first()) {
                Some(other) => format!("for {} outputs, the file has {other}", form.outputs()),
                None => "the file has none".to_owned(),
            },
            (None, false) => String::new(),
        };
        let fresh = if anew { head } else { Vec::new() };
        let begins = if prefix.is_empty() { String::new() } else { format!(", names there begin with {prefix:?}") };
        let ignore = Names(settings.transfer.ignore.clone());
        let how = Matching { prefix: Some(prefix), ignore, fresh };
        file.check(&shapes.iter().map(|(name, shape)| (name.as_str(), shape.clone())).collect(), &how)?;
        let anew: Vec<&str> = shapes.keys().map(String::as_str).filter(|name| how.leaves_out(name)).collect();
        let made = match anew.len() {
            0 => String::new(),
            n if n == shapes.len() => {
                let problem = "--ignore leaves nothing of the weights; leave --weights out to begin with none";
                return Err(TrainError::Setting(problem.to_owned()));
            }
            1..=4 => format!("; {} made anew", anew.join(", ")),
            n => format!("; {}, … made anew, {n} in all", anew[..3].join(", ")),
        };
        let (taken, all) = (shapes.len() - anew.len(), shapes.len());
        let value = format!("{taken} of {all} tensors from {}{begins}{made}", path.escaped());
        Ok(Some((Start { file, how }, Choice::new("weights", value, why))))
    }

    pub fn load(&self, memory: &mut Memory, names: &[String]) -> Result<(), TrainError> {
        self.file.load_as(memory, names, &self.how).map(drop)
    }
}

/// The tensors of a network, and which of them are its head: those whose shapes follow the number of outputs.
struct Anatomy {
    shapes: BTreeMap<String, Vec<usize>>,
    head: Vec<String>,
}

impl Anatomy {
    fn of(settings: &Settings, form: &Form) -> Result<Anatomy, TrainError> {
        let build = |outputs: usize| {
            let model = settings.model_for(Device::Cpu, form.width, outputs)?;
            Ok::<_, TrainError>(shapes_of(model.as_ref(), settings.row_of(form.width)))
        };
        let (shapes, larger) = (build(form.outputs())?, build(form.outputs() + 1)?);
        let follows = |name: &&String| larger.get(*name) != shapes.get(*name);
        let head = shapes.keys().filter(follows).cloned().collect();
        Ok(Anatomy { shapes, head })
    }
}

/// Shapes of a model's tensors as the user sees them, found by tracing it.
fn shapes_of(model: &dyn Module, row: RowShape) -> BTreeMap<String, Vec<usize>> {
    let g = Graph::with_mode(Mode::Eval);
    model.forward(&row.input(&g, 2)); // one row alone has no variance
    let kept = g.leaves().into_iter().filter(|leaf| leaf.kind != LeafKind::Input);
    let seen = kept.map(|leaf| {
        let shape = g.tensor(leaf.node).shape();
        let stored = leaf.part.as_ref().map_or(shape.dims().to_vec(), |part| part.whole_dims(&shape));
        (leaf.part.map_or(leaf.name, |part| part.whole), leaf.seen.map_or(stored, |seen| seen.dims))
    });
    seen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_a_pattern_and_a_factor() {
        assert_eq!("layer1.*=0.1".parse(), Ok(Rate { pattern: "layer1.*".into(), factor: 0.1 }));
        assert_eq!(Rate { pattern: "a".into(), factor: 2.0 }.to_string(), "a=2");
        for wrong in ["layer1", "a=b", "a=-1", "a=inf"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
