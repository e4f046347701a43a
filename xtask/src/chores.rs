//! One entry per chore; the list is the help.

use crate::shell::{cargo, python, root};

pub struct Chore {
    pub name: &'static str,
    pub takes: &'static str,
    pub does: &'static str,
    pub run: fn(&[String]) -> Result<(), String>,
}

pub static CHORES: &[Chore] = &[
    Chore { name: "ci", takes: "", does: "format, lints, tests: what must pass before a change is sent", run: ci },
    Chore {
        name: "golden",
        takes: "[--python P] [name …]",
        does: "writes the reference values in golden/ anew; needs torch",
        run: |words| script("golden/make.py", words),
    },
    Chore {
        name: "bench",
        takes: "[--python P] --peers DIR …",
        does: "Citius beside PyTorch and JAX; writes bench/RESULTS.md",
        run: bench,
    },
    Chore {
        name: "uci", takes: "[--python P] …", does: "zero configuration on the UCI tables, all splits", run: uci
    },
];

fn ci(_: &[String]) -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    cargo(&["test", "--workspace"])
}

fn bench(words: &[String]) -> Result<(), String> {
    cargo(&["build", "--release"])?;
    // the interpreter with torch and jax is the peers'; the script itself runs on any
    python(None, "bench/compare.py", words)
}

fn uci(words: &[String]) -> Result<(), String> {
    cargo(&["build", "--release"])?;
    script("bench/uci.py", words)
}

/// Runs a script of this repository with the interpreter after `--python`, or `python3`.
fn script(path: &str, words: &[String]) -> Result<(), String> {
    if !root().join(path).is_file() {
        return Err(format!("{path} is not there"));
    }
    match words.split_first() {
        Some((flag, [interpreter, rest @ ..])) if flag == "--python" => python(Some(interpreter), path, rest),
        Some((flag, [])) if flag == "--python" => Err("--python needs the path of an interpreter".into()),
        _ => python(None, path, words),
    }
}
