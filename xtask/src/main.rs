//! Chores: `cargo xtask` lists them.

mod chores;
mod shell;

use std::process::ExitCode;

use chores::CHORES;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    };
    let Some(chore) = CHORES.iter().find(|c| c.name == name) else {
        eprint!("there is no chore \"{name}\"\n\n{}", usage());
        return ExitCode::from(2);
    };
    let rest: Vec<String> = words.collect();
    match (chore.run)(&rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("cargo xtask {name}: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let line = |c: &chores::Chore| format!("  cargo xtask {:<32} {}\n", format!("{} {}", c.name, c.takes), c.does);
    CHORES.iter().map(line).collect()
}
