//! Everything that decides the numbers of a run. Threads and files do not, so they are not here.

use citius_cuda::Precision;
use citius_data::{Task, byte_size, memory};
use citius_nn::{
    Activation, Clip, Frame, Head, HiddenLayer, LayerMode, Loss, Module, Network, OptimizerConfig, Reduction, RowShape,
    ScheduleConfig, Tensor, Vary, WeightInit,
};
use serde::{Deserialize, Serialize};

use crate::material::{Form, TargetForm};
use crate::model::weights_of;
use crate::{Device, TrainError, Transfer};

/// A complete description of how to train, with nothing left open.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    #[serde(default)]
    pub network: Network,
    /// What a row is to the network; numbers without neighbours where nothing is said.
    #[serde(default)]
    pub row: Option<RowShape>,
    /// Units of an mlp's hidden layers.
    pub hidden: Vec<usize>,
    pub activation: Activation,
    pub dropout: f64,
    pub loss: Loss,
    pub optimizer: OptimizerConfig,
    pub lr: f64,
    /// Lengths left open are those of the run.
    pub schedule: ScheduleConfig,
    pub clip: Option<Clip>,
    /// Steps whose gradients make one update.
    pub accumulate: usize,
    /// Of large products; `fp16` scales the loss.
    #[serde(default)]
    pub precision: Precision,
    pub batch_size: usize,
    pub epochs: usize,
    /// Epochs between validations.
    pub validate_every: usize,
    /// Validations without improvement before stopping.
    pub patience: Option<usize>,
    /// Decay of the running average of weights that is used in place of the weights themselves.
    pub average: Option<f64>,
    /// After the best number of epochs is known, train anew on training and validation rows together.
    pub refit: bool,
    pub seed: u64,
    #[serde(default)]
    pub transfer: Transfer,
    /// Blocks of the network are computed again on the way back instead of being kept.
    #[serde(default)]
    pub recompute: bool,
    /// The share of a run after which the plain average of the weights begins that is used in place of the weights themselves.
    #[serde(default)]
    pub swa: Option<f64>,
    /// How the step varies the pictures it learns from, anew each time.
    #[serde(default)]
    pub augment: Vec<Vary>,
    /// What is rarely told.
    #[serde(default, skip_serializing_if = "is_default")]
    pub details: Details,
}

/// What a network and its loss may have beyond the usual; nothing of it is chosen unless told.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Details {
    /// An mlp's hidden layers, where they differ; `hidden` has their units too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<HiddenLayer>,
    #[serde(skip_serializing_if = "is_default")]
    pub init: WeightInit,
    /// By pattern; the first that covers a name counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inits: Vec<(String, WeightInit)>,
    #[serde(skip_serializing_if = "is_default")]
    pub head: Head,
    /// Inputs that are codes of categories with learned vectors, and how many codes each has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub embeddings: Vec<(usize, usize)>,
    #[serde(skip_serializing_if = "is_default")]
    pub reduction: Reduction,
    /// Each prediction is taken against all targets of the batch.
    #[serde(skip_serializing_if = "is_default")]
    pub broadcast: bool,
    /// The loss need not fit the task.
    #[serde(skip_serializing_if = "is_default")]
    pub misfit: bool,
    /// What no gradient reaches, by name or pattern.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detach: Vec<String>,
    /// Of the layers while training; open: training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<LayerMode>,
    /// Of the layers while they are judged; open: eval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_mode: Option<LayerMode>,
    /// Of two classes, the one whose F1 is reported; open: the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positive: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Details {
    /// Whether an mlp is a list of sizes and nothing more.
    pub(crate) fn is_plain_mlp(&self) -> bool {
        self.layers.is_empty() && self.embeddings.is_empty()
    }

    /// Whether some gradient is cut on purpose.
    pub fn cuts(&self) -> bool {
        !self.detach.is_empty() || self.layers.iter().any(|layer| layer.detach)
    }
}

/// A network whose step is planned for a GPU.
struct OnGpu(Box<dyn Module>);

