//! Every setting with every kind of source: it changes something, or it is refused by name. None is accepted and ignored.

mod common;

use std::collections::BTreeMap;

use citius_train::{Material, Training, Wishes};
use common::{Folder, pets, table};

/// A value of each setting that differs from what would be chosen.
const SAMPLES: &[(&str, &str)] = &[
    ("source", ""), // the other side of this test
    ("target", "target = 0"),
    ("task", "task = \"regression\""),
    ("train-rows", "train-rows = \"FOLDER/train.txt\""),
    ("test-rows", "test-rows = \"FOLDER/test.txt\""),
    ("validation", "validation = 0.3"),
    ("test", "test = 0.3"),
    ("missing", "missing = [\"0.5\"]"),
    ("text", "text = [\"0\"]"),
    ("drop", "drop = [\"0\"]"),
    ("only", "only = [\"0\"]"),
    ("header", "header = false"),
    ("delimiter", "delimiter = \"tab\""),
    ("encoding", "encoding = \"utf-16\""),
    ("prepare", "prepare = { scale = \"min-max\" }"),
    ("kind", "kind = \"series\""),
    ("window", "window = 5"),
    ("stride", "stride = 3"),
    ("horizon", "horizon = 2"),
    ("time", "time = 0"),
    ("fill", "fill = \"linear\""),
    ("size", "size = 20"),
    ("augment", "augment = [{ name = \"vertical-flip\" }]"),
    ("mix", "mix = { name = \"mixup\", alpha = 0.3 }"),
    ("workers", "workers = 1"),
    ("prefetch", "prefetch = 3"),
    ("pinned", "pinned = false"),
    ("memory", "memory = \"1KB\""),
    ("on-error", "on-error = \"skip\""),
    ("label-noise", "label-noise = 0.3"),
    ("shuffle-labels", "shuffle-labels = true"),
    ("delay", "delay = 3"),
    ("model", "model = \"mlp\""),
    ("hidden", "hidden = [7]"),
    ("activation", "activation = \"tanh\""),
    ("dropout", "dropout = 0.35"),
    ("layers", "layers = [{ units = 9 }]"),
    ("init", "init = \"xavier-normal\""),
    ("inits", "inits = { \"*bias\" = \"zeros\" }"),
    ("head", "head = \"tanh\""),
    ("loss", "loss = \"mae\""),
    ("quantiles", "quantiles = [0.1, 0.9]"),
    ("positive", "positive = \"ok\""),
    ("reduction", "reduction = \"sum\""),
    ("broadcast", "broadcast = true"),
    ("misfit", "misfit = true"),
    ("optimizer", "optimizer = \"lion\""),
    ("lr", "lr = 0.0123"),
    ("schedule", "schedule = \"exponential\""),
    ("weight-decay", "weight-decay = 0.123"),
    ("clip-norm", "clip-norm = 0.77"),
    ("accumulate", "accumulate = 2"),
    ("batch-size", "batch-size = 5"),
    ("epochs", "epochs = 3"),
    ("patience", "patience = 2"),
    ("average", "average = 0.77"),
    ("swa", "swa = 0.5"),
    ("recompute", "recompute = true"),
    ("step-memory", ""), // read when the run is prepared for its device: tests/memory.rs of citius-train
    ("refit", "refit = true"),
    ("seed", "seed = 9"),
    ("weights", "weights = \"nothing.safetensors\""),
    ("ignore", "ignore = [\"*\"]"),
    ("new-head", "new-head = true"),
    ("freeze", "freeze = [\"*bias\"]"),
    ("detach", "detach = [\"*bias\"]"),
    ("mode", "mode = \"eval\""),
    ("validation-mode", "validation-mode = \"train\""),
    ("rates", "rates = [\"*=0.5\"]"),
    ("device", ""), // of the machine: tests/devices.rs of citius-train
    ("precision", "precision = \"bf16\""),
    ("silence", ""), // of the doctor: tests/doctor.rs
];

/// Other values for one source.
const OF_SOURCE: &[(&str, &str, &str)] = &[
    // it is one already
    ("a series", "kind", ""),
    ("MNIST's files", "kind", "kind = \"table\""),
    ("a series", "text", "text = [\"price\"]"),
    ("a series", "missing", "missing = [\"90.0000\"]"),
    // used where a picture or a block cannot be read: tests/files.rs, tests/data.rs
    ("a folder of pictures", "on-error", ""),
];

/// A source by its name, and the settings that make it what it is.
fn sources(folder: &Folder) -> Vec<(&'static str, String)> {
    folder.write("houses.csv", table(300, |i, a, b| format!("{:.4}", 100.0 + 20.0 * a - 10.0 * b + (i % 7) as f64)));
    folder.write("cards.csv", table(300, |_, a, b| if a + b > 0.5 { "fraud".into() } else { "ok".into() }));
    folder.write("large.csv", table(9000, |_, a, b| format!("{:.4}", 20.0 * a - 10.0 * b)));
    folder.write("text.txt", "the quick brown fox jumps over the lazy dog, and so on\n".repeat(60));
    pets(folder);
    idx(folder);
    cifar(folder);
    folder.works("data pack cards.csv cards.citius");
    folder.works("data pack pets pets.citius --size 12");
    let lines = |rows: std::ops::Range<usize>| rows.map(|row| format!("{row}\n")).collect::<String>();
    folder.write("train.txt", lines(0..40));
    folder.write("test.txt", lines(40..52));
    let named = |name: &str, more: &str| format!("source = {:?}\n{more}", folder.path(name));
    vec![
        ("a table of numbers", named("houses.csv", "")),
        ("a table of classes", named("cards.csv", "")),
        ("a streamed table", named("large.csv", "memory = \"90KB\"")),
        ("a packed table", named("cards.citius", "")),
        ("packed pictures", named("pets.citius", "")),
        ("a folder of pictures", named("pets", "size = 16")),
        ("MNIST's files", named("grey", "")),
        ("CIFAR's files", named("cifar", "")),
        ("a series", named("houses.csv", "window = 8\nhorizon = 1")),
        ("a text", named("text.txt", "kind = \"text\"\nwindow = 16")),
        ("digits", String::new()),
    ]
}

