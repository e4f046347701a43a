//! Raw outputs of a model for many rows, in large batches.

use std::thread::available_parallelism;

use citius_cpu::{Driver, Executable, Flow, Inputs, Memory, Options, Outputs, Slots};
use citius_data::Features;
use citius_graph::{DType, Graph, LeafKind, Mode};
use citius_nn::{Module, RowShape};
use citius_plan::compile;

use crate::TrainError;
use crate::material::FeatureForm;

/// Rows computed together, fewer where a row has many tokens; what is left over at the end has a plan of its own.
const BATCH: usize = 1024;
const TOKENS: usize = 1 << 14;
/// Multiply-adds in a call below which one thread is fastest.
const ONE_THREAD: usize = 1 << 24;

/// A model in eval mode with its weights.
pub struct Predictor {
    model: Box<dyn Module>,
    options: Options,
    memory: Memory,
    /// Of layers: eval, unless told.
    mode: Mode,
    /// What the model is made of; in training mode layers count more than that.
    tensors: Vec<String>,
    /// One per batch size met.
    batches: Vec<Batch>,
}

struct Batch {
    executable: Executable,
    rows: usize,
    width: usize,
    features: FeatureForm,
    output: usize,
}

impl Predictor {
    /// Weights are those of initialisation until set.
    pub fn new(model: Box<dyn Module>, row: RowShape, options: Options) -> Result<Predictor, TrainError> {
        let mut predictor = Predictor {
            model,
            options,
            memory: Memory::new(0),
            mode: Mode::Eval,
            tensors: Vec::new(),
            batches: Vec::new(),
        };
        let width = row.elements();
        // two rows, so that every parameter is known: one alone has no variance
        predictor.batch(
            2,
            &match row {
                RowShape::Tokens { .. } => Features::I32 { data: vec![0; 2 * width], width },
                RowShape::Flat { .. } | RowShape::Picture { .. } | RowShape::Series { .. } => {
                    Features::F32 { data: vec![0.0; 2 * width], width }
                }
            },
        )?;
        predictor.tensors = predictor.memory.tensors();
        Ok(predictor)
    }

    /// The same in another mode of its layers.
    pub fn in_mode(mut self, mode: Mode) -> Predictor {
        self.mode = mode;
        self.batches.clear();
        self
    }

    /// Names of what the model is made of, as [`Memory::user_view`] knows them: parameters, and what layers keep beside them.
    pub fn parameters(&self) -> Vec<String> {
        self.tensors.clone()
    }

    /// Names under which they are stored, some in pieces; the same while training.
    pub(crate) fn stored(&self) -> Vec<String> {
        let learned = self.memory.leaves().filter(|(_, leaf)| leaf.kind != LeafKind::Input);
        learned.map(|(name, _)| name.to_owned()).collect()
    }

    /// Weights by name; see [`Memory::user_view`] for PyTorch's shapes.
    pub fn weights(&self) -> &Memory {
        &self.memory
    }

    pub fn weights_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Outputs of all rows, row-major.
    pub fn outputs(&mut self, features: &Features) -> Result<Vec<f32>, TrainError> {
        let width = features.width().max(1);
        let rows = features.rows();
        let most = match features {
            Features::I32 { .. } => (TOKENS / width).clamp(1, BATCH),
            Features::F32 { .. } | Features::U8 { .. } => BATCH,
        };
        let mut outputs = Vec::new();
        let mut start = 0;
        while start < rows {
            let count = most.min(rows - start);
            let at = self.batch(count, features)?;
            let Batch { executable, output, .. } = &mut self.batches[at];
            let range = start * width..(start + count) * width;
            let inputs = match features {
                Features::F32 { data, .. } => Inputs::new().f32("x", &data[range]),
                Features::U8 { data, .. } => Inputs::new().u8("x", &data[range]),
                Features::I32 { data, .. } => Inputs::new().i32("x", &data[range]),
            };
            executable.run(&mut self.memory, &inputs, 0, 1, &mut Collect { output: *output, into: &mut outputs })?;
            start += count;
        }
        Ok(outputs)
    }

    /// The place of the executable for this many rows of this kind.
    fn batch(&mut self, rows: usize, features: &Features) -> Result<usize, TrainError> {
        let (width, form) = match features {
            Features::F32 { width, .. } => (*width, FeatureForm::Numbers),
            Features::U8 { width, scale, shift, .. } => (*width, FeatureForm::Bytes(*scale, *shift)),
            Features::I32 { width, .. } => (*width, FeatureForm::Tokens),
        };
        let same = |b: &Batch| b.rows == rows && b.width == width && b.features == form;
        if let Some(at) = self.batches.iter().position(same) {
            return Ok(at);
        }
        let g = Graph::with_mode(Mode::Eval);
        let x = match form {
            FeatureForm::Numbers => g.input("x", &[rows, width]),
            FeatureForm::Bytes(scale, shift) => {
                g.input_of("x", &[rows, width], DType::U8).to_f32() * scale as f64 + shift as f64
            }
            FeatureForm::Tokens => g.input_of("x", &[rows, width], DType::I32),
        };
        let outputs = {
            let _mode = g.in_mode(self.mode);
            self.model.forward(&x)
        };
        g.output("outputs", &outputs);
        let plan = compile(&g)?;
        let mut options = self.options;
        if options.threads == 0 {
            let small = plan.total().flops / 2 < ONE_THREAD;
            options.threads = if small { 1 } else { available_parallelism().map_or(1, |n| n.get()) };
        }
        let executable = Executable::new(plan, &mut self.memory, options)?;
        let output = executable.output("outputs").unwrap_or(0);
        self.batches.push(Batch { executable, rows, width, features: form, output });
        Ok(self.batches.len() - 1)
    }
}

/// Appends the outputs of one call.
struct Collect<'a> {
    output: usize,
    into: &'a mut Vec<f32>,
}

impl Driver for Collect<'_> {
    fn feed(&mut self, _: u64, _: &mut Slots) {}

    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.into.extend_from_slice(outputs.f32(self.output));
        Flow::Continue
    }
}
