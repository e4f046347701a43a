use citius_graph::{Graph, Leaf, Names, Phase, Tensor, TraceError};

use crate::clip::global_norm;
use crate::pace::Pace;
use crate::scaling::LossScale;
use crate::schedules::{Schedule, ScheduleConfig};
use crate::{Clip, LossScaling, Optimizer, Update, awake_units};

/// How a loss becomes new parameters.
pub struct Learning {
    pub optimizer: Box<dyn Optimizer>,
    pub lr: f64,
    pub schedule: Box<dyn Schedule>,
    pub clip: Option<Clip>,
    /// Factors of the learning rate by name, or by pattern (see [`Names`]); the first that covers a parameter counts.
    pub rates: Vec<(String, f64)>,
    /// Steps whose gradients are averaged into one update.
    pub accumulate: usize,
    /// For gradients in 16 bits.
    pub scaling: Option<LossScaling>,
    /// Whether to record the sums of squares of gradients, updates and weights, one scalar each per parameter, and which units
    /// got a gradient.
    pub probes: bool,
    /// Parameters that the loss does not depend on stay as they are, with a warning, instead of being a mistake.
    pub allow_unreached: bool,
}

/// What was recorded for one step.
pub struct Learned {
    pub loss: Tensor,
    /// Learning rate.
    pub rate: Tensor,
    /// Before clipping.
    pub grad_norm: Tensor,
    /// 1 in the steps that update, 0 in the others; `None` when all do.
    pub applies: Option<Tensor>,
    /// Number of this update, 1 for the first, a scalar.
    pub count: Tensor,
    pub parameters: Vec<LearnedParameter>,
}

pub struct LearnedParameter {
    pub name: String,
    /// Before clipping; as stored, like `value`.
    pub gradient: Tensor,
    /// After the update.
    pub value: Tensor,
}

impl Learning {
    pub fn new(optimizer: impl Optimizer + 'static, lr: f64) -> Learning {
        Learning {
            optimizer: Box::new(optimizer),
            lr,
            schedule: Box::new(ScheduleConfig::Constant),
            clip: None,
            rates: Vec::new(),
            accumulate: 1,
            scaling: None,
            probes: true,
            allow_unreached: false,
        }
    }

    pub fn schedule(mut self, schedule: impl Schedule + 'static) -> Learning {
        self.schedule = Box::new(schedule);
        self
    }

    pub fn clip(mut self, clip: Option<Clip>) -> Learning {
        self.clip = clip;
        self
    }

    /// Parts that learn slower or faster: `rates(&[("body.*", 0.1)])`.
    pub fn rates(mut self, rates: &[(&str, f64)]) -> Learning {
        self.rates = rates.iter().map(|&(pattern, factor)| (pattern.to_string(), factor)).collect();
        self
    }

    pub fn accumulate(mut self, steps: usize) -> Learning {
        self.accumulate = steps;
        self
    }

    pub fn scaling(mut self, scaling: Option<LossScaling>) -> Learning {
        self.scaling = scaling;
        self
    }

    pub fn probes(mut self, probes: bool) -> Learning {
        self.probes = probes;
        self
    }

    pub fn allow_unreached(mut self, allow: bool) -> Learning {
        self.allow_unreached = allow;
        self
    }

