//! A saved model, its description or its weights edited: it is refused, or it predicts and is evaluated.

use std::sync::OnceLock;

use citius_cpu::Options;
use citius_train::{EvalOptions, PredictOptions, SavedModel};

use crate::{Draw, Run, edited, table};

pub fn run(input: &[u8]) {
    static RUNS: OnceLock<[Run; 2]> = OnceLock::new();
    let runs = RUNS.get_or_init(|| {
        let quick = "epochs = 1\nrefit = false\nhidden = [3]\n";
        [quick.to_owned(), format!("{quick}window = 4\nhorizon = 2\ntarget = 0\n")].map(|text| Run::of(&text, false))
    });
    let mut draw = Draw::new(input);
    let run = &runs[draw.byte() as usize % 2];
    let name = draw.pick(&["model.json", "model.safetensors"]);
    let bytes = if draw.flag() { draw.rest().to_vec() } else { edited(run.bytes(name), draw) };
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    run.write(folder.path(), name, &bytes);
    let options = Options { threads: 1, ..Options::default() };
    let Ok(mut model) = SavedModel::load(folder.path(), options) else { return };
    let _ = model.predict_with(&[table()], &PredictOptions::default());
    let _ = model.evaluate_with(&table(), &EvalOptions::default());
}
