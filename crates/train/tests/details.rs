//! What only a file of settings says: layers, heads, reductions, modes, and data made worse. It trains, is written with the run,
//! and reads back.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use citius_cpu::Options;
use citius_train::{Report, RunOptions, SavedModel, Silent, Training, Wishes};

/// `y = a − b·c`, and `class` by its sign and size; `late` is a wave in the order of time.
fn table(folder: &Path, target: &str) -> PathBuf {
    let mut state = 11u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 24) as f64 * 2.0 - 1.0
    };
    let mut text = format!("a,b,c,{target}\n");
    for i in 0..300 {
        let (a, b, c) = (random(), random(), random());
        let y = a - b * c;
        let cell = match target {
            "class" => ["low", "middle", "high"][usize::from(y > -0.3) + usize::from(y > 0.3)].to_owned(),
            "sign" => if y > 0.0 { "yes" } else { "no" }.to_owned(),
            "late" => format!("{}", (i as f64 * 0.3).sin()),
            _ => format!("{}", 50.0 + 20.0 * y),
        };
        text += &format!("{a},{b},{c},{cell}\n");
    }
    let source = folder.join(format!("{target}.csv"));
    fs::write(&source, text).unwrap();
    source
}

fn training(folder: &Path, target: &str, text: &str) -> Result<Training, String> {
    let told = Wishes::parse(text)?;
    let usual = Wishes {
        source: Some(table(folder, target)),
        epochs: Some(6),
        batch_size: Some(30),
        refit: Some(false),
        hidden: (told.layers.is_none() && told.model.is_none()).then(|| vec![16]),
        dropout: Some(0.0),
        lr: Some(0.01),
        ..Wishes::default()
    };
    Training::new(told.or(usual)).map_err(|e| e.to_string())
}

fn run(training: &Training, out: &Path) -> Report {
    let cpu = Options { threads: 1, ..Options::default() };
    let options = RunOptions { out: Some(out.to_owned()), cpu, ..RunOptions::default() };
    training.run(&options, &mut Silent, &AtomicBool::new(false)).unwrap()
}

