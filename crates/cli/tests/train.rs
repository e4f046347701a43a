//! `citius train` and what follows it, as others rely on them.

mod common;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Folder, houses, ran, table};
use serde_json::Value;

#[test]
fn from_a_table_to_predictions() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    let first = folder.works("train houses.csv --target price --epochs 60");
    for said in
        ["task", "network", "schedule", "refit", "time", "saved in   runs/houses-1", "citius predict runs/houses-1"]
    {
        assert!(first.out.contains(said), "{said}: {}", first.out);
    }
    assert!(folder.works("train houses.csv --epochs 2").out.contains("runs/houses-2"));
    for file in ["model.json", "model.safetensors", "checkpoint.json", "checkpoint.safetensors", "events.jsonl"] {
        assert!(folder.path("runs/houses-1").join(file).exists(), "{file}");
    }
    folder.write("new.csv", "b,a\n0,0\n,1\n");
    let predicted = folder.works("predict runs/houses-1 new.csv");
    let lines: Vec<&str> = predicted.out.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "prediction"));
    assert!((lines[1].parse::<f64>().unwrap() - 100.0).abs() < 8.0, "{lines:?}");
    folder.works("predict runs/houses-1/model.json new.csv --out p.csv");
    assert_eq!(fs::read_to_string(folder.path("p.csv")).unwrap(), predicted.out);
    let judged = folder.works("eval runs/houses-1 houses.csv --json");
    let judged: Value = serde_json::from_str(&judged.out).unwrap();
    assert!(judged["metrics"]["r2"].as_f64().unwrap() > 0.9, "{judged}");
    assert!(folder.works("eval runs/houses-1 houses.csv").out.contains("rmse"));
}

#[test]
fn json_ends_with_one_object() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write("train.txt", (0..90).map(|i| format!("{i}\n")).collect::<String>());
    folder.write("test.txt", (90..120).map(|i| format!("{i}.0\n")).collect::<String>());
    let ran =
        folder.works("train houses.csv --train-rows train.txt --test-rows test.txt --epochs 5 --seed 3 --out o --json");
    assert_eq!(ran.out.lines().count(), 1);
    assert!(ran.err.contains("network"));
    let report: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!((report["task"].as_str(), report["epochs"].as_u64()), (Some("regression"), Some(5)));
    assert_eq!(report["epoch_losses"].as_array().unwrap().len(), 5);
    assert_eq!(report["out"], "o");
    assert_eq!(report["rows"]["test"], 30);
    for key in ["steps", "seconds", "us_per_step"] {
        assert!(report[key].as_f64().unwrap() > 0.0, "{key}");
    }
    for set in ["train", "validation", "test"] {
        for metric in ["loss", "rmse", "mae", "r2"] {
            assert!(report[set][metric].is_number(), "{set} {metric}: {report}");
        }
    }
}

#[test]
fn classes_have_labels_and_probabilities() {
    let folder = Folder::new();
    let class = |_: usize, a: f64, _: f64| {
        if a > 0.3 {
            "high"
        } else if a < -0.3 {
            "low, low"
        } else {
            "mid"
        }
        .to_owned()
    };
    let quoted = table(150, |i, a, b| format!("\"{}\"", class(i, a, b)));
    folder.write("c.csv", quoted);
    let report = folder.works("train c.csv --epochs 40 --out m --json");
    let report: Value = serde_json::from_str(report.out.trim()).unwrap();
    assert_eq!(report["task"], "classes");
    assert!(report["test"]["accuracy"].as_f64().unwrap() > 0.8, "{report}");
    assert!(report["test"]["log_loss"].is_number() && report["test"]["f1"].is_number());
    folder.write("new.csv", "a,b\n0.9,0\n-0.9,0\n");
    let out = folder.works("predict m new.csv").out;
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "prediction,probability of high,\"probability of low, low\",probability of mid");
    for (line, class) in lines[1..].iter().zip(["high,", "\"low, low\","]) {
        let shares: Vec<f64> = line.strip_prefix(class).unwrap().split(',').map(|p| p.parse().unwrap()).collect();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{out}");
        assert!(shares.len() == 3 && shares.iter().all(|p| p.ln().is_finite()), "none is rounded to 0: {out}");
    }
}

