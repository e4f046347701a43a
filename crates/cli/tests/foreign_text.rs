//! Text from outside (names of files and columns, labels, cells, settings, words of the command line) never acts on the terminal:
//! whatever it holds, all commands show it escaped, and none of it becomes a line of its own.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Folder, png};

/// A control of each kind, a line that fakes an error of ours, direction marks, blanks without width, separators.
const HOSTILE: &str =
    "x\u{1b}[31m\u{1b}]0;t\u{7}\r\nerror: forged\u{8}\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200f}\u{200b}\u{2028}\u{feff}y";
/// The same in one line, for cells and lines of files.
const IN_LINE: &str = "x\u{1b}[31m\u{1b}]0;t\u{7}\u{8}\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200f}\u{200b}\u{2028}\u{feff}y";

/// Runs the command, which must end by itself with a usual code, and looks at every character it wrote.
fn shown(folder: &Folder, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_citius"));
    let output = command.args(words).current_dir(folder.path("")).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    let code = output.status.code().expect("no signal");
    assert!([0, 1, 2].contains(&code), "citius {words:?}: {code}\n{text}");
    assert!(!text.contains("panicked"), "{text}");
    if let Some(c) = text.chars().find(|c| *c != '\n' && citius_data::is_hidden(*c)) {
        panic!("citius {words:?} shows {c:?}:\n{text:?}");
    }
    let forged = |line: &str| line.trim_start().starts_with("error: forged");
    assert!(!text.lines().any(forged), "citius {words:?} shows a forged line:\n{text}");
    (code, text)
}

fn fails(folder: &Folder, words: &[&str]) -> String {
    let (code, text) = shown(folder, words);
    assert_ne!(code, 0, "citius {words:?}\n{text}");
    text
}

fn works(folder: &Folder, words: &[&str]) -> String {
    let (code, text) = shown(folder, words);
    assert_eq!(code, 0, "citius {words:?}\n{text}");
    text
}

/// A table whose columns, labels and name are hostile; its last column is called `y` and `last`.
fn table(folder: &Folder, last: &str) -> String {
    let cell = |text: &str| format!("\"{text}\"");
    let mut text = format!("{},{},{}\n", cell(&format!("a{HOSTILE}")), cell(&format!("b{HOSTILE}")), cell(last));
    for i in 0..120 {
        let a = (i as f64 * 0.618).fract();
        let label = if a > 0.5 { cell(HOSTILE) } else { cell(&format!("q{HOSTILE}")) };
        text += &format!("{a:.4},{},{label}\n", cell(&format!("{}{HOSTILE}", i % 3)));
    }
    let name = format!("{HOSTILE}.csv");
    folder.write(&name, text);
    name
}

#[test]
fn names_of_files_that_are_not_there() {
    let folder = Folder::new();
    folder.write(&format!("{HOSTILE}2.csv"), "a\n1\n");
    let missing = &format!("{HOSTILE}.csv")[..];
    for command in [&["train"][..], &["plan"], &["profile"], &["doctor"], &["data", "inspect"], &["predict"]] {
        fails(&folder, &[command, &[missing, missing]].concat()[..command.len() + 1]);
        fails(&folder, &[command, &[&format!("{HOSTILE}/{missing}")]].concat());
    }
    fails(&folder, &["data", "pack", missing, missing]);
    fails(&folder, &["data", "pack", &format!("{HOSTILE}2.csv"), &format!("{HOSTILE}/o.citius")]);
    fails(&folder, &["eval", missing, missing]);
    fails(&folder, &["predict", missing, missing]);
    fails(&folder, &["train", "--resume", missing]);
    fails(&folder, &["train", "--config", missing]);
    fails(&folder, &["train", "--weights", missing]);
    fails(&folder, &["train", "--out", &format!("{HOSTILE}2.csv")]);
    fails(&folder, &["doctor", &format!("{HOSTILE}.toml")]);
    fails(&folder, &["bench", missing]);
    fails(&folder, &["bench", "loader", missing]);
    fails(&folder, &["data", "inspect", &format!("{HOSTILE}*")]);
    fs::create_dir(folder.path(HOSTILE)).unwrap();
    fails(&folder, &["train", HOSTILE]);
    fails(&folder, &["data", "inspect", HOSTILE]);
    fails(&folder, &["predict", HOSTILE, missing]);
}

#[test]
fn words_of_the_command_line() {
    let folder = Folder::new();
    folder.write("t.csv", common::houses());
    fails(&folder, &[HOSTILE]);
    fails(&folder, &["train", &format!("--{HOSTILE}")]);
    for flag in [
        "target",
        "kind",
        "delimiter",
        "header",
        "missing",
        "text",
        "model",
        "loss",
        "optimizer",
        "schedule",
        "task",
        "activation",
        "hidden",
        "lr",
        "epochs",
        "augment",
        "device",
        "precision",
        "memory",
        "train-rows",
        "test-rows",
        "threads",
        "on-error",
        "freeze",
        "seed",
    ] {
        let given = format!("--{flag}={HOSTILE}");
        shown(&folder, &["train", "t.csv", "--epochs", "1", "--out", &format!("runs/{flag}"), &given]);
    }
    fails(&folder, &["doctor", "t.csv", "--budget", HOSTILE]);
    fails(&folder, &["doctor", "--silence", HOSTILE]);
    fails(&folder, &["profile", "t.csv", "--sort", HOSTILE]);
    fails(&folder, &["data", "inspect", "t.csv", "--rows", HOSTILE]);
    fails(&folder, &["data", "pack", "t.csv", "o.citius", "--size", HOSTILE]);
}

