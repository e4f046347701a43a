//! What is recorded beside a step, and how it is read.

use std::collections::BTreeMap;

use citius_cpu::Outputs;
use citius_graph::{Init, Op};
use citius_train::{Forward, Lab};

use super::{Layer, Observed};
use crate::evidence::statics::is_activation;

/// One activation: all units behind it.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    /// The layer it is in, for people.
    pub layer: String,
    /// `relu`, `sigmoid`, …
    pub op: String,
    pub units: usize,
    /// Spread of what enters, over the first steps and over the last.
    pub spread: f64,
    pub late_spread: f64,
    pub mean: f64,
    /// Share of values at a limit, over the first steps and over the last.
    pub limit: f64,
    pub late_limit: f64,
    /// Share of units of a relu that gave nothing but 0, in any step.
    pub dead: f64,
}

/// Values of an activation that are looked at in a step.
const ENOUGH: usize = 1 << 15;

/// Activations found while recording.
#[derive(Default)]
pub struct Probes {
    found: Vec<(String, String, usize)>,
}

impl Probes {
    /// Adds outputs to the step.
    pub fn record(&mut self, forward: &Forward) {
        let g = forward.loss.graph();
        for (id, node) in g.nodes().iter().enumerate() {
            let Op::Map { def, .. } = &node.op else { continue };
            if !is_activation(def.name) || node.shape.dims().len() < 2 || id > forward.prediction.id() {
                continue;
            }
            let i = self.found.len();
            // some rows are enough where pictures are large
            let rows = node.shape.dims()[0];
            let some = (ENOUGH * rows / node.shape.elements().max(1)).clamp(rows.min(4), rows);
            let seen = |t: citius_graph::Tensor| if some < rows { t.slice(0, 0, some) } else { t };
            let (x, y) = (seen(g.tensor(node.inputs[0]).detach()), seen(g.tensor(id).detach()));
            let output = |what: &str, value: &citius_graph::Tensor| g.output(&format!("doctor.{i}.{what}"), value);
            output("mean", &x.mean_all());
            output("square", &x.square().mean_all());
            let limit = match def.name {
                "sigmoid" => Some((&y - 0.5).abs().gt(&y.constant(0.49)).mean_all()),
                "tanh" => Some(y.abs().gt(&y.constant(0.98)).mean_all()),
                _ => None,
            };
            if let Some(limit) = limit {
                output("limit", &limit);
            }
            let units = *node.shape.dims().last().unwrap_or(&1);
            if def.name == "relu" {
                let others: Vec<usize> = (0..node.shape.dims().len() - 1).collect();
                let most = y.max(&others, false);
                let kept = g.state(&format!("doctor.{i}.most"), &most.dims(), Init::Zeros);
                g.assign(&kept, &kept.maximum(&most));
            }
            let layer = node.place.layer.clone().unwrap_or_else(|| format!("activation {}", i + 1));
            self.found.push((layer, def.name.to_owned(), units));
        }
    }
}

/// Where the outputs of a step are.
pub struct Places {
    pub loss: usize,
    pub grad_norm: usize,
    /// Weights of each layer in order: name, and places of the sums of squares of gradient, update and weight of each of its pieces.
    layers: Vec<(String, Vec<[usize; 3]>)>,
    gradients: Vec<(String, usize)>,
    /// Of each activation: mean, square, limit.
    units: Vec<[Option<usize>; 3]>,
}