#[test]
fn binary_has_an_auc() {
    let folder = Folder::new();
    folder.write("b.csv", table(150, |_, a, b| if a + b > 0.0 { "yes" } else { "no" }.to_owned()));
    let report = folder.works("train b.csv --epochs 40 --out m --json");
    let report: Value = serde_json::from_str(report.out.trim()).unwrap();
    assert_eq!(report["task"], "binary");
    assert!(report["validation"]["auc"].as_f64().unwrap() > 0.8, "{report}");
}

#[test]
fn settings_from_a_file_and_flags_above_it() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write(
        "run.toml",
        "source = \"houses.csv\"\nhidden = [5]\nepochs = 3\noptimizer = { name = \"sgd\", momentum = 0.9 }\n",
    );
    let out = folder.works("train --config run.toml --epochs 4 --out m").out;
    assert!(out.contains("2-5-1 relu") && out.contains("sgd") && out.contains("epoch 4/4"), "{out}");
    assert!(out.contains("as told"), "{out}");
}

#[test]
fn the_plan_is_printed_without_training() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    let out = folder.works("plan houses.csv --hidden 8 --batch-size 16").out;
    assert!(out.contains("matmul") && out.contains("FLOP") && out.contains("calls in"), "{out}");
    assert!(!folder.path("runs").exists());
}

#[test]
fn the_plan_of_a_gpu_needs_none() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    let out = folder.works("plan houses.csv --hidden 64,64 --batch-size 16 --device cuda").out;
    for said in ["calls in", "level 0", "level 1", "barriers a step", "estimate:", "µs a step"] {
        assert!(out.contains(said), "{said}: {out}");
    }
    assert_eq!(out.contains("as an H200 would run it"), citius_cuda::Device::open(0).is_err(), "{out}");
    assert!(!folder.works("plan houses.csv").out.contains("level 0"));
}

/// With a GPU it runs there; without one the message says what is missing, and nothing is begun.
#[test]
fn a_device_by_name() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write("run.toml", "device = \"cuda\"\n");
    for words in ["train houses.csv --epochs 2 --out m --device cuda", "train houses.csv --out m --config run.toml"] {
        match citius_cuda::Device::open(0) {
            Ok(_) => assert!(folder.works(words).out.contains("device     cuda")),
            Err(error) => {
                assert_eq!(folder.fails(2, words), format!("error: {error}\n"));
                assert!(!folder.path("m").exists());
            }
        }
    }
    if !citius_cuda::Device::has_driver() {
        assert!(folder.fails(2, "train --device cuda").contains("no NVIDIA driver"));
        assert!(folder.fails(1, "bench --device cuda --workloads regress").contains("no NVIDIA driver"));
        let out = folder.works("train houses.csv --epochs 2 --out auto").out;
        assert!(out.contains("device     cpu  (no NVIDIA driver)"), "{out}");
    }
    let told = folder.works("train houses.csv --epochs 2 --out told --config run.toml --device cpu --json");
    let report: Value = serde_json::from_str(told.out.trim()).unwrap();
    assert!(report["device"] == "cpu" && report["hardware"].is_string(), "{report}");
    assert!(told.err.contains("device     cpu  (as told)"), "{}", told.err);
    for wrong in ["gpu", "cuda:x"] {
        let said = folder.fails(2, &format!("train houses.csv --device {wrong}"));
        assert!(said.contains("auto, cpu, cuda, or cuda:1"), "{said}");
    }
    for command in ["train", "plan", "bench"] {
        let help = folder.works(&format!("{command} --help")).out;
        assert!(help.contains("Machine") && help.contains("--device <auto|cpu|cuda|cuda:N>"), "{help}");
    }
}

