use citius_graph::{DType, Tensor};

use super::vector;

/// Cross-entropy of logits x `[n,c]` against i32 classes `[n]`: mean of `log Σ eˣ − x[class]`.
///
/// `label_smoothing` ε gives every class ε/c of the target. `class_weights` (one per class) weigh each term, and the mean is
/// taken over the weights of the targets. Instead of classes, f32 `[n,c]` give the share of each, and the mean is taken over the
/// rows. All as PyTorch's.
#[track_caller]
pub fn cross_entropy(logits: &Tensor, classes: &Tensor, label_smoothing: f64, class_weights: Option<&[f64]>) -> Tensor {
    let g = logits.graph();
    if let Some(problem) = mistake(logits, classes, label_smoothing, class_weights) {
        g.report("cross_entropy", problem);
        return logits.mean_all();
    }
    let (n, c) = (logits.dims()[0], logits.dims()[1]);
    g.limit(classes, "class", c);
    g.warn_of_mixed_rows(logits);
    let lse = logits.log_sum_exp(1); // [n,1]
    if classes.dtype() == DType::F32 {
        let shares = classes * (1.0 - label_smoothing) + label_smoothing / c as f64;
        let target = class_weights.map_or(shares.clone(), |weights| shares * vector(g, weights));
        return (target.sum(&[1], true) * lse - (target * logits).sum(&[1], true)).mean_all();
    }
    let one_hot = classes.to_f32().reshape(&[n, 1]).eq(&g.iota(c)); // [n,c]
    if label_smoothing == 0.0 {
        // chosen, not multiplied by 0: another class may be −∞, as where it is masked
        let terms = lse - one_hot.choose(logits, &g.scalar(0.0)).sum(&[1], true); // [n,1]
        let Some(weights) = class_weights else { return terms.mean_all() };
        let chosen = (one_hot * vector(g, weights)).sum(&[1], true);
        return (&chosen * terms).sum_all() / chosen.sum_all();
    }
    let (hit, rest) = (1.0 - label_smoothing, label_smoothing / c as f64);
    let Some(weights) = class_weights else {
        // Σ target = 1 in each row
        let target = one_hot * hit + rest;
        return (lse - (target * logits).sum(&[1], true)).mean_all();
    };
    // target[i,j] = w[j]·(hit·onehot + rest), divided by Σ w[class]
    let total: f64 = weights.iter().sum();
    let weights = vector(g, weights);
    let weighted = one_hot * &weights;
    let chosen = weighted.sum(&[1], true); // [n,1]
    let target = weighted * hit + weights * rest;
    let row_sum = &chosen * hit + total * rest;
    (row_sum * lse - (target * logits).sum(&[1], true)).sum_all() / chosen.sum_all()
}

fn mistake(logits: &Tensor, classes: &Tensor, smoothing: f64, weights: Option<&[f64]>) -> Option<String> {
    let (x, t) = (logits.dims(), classes.dims());
    let [n, c] = x[..] else {
        return Some(format!("logits are {}, must be [n,c]", logits.shape()));
    };
    let shares = classes.dtype() == DType::F32 && t == [n, c];
    if classes.dtype() != DType::I32 && !shares {
        let (dtype, shape) = (classes.dtype(), classes.shape());
        return Some(format!(
            "classes are {dtype} {shape}, must be i32 [{n}], or f32 [{n},{c}] with the share of each"
        ));
    }
    if t != [n] && !shares {
        let hint = if t == [n, 1] { format!("; did you mean target.reshape(&[{n}])?") } else { String::new() };
        return Some(format!("logits are {}, classes are {}, must be [{n}]{hint}", logits.shape(), classes.shape()));
    }
    if c == 0 {
        return Some("no classes: logits are [n,0]".into());
    }
    if !(0.0..=1.0).contains(&smoothing) {
        return Some(format!("label smoothing is {smoothing}, must be between 0 and 1"));
    }
    match weights {
        Some(w) if w.len() != c => Some(format!("{} class weights for {c} classes", w.len())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::{Graph, Init, Op, Reduction};

    #[test]
    fn the_gradient_needs_no_more_reductions() {
        let g = Graph::new();
        let x = g.parameter("x", &[8, 3], Init::Zeros);
        let loss = cross_entropy(&x, &g.input_of("y", &[8], DType::I32), 0.1, None);
        let sums = || g.nodes().iter().filter(|n| matches!(n.op, Op::Reduce { kind: Reduction::Sum, .. })).count();
        let (before, maxima) = (sums(), g.nodes().iter().filter(|n| n.op.name() == "max").count());
        g.gradients(&loss, &[x]);
        assert_eq!((before, maxima), (3, 1), "{g}"); // Σ eˣ, Σ target·x, mean
        assert_eq!(sums(), before, "{g}"); // softmax − target, element by element
        g.check().unwrap();
    }
}
