//! Derivatives by central differences in f64.

use crate::{Case, Reference, Tolerance};

/// The slope of the case's `loss` along each element of `leaf`; `None` beside a kink, where two step widths disagree.
pub fn differences(case: &Case, leaf: &str) -> Vec<Option<f64>> {
    let mut reference = Reference::new(&case.graph, 0);
    let failed = |e: String| -> f64 { panic!("{}: {e}\n{}", case.name, case.graph) };
    for (name, values) in &case.initial {
        reference.set(name, values).map_or_else(failed, |()| 0.0);
    }
    let mut loss = |i: usize, d: f64| {
        let mut moved = case.initial[leaf].clone();
        moved[i] += d;
        let outputs = reference.set(leaf, &moved).and_then(|()| reference.peek(&case.inputs));
        outputs.map_or_else(failed, |outputs| outputs["loss"][0])
    };
    let at = &case.initial[leaf];
    (0..at.len())
        .map(|i| {
            let h = 1e-5 * at[i].abs().max(1.0);
            let mut slope = |h: f64| (loss(i, h) - loss(i, -h)) / (2.0 * h);
            let (wide, narrow) = (slope(h), slope(0.5 * h));
            let smooth = (wide - narrow).abs() <= 1e-6 * (1.0 + narrow.abs());
            // error of each is ∝ h²: extrapolate to 0
            smooth.then_some((4.0 * narrow - wide) / 3.0)
        })
        .collect()
}

/// Panics where the gradient in the graph is not the slope of the loss. Returns (elements checked, elements beside a kink).
#[track_caller]
pub fn check(case: &Case, tolerance: Tolerance) -> (usize, usize) {
    let outputs = case.reference();
    let (mut checked, mut skipped) = (0, 0);
    for leaf in case.initial.keys() {
        let gradient = &outputs[&format!("grad.{leaf}")];
        for (i, slope) in differences(case, leaf).into_iter().enumerate() {
            let Some(slope) = slope else {
                skipped += 1;
                continue;
            };
            checked += 1;
            assert!(
                tolerance.accepts(gradient[i], slope),
                "{}: d loss/d {leaf}[{i}] is {:e} in the graph, {slope:e} by differences\n{}",
                case.name,
                gradient[i],
                case.graph
            );
        }
    }
    (checked, skipped)
}