#[test]
fn a_table_from_its_inspection_to_its_predictions() {
    let folder = Folder::new();
    let file = &table(&folder, &format!("t{HOSTILE}"))[..];
    let out = &format!("runs/{HOSTILE}")[..];
    let page = works(&folder, &["data", "inspect", file]);
    assert!(page.contains(r"\u{1b}[31m"), "{page}");
    let json = works(&folder, &["data", "inspect", file, "--json"]);
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(object["name"], *file, "a program gets the true name");
    works(&folder, &["plan", file]);
    works(&folder, &["profile", file, "--steps", "2", "--trace", &format!("{HOSTILE}.trace")]);
    shown(&folder, &["doctor", file, "--look", "100ms", "--budget", "100ms"]);
    works(&folder, &["train", file, "--epochs", "2", "--out", out]);
    shown(&folder, &["doctor", out, "--look", "100ms", "--budget", "100ms"]);
    let printed = works(&folder, &["train", file, "--epochs", "1", "--out", &format!("{out}2"), "--json"]);
    let last: serde_json::Value =
        serde_json::from_str(printed.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    assert_eq!(last["out"], format!("{out}2"));
    works(&folder, &["eval", out, file]);
    works(&folder, &["eval", out, file, "--json"]);
    let predictions = &format!("{HOSTILE}-out.csv")[..];
    works(&folder, &["predict", out, file, "--out", predictions]);
    let written = fs::read_to_string(folder.path(predictions)).unwrap();
    assert!(written.contains(HOSTILE), "a file keeps the true label");
    fails(&folder, &["predict", out, file, "--out", &format!("{HOSTILE}/p.csv")]);
    // new labels, missing columns and cells that are no numbers are quoted
    let fresh = &format!("{HOSTILE}-new.csv")[..];
    folder.write(fresh, format!("\"a{HOSTILE}\",\"b{HOSTILE}\"\n0.5,\"new{HOSTILE}\"\n"));
    works(&folder, &["predict", out, fresh, "--out", predictions]);
    folder.write(fresh, format!("\"a{HOSTILE}\",\"b{HOSTILE}\"\n\"{HOSTILE}\",1\n"));
    fails(&folder, &["predict", out, fresh]);
    folder.write(fresh, format!("\"{HOSTILE}\",\"c{HOSTILE}\"\n1,1\n"));
    fails(&folder, &["predict", out, fresh]);
    works(&folder, &["data", "pack", file, &format!("{HOSTILE}.citius")]);
    works(&folder, &["data", "inspect", &format!("{HOSTILE}.citius")]);
    works(&folder, &["train", &format!("{HOSTILE}.citius"), "--epochs", "1", "--out", "m"]);
}

#[test]
fn a_shell_runs_the_command_that_is_advised() {
    let folder = Folder::new();
    let file = &table(&folder, &format!("t{HOSTILE}"))[..];
    let page = works(&folder, &["data", "inspect", file, "--target", &format!("t{HOSTILE}")]);
    let next = page.lines().find_map(|line| line.strip_prefix("next: citius ")).expect("a next command");
    assert!(next.contains("$'"), "{next}");
    let line = format!("{} {next} --epochs 1 --out m", env!("CARGO_BIN_EXE_citius"));
    let Ok(output) = Command::new("bash").arg("-c").arg(&line).current_dir(folder.path("")).output() else { return };
    assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn settings_files() {
    let folder = Folder::new();
    folder.write("t.csv", common::houses());
    let quoted = HOSTILE.chars().map(|c| format!("\\U{:08x}", c as u32)).collect::<String>();
    for (i, text) in [
        format!("\"{quoted}\" = 1"),
        format!("\"epoch{quoted}\" = 1"),
        format!("model = \"{quoted}\""),
        format!("model = {{ name = \"{quoted}\" }}"),
        format!("model = {{ name = \"mlp\", \"{quoted}\" = 1 }}"),
        format!("loss = {{ name = \"mse\", \"{quoted}\" = 1 }}"),
        format!("loss = {{ name = \"mse\", reduction = \"{quoted}\" }}"),
        format!("target = \"{quoted}\""),
        format!("memory = \"{quoted}\""),
        format!("[prepare.columns.\"{quoted}\"]\nscale = \"none\""),
        format!("layers = [{{ units = 4, activation = \"{quoted}\" }}]"),
        format!("epochs = {IN_LINE}"),
        format!("{IN_LINE} = 3"),
        format!("# {IN_LINE}\nepochs = x"),
        "epochs = [".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("{HOSTILE}{i}.toml");
        folder.write(&name, text);
        fails(&folder, &["train", "t.csv", "--config", &name, "--out", "m"]);
        fails(&folder, &["plan", "t.csv", "--config", &name]);
        shown(&folder, &["doctor", &name, "--look", "50ms", "--budget", "50ms"]);
    }
}

#[test]
fn models_and_checkpoints_of_strangers() {
    let folder = Folder::new();
    let file = &table(&folder, "kind")[..];
    works(&folder, &["train", file, "--epochs", "2", "--checkpoint-every", "1", "--out", "m"]);
    let hidden = serde_json::to_string(HOSTILE).unwrap();
    for name in fs::read_dir(folder.path("m")).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = fs::read(&name).unwrap();
        // every word of the file in turn becomes hostile; the length of a safetensors header is kept by cutting the word
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(20_000)]).into_owned();
        let quotes: Vec<usize> = text.match_indices('"').map(|(at, _)| at).collect();
        for at in quotes.iter().step_by(2 * (quotes.len() / 24).max(1)) {
            let changed = format!("{}{hidden}{}", &text[..*at], &text[at + 1..]);
            fs::write(&name, [changed.as_bytes(), &bytes[bytes.len().min(20_000)..]].concat()).unwrap();
            shown(&folder, &["predict", "m", file, "--out", "p.csv"]);
            shown(&folder, &["train", "--resume", "m"]);
        }
        fs::write(&name, bytes).unwrap();
    }
    works(&folder, &["predict", "m", file, "--out", "p.csv"]);
}

