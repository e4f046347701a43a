//! Faults, each as what it changes in a program. The rows are those of the fault catalogue: what does not learn, at several severities.

use super::data::Data;
use super::programs::{CLASSIFIER, CNN, DEEP_CNN, DEEPER_SINE, GRU, MLP, Program};

/// How bad it is. Mild ones are counted by themselves: a good training may bear them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    Mild,
    Moderate,
    Severe,
}

use Level::{Mild, Moderate, Severe};

/// One fault in one program.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub cause: &'static str,
    /// Other names for the very same mistake, or for the way in which it strikes first.
    pub also: &'static [&'static str],
    pub program: Program,
    pub level: Level,
    /// Settings that it adds or replaces.
    pub settings: &'static str,
    /// Data that it puts in place of the program's.
    pub data: Option<Data>,
}

const fn fault(cause: &'static str, program: Program, level: Level, settings: &'static str) -> Fault {
    Fault { cause, also: &[], program, level, settings, data: None }
}

impl Fault {
    const fn or(self, also: &'static [&'static str]) -> Fault {
        Fault { also, ..self }
    }

    const fn on(self, data: Data) -> Fault {
        Fault { data: Some(data), ..self }
    }
}

const SATURATED: &str = "activation = \"sigmoid\"\ninit = { name = \"normal\", std = 4.0 }";
const DEEP_SIGMOID: &str = "activation = \"sigmoid\"\nhidden = [32, 32, 32, 32, 32, 32, 32, 32]";
const DEEPER_TANH: &str = "activation = \"tanh\"\ninit = { name = \"normal\", std = 0.06 }\n\
     hidden = [32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32]";
const DEEP: &str =
    "hidden = [32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32]";
const EXPLODING: &str = "init = { name = \"normal\", std = 1.0 }\nhidden = [64, 64, 64, 64, 64, 64, 64, 64]";

/// What is done to pictures of things, done to digits.
const MIRRORED: &str = "augment = [{ name = \"horizontal-flip\" }, { name = \"vertical-flip\" }]";

/// Units that a negative bias keeps off.
const DEAD: &str = "inits = { \"0.bias\" = { name = \"constant\", value = -8.0 }, \"2.bias\" = { name = \"constant\", value = -8.0 } }";
const HALF_DEAD: &str = "inits = { \"0.bias\" = { name = \"uniform\", low = -9.0, high = 0.0 } }";
const DEAD_CNN: &str = "inits = { \"conv2.bias\" = { name = \"constant\", value = -20.0 } }";

const INIT_LARGE: &[&str] = &["exploding-gradients", "saturated-units", "non-finite"];
const INIT_SMALL: &[&str] = &["vanishing-gradients"];
const HIGH: &[&str] = &["non-finite", "exploding-gradients"];

