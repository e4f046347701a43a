//! What is chosen when nothing is said, and that what is said is kept.

use std::fs;

use citius_nn::{ByName, Loss, Network, OptimizerConfig};
use citius_train::{Device, Precision, Problem, Training, Wishes};

fn training(text: &str, wishes: Wishes) -> Result<Training, String> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("t.csv");
    fs::write(&source, text).unwrap();
    Training::new(Wishes { source: Some(source), ..wishes }).map_err(|e| e.to_string())
}

fn numbers(rows: usize) -> String {
    (0..rows).fold("x,y\n".to_owned(), |text, i| text + &format!("{},{}\n", i % 17, (i * 7) % 31))
}

#[test]
fn every_setting_has_its_line() {
    let t = training(&numbers(300), Wishes::default()).unwrap();
    let said: Vec<&str> = t.choices.iter().map(|c| c.what.as_str()).collect();
    let expected =
        ["data", "task", "inputs", "rows", "network", "loss", "optimizer", "schedule", "batch", "epochs", "stopping"];
    assert!(expected.iter().all(|what| said.contains(what)), "{said:?}");
    assert_eq!((t.problem.train.rows(), t.problem.test.as_ref().unwrap().rows), (243, 30));
    assert!(t.settings.refit && t.settings.patience.is_some());
}

#[test]
fn wishes_are_kept() {
    let wishes = Wishes {
        hidden: Some(vec![4]),
        optimizer: Some(OptimizerConfig::by_name("rmsprop").unwrap()),
        weight_decay: Some(0.5),
        loss: Some(Loss::Mae),
        epochs: Some(3),
        batch_size: Some(7),
        patience: Some(0),
        refit: Some(false),
        seed: Some(9),
        validation: Some(0.0),
        ..Wishes::default()
    };
    let s = training(&numbers(300), wishes).unwrap().settings;
    assert_eq!((s.hidden, s.epochs, s.batch_size, s.seed, s.lr), (vec![4], 3, 7, 9, 0.01));
    assert_eq!((s.patience, s.refit, s.loss), (None, false, Loss::Mae));
    let OptimizerConfig::RmsProp(o) = s.optimizer else { panic!("{:?}", s.optimizer) };
    assert_eq!(o.weight_decay, 0.5);
}

#[test]
fn a_gpu_convolves_on_its_matrix_units() {
    let precision = |model: &str, device: Device, precision: Option<Precision>| {
        let model = Some(Network::by_name(model).unwrap());
        let wishes = Wishes { model, device: Some(device), precision, ..Wishes::default() };
        let training = Training::on(Problem::digits(40, 10).unwrap(), wishes).unwrap();
        let said = training.choices.iter().any(|c| c.what == "precision");
        (training.settings.precision, said)
    };
    assert_eq!(precision("lenet", Device::Cuda(0), None), (Precision::Tf32, true));
    assert_eq!(precision("lenet", Device::Cuda(0), Some(Precision::Fp32)), (Precision::Fp32, false));
    assert_eq!(precision("mlp", Device::Cuda(0), None), (Precision::Fp32, false));
    assert_eq!(precision("lenet", Device::Cpu, None), (Precision::Fp32, false));
}

#[test]
fn few_rows_are_all_trained_on() {
    let t = training(&numbers(12), Wishes::default()).unwrap();
    assert_eq!((t.problem.train.rows(), t.problem.validation.is_none(), t.problem.test.is_none()), (12, true, true));
    assert!(t.choices.iter().any(|c| c.why.contains("too few to spare")));
}

