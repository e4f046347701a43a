//! The step as it is traced: what it is made of, and what the gradient reaches.

use citius_graph::{Graph, LeafKind, Mode, NodeId, Op};
use citius_train::{Arrival, Device, Form, Forward, Settings, plan_watched_step};

/// Of the traced step.
#[derive(Clone, Debug, Default)]
pub struct Statics {
    pub parameters: Vec<ParameterFact>,
    /// Activations on the way from input to loss, in order.
    pub activations: Vec<String>,
    /// The last op of the network that is not a sum with a bias or a change of shape.
    pub head: String,
    /// Products with parameters on the way.
    pub depth: usize,
    /// Sums of two branches, or divisions by a spread, on the way.
    pub normalised: bool,
    /// Whether layers were told that they train.
    pub training: bool,
    /// Random numbers drawn in the step (dropout).
    pub random: usize,
    /// Operations of the step.
    pub flops: usize,
    pub prediction_shape: Vec<usize>,
    pub target_shape: Vec<usize>,
    /// The first mistake made while tracing.
    pub mistake: Option<String>,
    pub warnings: Vec<String>,
}

/// One parameter, as the user names it.
#[derive(Clone, Debug)]
pub struct ParameterFact {
    pub name: String,
    pub elements: usize,
    pub trainable: bool,
    /// Whether the loss has a gradient with regard to it.
    pub reached: bool,
}

impl Statics {
    /// Traces the step. Nothing is run, and nothing of the model's size is taken.
    pub fn of(settings: &Settings, form: &Form) -> Statics {
        let mut statics = Statics::default();
        let batch = settings.batch_size.clamp(1, form.rows.max(1));
        let model = match settings.model_for(Device::Cpu, form.width, form.outputs()) {
            Ok(model) => model,
            Err(error) => return Statics { mistake: Some(error.to_string()), ..statics },
        };
        let updates = settings.updates(form.rows, settings.epochs);
        let planned = plan_watched_step(
            model.as_ref(),
            settings,
            form,
            Arrival::Gathered,
            batch,
            updates.max(1),
            &mut |forward| statics.look(forward),
        );
        match planned {
            Ok(plan) => {
                statics.warnings = plan.warnings.iter().map(ToString::to_string).collect();
                statics.flops = plan.total().flops;
            }
            Err(error) => statics.mistake = Some(error.to_string()),
        }
        statics
    }

    fn look(&mut self, forward: &Forward) {
        let g = forward.loss.graph();
        let nodes = g.nodes();
        self.training = g.mode() == Mode::Train;
        self.prediction_shape = forward.prediction.dims();
        self.target_shape = forward.y.dims();
        let reached = reached(g, forward.loss.id());
        let leaves = g.leaves();
        for leaf in leaves.iter().filter(|leaf| leaf.kind == LeafKind::Parameter) {
            let name = leaf.part.as_ref().map_or(leaf.name.clone(), |part| part.whole.clone());
            let elements = g.tensor(leaf.node).elements();
            let fact =
                ParameterFact { name, elements, trainable: leaf.trainable, reached: reached.contains(&leaf.node) };
            match self.parameters.iter_mut().find(|p| p.name == fact.name) {
                Some(known) => {
                    known.elements += fact.elements;
                    known.reached |= fact.reached;
                }
                None => self.parameters.push(fact),
            }
        }
        let parameters: Vec<NodeId> =
            leaves.iter().filter(|leaf| leaf.kind == LeafKind::Parameter).map(|leaf| leaf.node).collect();
        let from_parameter = |mut id: NodeId| loop {
            match nodes[id].op {
                Op::Leaf(_) => return parameters.contains(&id),
                Op::Reshape | Op::Transpose { .. } | Op::Detach => id = nodes[id].inputs[0],
                _ => return false,
            }
        };
        for node in &nodes[..=forward.loss.id().min(nodes.len() - 1)] {
            match &node.op {
                Op::Matmul { .. } if node.inputs.iter().any(|&input| from_parameter(input)) => self.depth += 1,
                Op::Recurrence { .. } => self.depth += 1,
                Op::Random { .. } => self.random += 1,
                Op::Map { def, .. } if is_activation(def.name) => self.activations.push(def.name.to_owned()),
                Op::Map { def, .. } if def.name == "sqrt" => self.normalised = true,
                _ => {}
            }
        }
        self.head = head(&nodes, forward.prediction.id());
    }
}

/// Nonlinearities that layers are followed by.
pub fn is_activation(name: &str) -> bool {
    ["relu", "leaky_relu", "elu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "softplus"].contains(&name)
}

/// Nodes that the gradient of `loss` flows to: backwards through all ops but those that stop it.
fn reached(g: &Graph, loss: NodeId) -> Vec<NodeId> {
    let nodes = g.nodes();
    let mut seen = vec![false; nodes.len()];
    let mut todo = vec![loss];
    while let Some(id) = todo.pop() {
        if std::mem::replace(&mut seen[id], true) {
            continue;
        }
        let stops = match &nodes[id].op {
            Op::Detach | Op::Cast | Op::ArgMax => true,
            Op::Map { def, .. } => ["floor", "lt", "le", "gt", "ge", "eq", "ne"].contains(&def.name),
            _ => false,
        };
        if !stops {
            todo.extend(&nodes[id].inputs);
        }
    }
    seen.into_iter().enumerate().filter_map(|(id, seen)| seen.then_some(id)).collect()
}

/// What the prediction comes out of: the name of an activation, `softmax`, `matmul`, …
fn head(nodes: &[citius_graph::Node], mut id: NodeId) -> String {
    loop {
        let node = &nodes[id];
        match &node.op {
            Op::Reshape | Op::Transpose { .. } | Op::Broadcast | Op::Detach => id = node.inputs[0],
            Op::Map { def, .. } if def.name == "div" => {
                // eˣ / Σ eˣ
                let above = through_shapes(nodes, node.inputs[0]);
                return if nodes[above].op.name() == "exp" { "softmax".into() } else { "div".into() };
            }
            op => return op.name().to_owned(),
        }
    }
}

fn through_shapes(nodes: &[citius_graph::Node], mut id: NodeId) -> NodeId {
    while let Op::Reshape | Op::Transpose { .. } | Op::Broadcast = nodes[id].op {
        id = nodes[id].inputs[0];
    }
    id
}