#[test]
fn pictures_row_files_texts_and_series() {
    let folder = Folder::new();
    for i in 0..12u8 {
        folder.write(&format!("pets/red{HOSTILE}/{i}{HOSTILE}.png"), png(8, 6, [220, 10, 10], i));
        folder.write(&format!("pets/blue{HOSTILE}/{i}.png"), png(8, 6, [10, 10, 220], i));
    }
    works(&folder, &["data", "inspect", "pets"]);
    works(&folder, &["data", "inspect", "pets", "--sheet", &format!("{HOSTILE}.png")]);
    works(&folder, &["train", "pets", "--epochs", "1", "--out", "m"]);
    works(&folder, &["eval", "m", "pets"]);
    folder.write(&format!("pets/red{HOSTILE}/broken{HOSTILE}.png"), b"no picture");
    shown(&folder, &["data", "inspect", "pets"]);
    fails(&folder, &["train", "pets", "--epochs", "1", "--out", "m2"]);
    shown(&folder, &["train", "pets", "--epochs", "1", "--out", "m3", "--on-error", "skip"]);
    shown(&folder, &["data", "pack", "pets", "pets.citius", "--on-error", "skip"]);
    shown(&folder, &["eval", "m", "pets", "--on-error", "skip"]);
    fs::create_dir(folder.path(&format!("pets/other{HOSTILE}"))).unwrap();
    folder.write(&format!("pets/other{HOSTILE}/1.png"), png(8, 6, [1, 1, 1], 1));
    fails(&folder, &["eval", "m", "pets", "--on-error", "skip"]);

    folder.write("t.csv", common::houses());
    folder.write(&format!("{HOSTILE}.rows"), format!("1\n{IN_LINE}\n"));
    fails(&folder, &["train", "t.csv", "--train-rows", &format!("{HOSTILE}.rows"), "--out", "r"]);
    folder.write(&format!("{HOSTILE}.txt"), format!("a line of text {HOSTILE} and more\n").repeat(300));
    works(&folder, &["data", "inspect", &format!("{HOSTILE}.txt"), "--kind", "text"]);
    shown(&folder, &["train", &format!("{HOSTILE}.txt"), "--kind", "text", "--epochs", "1", "--out", "x"]);
    let series: String = (0..200).map(|i| format!("2024-01-01,{i}\n")).collect();
    folder.write("s.csv", format!("\"when{HOSTILE}\",\"load{HOSTILE}\"\n{series}"));
    shown(&folder, &["train", "s.csv", "--window", "8", "--epochs", "1", "--out", "s"]);
    shown(&folder, &["train", "s.csv", "--window", "8", "--target", HOSTILE, "--epochs", "1", "--out", "s2"]);
}

/// So that it stays so: a path in a message goes through `Escaped`, whatever is data through `to_string_lossy`.
#[test]
fn no_path_is_displayed_as_it_is() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut seen = 0;
    for name in ["cli", "cpu", "cuda", "data", "doctor", "train"] {
        for file in sources(&crates.join(name).join("src")) {
            seen += 1;
            for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
                assert!(!line.contains(".display()"), "{}:{}: say .escaped()\n{line}", file.display(), number + 1);
            }
        }
    }
    assert!(seen > 300, "{seen} files");
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let inside = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    };
    entries.flat_map(inside).filter(|path| path.extension() == Some(OsStr::new("rs"))).collect()
}
