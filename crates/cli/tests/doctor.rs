//! `citius doctor`: what it finds, what it writes, and what it says of bad input.

mod common;

use std::fs;

use common::Folder;

/// A table that a small network learns in a moment: 300 rows, the second column thousands of times the first.
fn rows() -> String {
    let mut text = "small,large,y\n".to_owned();
    for i in 0..300u32 {
        let (a, b) = ((i * 37 % 101) as f64 / 50.0 - 1.0, (i * 53 % 97) as f64 * 40.0);
        text += &format!("{a},{b},{}\n", 3.0 * a + b / 1000.0 - 2.0 * a * a);
    }
    text
}

const HEALTHY: &str = "source = \"rows.csv\"\nhidden = [16, 16]\noptimizer = \"adam\"\nlr = 0.01\nepochs = 60\n";

#[test]
fn a_healthy_configuration_has_nothing_wrong() {
    let folder = Folder::new();
    folder.write("rows.csv", rows());
    folder.write("run.toml", HEALTHY);
    let said = folder.works("doctor run.toml").out;
    assert!(said.contains("nothing wrong was found"), "{said}");
    assert!(folder.works("doctor --causes").out.lines().count() > 40);
}

#[test]
fn a_fault_is_told_tried_and_mended() {
    let folder = Folder::new();
    folder.write("rows.csv", rows());
    folder.write("run.toml", format!("{HEALTHY}[prepare]\nscale = \"none\"\n"));
    let ran = folder.run("doctor run.toml --apply --json --budget 10s");
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let last = ran.out.lines().last().unwrap();
    let found: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(found["findings"][0]["cause"], "unscaled-features", "{last}");
    assert!(found["findings"][0]["evidence"][0]["value"].is_number());
    assert!(ran.err.contains("silence") && ran.err.contains("before → after"), "{}", ran.err);
    let fixed = fs::read_to_string(folder.path("run.fixed.toml")).unwrap();
    assert!(fixed.contains("scale = \"standard\""), "{fixed}");
    assert!(!folder.path("run.fixed.toml.part").exists() && !folder.path("run.fixed.part").exists());
    let silent = folder.run("doctor run.toml --silence unscaled-features --json --budget 0s");
    assert!(!silent.out.contains("\"cause\":\"unscaled-features\""), "{}", silent.out);
}

#[test]
fn a_run_says_what_it_sees_in_passing() {
    let folder = Folder::new();
    folder.write("rows.csv", rows());
    folder.write("run.toml", format!("{HEALTHY}refit = false\n"));
    assert!(!folder.works("train --config run.toml --out good").out.contains("doctor"));
    folder.write("bad.toml", format!("{HEALTHY}refit = false\n[prepare]\nscale = \"none\"\n"));
    let said = folder.run("train --config bad.toml --out bad").out;
    assert!(said.contains("doctor: ") && said.contains("(unscaled-features)"), "{said}");
    assert!(fs::read_to_string(folder.path("bad/events.jsonl")).unwrap().contains("\"event\":\"finding\""));
    // and after the run
    let after = folder.run("doctor bad --budget 0s");
    assert!(after.code == 1 && after.out.contains("unscaled-features"), "{}{}", after.out, after.err);
}

#[test]
fn what_cannot_be_examined() {
    let folder = Folder::new();
    folder.write("rows.csv", rows());
    fs::create_dir(folder.path("empty")).unwrap();
    assert!(folder.fails(2, "doctor none.toml").contains("no such file"));
    assert!(folder.fails(2, "doctor none.csv").contains("no such file"));
    assert!(folder.fails(2, "doctor empty").contains("events.jsonl"));
    folder.write("other/events.jsonl", "{\"kind\":\"begin\"}\n");
    assert!(folder.fails(2, "doctor other").contains("another version"));
    folder.write("damaged/events.jsonl", "{\"event\":\n{\"event\":\"finished\"}\n");
    assert!(folder.fails(2, "doctor damaged").contains("line 1"));
    // still being written: the last line is half there, and no checkpoint yet
    folder.write("young/events.jsonl", "{\"event\":\"run_started\",\"steps_per_epoch\":3}\n{\"event\":\"epo");
    assert!(folder.fails(2, "doctor young").contains("no checkpoint yet"));
    assert!(folder.fails(2, "doctor rows.csv --silence nonsense").contains("--causes"));
    assert!(folder.fails(2, "doctor rows.csv --budget soon").contains("30s"));
    // rows are looked at even where nothing can start
    folder.write("wrong.toml", "source = \"rows.csv\"\nloss = \"cross-entropy\"\n");
    let wrong = folder.run("doctor wrong.toml");
    assert!(wrong.code == 1 && wrong.out.contains("cannot start") && wrong.out.contains("wrong-loss"), "{}", wrong.out);
    // there is no control to try a fix against: it is written, and said to be untried
    folder.run("doctor wrong.toml --apply");
    let fixed = fs::read_to_string(folder.path("wrong.fixed.toml")).unwrap();
    assert!(fixed.contains("mse") && fixed.contains("untried"), "{fixed}");
    folder.write("odd.toml", "source = \"rows.csv\"\nmodel = \"lenet\"\n");
    let odd = folder.run("doctor odd.toml");
    assert!(odd.code == 2 && odd.out.contains("cannot start"), "{}{}", odd.out, odd.err);
}
