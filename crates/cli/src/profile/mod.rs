//! `citius profile`: where the time and memory of training steps go, and what would make them faster.
//!
//! ```text
//! mod.rs          what to look at, and the account in lines
//! table.rs        a line per kernel
//! trace.rs        for chrome://tracing and Perfetto
//! tensorboard.rs  for TensorBoard
//! ```

mod table;
mod tensorboard;
mod trace;

use std::path::PathBuf;
use std::time::Duration;

use citius_data::{Escaped, shell_word};
use citius_train::{Counterfactuals, Profile, ProfileOptions, RunOptions, Training, Wishes, count};
use clap::Args;

use crate::args::WishArgs;
use crate::error::{Done, Failure};
use crate::screen::{self, Sink, line};
use table::Sort;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ProfileArgs {
    #[command(flatten)]
    wishes: WishArgs,
    /// Steps to time
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = "Profile")]
    steps: u64,
    /// Order of the table
    #[arg(long, value_enum, default_value = "self", help_heading = "Profile")]
    sort: Sort,
    /// Lines of the table; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Profile")]
    rows: usize,
    /// Write what each thread did to this file, for https://ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE.json", help_heading = "Profile")]
    trace: Option<PathBuf>,
    /// Write scalars and the trace to this directory, for TensorBoard
    #[arg(long, value_name = "DIR", help_heading = "Profile")]
    tensorboard: Option<PathBuf>,
    /// Seconds for steps as they might be (a cached batch, no copy, other sizes …); 0 for none
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 4.0,
        allow_negative_numbers = true,
        help_heading = "Profile"
    )]
    otherwise: f64,
    /// Print the result as one JSON object, the last line of stdout; text for people goes to stderr
    #[arg(long, help_heading = "Profile")]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  citius profile
  citius profile houses.csv --target price --steps 1000 --sort flops
  citius profile settings.toml --trace steps.json
  citius profile mnist/ --device cuda --tensorboard runs/tb";

pub fn run(args: &ProfileArgs) -> Result<Done, Failure> {
    let sink = if args.json { Sink::Stderr } else { Sink::Stdout };
    let otherwise = match args.otherwise {
        0.0 => None,
        seconds => Some(
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| Failure::Usage(format!("--otherwise {seconds} is no time: give seconds, or 0")))?,
        ),
    };
    let options =
        RunOptions { device: args.wishes.machine.device, cpu: args.wishes.machine.options()?, ..RunOptions::default() };
    let training = Training::new(wishes(&args.wishes)?)?;
    let profile = training.profile(&options, ProfileOptions { steps: args.steps, otherwise })?;
    show(sink, &profile, args);
    if let Some(path) = &args.trace {
        trace::write(path, &profile)?;
        line(sink, &format!("  trace      {}: open it in https://ui.perfetto.dev or chrome://tracing", path.escaped()));
    }
    if let Some(folder) = &args.tensorboard {
        tensorboard::write(folder, &profile)?;
        line(sink, &format!("  tensorboard --logdir {}", shell_word(folder)));
    }
    if args.json {
        let text = serde_json::to_string(&profile).map_err(|e| Failure::Failed(e.to_string()))?;
        screen::json(&text);
    }
    Ok(Done::Well)
}

/// A source that is a settings file is one.
fn wishes(args: &WishArgs) -> Result<Wishes, Failure> {
    let is_settings = |path: &PathBuf| path.extension().is_some_and(|e| e == "toml");
    match args.source.as_ref().filter(|path| args.config.is_none() && is_settings(path)) {
        Some(path) => Ok(Wishes { source: None, ..args.flags() }.or(Wishes::read(path)?)),
        None => args.wishes(),
    }
}

fn show(sink: Sink, profile: &Profile, args: &ProfileArgs) {
    let Profile { model, device, hardware, batch, steps_per_epoch, ledger, memory, ceilings, otherwise, .. } = profile;
    let threads = match ledger.threads {
        1 => "1 thread".to_owned(),
        n => format!("{n} threads"),
    };
    line(sink, &format!("{model}: the step of {batch} rows, {} times an epoch", count(*steps_per_epoch as usize)));
    line(sink, "");
    line(sink, &format!("  on         {device}, {hardware}, {threads}"));
    let times = &ledger.step_us;
    let us = screen::number;
    line(
        sink,
        &format!(
            "  step       {} µs; half of them within {}, 90% within {}, 99% within {}; {} were timed",
            us(times.mean),
            us(times.p50),
            us(times.p90),
            us(times.p99),
            count(ledger.timed_steps as usize)
        ),
    );
    line(sink, &format!("  spent      {}", ledger.summary()));
    if let Some(c) = ceilings {
        line(
            sink,
            &format!(
                "  reached    {} of {} GFLOP/s, {} of {} GB/s of memory ({} and {} in caches){}",
                us(ledger.flops_per_second / 1e9),
                us(c.flops / 1e9),
                us(ledger.bytes_per_second / 1e9),
                us(c.memory / 1e9),
                us(c.shared / 1e9),
                us(c.cache / 1e9),
                ledger.roofline.map_or(String::new(), |r| format!("; {:.0}% of the roofline", r * 100.0)),
            ),
        );
    }
    let kinds = memory.peak.named().into_iter().filter(|(_, bytes)| *bytes > 0);
    let kinds: Vec<String> = kinds.map(|(name, bytes)| format!("{name} {}", size(bytes))).collect();
    line(sink, &format!("  memory     {} at the peak: {}", size(memory.peak.sum()), kinds.join(", ")));
    line(sink, "");
    table::show(sink, &ledger.kernels, args.sort, args.rows);
    if let Some(otherwise) = otherwise {
        line(sink, "");
        show_otherwise(sink, otherwise);
    }
}

fn show_otherwise(sink: Sink, told: &Counterfactuals) {
    let now = format!("{} µs", screen::number(told.step_us));
    line(sink, &format!("  {:<26} {:>12}   of the time of a row (95%)    in the whole run", "steps as they are", now));
    for other in &told.others {
        let ratio = format!("{:>4.0}%  ({:.0} to {:.0}%)", other.ratio * 100.0, other.low * 100.0, other.high * 100.0);
        let step = format!("{} µs", screen::number(other.step_us));
        let saves = match other.saves {
            s if s >= 0.0 => format!("{} less", screen::seconds(s)),
            s => format!("{} more", screen::seconds(-s)),
        };
        line(sink, &format!("  {:<26} {step:>12}   {ratio:<28}  {saves}", other.name));
    }
    line(sink, "");
    line(sink, &format!("  {}", told.says));
}

/// 1.2 MiB.
fn size(bytes: usize) -> String {
    let (mut x, mut unit) = (bytes as f64, "B");
    for next in ["KiB", "MiB", "GiB"] {
        if x < 1024.0 {
            break;
        }
        (x, unit) = (x / 1024.0, next);
    }
    if unit == "B" { format!("{x:.0} {unit}") } else { format!("{x:.1} {unit}") }
}
