use citius_graph::Tensor;

use super::vector;

/// Pinball (quantile) loss: mean of `max(τ·d, (τ − 1)·d)` over all rows and levels τ, with `d = t − p`. Its smallest mean is at the
/// τ-quantile of the target.
///
/// Of q levels and a target `[n,w]` the prediction is `[n,q·w]`, a level behind the other.
#[track_caller]
pub fn quantile(prediction: &Tensor, target: &Tensor, levels: &[f64]) -> Tensor {
    let g = prediction.graph();
    if let Some(problem) = mistake(prediction, target, levels) {
        g.report("quantile", problem);
        return prediction.mean_all();
    }
    g.warn_of_mixed_rows(prediction);
    let (n, w, q) = (target.dims()[0], target.dims()[1], levels.len());
    let d = target.reshape(&[n, 1, w]) - prediction.reshape(&[n, q, w]); // [n,q,w]
    let level = vector(g, levels).reshape(&[1, q, 1]);
    (&d * &level).maximum(&(&d * (level - 1.0))).mean_all()
}

/// What is wrong with levels that no training can mean.
pub(super) fn wrong_levels(levels: &[f64]) -> Option<String> {
    if levels.is_empty() {
        return Some("there are no quantiles; give some, such as 0.1, 0.5 and 0.9".into());
    }
    if let Some(level) = levels.iter().find(|level| !(**level > 0.0 && **level < 1.0)) {
        return Some(format!("a quantile is {level}, it must be above 0 and below 1, such as 0.9"));
    }
    let falls = levels.windows(2).find(|pair| pair[0] >= pair[1])?;
    Some(format!("the quantile {} stands before {}; write them rising, each once", falls[0], falls[1]))
}

fn mistake(prediction: &Tensor, target: &Tensor, levels: &[f64]) -> Option<String> {
    if let Some(problem) = wrong_levels(levels) {
        return Some(problem);
    }
    let (p, t) = (prediction.dims(), target.dims());
    match t[..] {
        [n, w] if p == [n, levels.len() * w] => None,
        [n, w] => {
            let (q, shape) = (levels.len(), prediction.shape());
            Some(format!("prediction is {shape}, must be [{n},{}]: {q} levels of {w} numbers", q * w))
        }
        [n] => Some(format!("target is [{n}], must be [n,w]; did you mean target.reshape(&[{n}, 1])?")),
        _ => Some(format!("target is {}, must be [n,w]", target.shape())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Graph;

    #[test]
    fn shapes_and_levels_are_checked() {
        let message = |p: &[usize], t: &[usize], levels: &[f64]| {
            let g = Graph::new();
            quantile(&g.input("p", p), &g.input("t", t), levels);
            g.check().map_or_else(|error| error.to_string(), |_| String::new())
        };
        assert_eq!(message(&[32, 3], &[32, 1], &[0.1, 0.5, 0.9]), "");
        assert_eq!(message(&[32, 6], &[32, 3], &[0.1, 0.9]), "");
        for (p, t, levels, expected) in [
            (&[32, 1][..], &[32, 1][..], &[0.1, 0.9][..], "must be [32,2]: 2 levels of 1 numbers"),
            (&[32, 2], &[32], &[0.1, 0.9], "did you mean target.reshape(&[32, 1])?"),
            (&[32, 2], &[32, 1], &[0.9, 0.1], "0.9 stands before 0.1"),
            (&[32, 2], &[32, 1], &[0.5, 0.5], "each once"),
            (&[32, 1], &[32, 1], &[1.0], "above 0 and below 1"),
            (&[32, 1], &[32, 1], &[f64::NAN], "above 0 and below 1"),
            (&[32, 1], &[32, 1], &[], "there are no quantiles"),
        ] {
            let message = message(p, t, levels);
            assert!(message.contains(expected) && message.contains("quantile.rs"), "{message}");
        }
    }
}
