//! One entry per chore; the list is the help.

use crate::shell::{cargo, cargo_with, python, root};

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
        name: "pretrained",
        takes: "[--python P]",
        does: "torchvision's ResNet-18 and an nn.TransformerEncoder, their weights loaded here, beside PyTorch; needs torchvision",
        run: pretrained,
    },
    Chore {
        name: "bench",
        takes: "[--python P] --peers DIR …",
        does: "Citius beside PyTorch and JAX; writes bench/RESULTS.md",
        run: bench,
    },
    Chore {
        name: "gpu",
        takes: "[--python P] --mnist DIR …",
        does: "the tests that need an NVIDIA GPU, then Citius on it beside JAX and PyTorch",
        run: gpu,
    },
    Chore {
        name: "uci", takes: "[--python P] …", does: "zero configuration on the UCI tables, all splits", run: uci
    },
    Chore {
        name: "fuzz",
        takes: "[SECONDS] [target …]",
        does: "strange bytes into every reader, 60 s each; needs cargo-fuzz; a short round is part of the tests",
        run: fuzz,
    },
];

fn ci(_: &[String]) -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    cargo(&["test", "--workspace"])
}

/// Files of full size, written by PyTorch, and the example that reads them.
fn pretrained(words: &[String]) -> Result<(), String> {
    let folder = root().join("target/pretrained").display().to_string();
    script("golden/pretrained.py", &[words, &["--full".to_owned(), folder.clone()]].concat())?;
    cargo(&["run", "--release", "-p", "citius", "--example", "04_weights_from_pytorch", &folder])
}

fn bench(words: &[String]) -> Result<(), String> {
    cargo(&["build", "--release"])?;
    // the interpreter with torch and jax is the peers'; the script itself runs on any
    python(None, "bench/compare.py", words)
}

fn gpu(words: &[String]) -> Result<(), String> {
    cargo(&["test", "--release", "-p", "citius-testkit", "--test", "cuda", "--", "--ignored"])?;
    cargo(&["test", "--release", "-p", "citius-train", "--test", "devices", "--", "--ignored"])?;
    cargo(&["build", "--release"])?;
    python(None, "bench/gpu.py", words)
}

fn uci(words: &[String]) -> Result<(), String> {
    cargo(&["build", "--release"])?;
    script("bench/uci.py", words)
}

/// Each target of `fuzz/`, or those named, one after the other until one crashes.
fn fuzz(words: &[String]) -> Result<(), String> {
    let (seconds, targets) = match words.split_first() {
        Some((first, rest)) if first.parse::<u64>().is_ok() => (first.as_str(), rest),
        _ => ("60", words),
    };
    let all = fuzz_targets()?;
    if let Some(unknown) = targets.iter().find(|target| !all.contains(target)) {
        return Err(format!("there is no target {unknown:?}; there are {}", all.join(", ")));
    }
    let chosen = if targets.is_empty() { &all[..] } else { targets };
    chosen.iter().try_for_each(|target| fuzz_one(target, seconds))
}

fn fuzz_targets() -> Result<Vec<String>, String> {
    let dir = root().join("fuzz/src/targets");
    let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let stem = |path: std::path::PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
    let mut targets: Vec<String> = entries.flatten().filter_map(|entry| stem(entry.path())).collect();
    targets.retain(|target| target != "mod");
    targets.sort();
    Ok(targets)
}

fn fuzz_one(target: &str, seconds: &str) -> Result<(), String> {
    let corpus = format!("fuzz/corpus/{target}");
    let dir = root().join(&corpus);
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    // pictures are kept small: decoding large ones is slow without being wrong; a training takes time whatever its settings
    let (dictionary, longest) = match target {
        "delimited" | "csv_blocks" | "series" => (Some("table"), 1 << 14),
        "npy" | "npz" => (Some("array"), 1 << 14),
        "packed" => (Some("packed"), 1 << 14),
        "picture_decode" | "checkpoint" | "model" => (None, 1 << 12),
        "settings" => (Some("settings"), 1 << 10),
        "parquet" | "arrow" | "zstd" | "safetensors" => (None, 1 << 14),
        _ => (None, 1 << 16),
    };
    let (seeds, time) = (format!("fuzz/seeds/{target}"), format!("-max_total_time={seconds}"));
    let longest = format!("-max_len={longest}");
    let dictionary = dictionary.map(|name| format!("-dict=fuzz/dictionaries/{name}.dict"));
    // the readers are safe code: no sanitiser, so that a stable compiler will do
    let mut words = vec!["fuzz", "run", "--sanitizer", "none", "--features", "libfuzzer", "any", &corpus, &seeds, "--"];
    words.extend([&time, &longest, "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]);
    words.extend(dictionary.as_deref());
    cargo_with(&words, &[("FUZZ_TARGET", target)])
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