    /// Records gradients, clipping and updates of all trainable parameters of the loss's graph, and the outputs `loss`, `lr`,
    /// `grad_norm`, with scaling `loss_scale`, and with probes `probe.{grad,update,weight}.{parameter}`. `Err` is the first mistake made in the graph.
    #[track_caller]
    pub fn record(&self, loss: &Tensor) -> Result<Learned, TraceError> {
        let g = loss.graph();
        g.check()?;
        if self.accumulate == 0 {
            g.report("learn", "accumulate is 0, must be at least 1");
        }
        if !self.lr.is_finite() {
            g.report("learn", format!("the learning rate is {}", self.lr));
        }
        let (leaves, mut parameters): (Vec<Leaf>, Vec<Tensor>) = g.trainable().into_iter().unzip();
        let mut factors = self.factors(g, &leaves);
        let mut names: Vec<String> = leaves.into_iter().map(|leaf| leaf.name).collect();
        if names.is_empty() {
            g.report("learn", "there is no parameter to train");
        }
        let _phase = g.phase(Phase::Update);
        let pace = (self.accumulate > 1).then(|| Pace::new(g, self.accumulate));
        let scale = self.scaling.map(|scaling| LossScale::new(g, scaling));
        let mut share = if self.accumulate > 1 { loss * (1.0 / self.accumulate as f64) } else { loss.clone() };
        if let Some(scale) = &scale {
            share = scale.apply(&share);
        }
        let mut gradients = g.gradients(&share, &parameters);
        report_unreached(g, &names, &gradients, self.allow_unreached);
        if self.allow_unreached {
            let reached: Vec<bool> = gradients.iter().map(Option::is_some).collect();
            retain(&mut names, &reached);
            retain(&mut parameters, &reached);
            retain(&mut factors, &reached);
            retain(&mut gradients, &reached);
        }
        g.check()?;
        // all are there, or the check above has said so
        let mut gradients: Vec<Tensor> = gradients.into_iter().flatten().collect();
        if let Some(scale) = &scale {
            gradients = gradients.iter().map(|d| scale.remove(d)).collect();
        }
        if let Some(pace) = &pace {
            gradients = names.iter().zip(&gradients).map(|(name, d)| pace.accumulate(name, d)).collect();
        }

        let made = match &pace {
            Some(pace) => pace.made.clone(),
            None => g.step(),
        };
        let rate = self.schedule.rate(self.lr, &made);
        let grad_norm = global_norm(&gradients).unwrap_or_else(|| g.scalar(0.0));
        let due = pace.map(|pace| pace.applies);
        let (applies, count) = match &scale {
            Some(scale) => {
                g.output("loss_scale", &scale.scale);
                let (applies, count) = scale.settle(&grad_norm, due.as_ref());
                (Some(applies), count)
            }
            None => (due, &made + 1.0),
        };
        let clipped = match self.clip {
            Some(clip) => clip.apply(&gradients, &grad_norm),
            None => gradients.clone(),
        };
        g.output("loss", &loss.reshape(&[]));
        g.output("lr", &rate);
        g.output("grad_norm", &grad_norm);

        let mut learned = Learned { loss: loss.clone(), rate, grad_norm, applies, count, parameters: Vec::new() };
        for (i, name) in names.into_iter().enumerate() {
            let parameter = &parameters[i];
            let _parameter = g.scope(format!("update of {name}"));
            let (rate, count, applies) = (&learned.rate * factors[i], &learned.count, learned.applies.as_ref());
            let update = Update { name: &name, parameter, gradient: &clipped[i], rate: &rate, count, applies };
            let mut value = self.optimizer.update(&update);
            if let Some(applies) = applies {
                value = applies.choose(&value, parameter);
            }
            g.assign(parameter, &value);
            if self.probes {
                g.output(&format!("probe.grad.{name}"), &gradients[i].square().sum_all());
                g.output(&format!("probe.update.{name}"), &(&value - parameter).square().sum_all());
                g.output(&format!("probe.weight.{name}"), &parameter.square().sum_all());
                if is_bias(&name) {
                    let seen = match &scale {
                        Some(scale) => scale.finite(&learned.grad_norm).choose(&gradients[i], &g.scalar(0.0)),
                        None => gradients[i].clone(),
                    };
                    awake_units(&name, &seen);
                }
            }
            learned.parameters.push(LearnedParameter { name, gradient: gradients[i].clone(), value });
        }
        g.check()?;
        Ok(learned)
    }
}

impl Learning {
    /// The factor of each parameter's rate.
    #[track_caller]
    fn factors(&self, g: &Graph, leaves: &[Leaf]) -> Vec<f64> {
        let known_as = |leaf: &Leaf| leaf.part.as_ref().map_or(leaf.name.clone(), |part| part.whole.clone());
        let names: Vec<String> = leaves.iter().map(known_as).collect();
        let covers = Names::covered;
        for (pattern, factor) in &self.rates {
            if !factor.is_finite() {
                g.report("learn", format!("the factor of the rate of \"{pattern}\" is {factor}"));
            }
            if !names.iter().any(|name| covers(pattern, name)) {
                g.report(
                    "learn",
                    format!("no parameter to train is called \"{pattern}\", which has a rate of its own"),
                );
            }
        }
        let factor = |name: &String| self.rates.iter().find(|(pattern, _)| covers(pattern, name)).map_or(1.0, |r| r.1);
        names.iter().map(factor).collect()
    }
}

