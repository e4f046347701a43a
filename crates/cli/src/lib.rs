//! The `citius` command, as a library: so it compiles while what it calls still does. Exit codes: 0 done, 1 failed, 2 wrong usage, 130
//! interrupted.

mod answers;
mod args;
mod bench;
mod data;
mod doctor;
mod error;
mod eval;
mod plan;
mod predict;
mod profile;
mod reading;
mod screen;
mod train;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use citius_data::Escaped;
use clap::{Parser, Subcommand};

use error::{Done, Failure};

/// Train neural networks at the speed your machine allows.
#[derive(Parser)]
#[command(name = "citius", version, max_term_width = 100, args_override_self = true, after_help = EXAMPLES)]
struct Citius {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  citius train                                      train on embedded digits
  citius data inspect houses.csv                    see what is in a file
  citius train houses.csv --target price            from a table to a model
  citius predict runs/houses-1 houses-new.csv       use the model
  citius plan houses.csv --target price             see the compiled step";

#[derive(Subcommand)]
enum Command {
    /// Train a model on a table, on images, or on the embedded digits
    Train(Box<train::TrainArgs>),
    /// Predict with a trained model: the target of new rows, the class of pictures, how a series or a text goes on
    Predict(predict::PredictArgs),
    /// Judge a trained model on rows whose target is known
    Eval(eval::EvalArgs),
    /// Look at data, and pack it for fast reading
    Data(data::DataArgs),
    /// Print the compiled training step with its costs, without training
    Plan(Box<plan::PlanArgs>),
    /// Show where the time and memory of training steps go, and what would make them faster
    Profile(Box<profile::ProfileArgs>),
    /// Say why a training does not learn or is slow, and try the fix
    Doctor(Box<doctor::DoctorArgs>),
    /// Time full training epochs of reference workloads
    Bench(bench::BenchArgs),
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    explain_panics();
    citius_cpu::out_of_memory::end_aborts_with_a_message();
    fail_at_a_limit_of_file_sizes();
    let command = match Citius::try_parse() {
        Ok(citius) => citius.command,
        Err(refused) => return refuse(&refused),
    };
    let done = match command {
        Command::Train(args) => train::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => bench::run(&args).map(|()| Done::Well).map_err(Failure::failed),
    };
    match done {
        Ok(code) => match screen::lost() {
            None => ExitCode::from(u8::from(code)),
            Some(why) => {
                screen::line(screen::Sink::Stderr, &format!("error: the output could not be written: {why}"));
                ExitCode::from(1)
            }
        },
        Err(failure) => {
            screen::page(screen::Sink::Stderr, &format!("error: {failure}"));
            ExitCode::from(failure.code())
        }
    }
}

/// Help where it was asked for, else what is wrong with the command line: it quotes words of the user's, and so has no colours.
fn refuse(refused: &clap::Error) -> ExitCode {
    if refused.use_stderr() {
        // the same words, escaped, are refused alike: a line break in one of them is not taken for ours
        let escaped = Citius::try_parse_from(std::env::args_os().map(|word| word.escaped())).err();
        let said = escaped.as_ref().unwrap_or(refused).render().to_string();
        screen::page(screen::Sink::Stderr, said.trim_end());
    } else {
        let _ = refused.print();
    }
    ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(2))
}

/// A panic is our mistake, and is said so in one sentence; with `RUST_BACKTRACE` set, as usual. A reader that has seen enough, such as
/// `head`, is no failure.
fn explain_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or_default();
        if message.contains("failed printing to stdout") {
            std::process::exit(0);
        }
        // the threads of a scope start or panic
        if message.contains("failed to spawn thread") {
            let next = "leave this process more memory and threads (ulimit -v, ulimit -u), or give it less to do";
            screen::page(screen::Sink::Stderr, &format!("error: cannot start a thread; {next}"));
            std::process::exit(1);
        }
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
            return usual(info);
        }
        let place = info.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
        let text = format!("error: a mistake in citius itself: {}{place}; please report it", message.escaped());
        screen::page(screen::Sink::Stderr, &text);
    }));
}

/// A file that grows beyond `ulimit -f` is an error of the write, as on a full disk; without a handler the signal ends the program without
/// a word.
fn fail_at_a_limit_of_file_sizes() {
    #[cfg(unix)]
    {
        // where no handler can be had, all is as without one
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}
