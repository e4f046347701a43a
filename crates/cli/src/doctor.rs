//! `citius doctor`: why a training does not learn, or is slow, and a fix that was tried.
//! Exit codes: 0 healthy, 1 something was found, 2 could not be examined.

use std::path::{Path, PathBuf};
use std::time::Duration;

use citius_data::{Escaped, shell_word};
use citius_doctor::evidence::Ledger;
use citius_doctor::selftest::SelfTest;
use citius_doctor::{
    Examination, Options, Severity, Verdict, causes, examine_run, fixed_path, mended, try_again, try_fixes, write,
};
use citius_train::Wishes;
use clap::Args;

use crate::args::{WishArgs, threads_used};
use crate::error::{Done, Failure};
use crate::screen::{self, Sink, Waiting, line, page};

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Instead of a source, a settings file (.toml) or the directory of a run may be given
    #[command(flatten)]
    wishes: WishArgs,
    /// Time for trying fixes
    #[arg(long, value_name = "30s", default_value = "20s", value_parser = duration)]
    budget: Duration,
    /// Time for looking at the training under probes; where steps are long, it may take up to 20 times as long
    #[arg(long, value_name = "3s", default_value = "3s", value_parser = duration, conflicts_with = "selftest")]
    look: Duration,
    /// Write the mended configuration beside the old one: X.toml becomes X.fixed.toml
    #[arg(long)]
    apply: bool,
    /// Print one JSON object, the last line of stdout; text for people goes to stderr
    #[arg(long)]
    json: bool,
    /// List all causes that can be found, one line each
    #[arg(long)]
    causes: bool,
    /// Examine the doctor itself: programs with known faults and programs without
    #[arg(long)]
    selftest: bool,
    /// Of the self-test, what takes half a minute
    #[arg(long, requires = "selftest")]
    reduced: bool,
    /// Of the self-test, these faults or programs alone; `clean` for programs without a fault
    #[arg(long, value_name = "CAUSE,…", value_delimiter = ',', requires = "selftest")]
    filter: Vec<String>,
    /// Of the self-test, the seeds of programs; thresholds were set by 1 to 99, and what they have seen of others is told in
    /// bench/DOCTOR.md
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "selftest")]
    seeds: Vec<u64>,
    /// Causes to leave out
    #[arg(long, value_name = "CAUSE,…", value_delimiter = ',')]
    silence: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  citius doctor houses.csv --target price           before a run
  citius doctor run.toml --budget 30s --apply       try fixes, and write run.fixed.toml
  citius doctor runs/houses-1                       after a run, or during one
  citius doctor large.toml --look 30s               a network whose steps take long
  citius doctor --causes                            what can be found
  citius doctor --selftest --json                   how well it finds what was put into programs

Exit codes: 0 nothing wrong, 1 something found, 2 could not be examined";

pub fn run(args: &DoctorArgs) -> Result<Done, Failure> {
    // 1 says that something is wrong with a training: whoever waits for that must not take a missing file for it
    examine(args).map_err(|failure| Failure::Usage(failure.to_string()))
}

/// Refuses to leave out a cause that there is not.
pub fn expect_causes(silence: &[String]) -> Result<(), Failure> {
    match silence.iter().find(|name| !causes::known(name)) {
        None => Ok(()),
        Some(unknown) => {
            Err(Failure::Usage(format!("silence: there is no cause {unknown:?}; citius doctor --causes lists them")))
        }
    }
}

fn examine(args: &DoctorArgs) -> Result<Done, Failure> {
    if args.causes {
        for cause in causes::ALL {
            line(Sink::Stdout, &format!("{:<28} {}", cause.name, cause.line));
        }
        return Ok(Done::Well);
    }
    if args.selftest {
        return selftest(args);
    }
    expect_causes(&args.silence)?;
    let sink = if args.json { Sink::Stderr } else { Sink::Stdout };
    let Subject { wishes, ledger, config } = Subject::of(args)?;
    expect_causes(wishes.silence.as_deref().unwrap_or_default())?;
    let cpu = args.wishes.machine.options()?;
    let waiting = Waiting::new();
    let progress = waiting.progress();
    let options = Options { cpu, look: args.look, silence: args.silence.clone(), progress, ..Options::default() };
    let mut examination = examine_run(&wishes, ledger, &options);
    // a configuration that cannot be read at all has nothing to show
    if let (Some(why), None, None) =
        (&examination.evidence.cannot_start, &examination.evidence.problem, &examination.evidence.ledger)
    {
        return Err(Failure::Usage(why.clone()));
    }
    if examination.serious().next().is_some() {
        try_fixes(&mut examination, args.budget, cpu, &options.progress);
    }
    waiting.pause();
    page(sink, examination.to_string().trim_end());
    if args.apply {
        apply(&examination, config.as_deref(), args.budget, cpu, &waiting, sink)?;
    }
    if args.json {
        screen::json(&examination.to_json().to_string());
    }
    let worst = examination.findings.iter().map(|f| f.severity).max();
    Ok(match (worst, &examination.evidence.cannot_start) {
        (Some(Severity::Warning | Severity::Fault), _) => Done::Badly,
        (_, Some(_)) => return Err(Failure::Usage("training cannot start as told; see above".into())),
        _ => Done::Well,
    })
}