pub const ALL: &[Fault] = &[
    // features and target
    fault("unscaled-features", MLP, Severe, "prepare = { scale = \"none\" }"),
    fault("unscaled-features", CLASSIFIER, Moderate, "prepare = { scale = \"none\" }"),
    fault("unscaled-features", GRU, Severe, "prepare = { scale = \"none\" }"),
    fault("unscaled-features", CNN, Moderate, "prepare = { scale = \"none\" }"),
    fault("twice-normalised", MLP, Severe, "prepare = { scale-times = 2 }"),
    fault("twice-normalised", GRU, Severe, "prepare = { scale-times = 2 }"),
    fault("twice-normalised", CNN, Moderate, "prepare = { scale = \"min-max\", scale-times = 2 }"),
    fault("unscaled-target", MLP, Moderate, "prepare = { scale-target = \"none\" }"),
    fault("unscaled-target", MLP, Severe, "prepare = { scale-target = \"none\" }").on(Data::Prices),
    fault("unscaled-target", GRU, Severe, "prepare = { scale-target = \"none\" }"),
    fault("correlated-columns", MLP, Moderate, "optimizer = \"sgd\"\nlr = 0.01")
        .on(Data::CarsAlike)
        .or(&["no-momentum", "duplicate-column"]),
    fault("duplicate-column", MLP, Severe, "").on(Data::CarsDoubled).or(&["correlated-columns"]),
    fault("leakage", MLP, Severe, "").on(Data::CarsLeaking),
    fault("leakage", MLP, Severe, "").on(Data::CarsRepeated),
    // labels
    fault("unrelated-labels", MLP, Severe, "shuffle-labels = true"),
    fault("unrelated-labels", CLASSIFIER, Severe, "shuffle-labels = true"),
    fault("unrelated-labels", CNN, Severe, "shuffle-labels = true"),
    fault("unrelated-labels", GRU, Severe, "shuffle-labels = true"),
    fault("label-noise", CLASSIFIER, Mild, "label-noise = 0.1"),
    fault("label-noise", CLASSIFIER, Moderate, "label-noise = 0.3"),
    fault("label-noise", CLASSIFIER, Severe, "label-noise = 0.5").or(&["unrelated-labels"]),
    fault("label-noise", CNN, Moderate, "label-noise = 0.3"),
    fault("label-noise", MLP, Moderate, "label-noise = 0.3"),
    fault("class-imbalance", CLASSIFIER, Moderate, "epochs = 20").on(Data::Rare),
    fault("class-imbalance", CLASSIFIER, Severe, "epochs = 20").on(Data::Rarer),
    fault("label-changing-augmentation", CNN, Moderate, MIRRORED),
    fault("label-changing-augmentation", DEEP_CNN, Moderate, MIRRORED),
    // optimiser
    fault("learning-rate-too-high", MLP, Mild, "lr = 0.05"),
    fault("learning-rate-too-high", MLP, Moderate, "lr = 0.5").or(HIGH),
    fault("learning-rate-too-high", MLP, Severe, "lr = 10.0").or(HIGH),
    fault("learning-rate-too-high", MLP, Severe, "optimizer = \"sgd\"\nlr = 5.0").or(HIGH),
    fault("learning-rate-too-high", CLASSIFIER, Moderate, "lr = 0.5").or(HIGH),
    fault("learning-rate-too-high", CLASSIFIER, Severe, "lr = 10.0").or(HIGH),
    fault("learning-rate-too-high", CNN, Moderate, "lr = 0.2").or(HIGH),
    fault("learning-rate-too-high", CNN, Severe, "lr = 5.0").or(HIGH),
    fault("learning-rate-too-high", GRU, Moderate, "lr = 0.5").or(HIGH),
    fault("learning-rate-too-high", GRU, Severe, "lr = 5.0").or(HIGH),
    fault("learning-rate-too-low", MLP, Mild, "lr = 1e-4"),
    fault("learning-rate-too-low", MLP, Moderate, "lr = 3e-6"),
    fault("learning-rate-too-low", MLP, Severe, "lr = 1e-8"),
    fault("learning-rate-too-low", CLASSIFIER, Moderate, "lr = 3e-6"),
    fault("learning-rate-too-low", CNN, Moderate, "lr = 3e-6"),
    fault("learning-rate-too-low", CNN, Severe, "lr = 1e-8"),
    fault("learning-rate-too-low", GRU, Moderate, "lr = 3e-6"),
    fault("no-momentum", MLP, Moderate, "optimizer = \"sgd\"\nlr = 1e-3").or(&["learning-rate-too-low"]),
    fault("no-momentum", CNN, Moderate, "optimizer = \"sgd\"\nlr = 1e-3").or(&["learning-rate-too-low"]),
    fault("adam-epsilon", MLP, Moderate, "optimizer = { name = \"adam\", eps = 1.0 }").or(&["learning-rate-too-low"]),
    fault("adam-epsilon", CLASSIFIER, Severe, "optimizer = { name = \"adam\", eps = 100.0 }")
        .or(&["learning-rate-too-low"]),
    fault("adam-epsilon", CNN, Moderate, "optimizer = { name = \"adam\", eps = 1.0 }").or(&["learning-rate-too-low"]),
    fault("ascending", MLP, Severe, "optimizer = { name = \"adam\", maximize = true }"),
    fault("ascending", CNN, Severe, "optimizer = { name = \"sgd\", maximize = true }\nlr = 0.01"),
    fault("ascending", GRU, Severe, "optimizer = { name = \"adam\", maximize = true }"),
    fault("ascending", CLASSIFIER, Severe, "optimizer = { name = \"adam\", maximize = true }"),
    // start
    fault("symmetric-init", MLP, Severe, "init = \"zeros\""),
    fault("symmetric-init", MLP, Moderate, "init = { name = \"constant\", value = 0.05 }"),
    fault("symmetric-init", CLASSIFIER, Moderate, "init = { name = \"constant\", value = 0.1 }"),
    fault("symmetric-init", CNN, Severe, "init = \"zeros\""),
    fault("symmetric-init", GRU, Moderate, "init = { name = \"constant\", value = 0.05 }"),
    fault("init-too-large", MLP, Moderate, "init = { name = \"normal\", std = 1.0 }").or(INIT_LARGE),
    fault("init-too-large", MLP, Severe, "init = { name = \"normal\", std = 5.0 }").or(INIT_LARGE),
    fault("init-too-large", CLASSIFIER, Severe, "init = { name = \"normal\", std = 5.0 }").or(INIT_LARGE),
    fault("init-too-large", CNN, Moderate, "init = { name = \"normal\", std = 1.0 }").or(INIT_LARGE),
    fault("init-too-large", GRU, Severe, "init = { name = \"normal\", std = 10.0 }").or(INIT_LARGE),
    fault("init-too-small", MLP, Moderate, "init = { name = \"normal\", std = 1e-3 }").or(INIT_SMALL),
    fault("init-too-small", MLP, Severe, "init = { name = \"normal\", std = 1e-6 }").or(INIT_SMALL),
    fault("init-too-small", CNN, Moderate, "init = { name = \"normal\", std = 1e-4 }").or(INIT_SMALL),
    fault("dead-units", MLP, Severe, DEAD),
    fault("dead-units", CLASSIFIER, Severe, DEAD),
    fault("dead-units", MLP, Moderate, HALF_DEAD),
    fault("dead-units", CNN, Severe, DEAD_CNN),
    fault("saturated-units", MLP, Moderate, SATURATED).or(&["init-too-large"]),
    fault("saturated-units", CLASSIFIER, Moderate, SATURATED).or(&["init-too-large"]),
    fault("vanishing-gradients", MLP, Severe, DEEP_SIGMOID).or(&["too-deep", "saturated-units"]),
    fault("vanishing-gradients", CLASSIFIER, Severe, DEEP_SIGMOID).or(&["too-deep", "saturated-units"]),
    fault("vanishing-gradients", MLP, Severe, DEEPER_TANH).or(&["too-deep", "init-too-small"]),
    fault("exploding-gradients", MLP, Severe, EXPLODING).or(&["init-too-large", "non-finite"]),
    fault("exploding-gradients", CLASSIFIER, Severe, EXPLODING).or(&["init-too-large", "non-finite"]),
    fault("too-deep", MLP, Severe, DEEP).or(&["vanishing-gradients"]),
    fault("too-deep", CLASSIFIER, Severe, DEEP).or(&["vanishing-gradients"]),
    // head and loss
    fault("wrong-head", MLP, Severe, "head = \"relu\""),
    fault("wrong-head", MLP, Severe, "head = \"sigmoid\""),
    fault("wrong-head", MLP, Moderate, "head = \"tanh\""),
    fault("wrong-head", MLP, Severe, "head = \"softmax\""),
    fault("wrong-head", GRU, Severe, "head = \"sigmoid\""),
    fault("softmax-twice", CLASSIFIER, Severe, "head = \"softmax\""),
    fault("softmax-twice", CNN, Severe, "head = \"softmax\""),
    fault("softmax-missing", CLASSIFIER, Severe, "loss = \"nll\""),
    fault("softmax-missing", CNN, Severe, "loss = \"nll\""),
    fault("softmax-missing", CLASSIFIER, Severe, "head = { name = \"log-softmax\", axis = 0 }\nloss = \"nll\"")
        .or(&["wrong-head"]),
    fault("softmax-missing", CNN, Severe, "head = { name = \"softmax\", axis = 0 }")
        .or(&["wrong-head", "softmax-twice"]),
    fault("wrong-loss", CLASSIFIER, Moderate, "loss = \"mse\""),
    fault("wrong-loss", CNN, Moderate, "loss = \"mse\""),
    fault("wrong-loss", MLP, Severe, "loss = { name = \"cross-entropy\", misfit = true }"),
    fault("wrong-loss", MLP, Severe, "loss = { name = \"bce\", misfit = true }"),
    fault("wrong-loss", MLP, Severe, "loss = \"cross-entropy\""),
    fault(
        "summed-loss",
        MLP,
        Moderate,
        "loss = { name = \"mse\", reduction = \"sum\" }\noptimizer = \"sgd\"\nlr = 0.01",
    ),
    fault("summed-loss", CLASSIFIER, Moderate, "loss = { name = \"cross-entropy\", reduction = \"sum\" }"),
    fault(
        "summed-loss",
        CNN,
        Severe,
        "loss = { name = \"cross-entropy\", reduction = \"sum\" }\noptimizer = \"sgd\"\nlr = 0.05",
    ),
    fault("broadcast-loss", MLP, Severe, "loss = { name = \"mse\", broadcast = true }"),
    fault("broadcast-loss", GRU, Severe, "loss = { name = \"mae\", broadcast = true }"),
    // gradient and mode
    fault("cut-gradient", MLP, Severe, "layers = [{ units = 64 }, { units = 64, detach = true }]"),
    fault("cut-gradient", CNN, Severe, "detach = [\"conv1.*\", \"conv2.*\"]"),
    fault("cut-gradient", GRU, Severe, "detach = [\"rnn.*\"]"),
    fault("cut-gradient", CLASSIFIER, Severe, "freeze = [\"0.*\", \"2.*\"]"),
    fault("wrong-mode", DEEP_CNN, Severe, "mode = \"eval\""),
    fault("wrong-mode", DEEP_CNN, Moderate, "validation-mode = \"train\""),
    fault("wrong-mode", MLP, Severe, "dropout = 0.5\nvalidation-mode = \"train\""),
    fault("wrong-mode", MLP, Moderate, "dropout = 0.3\nmode = \"eval\""),
    fault(
        "wrong-mode",
        CLASSIFIER,
        Moderate,
        "layers = [{ units = 32, norm = \"batch\" }, { units = 32, norm = \"batch\", mode = \"eval\" }]",
    ),
    // capacity and regularisation
    fault("regularisation-too-strong", MLP, Severe, "optimizer = { name = \"adam\", weight_decay = 1.0 }"),
    fault("regularisation-too-strong", CLASSIFIER, Severe, "optimizer = { name = \"adam\", weight_decay = 1.0 }"),
    fault("regularisation-too-strong", CNN, Severe, "optimizer = { name = \"adam\", weight_decay = 1.0 }"),
    fault("regularisation-too-strong", MLP, Severe, "dropout = 0.95"),
    fault("regularisation-too-strong", CLASSIFIER, Moderate, "dropout = 0.9"),
    fault("overfitting", MLP, Severe, "hidden = [256, 256]\nepochs = 200\npatience = 0\nvalidation = 0.3")
        .on(Data::Few)
        .or(&["no-early-stop"]),
    fault("too-small", DEEPER_SINE, Severe, "hidden = [2]"),
    fault("too-small", DEEPER_SINE, Moderate, "hidden = [4]"),
    fault("too-small", CLASSIFIER, Severe, "hidden = [1]"),
    fault("too-small", CLASSIFIER, Severe, "hidden = []"),
    // batch and length
    fault("batch-too-small", MLP, Severe, "batch-size = 1\nlr = 0.02").or(&["learning-rate-too-high"]),
    fault("batch-too-small", CNN, Moderate, "batch-size = 1\nlr = 0.01").or(&["learning-rate-too-high"]),
    fault("batch-too-large", MLP, Severe, "batch-size = 392\nepochs = 20").or(&["too-few-epochs"]),
    fault("batch-too-large", CLASSIFIER, Severe, "batch-size = 900\nepochs = 10").or(&["too-few-epochs"]),
    fault("batch-too-large", CNN, Severe, "batch-size = 1500").or(&["too-few-epochs"]),
    fault("too-few-epochs", MLP, Severe, "epochs = 1"),
    fault("too-few-epochs", MLP, Moderate, "epochs = 3"),
    fault("too-few-epochs", CLASSIFIER, Severe, "epochs = 1"),
    fault("too-few-epochs", GRU, Severe, "epochs = 1"),
    fault("no-early-stop", MLP, Severe, "epochs = 600\npatience = 0\nhidden = [128, 128]\nvalidation = 0.3")
        .on(Data::Few)
        .or(&["overfitting"]),
    fault("no-validation", MLP, Moderate, "validation = 0.0\ntest = 0.0"),
    fault("no-schedule", MLP, Moderate, "optimizer = \"sgd\"\nlr = 0.2\nbatch-size = 4")
        .or(&["learning-rate-too-high", "batch-too-small"]),
    // speed
    fault("starved-loader", MLP, Severe, "delay = 100\nworkers = 0"),
    fault("starved-loader", CLASSIFIER, Severe, "delay = 100\nworkers = 0"),
];

