//! Programs with nothing wrong, which faults are put into: settings as a file would say them.

use super::data::Data;

/// A program that learns as it should.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub name: &'static str,
    pub data: Data,
    pub settings: &'static str,
}

pub const MLP: Program = Program {
    name: "mlp",
    data: Data::Cars,
    settings: r#"
        hidden = [64, 64]
        dropout = 0.0
        optimizer = "adam"
        lr = 1e-3
        schedule = "constant"
        batch-size = 32
        epochs = 100
        refit = false
    "#,
};

pub const CLASSIFIER: Program = Program {
    name: "classifier",
    data: Data::Classes,
    settings: r#"
        hidden = [32, 32]
        dropout = 0.0
        optimizer = "adam"
        lr = 3e-3
        schedule = "constant"
        batch-size = 32
        epochs = 40
        refit = false
    "#,
};

pub const CNN: Program = Program {
    name: "cnn",
    data: Data::Digits,
    settings: r#"
        model = { name = "lenet", channels = [4, 8], hidden = 32 }
        optimizer = "adam"
        lr = 2e-3
        schedule = "constant"
        batch-size = 32
        epochs = 5
    "#,
};

pub const DEEP_CNN: Program = Program {
    name: "deep-cnn",
    data: Data::Digits,
    settings: r#"
        model = { name = "vgg", channels = [4, 8] }
        optimizer = "adam"
        lr = 2e-3
        batch-size = 32
        epochs = 4
    "#,
};

pub const GRU: Program = Program {
    name: "gru",
    data: Data::Series,
    settings: r#"
        kind = "series"
        window = 12
        model = { name = "gru", hidden = 16 }
        optimizer = "adam"
        lr = 5e-3
        schedule = "constant"
        batch-size = 32
        epochs = 30
        refit = false
    "#,
};

pub const DEEPER_SINE: Program = Program {
    name: "sine",
    data: Data::Sine,
    settings: r#"
        hidden = [64, 64]
        activation = "tanh"
        dropout = 0.0
        optimizer = "adam"
        lr = 0.01
        batch-size = 32
        epochs = 100
        schedule = "cosine"
        refit = false
        init = { name = "normal", std = 1.0 }
    "#,
};

/// Programs that must raise no alarm: those above, batch norm and residuals, and what `train` chooses by itself.
pub const CLEAN: &[Program] = &[
    MLP,
    CLASSIFIER,
    CNN,
    DEEP_CNN,
    GRU,
    Program { name: "preset-regression", data: Data::Cars, settings: "" },
    Program { name: "preset-classes", data: Data::Classes, settings: "" },
    Program { name: "preset-series", data: Data::Series, settings: "kind = \"series\"\nwindow = 12" },
    Program { name: "preset-digits", data: Data::Digits, settings: "" },
    Program {
        name: "preset-vgg",
        data: Data::Digits,
        settings: "model = { name = \"vgg\", channels = [4, 8] }\nepochs = 4",
    },
    Program {
        name: "norms-and-residuals",
        data: Data::Cars,
        settings: r#"
            optimizer = "adam"
            lr = 1e-3
            epochs = 60
            refit = false
            dropout = 0.0
            [[layers]]
            units = 48
            norm = "batch"
            [[layers]]
            units = 48
            norm = "layer"
            residual = true
        "#,
    },
    Program {
        name: "momentum",
        data: Data::Classes,
        settings: "hidden = [32, 32]\noptimizer = \"momentum\"\nlr = 0.05\nepochs = 40\nrefit = false\ndropout = 0.0",
    },
    Program {
        name: "nll",
        data: Data::Classes,
        settings: "hidden = [32, 32]\nloss = \"nll\"\nhead = \"log-softmax\"\noptimizer = \"adam\"\nlr = 3e-3\nepochs = 40\nrefit = false\ndropout = 0.0",
    },
];