/// `0.bias`, or a part of it: `0.bias[0..64]`.
fn is_bias(name: &str) -> bool {
    name.split('[').next().unwrap_or(name).ends_with(".bias")
}

fn retain<T>(all: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    all.retain(|_| kept.next() == Some(&true));
}

#[track_caller]
fn report_unreached(g: &Graph, names: &[String], gradients: &[Option<Tensor>], allowed: bool) {
    let unreached: Vec<&str> =
        names.iter().zip(gradients).filter(|(_, d)| d.is_none()).map(|(n, _)| n.as_str()).collect();
    if allowed && !unreached.is_empty() && unreached.len() < names.len() {
        g.warn_of("learn", format!("no gradient reaches {}: it stays as it is", unreached.join(", ")));
    } else if !unreached.is_empty() {
        let problem = format!(
            "the loss does not depend on {}: use it, freeze it, or look for a detach() on the way",
            unreached.join(", ")
        );
        g.report("learn", problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activation, Adam, Linear, Module, Sgd, mlp, mse};
    use citius_graph::LeafKind;

    fn step(g: &Graph) -> Tensor {
        let x = g.input("x", &[8, 4]);
        mse(&mlp(&[4, 3, 1], Activation::Relu, 0.0).forward(&x), &g.input("y", &[8, 1]))
    }

    #[test]
    fn outputs_states_and_updates() {
        let g = Graph::new();
        let learned = Learning::new(Adam::default(), 1e-3).record(&step(&g)).unwrap();
        g.verify().unwrap();
        assert_eq!(learned.parameters.len(), 4);
        let outputs: Vec<String> = g.outputs().into_iter().map(|(name, _)| name).collect();
        assert_eq!(outputs.len(), 3 + 3 * 4, "{outputs:?}");
        assert!(outputs.contains(&"probe.update.2.weight".into()));
        let states: Vec<String> =
            g.leaves().into_iter().filter(|l| l.kind == LeafKind::State).map(|l| l.name).collect();
        assert!(states.contains(&"0.weight.exp_avg".into()) && states.len() == 2 + 2 * 4, "{states:?}");
        assert_eq!(g.updates().len(), 2 + 3 * 4);
    }

    #[test]
    fn one_step_an_update_records_no_accumulation() {
        let g = Graph::new();
        Learning::new(Sgd::default(), 0.1).probes(false).record(&step(&g)).unwrap();
        assert!(g.leaves().iter().all(|l| !l.name.ends_with("accumulated")));
        assert!(g.nodes().iter().all(|n| n.op.name() != "floor"));
        let g = Graph::new();
        Learning::new(Sgd::default(), 0.1).accumulate(4).record(&step(&g)).unwrap();
        assert!(g.leaves().iter().any(|l| l.name == "0.weight.accumulated"));
        g.verify().unwrap();
    }

    #[test]
    fn a_parameter_without_gradient_is_named() {
        let g = Graph::new();
        let loss = step(&g);
        Linear::new("lost", 4, 1).forward(&g.input("x", &[8, 4]));
        let message = Learning::new(Sgd::default(), 0.1).record(&loss).err().unwrap().to_string();
        assert!(message.contains("lost.weight, lost.bias") && message.contains("learn.rs"), "{message}");
    }

    #[test]
    fn frozen_parameters_stay() {
        let g = Graph::new();
        g.freeze(Names(vec!["0.*".into()]));
        let learned = Learning::new(Sgd::default(), 0.1).record(&step(&g)).unwrap();
        let names: Vec<&str> = learned.parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["2.weight", "2.bias"]);
    }

    #[test]
    fn mistakes_come_back() {
        let g = Graph::new();
        let learning = Learning::new(Sgd::default(), 0.1);
        assert!(learning.record(&g.input("x", &[2]).mean_all()).err().unwrap().to_string().contains("no parameter"));
        let g = Graph::new();
        assert!(Learning::new(Sgd::default(), f64::NAN).record(&step(&g)).is_err());
        let g = Graph::new();
        assert!(Learning::new(Sgd::default(), 0.1).accumulate(0).record(&step(&g)).is_err());
        let g = Graph::new();
        let message = learning.rates(&[("1.*", 0.1)]).record(&step(&g)).err().unwrap().to_string();
        assert!(message.contains("no parameter to train is called \"1.*\""), "{message}");
    }
}