/// Fails where fewer than nine of ten faults are told, fewer than nine of ten findings are right, fewer than eight of ten faults are told
/// first, a clean program raises an alarm, a tenth of the confirmed fixes do not hold on fresh seeds, or random changes are confirmed.
fn selftest(args: &DoctorArgs) -> Result<Done, Failure> {
    let sink = if args.json { Sink::Stderr } else { Sink::Stdout };
    let suite = if args.reduced { SelfTest::reduced() } else { SelfTest::full() };
    if let Some(unknown) = args.filter.iter().find(|name| !SelfTest::knows(name)) {
        return Err(Failure::Usage(format!("there is no cause or program {unknown:?}; see citius doctor --causes")));
    }
    let threads = match args.wishes.machine.threads {
        0 => suite.threads,
        given => threads_used(given),
    };
    let mut suite = SelfTest { only: args.filter.clone(), trial: suite.trial.min(args.budget), threads, ..suite };
    if !args.seeds.is_empty() {
        (suite.seeds, suite.clean_seeds) = (args.seeds.clone(), args.seeds.clone());
    }
    let outcome = suite.run(&|seen| page(sink, &seen.to_string())).map_err(|e| Failure::Failed(e.to_string()))?;
    line(sink, "");
    page(sink, outcome.to_string().trim_end());
    if args.json {
        screen::json(&outcome.json().to_string());
    }
    Ok(if outcome.passes() { Done::Well } else { Done::Badly })
}

/// Writes what trials confirmed. Several fixes are tried once more, together: where that is not confirmed, the likeliest alone is written.
fn apply(
    examination: &Examination,
    config: Option<&Path>,
    budget: Duration,
    cpu: citius_cpu::Options,
    waiting: &Waiting,
    sink: Sink,
) -> Result<(), Failure> {
    let mut fixed = mended(examination, usize::MAX).map_err(Failure::failed)?;
    if fixed.applied.len() > 1 {
        waiting.progress().tell("trying all fixes together", Some(budget));
        match try_again(examination, &fixed.fix, budget, cpu) {
            Ok(trial) if trial.verdict == Verdict::Confirmed => fixed.trial = Some(trial),
            _ => fixed = mended(examination, 1).map_err(Failure::failed)?,
        }
        waiting.pause();
    }
    line(sink, "");
    for left in &fixed.left {
        line(sink, &format!("  not applied {left}"));
    }
    if fixed.applied.is_empty() {
        line(sink, "  nothing to apply: only fixes that a trial confirmed are written");
        return Ok(());
    }
    let path = fixed_path(config, examination.evidence.wishes.source.as_deref());
    write(&path, &fixed).map_err(Failure::failed)?;
    for applied in &fixed.applied {
        line(sink, &format!("  applied   {applied}"));
    }
    if let Some(trial) = &fixed.trial {
        line(sink, &format!("  before → after  {}", trial.times()));
    }
    line(sink, &format!("  written   {}: train with  citius train --config {}", path.escaped(), shell_word(&path)));
    Ok(())
}

/// What to look at.
struct Subject {
    wishes: Wishes,
    ledger: Option<Ledger>,
    config: Option<PathBuf>,
}

impl Subject {
    fn of(args: &DoctorArgs) -> Result<Subject, Failure> {
        let usage = |problem: String| Failure::Usage(problem);
        let given = args.wishes.source.as_deref();
        if let Some(path) = given.filter(|p| p.extension().is_some_and(|e| e == "toml")) {
            let mut flags = args.wishes.flags();
            flags.source = None;
            let wishes = flags.or(Wishes::read(path)?);
            return Ok(Subject { wishes, ledger: None, config: Some(path.to_owned()) });
        }
        let is_run = |p: &&Path| {
            ["events.jsonl", "checkpoint.json", "model.json"].iter().any(|name| p.join(name).is_file())
                || (p.is_dir() && p.read_dir().is_ok_and(|mut entries| entries.next().is_none()))
        };
        if let Some(directory) = given.filter(is_run) {
            let (ledger, _) = Ledger::read(directory).map_err(usage)?;
            let mut flags = args.wishes.flags();
            flags.source = None;
            let wishes = flags.or(Ledger::wishes(directory).map_err(usage)?);
            return Ok(Subject { wishes, ledger: Some(ledger), config: None });
        }
        Ok(Subject { wishes: args.wishes.wishes()?, ledger: None, config: args.wishes.config.clone() })
    }
}

/// `30s`, `2min`, `500ms`, or seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit = match text[digits.len()..].trim() {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        other => return Err(format!("{other:?} is no unit of time; write it like 30s or 2min")),
    };
    match digits.parse::<f64>().map(|n| n * unit) {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a time like 30s or 2min".to_owned()),
    }
}
