//! A copy of all that a model is: parameters, and what layers keep beside them, such as running means. As stored.

use std::collections::BTreeMap;

use citius_cpu::{Memory, TensorView};
use citius_graph::LeafKind;

use crate::step::average_name;

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Weights {
    pub tensors: Vec<(String, Vec<f32>)>,
}

impl Weights {
    /// `None` where there is no memory for a copy.
    pub fn of(memory: &Memory, names: Vec<String>) -> Option<Weights> {
        let own = names.into_iter().filter_map(|name| memory.get(&name).map(|values| (name, values)));
        let tensors = own.map(|(name, values)| Some((name, try_to_vec(values)?)));
        Some(Weights { tensors: tensors.collect::<Option<_>>()? })
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
    /// Each tensor by its own name, as a person sees it; `memory` knows how they are stored.
    pub fn views<'a>(&'a self, memory: &Memory) -> Vec<(String, TensorView<'a>)> {
        let stored = |leaf: &str| self.tensors.iter().find(|(name, _)| name == leaf).map(|(_, v)| v.as_slice());
        let view = |name: String| memory.view_of(&name, stored).map(|view| (name, view));
        self.names(memory).into_iter().filter_map(view).collect()
    }

    /// `None` where there is no memory for a copy.
    pub fn try_clone(&self) -> Option<Weights> {
        let tensors = self.tensors.iter().map(|(name, values)| Some((name.clone(), try_to_vec(values)?)));
        Some(Weights { tensors: tensors.collect::<Option<_>>()? })
    }

    /// The same tensors with values as a person sees them; `None` where one is missing or of another size, or memory is. What
    /// else is given is passed over.
    pub fn with_values<'a>(
        &self,
        memory: &Memory,
        given: impl Iterator<Item = (&'a str, &'a [f32])>,
    ) -> Option<Weights> {
        let given: BTreeMap<&str, &[f32]> = given.collect();
        let mut leaves: BTreeMap<String, Vec<f32>> = self.try_clone()?.tensors.into_iter().collect();
        let written = self.names(memory).iter().all(|name| match given.get(name.as_str()) {
            Some(values) => memory.write_to(name, values, &mut leaves),
            None => false,
        });
        let value = |(name, _): &(String, Vec<f32>)| Some((name.clone(), leaves.remove(name)?));
        written
            .then(|| self.tensors.iter().map(value).collect::<Option<_>>())
            .flatten()
            .map(|tensors| Weights { tensors })
    }

    /// The names of [`Weights::views`].
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
}

/// A copy, where there is memory for it.
fn try_to_vec(values: &[f32]) -> Option<Vec<f32>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(values.len()).ok()?;
    copy.extend_from_slice(values);
    Some(copy)
}