impl Module for OnGpu {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.graph().for_gpu(true);
        self.0.forward(x)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl Settings {
    /// The network for rows of so many inputs and targets of so many numbers or classes, stored as it suits the device.
    pub fn model_for(&self, device: Device, inputs: usize, outputs: usize) -> Result<Box<dyn Module>, TrainError> {
        let frame = Frame {
            row: self.row_of(inputs),
            outputs: self.network_outputs(outputs),
            hidden: self.hidden.clone(),
            activation: self.activation,
            dropout: self.dropout,
            layers: self.details.layers.clone(),
            init: self.details.init,
            inits: self.details.inits.clone(),
            head: self.details.head,
            embeddings: self.details.embeddings.clone(),
            whole: matches!(device, Device::Cuda(_)),
        };
        let network = self.network.build(&frame).map_err(TrainError::Setting)?;
        Ok(if frame.whole { Box::new(OnGpu(network)) } else { network })
    }

    /// What a row of so many inputs is to the network.
    pub(crate) fn row_of(&self, inputs: usize) -> RowShape {
        self.row.unwrap_or(RowShape::Flat { width: inputs })
    }

    /// Layer sizes from input to output.
    pub fn sizes(&self, inputs: usize, outputs: usize) -> Vec<usize> {
        [&[inputs], &self.hidden[..], &[self.network_outputs(outputs)]].concat()
    }

    /// Outputs of the network for a target of so many numbers or classes: of quantiles one per level and number.
    fn network_outputs(&self, outputs: usize) -> usize {
        outputs.saturating_mul(self.loss.quantiles().len().max(1))
    }

    /// Refuses what no run can mean, before anything is compiled.
    pub fn check(&self, data: &Form, task: Task) -> Result<(), TrainError> {
        let wrong = |problem: String| Err(TrainError::Setting(problem));
        if !(self.lr.is_finite() && self.lr > 0.0) {
            return wrong(format!("the learning rate is {}, it must be a number above 0, such as 0.001", self.lr));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return wrong(format!("dropout is {}, it must be at least 0 and below 1", self.dropout));
        }
        let counts = [
            ("the batch size", self.batch_size),
            ("the number of epochs", self.epochs),
            ("accumulate", self.accumulate),
            ("patience", self.patience.unwrap_or(1)),
        ];
        if let Some((what, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return wrong(format!("{what} is 0, it must be at least 1"));
        }
        if let Some(Clip::Norm { max_norm: limit } | Clip::Value { limit }) = self.clip
            && !(limit.is_finite() && limit > 0.0)
        {
            return wrong(format!("gradients cannot be clipped at {limit}, it must be a number above 0"));
        }
        let decay = self.weight_decay();
        if !(decay.is_finite() && decay >= 0.0) {
            return wrong(format!("the weight decay is {decay}, it must be a number of at least 0"));
        }
        self.optimizer.check().map_err(TrainError::Setting)?;
        self.schedule.check().map_err(TrainError::Setting)?;
        let Details { init, inits, layers, .. } = &self.details;
        let of_layers = layers.iter().filter_map(|layer| layer.init);
        for init in std::iter::once(*init).chain(inits.iter().map(|(_, init)| *init)).chain(of_layers) {
            init.check().map_err(TrainError::Setting)?;
        }
        if self.hidden.contains(&0) {
            return wrong("a hidden layer of 0 units passes nothing on; leave it out".into());
        }
        if self.updates(data.rows, self.epochs) == 0 {
            let all = data.rows.div_ceil(self.batch_size).saturating_mul(self.epochs);
            let accumulate = self.accumulate;
            return wrong(format!(
                "accumulate is {accumulate}, and the run has {all} steps: nothing would be learned; use {all} or fewer"
            ));
        }
        self.model_for(Device::Cpu, data.width, data.outputs())?;
        self.check_memory(data)?;
        if self.details.broadcast && data.target != TargetForm::Values(1) {
            return wrong("broadcast is for one number to predict, [n,1] against [n]; leave it out".into());
        }
        self.loss.check(data.outputs()).map_err(TrainError::Setting)?;
        self.check_quantiles(task)?;
        match (&self.loss, data.target) {
            (
                Loss::CrossEntropy { .. },
                TargetForm::Classes(_) | TargetForm::Shares(_) | TargetForm::Sequence { .. },
            ) => Ok(()),
            (Loss::Nll, TargetForm::Classes(_)) => Ok(()),
            (Loss::Bce { .. }, TargetForm::Values(_)) if task == Task::Binary => Ok(()),
            // numbers against numbers: 0 and 1 for two classes, one of them 1 for several
            (Loss::Mse | Loss::Mae | Loss::Huber { .. }, target) if !matches!(target, TargetForm::Sequence { .. }) => {
                Ok(())
            }
            (Loss::Quantile { .. }, TargetForm::Values(_)) => Ok(()),
            (Loss::CrossEntropy { .. } | Loss::Bce { .. }, _) if self.details.misfit => Ok(()),
            (loss, _) => {
                let fitting = match task {
                    Task::Regression => "mse, mae, huber or quantile",
                    Task::Binary => "bce, whose pos_weight is the weight of the second class, or mse",
                    Task::Classes => "cross-entropy, nll behind a log-softmax, or mse",
                };
                wrong(format!("the loss {} does not fit the task {task}; use {fitting}", loss.name()))
            }
        }
    }

    /// Quantiles are of a number to predict, and need outputs of their own.
    fn check_quantiles(&self, task: Task) -> Result<(), TrainError> {
        if self.loss.quantiles().is_empty() {
            return Ok(());
        }
        let wrong = |problem: String| Err(TrainError::Setting(problem));
        if task != Task::Regression {
            let of = match task {
                Task::Binary => "binary: its probability says how sure the model is",
                Task::Regression | Task::Classes => "classes: their probabilities say how sure the model is",
            };
            return wrong(format!("quantiles are of a number to predict, and the task is {of}; leave them out"));
        }
        if let head @ (Head::Softmax { .. } | Head::LogSoftmax { .. }) = self.details.head {
            let name = head.name();
            return wrong(format!("a {name} mixes the outputs, and each quantile is one; leave the head out"));
        }
        if self.details.broadcast {
            return wrong(
                "broadcast is for one prediction per row, and there are several quantiles; leave it out".into(),
            );
        }
        Ok(())
    }

    /// What a network needs is known before the first step.
    fn check_memory(&self, data: &Form) -> Result<(), TrainError> {
        let parameters = self.parameters(data);
        let widest = self.sizes(data.width, data.outputs()).into_iter().max().unwrap_or(0);
        let batch = self.batch_size.min(data.rows) as u128;
        // weights, their gradients and moments, and three copies: the last epoch's, the best, those that validate; activations and
        // their gradients
        let bytes = parameters * 4 * 7 + batch * widest as u128 * 4 * 2 * (self.hidden.len() as u128 + 1);
        let available = memory::available().unwrap_or(u64::MAX) as u128;
        if bytes <= available && parameters < 1 << 40 {
            return Ok(());
        }
        Err(TrainError::Setting(format!(
            "a network of {parameters} parameters needs about {} to train, this machine has {} free; \
             use smaller --hidden layers or a smaller --batch-size",
            byte_size(u64::try_from(bytes).unwrap_or(u64::MAX)),
            byte_size(available as u64)
        )))
    }

    pub fn weight_decay(&self) -> f64 {
        match &self.optimizer {
            OptimizerConfig::Sgd(o) => o.weight_decay,
            OptimizerConfig::RmsProp(o) => o.weight_decay,
            OptimizerConfig::Adam(o) => o.weight_decay,
            OptimizerConfig::AdamW(o) => o.weight_decay,
            OptimizerConfig::Lamb(o) => o.weight_decay,
            OptimizerConfig::Lion(o) => o.weight_decay,
            OptimizerConfig::Muon(o) => o.weight_decay,
        }
    }

    pub fn parameters(&self, data: &Form) -> u128 {
        let sizes = self.sizes(data.width, data.outputs());
        match self.model_for(Device::Cpu, data.width, data.outputs()) {
            Ok(model) if self.network != Network::Mlp || !self.details.is_plain_mlp() => {
                weights_of(model.as_ref(), self.row_of(data.width))
            }
            _ => sizes.windows(2).map(|pair| (pair[0] as u128 + 1) * pair[1] as u128).sum(),
        }
    }

    /// Updates in a run of `epochs` over `rows` rows.
    pub fn updates(&self, rows: usize, epochs: usize) -> usize {
        rows.div_ceil(self.batch_size.clamp(1, rows.max(1))).saturating_mul(epochs) / self.accumulate.max(1)
    }
}
