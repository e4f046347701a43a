//! `citius bench`: full epochs of the workloads our peers are measured on, with the keys of their output.
//!
//! ```text
//! steps.rs     training steps
//! loader.rs    loading alone
//! workload.rs  the data
//! ```

mod loader;
mod steps;
mod workload;

use std::path::PathBuf;

use citius_cpu::Isa;
use citius_train::{Device, Precision, Workers};

use workload::Workload;

#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Option<Part>,
    #[command(flatten)]
    steps: StepArgs,
}

const EXAMPLES: &str = "Examples:
  citius bench
  citius bench --device cuda --workloads mnist
  citius bench loader";

#[derive(clap::Subcommand, Debug)]
enum Part {
    /// Time the loading of batches alone, without a model
    Loader(loader::LoaderArgs),
}

#[derive(clap::Args, Debug)]
pub struct StepArgs {
    /// What to run, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "regress,tabular,mnist")]
    pub workloads: Vec<Workload>,
    /// How a batch reaches the step
    #[arg(long, value_enum, default_value = "resident")]
    pub variant: Variant,
    /// With `--variant loader`: threads that fill batches besides the caller's, or auto
    #[arg(long, default_value = "auto")]
    pub workers: Workers,
    /// Where the steps run: cpu, cuda (an NVIDIA GPU), cuda:1 (the second), or auto, the faster of both
    #[arg(long, value_name = "auto|cpu|cuda|cuda:N", help_heading = "Machine", default_value = "cpu")]
    pub device: Device,
    /// Large products: fp32; on a GPU tf32, bf16 or fp16; bf16 also on processors that gain from it (AMX, AMD's AVX512-BF16)
    #[arg(long, default_value = "fp32", value_name = "fp32|tf32|bf16|fp16", help_heading = "Machine")]
    pub precision: Precision,
    /// Threads to use, at most one per core; 0 takes as many as turn out fastest
    #[arg(long, help_heading = "Machine", default_value_t = 0)]
    pub threads: usize,
    /// Seconds to spend on each workload
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Instruction set to use instead of the best one here
    #[arg(long, help_heading = "Machine", value_enum)]
    pub isa: Option<IsaName>,
    /// One JSON object per workload instead of the table
    #[arg(long)]
    pub json: bool,
    /// Directory of the four MNIST files; random pixels are used when there is none
    #[arg(long, value_name = "DIR")]
    pub mnist: Option<PathBuf>,
    /// Instead of the speed, what keeping account of the time costs: stretches of steps with and without it, in turns
    #[arg(long, conflicts_with_all = ["device", "variant"])]
    pub ledger_cost: bool,
}

/// How a batch reaches the step.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// All rows are an input of the step, which gathers a batch itself
    Resident,
    /// A loader writes each batch into the step's inputs
    Loader,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum IsaName {
    Portable,
    Avx2,
    Avx512,
    Amx,
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Variant::Resident => "resident",
            Variant::Loader => "loader",
        }
    }
}

pub fn run(args: &BenchArgs) -> Result<(), String> {
    match &args.command {
        Some(Part::Loader(args)) => loader::run(args),
        None => steps::run(&args.steps),
    }
}

impl IsaName {
    fn available(self) -> Result<Isa, String> {
        let isa = match self {
            IsaName::Portable => Isa::Portable,
            IsaName::Avx2 => Isa::Avx2,
            IsaName::Avx512 => Isa::Avx512,
            IsaName::Amx => Isa::Amx,
        };
        let here = Isa::available();
        match here.contains(&isa) {
            true => Ok(isa),
            false => Err(format!("this machine has no {isa}; the best it has is {}", Isa::detect())),
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_of_an_even_and_an_odd_number() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