/// Trains, and holds the model that is read back against the report.
fn trained(target: &str, text: &str) -> (Report, SavedModel) {
    let folder = tempfile::tempdir().unwrap();
    let training = training(folder.path(), target, text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let out = folder.path().join("run");
    let report = run(&training, &out);
    let model = SavedModel::load(&out, Options::default()).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(model.card.settings, training.settings, "{text}");
    (report, model)
}

fn first_and_last(report: &Report) -> (f64, f64) {
    (report.epoch_losses[0], report.epoch_losses[report.epoch_losses.len() - 1])
}

#[test]
fn layers_that_differ_learn() {
    let layers = r#"
        [[layers]]
        units = 24
        norm = "batch"
        [[layers]]
        units = 24
        activation = "tanh"
        init = "xavier-normal"
        residual = true
        dropout = 0.1
        norm = "layer"
    "#;
    let (report, model) = trained("y", layers);
    let (first, last) = first_and_last(&report);
    assert!(last < 0.5 * first, "{:?}", report.epoch_losses);
    assert!(
        report.model.contains("24 relu, batch norm → 24 tanh, layer norm, dropout 0.1, residual"),
        "{}",
        report.model
    );
    assert_eq!(model.card.settings.hidden, [24, 24]);
}

#[test]
fn losses_and_heads_that_fit_each_other_learn() {
    for (target, text, least) in [
        ("class", "loss = \"nll\"\nhead = \"log-softmax\"", 0.6),
        ("class", "loss = \"mse\"\nhead = \"softmax\"", 0.6),
        ("class", "loss = \"mse\"", 0.6),
        ("class", "loss = { name = \"cross-entropy\", class_weights = [1, 2, 1] }", 0.6),
        ("sign", "loss = \"mse\"\nhead = \"sigmoid\"", 0.7),
        ("sign", "loss = \"huber\"", 0.7),
    ] {
        let (report, _) = trained(target, text);
        let accuracy = report.train.accuracy.unwrap_or_else(|| panic!("{text}: {:?}", report.train));
        assert!(accuracy > least, "{text}: {accuracy}");
        let (first, last) = first_and_last(&report);
        assert!(last < first, "{text}: {:?}", report.epoch_losses);
    }
}

#[test]
fn a_sum_is_as_many_times_the_mean() {
    for (target, loss, times) in [("y", "mse", 30.0), ("class", "cross-entropy", 30.0), ("sign", "bce", 30.0)] {
        let first = |reduction: &str| {
            let text = format!(
                "loss = {{ name = \"{loss}\", reduction = \"{reduction}\" }}\nlr = 1e-12\nvalidation = 0.0\ntest = 0.0"
            );
            trained(target, &text).0.epoch_losses[0]
        };
        let (mean, sum) = (first("mean"), first("sum"));
        assert!((sum / mean - times).abs() < 1e-3, "{loss}: {mean} {sum}");
    }
}

#[test]
fn mistakes_that_can_be_told_train_and_show() {
    // each against all: the best prediction is the mean
    let (broadcast, _) = trained("y", "loss = { name = \"mse\", broadcast = true }\nepochs = 30");
    let (plain, _) = trained("y", "epochs = 30");
    assert!(broadcast.train.r2.unwrap() < 0.3 && plain.train.r2.unwrap() > 0.8, "{broadcast:?}");
    // one output has a softmax of 1, and nothing to learn
    let (report, _) = trained("y", "loss = { name = \"cross-entropy\", misfit = true }");
    assert!(report.epoch_losses.iter().all(|loss| loss.abs() < 1e-6), "{:?}", report.epoch_losses);
    let (report, _) = trained("y", "optimizer = { name = \"sgd\", maximize = true }\nlr = 0.001");
    let (first, last) = first_and_last(&report);
    assert!(last > first, "{:?}", report.epoch_losses);
    let (report, _) = trained("y", "head = \"relu\"\nepochs = 20");
    assert!(report.train.r2.unwrap() < 0.8);
    // softmax twice cannot be sure of anything
    let (report, _) = trained("class", "head = \"softmax\"");
    assert!(report.epoch_losses.iter().all(|loss| *loss > 0.55), "{:?}", report.epoch_losses);
    // over the rows of a batch
    trained("class", "head = { name = \"softmax\", axis = 0 }\nloss = \"mse\"");
    // nothing bounds what is no logarithm of a probability
    let (report, _) = trained("class", "loss = \"nll\"");
    assert!(first_and_last(&report).1 < -1.0, "{:?}", report.epoch_losses);
    let (report, _) = trained("y", "init = \"zeros\"\nactivation = \"tanh\"\nepochs = 20");
    assert!(report.train.r2.unwrap() < 0.1, "{:?}", report.train);
}

#[test]
fn scales_are_as_told() {
    let mean = |prepare: &str| {
        let folder = tempfile::tempdir().unwrap();
        let t = training(folder.path(), "y", prepare).unwrap();
        let citius_data::Target::Values { data, .. } = &t.problem.train.resident().unwrap().target else { panic!() };
        data.iter().sum::<f32>() / data.len() as f32
    };
    assert!(mean("").abs() < 1e-3);
    assert!(mean("[prepare]\nscale-target = \"none\"") > 40.0);
    let (report, _) = trained("y", "[prepare]\nscale = \"none\"\nscale-target = \"none\"\nscale-times = 2");
    assert!(report.train.rmse.is_some());
    let (report, _) =
        trained("late", "window = 6\nkind = \"series\"\n[prepare]\nscale = \"none\"\nscale-target = \"none\"");
    assert!(report.train.rmse.is_some());
    // pixels, from 0 to 255
    let wishes = |text: &str| Wishes::parse(text).unwrap();
    let digits = Training::new(wishes("epochs = 1\n[prepare]\nscale = \"none\"")).unwrap();
    let citius_data::Features::U8 { scale, shift, .. } = digits.problem.train.resident().unwrap().features else {
        panic!()
    };
    assert_eq!((scale, shift), (1.0, 0.0));
}

#[test]
fn wrong_labels_are_wrong_by_the_share_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let labels = |text: &str| {
        let t = training(folder.path(), "class", text).unwrap();
        let citius_data::Target::Classes { data, .. } = t.problem.train.resident().unwrap().target.clone() else {
            panic!()
        };
        data
    };
    let plain = labels("");
    let differ = |text: &str| {
        let found = labels(text);
        found.iter().zip(&plain).filter(|(a, b)| a != b).count() as f64 / plain.len() as f64
    };
    assert_eq!(differ("label-noise = 0.0"), 0.0);
    // some get the same label from another row
    assert!((0.12..0.31).contains(&differ("label-noise = 0.3")));
    assert!(differ("shuffle-labels = true") > 0.4);
    // the same rows, brought by a loader
    let (loaded, _) = trained("y", "label-noise = 0.3\ndelay = 1");
    let (resident, _) = trained("y", "label-noise = 0.3");
    assert_eq!(loaded.epoch_losses, resident.epoch_losses);
}

