//! The CPU executor under the same tests as the reference.

use citius_cpu::{Driver, Executable, Flow, Inputs, Isa, Memory, Options, Outputs, Slots, has_halves};
use citius_graph::{DType, Graph, LeafKind};

use crate::{Evaluate, Values};

/// One instruction set, one number of threads.
pub struct Cpu {
    pub isa: Isa,
    pub threads: usize,
    /// Products in bfloat16, where the processor has it.
    pub halves: bool,
}

impl Cpu {
    /// Every instruction set of this machine, alone and with three threads.
    pub fn all() -> Vec<Cpu> {
        Isa::available().into_iter().flat_map(|isa| [1, 3].map(|threads| Cpu { isa, threads, halves: false })).collect()
    }

    /// The same with products in bfloat16; none where the processor has no such instructions.
    pub fn with_halves() -> Vec<Cpu> {
        let isas = Isa::available().into_iter().filter(|isa| *isa >= Isa::Avx512 && has_halves());
        isas.flat_map(|isa| [1, 3].map(|threads| Cpu { isa, threads, halves: true })).collect()
    }
}

impl Evaluate for Cpu {
    fn name(&self) -> String {
        let halves = if self.halves { " in bfloat16" } else { "" };
        format!("cpu {} with {} threads{halves}", self.isa, self.threads)
    }

    fn run(&self, graph: &Graph, initial: &Values, inputs: &[Values]) -> Result<Vec<Values>, String> {
        let plan = citius_plan::compile(graph).map_err(|e| e.to_string())?;
        let mut memory = Memory::new(0);
        let options = Options {
            threads: self.threads,
            isa: Some(self.isa),
            halves_from: self.halves.then_some(1),
            // however small, so that matrix units are tested
            thirds_from: Some(1),
            ..Options::default()
        };
        let mut executable = Executable::new(plan, &mut memory, options).map_err(|e| e.to_string())?;
        fill(&mut memory, initial)?;
        let mut feeder = Feeder::new(graph, inputs, &|name| executable.output(name));
        let bytes = feeder.u8_inputs();
        let bound = bytes.iter().fold(Inputs::new(), |b, (name, data)| b.u8(name, data));
        let steps = inputs.len() as u64;
        executable.run(&mut memory, &bound, 0, steps, &mut feeder).map_err(|e| e.to_string())?;
        Ok(feeder.results)
    }
}

/// Sets parameters and states; one that the step neither reads nor writes is not in the plan.
pub(crate) fn fill(memory: &mut Memory, initial: &Values) -> Result<(), String> {
    for (name, values) in initial {
        let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
        if memory.leaf(name).is_some() && !memory.set(name, &values) {
            return Err(format!("\"{name}\" is not {} values long", values.len()));
        }
    }
    Ok(())
}

/// Feeds the inputs of each step and keeps its outputs.
pub(crate) struct Feeder<'a> {
    inputs: &'a [Values],
    fed: Vec<(String, DType)>,
    /// Name, place and whether it is whole numbers.
    kinds: Vec<(String, Option<usize>, bool)>,
    pub results: Vec<Values>,
}

impl<'a> Feeder<'a> {
    pub fn new(graph: &Graph, inputs: &'a [Values], place: &dyn Fn(&str) -> Option<usize>) -> Feeder<'a> {
        let integer = |id| graph.tensor(id).dtype() != DType::F32;
        let kinds = graph.outputs().into_iter().map(|(name, id)| (name.clone(), place(&name), integer(id))).collect();
        let leaves = graph.leaves();
        let fed = leaves.iter().filter(|l| l.kind == LeafKind::Input);
        let fed = fed.map(|l| (l.name.clone(), graph.tensor(l.node).dtype())).collect();
        Feeder { inputs, fed, kinds, results: Vec::new() }
    }

    /// Bytes are bound once: those of the first step.
    pub fn u8_inputs(&self) -> Vec<(String, Vec<u8>)> {
        let bytes = self.fed.iter().filter(|f| f.1 == DType::U8);
        let first = |name: &String| self.inputs.first().and_then(|i| i.get(name)).cloned().unwrap_or_default();
        bytes.map(|(name, _)| (name.clone(), first(name).iter().map(|&v| v as u8).collect())).collect()
    }
}

impl Driver for Feeder<'_> {
    fn feed(&mut self, step: u64, slots: &mut Slots) {
        for (name, dtype) in &self.fed {
            let Some(values) = self.inputs[step as usize].get(name) else { continue };
            match dtype {
                DType::F32 => {
                    if let Some(slot) = slots.f32(name) {
                        slot.iter_mut().zip(values).for_each(|(s, v)| *s = *v as f32);
                    }
                }
                DType::I32 => {
                    if let Some(slot) = slots.i32(name) {
                        slot.iter_mut().zip(values).for_each(|(s, v)| *s = *v as i32);
                    }
                }
                DType::U8 => {}
            }
        }
    }

    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        let mut values = Values::new();
        for (name, index, integer) in &self.kinds {
            if let Some(i) = *index {
                let read = match integer {
                    true => outputs.i32(i).iter().map(|&v| v as f64).collect(),
                    false => outputs.f32(i).iter().map(|&v| v as f64).collect(),
                };
                values.insert(name.clone(), read);
            }
        }
        self.results.push(values);
        Flow::Continue
    }
}
