//! Files that are written whole, and files that are not files.

#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, houses, ran};

fn trained() -> Folder {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("train houses.csv --epochs 2 --out m");
    folder
}

fn fifo(folder: &Folder, name: &str) {
    assert!(Command::new("mkfifo").arg(folder.path(name)).status().unwrap().success());
}

#[test]
fn predictions_go_into_a_pipe_a_device_or_through_a_link() {
    let folder = trained();
    let expected = folder.works("predict m houses.csv").out;
    fifo(&folder, "pipe");
    let reader = Command::new("cat").arg(folder.path("pipe")).stdout(Stdio::piped()).spawn().unwrap();
    folder.works("predict m houses.csv --out pipe");
    assert_eq!(ran(reader.wait_with_output().unwrap()).out, expected);
    assert!(fs::symlink_metadata(folder.path("pipe")).unwrap().file_type().is_fifo());
    symlink("/dev/null", folder.path("nowhere")).unwrap();
    folder.works("predict m houses.csv --out nowhere");
    assert!(folder.path("nowhere").is_symlink());
    assert!(folder.works("predict m houses.csv --out /dev/stdout").out == expected);
    symlink("there.csv", folder.path("link.csv")).unwrap();
    folder.works("predict m houses.csv --out link.csv");
    assert!(folder.path("link.csv").is_symlink());
    assert_eq!(fs::read_to_string(folder.path("there.csv")).unwrap(), expected);
    assert!(folder.fails(1, "predict m houses.csv --out m").contains("a directory"));
}

#[test]
fn what_has_no_end_or_no_writer_is_refused_at_once() {
    let folder = trained();
    fifo(&folder, "pipe");
    fs::create_dir(folder.path("bad")).unwrap();
    fs::copy(folder.path("m/model.json"), folder.path("bad/model.json")).unwrap();
    symlink("/dev/zero", folder.path("bad/model.safetensors")).unwrap();
    for words in [
        "train houses.csv --config /dev/zero",
        "train houses.csv --config pipe",
        "train houses.csv --weights /dev/urandom",
        "train houses.csv --weights pipe",
        "train houses.csv --test-rows /dev/zero",
        "train houses.csv --test-rows pipe",
        "predict bad houses.csv",
        "eval bad houses.csv",
    ] {
        let mut child = folder.command(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_secs(60) {
                child.kill().unwrap();
                panic!("citius {words} does not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let ran = ran(child.wait_with_output().unwrap());
        assert!(ran.code == 1 || ran.code == 2, "citius {words}: {} {}", ran.code, ran.err);
        assert!(["a device", "a pipe"].iter().any(|what| ran.err.contains(what)), "citius {words}: {}", ran.err);
    }
}

/// What is read of a pipe is gone: it is opened once, and no guess at its kind takes its beginning away.
#[test]
fn a_pipe_is_read_once() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("train houses.csv --epochs 2 --out m");
    let run = |words: &str| {
        let script = format!("{} {words}", env!("CARGO_BIN_EXE_citius"));
        let output = Command::new("timeout").args(["60", "bash", "-c", &script]).current_dir(folder.path("")).output();
        let ran = ran(output.unwrap());
        assert_eq!(ran.code, 0, "{words}: {}", ran.err);
        ran.out
    };
    let answers = folder.works("predict m houses.csv").out;
    assert_eq!(run("predict m <(cat houses.csv)"), answers);
    assert_eq!(run("predict m /dev/stdin < <(cat houses.csv)"), answers);
    run("train <(cat houses.csv) --target price --epochs 2 --out p");
    assert_eq!(
        std::fs::read(folder.path("m/model.safetensors")).ok(),
        std::fs::read(folder.path("p/model.safetensors")).ok()
    );
}

#[test]
fn predictions_do_not_take_the_place_of_what_they_are_made_from() {
    let folder = Folder::new();
    let text = houses();
    folder.write("houses.csv", &text);
    folder.works("train houses.csv --epochs 2 --out m");
    let error = folder.fails(2, "predict m houses.csv --out ./houses.csv");
    assert!(error.contains("the rows are read from this file"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.path("houses.csv")).unwrap(), text);
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_not_a_signal() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    let script = format!(
        "ulimit -f 8; exec {} train houses.csv --epochs 2 --out m --hidden 64,64",
        env!("CARGO_BIN_EXE_citius")
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(folder.path("")).output().unwrap();
    let ran = ran(output);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("ulimit -f"), "{}", ran.err);
}

/// Waits until a training has begun.
fn begun(folder: &Folder, out: &str) {
    let begun = Instant::now();
    while !fs::read_to_string(folder.path(out).join("events.jsonl")).is_ok_and(|text| text.contains("epoch_ended")) {
        assert!(begun.elapsed() < Duration::from_secs(120), "the training does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_folder_is_trained_into_by_one_process_at_a_time() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    let words = "train houses.csv --epochs 1000000 --patience 0 --refit false --out m --checkpoint-every 1";
    let mut first = folder.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    begun(&folder, "m");
    for words in ["train --resume m", "train houses.csv --epochs 1 --out m --force"] {
        let said = folder.fails(1, words);
        assert!(said.contains("m: another process is training into this folder"), "{words}: {said}");
    }
    // a killed process leaves no lock, and nothing half written behind
    first.kill().unwrap();
    first.wait().unwrap();
    folder.write("m/.checkpoint.safetensors.abcdefghijkl.citius-part", "half");
    let refused = folder.fails(2, "train houses.csv --epochs 1 --out m");
    assert!(refused.contains("--resume m") && refused.contains("--force"), "{refused}");
    folder.works("train houses.csv --epochs 1 --out m --force");
    let parts = fs::read_dir(folder.path("m")).unwrap().flatten();
    assert_eq!(parts.filter(|e| e.file_name().to_string_lossy().starts_with('.')).count(), 0);
}

#[test]
fn a_run_goes_into_a_folder_and_nothing_else() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write("file", "mine");
    fifo(&folder, "pipe");
    symlink("nowhere", folder.path("link")).unwrap();
    for (out, said) in [("file", "a file of that name"), ("pipe", "a pipe"), ("link", "a link that leads nowhere")] {
        let message = folder.fails(1, &format!("train houses.csv --epochs 1 --out {out} --force"));
        assert!(message.contains(said), "{message}");
    }
    assert_eq!(fs::read_to_string(folder.path("file")).unwrap(), "mine");
}
