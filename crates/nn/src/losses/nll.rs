use citius_graph::{DType, Tensor};

/// Mean of `−x[class]` of logarithms of probabilities x `[n,c]` and i32 classes `[n]`, as PyTorch's `nll_loss`. With a log-softmax
/// before it, it is the cross-entropy; without one it has no smallest value.
#[track_caller]
pub fn nll(log_probabilities: &Tensor, classes: &Tensor) -> Tensor {
    let (g, dims) = (log_probabilities.graph(), log_probabilities.dims());
    let [n, c] = dims[..] else {
        g.report("nll", format!("log-probabilities are {}, must be [n,c]", log_probabilities.shape()));
        return log_probabilities.mean_all();
    };
    if classes.dtype() != DType::I32 || classes.dims() != [n] || c == 0 {
        let (dtype, shape) = (classes.dtype(), classes.shape());
        g.report("nll", format!("log-probabilities are [{n},{c}], classes are {dtype} {shape}, must be i32 [{n}]"));
        return log_probabilities.mean_all();
    }
    g.limit(classes, "class", c);
    g.warn_of_mixed_rows(log_probabilities);
    let one_hot = classes.to_f32().reshape(&[n, 1]).eq(&g.iota(c)); // [n,c]
    // chosen, not multiplied by 0: another class may be −∞
    -one_hot.choose(log_probabilities, &g.scalar(0.0)).sum(&[1], true).mean_all()
}
