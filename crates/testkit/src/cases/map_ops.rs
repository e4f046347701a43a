use citius_graph::Tensor;
use citius_graph::ops::map::{ALL, MapDef};

use super::{Case, Start};

/// Every map op of the registry at its samples, repeated to 0, 1, as many as there are, and 33 elements; and at its kinks.
pub fn cases() -> Vec<Case> {
    ALL.iter()
        .flat_map(|&def| {
            let lengths = [0, 1, def.samples.len(), 33];
            let kinks: Vec<&[f64]> = def.kinks.iter().map(|k| k.at).collect();
            let kinks = (!kinks.is_empty()).then(|| case(def, &kinks, kinks.len()));
            lengths.map(|n| case(def, def.samples, n)).into_iter().chain(kinks)
        })
        .collect()
}

/// `n` elements that go through `points` again and again.
pub fn case(def: &'static MapDef, points: &[&[f64]], n: usize) -> Case {
    let starts = (0..def.arity).map(|k| {
        let values = (0..n).map(|i| points[i % points.len()][k]).collect();
        Start::new(&format!("x{k}"), &[n], values)
    });
    Case::new(format!("{} [{n}]", def.name), starts.collect(), |_, x| {
        def.apply(def.sample_attrs, &x.iter().collect::<Vec<&Tensor>>())
    })
}