/// All that a training decides: equal where a setting changes nothing.
fn decisions(settings: &str) -> Result<String, String> {
    let wishes = Wishes::parse(settings)?;
    let training = Training::new(wishes).map_err(|error| error.to_string())?;
    let problem = &training.problem;
    let rows = |set: &Option<citius_data::Dataset>| set.as_ref().map(|set| set.rows);
    let loading = match &problem.train {
        Material::Resident(_) => String::new(),
        Material::Loaded(loaded) => format!("{:?}", loaded.options),
    };
    Ok(format!(
        "{:?}\n{:?}\n{:?}\n{:?} {:?} {:?}\n{:x}\n{loading}\n{:?}",
        training.settings,
        training.choices,
        serde_json::to_string(&problem.input).unwrap(),
        problem.train.form(),
        rows(&problem.validation),
        rows(&problem.test),
        problem.fingerprint(),
        training.wishes().recompute,
    ))
}

#[test]
fn every_setting_is_used_by_every_kind_of_source_or_refused_by_name() {
    let folder = Folder::new();
    let samples: BTreeMap<&str, &str> = SAMPLES.iter().copied().collect();
    let keys = Wishes::keys();
    let without: Vec<&String> = keys.iter().filter(|key| !samples.contains_key(key.as_str())).collect();
    assert!(without.is_empty() && samples.len() == keys.len(), "settings without a sample: {without:?}");
    let mut wrong = Vec::new();
    let (mut used, mut refused) = (0, 0);
    for (source, settings) in sources(&folder) {
        let usual = decisions(&settings).unwrap_or_else(|error| panic!("{source}: {error}"));
        for (key, sample) in samples.iter().filter(|(_, sample)| !sample.is_empty()) {
            let own = OF_SOURCE.iter().find(|(of, name, _)| *of == source && name == key).map(|(.., own)| *own);
            let sample = own.unwrap_or(sample).replace("FOLDER", &folder.path("").to_string_lossy());
            if sample.is_empty() {
                continue;
            }
            // what the source is told already is told otherwise
            let others = settings.lines().filter(|line| !line.starts_with(&format!("{key} ")));
            let together = others.chain([sample.as_str()]).collect::<Vec<_>>().join("\n");
            match decisions(&together) {
                Ok(decided) if decided != usual => used += 1,
                Ok(_) => wrong.push(format!("{source}: {key} is accepted and changes nothing")),
                Err(message) if names(&message, key) => refused += 1,
                Err(message) => wrong.push(format!("{source}: {key} is refused without its name: {message}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), wrong.len() + used + refused, wrong.join("\n"));
    assert!(used > 300 && refused > 100, "{used} used, {refused} refused");
}

/// Whether a message names a setting, or is about what it was set to.
fn names(message: &str, key: &str) -> bool {
    let said = message.to_lowercase().replace(['-', '_'], " ");
    let about: &[&str] = match key {
        // the file is read otherwise, and then does not hold what it should
        "header" => &["is not a number"],
        "delimiter" => &["looks like an identifier", "no usable feature columns"],
        // a table that is streamed is too large to be a series
        "kind" => &["no usable feature columns", "a series is read whole"],
        "window" | "horizon" => &["a series is read whole"],
        "weights" => &["nothing.safetensors"],
        _ => &[],
    };
    said.contains(&key.replace('-', " ")) || about.iter().any(|about| said.contains(about))
}

/// The four files of a set of grey pictures.
fn idx(folder: &Folder) {
    let header = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
    for (half, pictures) in [("train", 60u32), ("t10k", 20)] {
        let labels: Vec<u8> = (0..pictures).map(|i| (i % 2) as u8).collect();
        let pixels: Vec<u8> = (0..pictures as usize * 256).map(|i| (i / 256 % 2 * 200 + i % 13) as u8).collect();
        folder.write(&format!("grey/{half}-images-idx3-ubyte"), [header(&[2051, pictures, 16, 16]), pixels].concat());
        folder.write(&format!("grey/{half}-labels-idx1-ubyte"), [header(&[2049, pictures]), labels].concat());
    }
}

/// CIFAR's binary files.
fn cifar(folder: &Folder) {
    for (name, pictures) in [("data_batch_1.bin", 60usize), ("test_batch.bin", 20)] {
        let picture = |i: usize| {
            let pixels = (0..3072).map(move |pixel| ((pixel / 1024 == i % 2) as usize * 150 + pixel % 90) as u8);
            std::iter::once((i % 2) as u8).chain(pixels)
        };
        folder.write(&format!("cifar/{name}"), (0..pictures).flat_map(picture).collect::<Vec<u8>>());
    }
}