/// Causes that are worth a note and no more: there the note counts.
pub const NOTES: &[&str] = &["no-validation", "constant-column", "duplicate-column", "no-schedule", "no-early-stop"];

/// Rows of the catalogue that are not in this suite, and why.
pub const NOT_COVERED: &[(&str, &str)] = &[
    ("constant-column", "the preparation drops such columns, and says so, before anything learns from them"),
    ("non-finite", "a consequence: rates and starts that lead to it are in the suite, and may be told so"),
    ("disk-bound", "no check: bytes in the system's cache come as fast as from the fastest disk"),
    ("oversubscribed-loader", "depends on the machine's cores and what else they do; bench/prices.py puts it in"),
    ("repeated-work", "told as a consequence of a starved loader, which is in the suite"),
    ("too-much-logging", "told of the ledger of a run; its check has tests of its own"),
    ("nothing-to-gain", "a note on a good program"),
    ("unpinned-copy", "needs a GPU; bench/prices.py puts it in"),
    ("moved-every-epoch", "needs a GPU"),
    ("device-underused", "needs a GPU; bench/prices.py puts it in"),
    ("gpu-too-large", "needs a GPU"),
    ("full-precision", "needs a GPU"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing of the catalogue is forgotten in silence.
    #[test]
    fn every_cause_is_put_in_or_listed_as_left_out() {
        for cause in crate::causes::ALL {
            let put_in = ALL.iter().any(|fault| fault.cause == cause.name);
            let listed = NOT_COVERED.iter().any(|(name, _)| *name == cause.name);
            assert!(put_in != listed, "{}: in the suite {put_in}, listed as left out {listed}", cause.name);
        }
    }
}