#[test]
fn the_impossible_is_refused() {
    let refused = |wishes: Wishes| training(&numbers(300), wishes).err().unwrap();
    let open = Wishes::default;
    assert!(refused(Wishes { lr: Some(f64::NAN), ..open() }).contains("learning rate"));
    assert!(refused(Wishes { dropout: Some(1.0), ..open() }).contains("dropout"));
    assert!(refused(Wishes { epochs: Some(0), ..open() }).contains("epochs"));
    assert!(refused(Wishes { hidden: Some(vec![8, 0]), ..open() }).contains("0 units"));
    assert!(refused(Wishes { hidden: Some(vec![1 << 40, 1 << 40]), ..open() }).contains("parameters"));
    assert!(refused(Wishes { weight_decay: Some(-1.0), ..open() }).contains("weight decay"));
    assert!(refused(Wishes { clip_norm: Some(0.0), ..open() }).contains("clipped"));
    assert!(refused(Wishes { average: Some(1.5), ..open() }).contains("average"));
    let ce = Loss::by_name("cross-entropy").unwrap();
    assert!(refused(Wishes { loss: Some(ce), ..open() }).contains("use mse, mae, huber or quantile"));
    assert!(refused(Wishes { validation: Some(0.0), refit: Some(true), ..open() }).contains("--validation"));
    assert!(refused(Wishes { task: Some("guess".into()), ..open() }).contains("not a task"));
}

#[test]
fn numbers_that_no_training_can_use_are_refused() {
    let refused = |settings: &str| training(&numbers(300), Wishes::parse(settings).unwrap()).err().unwrap_or_default();
    for (settings, expected) in [
        ("average = nan", "the decay of the average is NaN"),
        ("average = -0.5", "the decay of the average is -0.5"),
        ("average = 1.0", "the decay of the average is 1"),
        ("init = { name = \"uniform\", low = 2.0, high = 1.0 }", "low must be the smaller one"),
        ("init = { name = \"uniform\", low = nan, high = 1.0 }", "the low of init is NaN"),
        ("init = { name = \"normal\", std = -1.0 }", "the std of init is -1"),
        ("inits = { \"0.*\" = { name = \"constant\", value = inf } }", "the value of init is inf"),
        ("model = \"nlinear\"\nwindow = 8\ndropout = 0.3", "--dropout: a nlinear drops nothing"),
        ("optimizer = { name = \"sgd\", nesterov = true }", "nesterov needs a momentum"),
        ("optimizer = { name = \"sgd\", dampening = 0.9 }", "dampening is of its momentum"),
        ("hidden = \"none\"\nactivation = \"silu\"", "--activation is for hidden layers"),
        ("hidden = \"none\"\ndropout = 0.3", "--dropout is for hidden layers"),
        ("layers = [{ units = 3, init = { name = \"normal\", mean = nan } }]", "the mean of init is NaN"),
    ] {
        let message = refused(settings);
        assert!(message.contains(expected), "{settings}: {message}");
    }
}

#[test]
fn small_grey_pictures_get_convolutions_unless_an_mlp_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let header = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
    let chosen = |side: u32, wishes: Wishes| {
        for (half, count) in [("train", 64u32), ("t10k", 16)] {
            let pixels = [header(&[2051, count, side, side]), vec![7; (count * side * side) as usize]].concat();
            let labels = [header(&[2049, count]), (0..count as u8).map(|i| i % 3).collect()].concat();
            fs::write(folder.path().join(format!("{half}-images-idx3-ubyte")), pixels).unwrap();
            fs::write(folder.path().join(format!("{half}-labels-idx1-ubyte")), labels).unwrap();
        }
        let source = Some(folder.path().to_owned());
        let settings = Training::new(Wishes { source, ..wishes }).unwrap().settings;
        (settings.network.name(), settings.hidden)
    };
    assert_eq!(chosen(28, Wishes::default()).0, "lenet");
    assert_eq!(chosen(8, Wishes::default()).0, "mlp", "too small for two convolutions");
    let hidden = Some(vec![5]);
    assert_eq!(chosen(28, Wishes { hidden, ..Wishes::default() }), ("mlp", vec![5]));
    let digits = Training::on(Problem::digits(40, 10).unwrap(), Wishes::default()).unwrap().settings;
    assert_eq!((digits.network.name(), digits.hidden), ("mlp", vec![128, 64]));
}