#[test]
fn help_has_examples_and_usage_errors_have_code_2() {
    let folder = Folder::new();
    for command in ["train", "predict", "eval", "plan", "bench"] {
        let help = folder.works(&format!("{command} --help")).out;
        assert!(help.contains("Examples:"), "{help}");
    }
    folder.fails(2, "");
    folder.fails(2, "trane");
    folder.fails(2, "train --epochs many");
    folder.fails(2, "predict only-one");
}

/// Ctrl-C stops after the step, saves, and the resumed run ends as if nothing had been.
#[cfg(unix)]
#[test]
fn interrupted_and_resumed() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    let flags = "houses.csv --hidden 64,64 --epochs 1500 --patience 0 --validation 0 --checkpoint-every 1000000";
    folder.works(&format!("train {flags} --out whole"));
    let mut child = folder
        .command(&format!("train {flags} --out pieces"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let events = folder.path("pieces/events.jsonl");
    let start = Instant::now();
    while fs::read_to_string(&events).unwrap_or_default().lines().count() < 20 {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not begin");
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = child.id().to_string();
    std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let stopped = ran(child.wait_with_output().unwrap());
    assert_eq!(stopped.code, 130, "{}{}", stopped.out, stopped.err);
    assert!(stopped.out.contains("citius train --resume pieces"), "{}", stopped.out);
    folder.fails(2, "train --resume pieces --lr 0.1");
    folder.works("train --resume pieces --threads 1 --device cpu");
    let weights = |name: &str| fs::read(folder.path(name).join("model.safetensors")).unwrap();
    assert!(weights("whole") == weights("pieces"));
}

#[test]
fn more_threads_than_cores_are_said_and_give_the_same_model() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("train houses.csv --epochs 2 --threads 1 --out one");
    let ran = folder.works("train houses.csv --epochs 2 --threads 100000 --out many");
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(ran.err.contains(&format!("note: --threads 100000 on {cores} core")), "{}", ran.err);
    let weights = |name: &str| fs::read(folder.path(name).join("model.safetensors")).unwrap();
    assert!(weights("one") == weights("many"));
}

/// `citius predict … | head -1` is no failure.
#[cfg(unix)]
#[test]
fn a_reader_that_has_seen_enough() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("train houses.csv --epochs 2 --out m --force");
    folder.write("many.csv", table(20_000, |_, _, _| "1".into()));
    for words in ["predict m many.csv", "train houses.csv --epochs 2 --out m --force", "plan houses.csv"] {
        let mut child = folder.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let done = ran(child.wait_with_output().unwrap());
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{words}");
    }
}

/// By flags and by a settings file: the same numbers.
#[test]
fn weights_of_another_run_are_taken_over() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("train houses.csv --target price --epochs 3 --hidden 8 --out first");
    let flags = "--weights first --freeze 0.* --rates 3.*=0.5 --swa 0.5";
    let ran = folder.works(&format!("train houses.csv --target price --epochs 3 --hidden 8 --out second {flags}"));
    for said in ["4 of 4 tensors from first", "numbers stay as they are", "3.* × 0.5", "plain average", "fine steps"] {
        assert!(ran.out.contains(said), "{said}: {}", ran.out);
    }
    let toml = "target = \"price\"\nepochs = 3\nhidden = [8]\nweights = \"first\"\nfreeze = [\"0.*\"]\nrates = [\"3.*=0.5\"]\nswa = 0.5\n";
    folder.write("settings.toml", toml);
    folder.works("train houses.csv --config settings.toml --out third");
    let weights = |run: &str| fs::read(folder.path(run).join("model.safetensors")).unwrap();
    assert!(weights("second") == weights("third") && weights("second") != weights("first"));

    let problem = folder.fails(1, "train houses.csv --target price --hidden 9 --weights first");
    assert!(problem.contains("0.weight is [8,2] there and [9,2] here"), "{problem}");
    assert!(folder.fails(2, "train houses.csv --freeze nothing.*").contains("no tensor of the network"));
    assert!(folder.fails(2, "train houses.csv --rates 0.weight").contains("such as layer1.*=0.1"));
}