impl Places {
    pub fn of(lab: &Lab, probes: &Probes) -> Places {
        let place = |name: &str| lab.output(name).unwrap_or(0);
        let mut layers: Vec<(String, Vec<[usize; 3]>)> = Vec::new();
        let mut gradients = Vec::new();
        for (i, name) in lab.outputs().iter().enumerate() {
            let Some(parameter) = name.strip_prefix("probe.grad.") else { continue };
            gradients.push((parameter.to_owned(), i));
            let Some(layer) = weight_of(parameter) else { continue };
            let (Some(update), Some(weight)) =
                (lab.output(&format!("probe.update.{parameter}")), lab.output(&format!("probe.weight.{parameter}")))
            else {
                continue;
            };
            let at = [i, update, weight];
            match layers.iter_mut().find(|(name, _)| *name == layer) {
                Some((_, pieces)) => pieces.push(at),
                None => layers.push((layer, vec![at])),
            }
        }
        let unit = |i: usize| ["mean", "square", "limit"].map(|what| lab.output(&format!("doctor.{i}.{what}")));
        let units = (0..probes.found.len()).map(unit).collect();
        Places { loss: place("loss"), grad_norm: place("grad_norm"), layers, gradients, units }
    }

    /// The layers before anything is learned.
    pub fn layers(&self, lab: &Lab) -> Vec<Layer> {
        let named = |name: &String| Layer {
            name: name.clone(),
            elements: elements_of(lab, name),
            alike: units_alike(lab, name),
            gain: gain_of(lab, name),
            table: ["embed", "position", "token"].iter().any(|word| name.contains(word)),
            ..Layer::default()
        };
        self.layers.iter().map(|(name, _)| named(name)).collect()
    }

    /// Has units tell anew whether they are ever active.
    pub fn forget_units(&self, lab: &mut Lab) {
        for i in 0..self.units.len() {
            if let Some(most) = lab.memory_mut().get_mut(&format!("doctor.{i}.most")) {
                most.fill(0.0);
            }
        }
    }

    /// Adds up what a step gave; sums become means in `finish`.
    pub fn see(&self, outputs: &Outputs, early: bool, run: &mut Observed) {
        // means over the last steps forget what is a hundred steps old
        let forget = 0.05f64.max(1.0 / run.losses.len() as f64);
        let move_to = |mean: &mut f64, value: f64| *mean += forget * (value - *mean);
        let first = run.losses.len() == 1;
        for ((_, pieces), layer) in self.layers.iter().zip(&mut run.layers) {
            let sum = |which: usize| pieces.iter().map(|at| outputs.scalar(at[which]) as f64).sum::<f64>();
            let (grad, update, weight) = (sum(0).sqrt(), sum(1).sqrt(), sum(2).sqrt());
            let ratio = update / weight.max(1e-12);
            if first {
                layer.weight = weight;
            }
            layer.late_weight = weight;
            move_to(&mut layer.late_grad, grad);
            move_to(&mut layer.late_update, ratio);
            if early {
                let n = run.losses.len() as f64;
                layer.grad += (grad - layer.grad) / n;
                layer.update += (ratio - layer.update) / n;
            }
            // a mean of fewer steps is led by the first, which may be like no other
            layer.most_update = if early { layer.late_update } else { layer.most_update.max(layer.late_update) };
        }
        if run.units.is_empty() {
            run.units = vec![Unit::default(); self.units.len()];
        }
        for (places, unit) in self.units.iter().zip(&mut run.units) {
            let [mean, square, limit] = places.map(|at| at.map_or(0.0, |at| outputs.scalar(at) as f64));
            let spread = (square - mean * mean).max(0.0).sqrt();
            move_to(&mut unit.late_spread, spread);
            move_to(&mut unit.late_limit, limit);
            if early {
                let n = run.losses.len() as f64;
                unit.spread += (spread - unit.spread) / n;
                unit.mean += (mean - unit.mean) / n;
                unit.limit += (limit - unit.limit) / n;
            }
        }
    }

