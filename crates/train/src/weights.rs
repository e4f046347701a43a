//! A copy of all that a model is: parameters, and what layers keep beside them, such as running means. As stored.

use citius_cpu::Memory;
use citius_graph::LeafKind;

use crate::step::average_name;

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Weights {
    pub tensors: Vec<(String, Vec<f32>)>,
}

impl Weights {
    pub fn of(memory: &Memory, names: Vec<String>) -> Weights {
        let values = |name: String| memory.get(&name).map(|values| (name.clone(), values.to_vec()));
        Weights { tensors: names.into_iter().filter_map(values).collect() }
    }

    /// Copies the parameters, or their running averages.
    pub fn read_from(&mut self, memory: &Memory, average: bool) {
        for (name, values) in &mut self.tensors {
            // running moments have none beside a running average
            let averaged = average.then(|| memory.get(&average_name(name))).flatten();
            let found = averaged.or_else(|| memory.get(name));
            if let Some(found) = found.filter(|found| found.len() == values.len()) {
                values.copy_from_slice(found);
            }
        }
    }

    pub fn copy_from(&mut self, other: &Weights) {
        for ((_, to), (_, from)) in self.tensors.iter_mut().zip(&other.tensors) {
            to.copy_from_slice(from);
        }
    }

    pub fn write_to(&self, memory: &mut Memory) {
        for (name, values) in &self.tensors {
            memory.set(name, values);
        }
    }
}

impl Weights {
    /// Each tensor by its own name, with shape and values as a person sees them; `memory` knows how they are stored.
    pub fn joined(&self, memory: &Memory) -> Vec<(String, Vec<usize>, Vec<f32>)> {
        let stored = |leaf: &str| self.tensors.iter().find(|(name, _)| name == leaf).map(|(_, v)| v.as_slice());
        let joined = |name: String| memory.joined(&name, stored).map(|(shape, values)| (name, shape, values));
        self.names(memory).into_iter().filter_map(joined).collect()
    }

    /// The names of [`Weights::joined`].
    pub fn names(&self, memory: &Memory) -> Vec<String> {
        let stored = |leaf: &str| self.tensors.iter().any(|(name, _)| name == leaf);
        let kept = memory.leaves().filter(|(name, leaf)| leaf.kind == LeafKind::State && stored(name));
        memory.parameters().into_iter().chain(kept.map(|(name, _)| name.to_owned())).collect()
    }

    /// Whether the memory holds the same bits.
    pub fn equals(&self, memory: &Memory) -> bool {
        let bits =
            |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        self.tensors.iter().all(|(name, values)| memory.get(name).is_some_and(|own| bits(own, values)))
    }

    /// The inverse; `None` where a name or a size is not what `memory` knows.
    pub fn parted(memory: &Memory, joined: Vec<(&str, &[f32])>) -> Option<Weights> {
        let parted = joined.into_iter().map(|(name, values)| memory.parted(name, values));
        let mut tensors = parted.collect::<Option<Vec<_>>>()?.concat();
        tensors.sort_by(|a, b| a.0.cmp(&b.0));
        Some(Weights { tensors })
    }

    /// Whether both have the same tensors of the same sizes.
    pub fn fits(&self, other: &Weights) -> bool {
        let shape =
            |w: &Weights| w.tensors.iter().map(|(name, values)| (name.clone(), values.len())).collect::<Vec<_>>();
        shape(self) == shape(other)
    }
}
