//! The causes a finding can have: stable names, one line each. `citius doctor --causes` prints them.

/// A cause by its stable name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cause {
    pub name: &'static str,
    pub line: &'static str,
}

const fn cause(name: &'static str, line: &'static str) -> Cause {
    Cause { name, line }
}

/// All causes, in the order of faults: data, labels, head and loss, gradient, start, rate, size, length, speed.
pub const ALL: &[Cause] = &[
    cause("unscaled-features", "features on very different scales, or far from 0 and 1"),
    cause("twice-normalised", "features scaled again after they were scaled: next to no spread is left"),
    cause("unscaled-target", "a target far from 0 and 1, so that the last bias has to do all the work"),
    cause("correlated-columns", "columns that say the same: the loss is a narrow valley"),
    cause("constant-column", "a column with one value tells nothing"),
    cause("duplicate-column", "a column that is there twice"),
    cause("unrelated-labels", "the labels have nothing to do with the features"),
    cause("label-noise", "a part of the labels is wrong"),
    cause("class-imbalance", "some classes are so rare that the network does without them"),
    cause("label-changing-augmentation", "what is done to training pictures changes what they show"),
    cause("learning-rate-too-high", "updates overshoot: the loss rises or jumps about"),
    cause("learning-rate-too-low", "updates so small that the loss hardly moves"),
    cause("no-momentum", "plain gradient descent where momentum or Adam gets there in a fraction"),
    cause("adam-epsilon", "Adam's epsilon hides the second moment, or lets updates jump"),
    cause("no-schedule", "the loss stays at a floor that a decaying rate would leave"),
    cause("symmetric-init", "units of a layer start alike and stay alike"),
    cause("init-too-large", "weights start so large that signals grow from layer to layer"),
    cause("init-too-small", "weights start so small that signals vanish from layer to layer"),
    cause("dead-units", "relu units that no row switches on"),
    cause("saturated-units", "sigmoid or tanh units at their limits, where slopes are 0"),
    cause("vanishing-gradients", "gradients that shrink on their way to the first layers"),
    cause("exploding-gradients", "gradients that grow beyond reason"),
    cause("non-finite", "a value that is not a number, or infinite"),
    cause("wrong-head", "an activation behind the last layer that cannot give what the target asks for"),
    cause("softmax-twice", "a softmax in the network and another in the loss"),
    cause(
        "softmax-missing",
        "a loss that needs probabilities and gets raw outputs, or probabilities over the wrong axis",
    ),
    cause("wrong-loss", "a loss for another task"),
    cause("summed-loss", "a loss that is summed over the batch, so that its size sets the step"),
    cause("broadcast-loss", "prediction and target of other shapes, every row compared with every other"),
    cause("ascending", "updates that go uphill: the sign is wrong"),
    cause("cut-gradient", "parameters that the gradient does not reach"),
    cause("wrong-mode", "dropout or batch norm in the mode of prediction while training, or the reverse"),
    cause("regularisation-too-strong", "weight decay or dropout that outweighs the data"),
    cause("overfitting", "what is learned holds for the training rows alone"),
    cause("too-small", "a network that cannot even learn one batch by heart"),
    cause("too-deep", "more layers than gradients survive"),
    cause("batch-too-small", "gradients that are mostly noise"),
    cause("batch-too-large", "few updates, each from more rows than it needs"),
    cause("too-few-epochs", "stopped while the loss was still falling"),
    cause("no-early-stop", "went on long after the best epoch"),
    cause("no-validation", "no rows to judge by while training"),
    cause("leakage", "a column, or rows of both sets, that give the answer away"),
    cause("starved-loader", "steps wait for data"),
    cause("oversubscribed-loader", "more loading threads than cores to run them"),
    cause("disk-bound", "the disk gives no more bytes"),
    cause("unpinned-copy", "batches copied to the GPU from memory that is not pinned"),
    cause("moved-every-epoch", "the same bytes are brought to the device again and again"),
    cause("device-underused", "batches too small to fill the device"),
    cause("gpu-too-large", "a network so small that a processor is faster"),
    cause("full-precision", "large products in 32 bits where 16 would do"),
    cause("repeated-work", "decoding or scaling done again in every epoch"),
    cause("too-much-logging", "metrics, logs and checkpoints more often than anybody reads them"),
    cause("nothing-to-gain", "close to what the machine can do: stop tuning speed"),
];

/// Whether there is a cause of this name.
pub fn known(name: &str) -> bool {
    ALL.iter().any(|cause| cause.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kebab_case_and_one_of_a_kind() {
        for (i, cause) in ALL.iter().enumerate() {
            assert!(cause.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", cause.name);
            assert!(ALL[..i].iter().all(|other| other.name != cause.name), "{}", cause.name);
        }
    }
}