#[test]
fn a_text_and_how_it_goes_on() {
    let folder = Folder::new();
    folder.write("poem.txt", "red roses, blue seas.\n".repeat(60));
    folder.write("net.toml", "[model]\nname = \"gpt\"\nwidth = 8\nheads = 2\nlayers = 1\n");
    let told = folder.works("train poem.txt --config net.toml --epochs 2 --window 12 --batch-size 8 --out m").out;
    assert!(told.contains("the next of 13 characters, at every place"), "{told}");
    assert!(told.contains("citius predict m --prompt"), "{told}");
    let written = folder.works("predict m --prompt red --length 7 --temperature 0").out;
    assert!(written.starts_with("red") && written.chars().count() == 3 + 7 + 1, "{written}");
    assert_eq!(folder.works("predict m --prompt red --length 7 --temperature 0").out, written);
    folder.write("start.txt", "blue ");
    assert!(folder.works("predict m start.txt --length 3 --seed 5").out.starts_with("blue "));
    assert!(folder.works("eval m poem.txt").out.contains("accuracy"));
    assert!(folder.fails(2, "predict m --prompt RED").contains("never seen the character 'R'"));
    assert!(folder.fails(2, "predict m --prompt red --temperature nan").contains("temperature"));
    assert!(folder.fails(2, "predict m").contains("<FILE>"));
    folder.write("houses.csv", houses());
    folder.works("train houses.csv --epochs 2 --out h");
    assert!(folder.fails(2, "predict h --prompt red").contains("not trained on a text"));
}

#[test]
fn a_series_by_its_horizon_alone() {
    let folder = Folder::new();
    let mut text = String::from("hour,load\n");
    for i in 0..600 {
        text += &format!("{i},{:.4}\n", 20.0 + 5.0 * (i as f64 * 0.26).sin());
    }
    folder.write("hourly.csv", text);
    let told = folder.works("train hourly.csv --target load --horizon 6 --epochs 60 --out m --json");
    assert!(told.err.contains("30 rows of load") && told.err.contains("if the last value of a window stayed"));
    let report: serde_json::Value = serde_json::from_str(told.out.trim()).unwrap();
    assert!(report["model"].as_str().unwrap().starts_with("nlinear 30→6"), "{report}");
    assert!(report["test"]["r2"].as_f64().unwrap() > 0.95, "{report}");
    folder.works("eval m hourly.csv");
    let error = folder.fails(2, "train hourly.csv --target load --model nlinear");
    assert!(error.contains("nlinear goes on with columns of a series"), "{error}");
}

/// Where validation is not in every epoch, a line has its own epoch's loss, and no validation of another.
#[test]
fn lines_of_epochs_agree_with_the_events() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    let said = folder.works("train houses.csv --epochs 9 --delay 200 --refit false --out m").out;
    let events = std::fs::read_to_string(folder.path("m/events.jsonl")).unwrap();
    let events: Vec<serde_json::Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str, epoch: usize| events.iter().find(|e| e["event"] == kind && e["epoch"] == epoch).cloned();
    for epoch in 1..=9 {
        let begins = format!("epoch {epoch}/9 ");
        let line = said.lines().find(|line| line.trim_start().starts_with(&begins)).unwrap_or_else(|| panic!("{said}"));
        let shown: f64 = line.split_whitespace().skip_while(|word| *word != "loss").nth(1).unwrap().parse().unwrap();
        let loss = of("epoch_ended", epoch).unwrap()["loss"].as_f64().unwrap();
        assert!((shown - loss).abs() <= 1e-3 * loss, "{line}: {loss}");
        assert_eq!(line.contains("validation"), of("validated", epoch).is_some(), "{line}");
    }
}