#[test]
fn what_no_gradient_reaches_stays_as_it_is() {
    let weights = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        run(&training(folder.path(), "y", text).unwrap(), &out);
        let file = fs::read(out.join("model.safetensors")).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
        ["0.weight", "2.weight"].map(|name| tensors.tensor(name).unwrap().data().to_vec())
    };
    let start = weights("detach = [\"0.*\"]\nlr = 1e-30");
    let cut = weights("detach = [\"0.*\"]");
    assert!(cut[0] == start[0] && cut[1] != start[1]);
    let cut = weights("layers = [{ units = 16 }, { units = 16, detach = true }]");
    let start = weights("layers = [{ units = 16 }, { units = 16, detach = true }]\nlr = 1e-30");
    assert!(cut[0] == start[0] && cut[1] != start[1]);
}

#[test]
fn modes_can_be_left_wrong() {
    let dropped = "dropout = 0.5\nepochs = 2";
    let (train, _) = trained("y", dropped);
    let (eval, _) = trained("y", &format!("mode = \"eval\"\n{dropped}"));
    let (less, _) = trained("y", "mode = \"eval\"\nepochs = 2\ndropout = 0.2");
    assert_ne!(train.epoch_losses, eval.epoch_losses);
    assert_eq!(less.epoch_losses, eval.epoch_losses, "no dropout in eval mode");
    let (left_on, _) = trained("y", &format!("validation-mode = \"train\"\n{dropped}"));
    assert_eq!(left_on.epoch_losses, train.epoch_losses);
    assert_ne!(left_on.validation, train.validation, "dropout while judged");
    let normed = "layers = [{ units = 16, norm = \"batch\" }]";
    for mode in ["mode = \"eval\"", "validation-mode = \"train\""] {
        trained("y", &format!("{mode}\n{normed}"));
    }
    // a recurrent network learns in either mode
    let (report, _) =
        trained("late", "window = 6\nkind = \"series\"\nmodel = { name = \"gru\", hidden = 8 }\nmode = \"eval\"");
    let (first, last) = first_and_last(&report);
    assert!(last < first);
}

#[test]
fn what_no_run_can_mean_says_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    for (target, text, expected) in [
        ("y", "layers = [{ units = 0 }]", "0 units"),
        ("y", "layers = [{ units = 8, residual = true }]", "write units = 3"),
        ("y", "layers = [{ units = 8, dropout = 1.5 }]", "below 1"),
        ("y", "hidden = [8]\nlayers = [{ units = 8 }]", "give one of them"),
        ("y", "head = { name = \"softmax\", axis = 2 }", "axis 1"),
        ("y", "loss = \"nll\"", "use mse, mae, huber or quantile"),
        ("class", "loss = \"bce\"", "use cross-entropy"),
        ("class", "loss = { name = \"mse\", broadcast = true }", "leave it out"),
        ("y", "optimizer = { name = \"adam\", betas = [0.9, 1.0] }", "second beta"),
        ("y", "optimizer = { name = \"adam\", eps = -1.0 }", "such as 1e-8"),
        ("y", "optimizer = { name = \"sgd\", momentum = 1.0 }", "such as 0.9"),
        ("y", "label-noise = 2.0", "such as 0.3"),
        ("y", "delay = -1", "such as 50"),
        ("y", "detach = [\"3.*\"]", "no tensor of the network is called"),
        ("y", "inits = { \"fc.*\" = \"zeros\" }", "no tensor of the network is called"),
        ("y", "[prepare]\nscale-times = 9", "1 to 4"),
        ("late", "window = 6\nkind = \"series\"\nmodel = \"gru\"\nlayers = [{ units = 8 }]", "leave one of them out"),
    ] {
        let message = training(folder.path(), target, text).err().unwrap_or_else(|| panic!("{text} is taken"));
        assert!(message.contains(expected), "{text}: {message}");
    }
}
