//! Commands run from the root of the repository; each is printed before it runs.

use std::path::{Path, PathBuf};
use std::process::Command;

pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

pub fn cargo(words: &[&str]) -> Result<(), String> {
    cargo_with(words, &[])
}

/// Cargo with variables of the environment.
pub fn cargo_with(words: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let set: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    println!("$ {set}cargo {}", words.join(" "));
    run(Command::new(program).args(words).envs(variables.iter().copied()), &format!("cargo {}", words[0]))
}

/// A script of this repository; `python3` unless an interpreter is given.
pub fn python(interpreter: Option<&str>, script: &str, words: &[String]) -> Result<(), String> {
    let interpreter = interpreter.unwrap_or("python3");
    println!("$ {interpreter} {script} {}", words.join(" "));
    run(Command::new(interpreter).arg(script).args(words), script)
}

fn run(command: &mut Command, name: &str) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.current_dir(root()).status().map_err(|e| format!("cannot start {program}: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{name} ended with {status}")),
    }
}
