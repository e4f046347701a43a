//! `citius train`: from a file to a saved model.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, scope};

use citius_data::shell_word;
use citius_train::{Device, Ending, Input, Problem, Report, RowsFrom, RunOptions, Training, check_out};
use clap::Args;

use crate::args::WishArgs;
use crate::doctor::expect_causes;
use crate::error::{Done, Failure};
use crate::screen::{self, Screen, Sink, line};

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TrainArgs {
    #[command(flatten)]
    wishes: WishArgs,
    /// Directory for the model [default: runs/<source>-<n>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the run that is in the directory of --out
    #[arg(long, requires = "out")]
    force: bool,
    /// Go on with the interrupted run in this directory, exactly as if it had not been
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "config"])]
    resume: Option<PathBuf>,
    /// Epochs between checkpoints [default: one every 10 seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint_every: Option<u32>,
    /// Print the result as one JSON object, the last line of stdout; text for people goes to stderr
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  citius train
  citius train houses.csv --target price
  citius train wine.csv --hidden 128,64 --epochs 200 --lr 1e-3
  citius train data.txt --train-rows train.txt --test-rows test.txt --json
  citius train mnist/ --batch-size 256
  citius train mnist/ --device cuda
  citius train cifar10/ --model resnet-9 --augment random-crop=4,horizontal-flip
  citius train hourly.csv --target load --horizon 24
  citius train shakespeare.txt --model gpt --device cuda --precision bf16
  citius train flowers/ --model resnet-18 --size 224 --weights resnet18.safetensors --freeze body
  citius train --resume runs/houses-1

A file of settings says more than flags can: layers one by one, inits, heads, reductions, modes. All of it is in docs/settings.md:
  model = { name = \"vgg\", channels = [16, 32] }       sizes of a network
  loss = { name = \"mse\", reduction = \"sum\" }
  layers = [{ units = 64, norm = \"batch\" }, { units = 64, activation = \"tanh\", init = \"xavier-normal\" }]";

pub fn run(args: &TrainArgs) -> Result<Done, Failure> {
    let sink = if args.json { Sink::Stderr } else { Sink::Stdout };
    let options = RunOptions {
        out: args.out.clone(),
        force: args.force,
        device: args.wishes.machine.device,
        cpu: args.wishes.machine.options()?,
        checkpoint_every: args.checkpoint_every.map(|n| n as usize),
    };
    if let Some(out) = &args.out {
        check_out(out, args.force)?;
    }
    let mut opening = None;
    let training = match &args.resume {
        None => {
            let wishes = args.wishes.wishes()?;
            expect_causes(wishes.silence.as_deref().unwrap_or_default())?;
            opening = Opening::begin(wishes.device);
            Training::new(wishes)?
        }
        Some(directory) => {
            let free = |flag: &String| ["--source", "--device"].contains(&flag.as_str());
            let changed: Vec<String> = args.wishes.flags().given().into_iter().filter(|flag| !free(flag)).collect();
            if !changed.is_empty() {
                let flags = changed.join(", ");
                let problem = format!("a resumed run goes on as it began: leave out {flags}, or start a new run");
                return Err(Failure::Usage(problem));
            }
            Training::resume(directory, args.wishes.source.clone())?
        }
    };
    let stop = interruption()?;
    let _open = opening.map(Opening::wait);
    let report = scope(|scope| {
        let mut watch = citius_doctor::Watch::new(scope, &training.problem, training.wishes(), &training.settings);
        training.run_watched(&options, &mut Screen::new(sink), &mut watch, &stop)
    })?;
    screen::show_report(sink, &report);
    screen::show_ending(sink, &report);
    if report.ending != Ending::Interrupted {
        show_next(sink, &report, &training.problem);
    }
    if args.json {
        let text = serde_json::to_string(&report).map_err(|e| Failure::Failed(e.to_string()))?;
        screen::json(&text);
    }
    Ok(match report.ending {
        Ending::Completed | Ending::EarlyStopped => Done::Well,
        Ending::Diverged(_) => Done::Badly,
        Ending::Interrupted => Done::Interrupted,
    })
}

/// A GPU and its compiler, which take a while to open and can do so while the data is read. What keeps them from opening is said when
/// they are used.
struct Opening {
    device: Option<JoinHandle<Option<Arc<citius_cuda::Device>>>>,
    compiler: Option<JoinHandle<()>>,
}

impl Opening {
    fn begin(device: Option<Device>) -> Option<Opening> {
        let Some(Device::Cuda(index)) = device else { return None };
        Some(Opening {
            device: Some(std::thread::spawn(move || citius_cuda::Device::open(index).ok())),
            compiler: Some(std::thread::spawn(citius_cuda::load_compiler)),
        })
    }

    /// The GPU, to be kept open; the compiler may take its time.
    fn wait(mut self) -> (Option<Arc<citius_cuda::Device>>, Opening) {
        let device = self.device.take().and_then(|opening| opening.join().ok()).flatten();
        (device, self)
    }
}

impl Drop for Opening {
    /// A program must not end while a library is being loaded.
    fn drop(&mut self) {
        let _ = self.device.take().map(JoinHandle::join);
        let _ = self.compiler.take().map(JoinHandle::join);
    }
}

/// A flag that Ctrl-C sets; pressed again, it ends the program at once.
pub fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .map_err(|e| Failure::Failed(format!("cannot listen for Ctrl-C: {e}")))?;
    Ok(stop)
}

fn show_next(sink: Sink, report: &Report, problem: &Problem) {
    if let Ending::Diverged(_) = report.ending {
        return;
    }
    line(sink, "");
    if problem.embedded {
        let accuracy = report.test.accuracy.unwrap_or(0.0) * 100.0;
        line(
            sink,
            &format!(
                "  {accuracy:.2}% of the test digits are recognised, after {} of training.",
                screen::seconds(report.seconds)
            ),
        );
        line(sink, "  The same network and settings took 22.67 s in plain PyTorch, and 9.00 s tuned, on an RTX 4090:");
        line(sink, "  an article's figures, on MNIST and another machine, so a landmark and not a race.");
        line(sink, "");
        line(sink, "  Next");
        line(sink, "    citius train your.csv --target COLUMN    a model of your own data");
        line(sink, "    citius train --hidden 256,128            a larger network on the same digits");
        line(sink, "    citius plan                              the compiled step, with its costs");
        return;
    }
    let (new, labelled) = match &problem.input {
        Input::Table { .. } => ("NEW.csv", "LABELLED.csv"),
        Input::Images { .. } => ("IMAGES-idx3-ubyte.gz", "MNIST-DIRECTORY"),
        Input::Rows(rows) => match rows.from {
            RowsFrom::Pictures { .. } => ("PICTURE-OR-FOLDER", "FOLDER-PER-CLASS"),
            RowsFrom::Series { .. } => ("UNTIL-NOW.csv", "LATER.csv"),
            RowsFrom::Text { .. } => ("OTHER.txt", "OTHER.txt"),
            RowsFrom::Tokens { .. } => ("--prompt \"Once \"", "OTHER.txt"),
            RowsFrom::Cifar => ("CIFAR-DIRECTORY", "CIFAR-DIRECTORY"),
            RowsFrom::Packed => ("NEW.citius", "LABELLED.citius"),
            RowsFrom::Own => return,
        },
    };
    line(sink, "  Next");
    line(sink, &format!("    citius predict {} {new}", shell_word(&report.out)));
    line(sink, &format!("    citius eval {} {labelled}", shell_word(&report.out)));
}