    /// The activations with their names, and the units that never gave anything.
    pub fn units(&self, lab: &Lab, probes: &Probes, run: &Observed) -> Vec<Unit> {
        let seen = |i: usize| run.units.get(i).cloned().unwrap_or_default();
        let named = |(i, (layer, op, units)): (usize, &(String, String, usize))| {
            let most = lab.memory().get(&format!("doctor.{i}.most")).unwrap_or(&[]);
            let dead = most.iter().filter(|m| **m <= 0.0).count() as f64 / most.len().max(1) as f64;
            Unit { layer: layer.clone(), op: op.clone(), units: *units, dead, ..seen(i) }
        };
        // pieces of one layer, stored apart, are one layer
        let mut all: BTreeMap<usize, Unit> = BTreeMap::new();
        for unit in probes.found.iter().enumerate().map(named) {
            let same =
                all.iter().find(|(_, known)| known.layer == unit.layer && known.op == unit.op).map(|(at, _)| *at);
            match same.and_then(|at| all.get_mut(&at)) {
                Some(known) => {
                    let (a, b) = (known.units as f64, unit.units as f64);
                    let mean = |x: f64, y: f64| (x * a + y * b) / (a + b);
                    known.dead = mean(known.dead, unit.dead);
                    known.limit = mean(known.limit, unit.limit);
                    known.late_limit = mean(known.late_limit, unit.late_limit);
                    known.spread = mean(known.spread, unit.spread);
                    known.late_spread = mean(known.late_spread, unit.late_spread);
                    known.units += unit.units;
                }
                None => {
                    all.insert(all.len(), unit);
                }
            }
        }
        all.into_values().collect()
    }

    pub fn finish(&self, run: &mut Observed) {
        // names of layers in pieces are the same from here on
        run.layers.iter_mut().for_each(|layer| layer.name = layer.name.trim_end_matches('.').to_owned());
    }

    /// The loss comes before all gradients, and the last layer's before those of earlier ones.
    pub fn first_trouble(&self, loss: f32, outputs: &Outputs) -> String {
        if !loss.is_finite() {
            return format!("the loss is {}", if loss.is_nan() { "NaN" } else { "infinite" });
        }
        let bad = self.gradients.iter().rev().find(|(_, at)| !outputs.scalar(*at).is_finite());
        match bad {
            Some((name, _)) => format!("the gradient of {name} is not finite"),
            None => "the norm of the gradient is infinite".to_owned(),
        }
    }
}

/// `0` of `0.weight[0..64]`; nothing for a bias.
fn weight_of(parameter: &str) -> Option<String> {
    let whole = parameter.split('[').next().unwrap_or(parameter);
    let (layer, kind) = whole.rsplit_once('.').unwrap_or(("", whole));
    kind.starts_with("weight").then(|| match kind {
        "weight" => layer.to_owned(),
        // recurrent layers: weight_ih_l0
        other => format!("{layer}.{other}").trim_start_matches('.').to_owned(),
    })
}

fn weight_name(lab: &Lab, layer: &str) -> Option<String> {
    let names = [format!("{layer}.weight"), layer.to_owned()];
    names.into_iter().find(|name| lab.memory().shape_of(name).is_some())
}

fn elements_of(lab: &Lab, layer: &str) -> usize {
    let shape = weight_name(lab, layer).and_then(|name| lab.memory().shape_of(&name));
    shape.map_or(0, |shape| shape.iter().product())
}

/// Root of the mean square of the weights, times √inputs: what the spread of a signal is multiplied by.
fn gain_of(lab: &Lab, layer: &str) -> f64 {
    let view = weight_name(lab, layer).and_then(|name| lab.memory().user_view(&name));
    let Some((shape, values)) = view.filter(|(shape, _)| shape.len() >= 2) else { return 1.0 };
    let inputs = values.len() as f64 / shape[0].max(1) as f64;
    let square = values.iter().map(|w| (*w as f64).powi(2)).sum::<f64>() / values.len().max(1) as f64;
    (square * inputs).sqrt()
}

/// Whether a layer of several units has the same weights for each. A row of the user's view is a unit.
fn units_alike(lab: &Lab, layer: &str) -> bool {
    let view = weight_name(lab, layer).and_then(|name| lab.memory().user_view(&name));
    let Some((shape, values)) = view else { return false };
    let units = shape.first().copied().unwrap_or(1);
    if shape.len() < 2 || units < 2 {
        return false;
    }
    let width = values.len() / units;
    values.chunks_exact(width).all(|row| row == &values[..width])
}
