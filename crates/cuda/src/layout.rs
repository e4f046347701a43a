//! Where every buffer of a plan lies on the device.

use std::collections::BTreeMap;

use citius_graph::{DType, LeafKind};
use citius_plan::{Plan, Storage, Work};

use crate::precision::Halves;
use crate::schedule::{Schedule, Step};

/// Widest load, and a line of the second-level cache.
const ALIGN: usize = 256;

/// Places of parameters and states, shared by all plans of a model.
#[derive(Clone, Debug, Default)]
pub struct LeafPlaces {
    pub offsets: BTreeMap<String, (usize, usize)>,
    pub bytes: usize,
}

impl LeafPlaces {
    /// Makes room for the leaves of a plan.
    pub fn admit(&mut self, plan: &Plan) {
        for buffer in &plan.buffers {
            let Storage::Leaf { name, kind, .. } = &buffer.storage else { continue };
            if *kind != LeafKind::Input && !self.offsets.contains_key(name) {
                let elements = buffer.shape.elements();
                self.offsets.insert(name.clone(), (self.bytes, elements));
                self.bytes += (elements * 4).next_multiple_of(ALIGN);
            }
        }
    }
}

/// Where the parts of a fold are left by the units of its loop.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub offset: usize,
    pub units: usize,
}

/// Of a block's own memory, for folds and products to add up their parts.
const RESERVED: usize = 40 << 10;

#[derive(Clone, Debug)]
pub struct Layout {
    /// For each buffer an expression of its address.
    pointers: Vec<String>,
    /// Buffers stored in 16 bits.
    half: Halves,
    pub scratch_bytes: usize,
    /// Constants to be written into scratch memory once: (offset, values).
    pub constants: Vec<(usize, Vec<f32>)>,
    /// Inputs that stay for a run.
    pub bound: Vec<Input>,
    /// Inputs that come with each step.
    pub fed: Vec<Input>,
    pub fed_bytes: usize,
    /// Of the step's number among what is fed.
    pub step_offset: Option<usize>,
    /// Of the key of its random numbers.
    pub key_offset: Option<usize>,
    /// For each output of the plan.
    pub results: Vec<Output>,
    pub result_bytes: usize,
    /// Outputs that are leaves: (from, to, words), copied at the end of a step.
    pub copied: Vec<(String, String, usize)>,
    parts: BTreeMap<(usize, usize), Parts>,
    /// Scratch and leaves live in the block's own memory: leaves from here on.
    pub on_chip: Option<usize>,
    /// Indices need 64 bits.
    pub large: bool,
}

#[derive(Clone, Debug)]
pub struct Input {
    pub buffer: usize,
    pub name: String,
    pub offset: usize,
    pub elements: usize,
    pub dtype: DType,
}

#[derive(Clone, Debug)]
pub struct Output {
    pub offset: usize,
    pub elements: usize,
    pub dtype: DType,
}

impl Layout {
    /// `is_bound` says which inputs stay for a run; `block_bytes` is a block's own memory.
    pub fn new(
        plan: &Plan,
        schedule: &Schedule,
        leaves: &LeafPlaces,
        is_bound: &dyn Fn(&str) -> bool,
        half: &Halves,
        block_bytes: usize,
    ) -> Layout {
        let mut layout = Layout {
            pointers: Vec::new(),
            half: half.clone(),
            scratch_bytes: 0,
            constants: Vec::new(),
            bound: Vec::new(),
            fed: Vec::new(),
            fed_bytes: 0,
            step_offset: None,
            key_offset: None,
            results: Vec::new(),
            result_bytes: 0,
            copied: Vec::new(),
            parts: BTreeMap::new(),
            on_chip: None,
            large: plan.buffers.iter().any(|b| b.shape.elements() > i32::MAX as usize / 2),
        };
        let is_output = |id: usize| plan.outputs.iter().any(|o| o.1 == id);
        let mut result_of: BTreeMap<usize, usize> = BTreeMap::new();
        let ahead = schedule.ahead.iter().flat_map(|b| &b.stages).flatten().flat_map(|f| &f.steps);
        let early: Vec<usize> = ahead
            .flat_map(|step| match step {
                Step::Call(i) => plan.calls[*i].work.touches().1,
                Step::Combine(_) => vec![],
            })
            .collect();
        for (id, buffer) in plan.buffers.iter().enumerate() {
            let elements = buffer.shape.elements();
            let size = elements * if half.contains(id) { 2 } else { buffer.dtype.bytes() };
            let pointer = match &buffer.storage {
                Storage::Scratch { .. } if is_output(id) => {
                    let offset = layout.result(size);
                    result_of.insert(id, offset);
                    format!("results + {offset}")
                }
                // written a step ahead, while the step before still reads its own
                Storage::Scratch { .. } if early.contains(&id) => {
                    let size = size.max(1).next_multiple_of(ALIGN);
                    format!("scratch + {} + (s & 1) * {size}", layout.scratch(2 * size))
                }
                Storage::Scratch { .. } => format!("scratch + {}", layout.scratch(size)),
                Storage::Constant(values) => {
                    let offset = layout.scratch(values.len() * 4);
                    layout.constants.push((offset, values.clone()));
                    format!("scratch + {offset}")
                }
                Storage::Step => {
                    let offset = layout.feed(4);
                    layout.step_offset = Some(offset);
                    format!("fed + {offset}")
                }
                Storage::Leaf { name, kind: LeafKind::Input, .. } => {
                    let mut input = Input { buffer: id, name: name.clone(), offset: 0, elements, dtype: buffer.dtype };
                    if is_bound(name) {
                        layout.bound.push(input);
                        format!("args.bound[{}]", layout.bound.len() - 1)
                    } else {
                        input.offset = layout.feed(size);
                        let pointer = format!("fed + {}", input.offset);
                        layout.fed.push(input);
                        pointer
                    }
                }
                Storage::Leaf { name, .. } => {
                    format!("leaves + {}", leaves.offsets.get(name).map_or(0, |l| l.0))
                }
            };
            layout.pointers.push(pointer);
        }
        if plan.calls.iter().any(|c| matches!(c.work, Work::Random(_))) {
            layout.key_offset = Some(layout.feed(8));
        }
        for (_, id) in &plan.outputs {
            let buffer = &plan.buffers[*id];
            let elements = buffer.shape.elements();
            let offset = match result_of.get(id) {
                Some(offset) => *offset,
                None => {
                    let offset = layout.result(elements * buffer.dtype.bytes());
                    let words = (elements * buffer.dtype.bytes()).div_ceil(4);
                    layout.copied.push((layout.pointers[*id].clone(), format!("results + {offset}"), words));
                    result_of.insert(*id, offset);
                    offset
                }
            };
            layout.results.push(Output { offset, elements, dtype: buffer.dtype });
        }
        for fibre in schedule.fibres() {
            for step in &fibre.steps {
                let Step::Call(call) = *step else { continue };
                let Work::Loop(l) = &plan.calls[call].work else { continue };
                for (i, _) in l.folds.iter().enumerate().filter(|(_, f)| f.whole) {
                    let units = fibre.units();
                    let offset = layout.scratch(units * 4);
                    layout.parts.insert((call, i), Parts { offset, units });
                }
            }
        }
        let chip = layout.scratch_bytes + leaves.bytes;
        if schedule.team.blocks == 1 && chip + RESERVED <= block_bytes {
            layout.on_chip = Some(layout.scratch_bytes);
            let moved = format!("chip + {} + ", layout.scratch_bytes);
            let change = |p: &mut String| *p = p.replace("scratch + ", "chip + ").replace("leaves + ", &moved);
            layout.pointers.iter_mut().for_each(change);
            layout.copied.iter_mut().for_each(|(from, to, _)| {
                change(from);
                change(to);
            });
        }
        layout
    }

    /// An expression of the buffer's address, typed where its elements are not what the plan says.
    pub fn pointer(&self, buffer: usize) -> String {
        match self.half.contains(buffer) {
            true => format!("({}*)({})", self.half.type_name(), self.pointers[buffer]),
            false => self.pointers[buffer].clone(),
        }
    }

    pub fn is_half(&self, buffer: usize) -> bool {
        self.half.contains(buffer)
    }

    /// (region, offset), as the addresses of a launch name them.
    pub fn place(&self, buffer: usize) -> Option<(&str, usize)> {
        let (region, offset) = self.pointers[buffer].split_once(" + ")?;
        Some((region, offset.parse().ok()?))
    }

    pub fn all_parts(&self) -> impl Iterator<Item = (&(usize, usize), &Parts)> {
        self.parts.iter()
    }

    /// Bytes of the block's own memory that buffers live in.
    pub fn chip_bytes(&self, leaves: &LeafPlaces) -> usize {
        self.on_chip.map_or(0, |scratch| scratch + leaves.bytes)
    }

    pub fn parts(&self, call: usize, fold: usize) -> Parts {
        self.parts.get(&(call, fold)).copied().unwrap_or(Parts { offset: 0, units: 0 })
    }

    fn scratch(&mut self, bytes: usize) -> usize {
        take(&mut self.scratch_bytes, bytes, ALIGN)
    }

    fn feed(&mut self, bytes: usize) -> usize {
        take(&mut self.fed_bytes, bytes, 16)
    }

    fn result(&mut self, bytes: usize) -> usize {
        take(&mut self.result_bytes, bytes, 16)
    }
}

fn take(total: &mut usize, bytes: usize, align: usize) -> usize {
    let offset = *total;
    *total += bytes.max(1).next_multiple_of(align);
    offset
}
