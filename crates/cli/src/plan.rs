//! `citius plan`: the compiled training step, with costs, without training.

use citius_cpu::Isa;
use citius_cuda::{Chip, CudaError, Dump, Estimate};
use citius_nn::Module;
use citius_plan::{Plan, Work};
use citius_train::{Arrival, Device, Precision, TrainError, Training, count, plan_step};
use clap::Args;

use crate::args::WishArgs;
use crate::error::{Done, Failure};
use crate::screen::{self, Sink, line, page};

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    #[command(flatten)]
    wishes: WishArgs,
}

const EXAMPLES: &str = "Examples:
  citius plan
  citius plan houses.csv --target price --hidden 256,256 --batch-size 128
  citius plan --precision bf16                      which products a processor does in 16 bits
  citius plan --device cuda                         and how a GPU runs it; works without one";

pub fn run(args: &PlanArgs) -> Result<Done, Failure> {
    let options = args.wishes.machine.options()?;
    let wishes = args.wishes.wishes()?;
    // nothing is timed here, so what is left open is the processor
    let device = wishes.device.unwrap_or(Device::Cpu);
    let Training { problem, settings, choices, .. } = Training::new(wishes)?;
    screen::show_choices(Sink::Stdout, &choices);
    let form = problem.train.form();
    let model = settings.model_for(device, form.width, form.outputs())?;
    let batch = settings.batch_size.clamp(1, form.rows.max(1));
    let updates = settings.updates(form.rows, settings.epochs);
    let plan = plan_step(model.as_ref(), &settings, &form, Arrival::of(&problem.train), batch, updates)?;
    let steps = form.rows.div_ceil(batch);
    line(Sink::Stdout, "");
    line(Sink::Stdout, &format!("{}: the step of {batch} rows, {} times an epoch", model.describe(), count(steps)));
    line(Sink::Stdout, "");
    for warning in &plan.warnings {
        line(Sink::Stdout, &format!("warning: {warning}"));
    }
    let (plan, halves) = match (device, settings.precision) {
        (Device::Cpu, Precision::Bf16) => in_halves(plan),
        (Device::Cpu, _) => in_thirds(plan, options.isa),
        _ => (plan, None),
    };
    page(Sink::Stdout, plan.to_string().trim_end());
    if let Some(halves) = halves {
        line(Sink::Stdout, "");
        line(Sink::Stdout, &halves);
    }
    if let Device::Cuda(index) = device {
        let (name, chip) = gpu(index)?;
        line(Sink::Stdout, "");
        line(Sink::Stdout, &name);
        line(Sink::Stdout, "");
        page(Sink::Stdout, &on_a_gpu(&plan, chip, settings.precision));
    }
    Ok(Done::Well)
}

/// The plan as the processor runs it in bfloat16, and what that means.
fn in_halves(plan: Plan) -> (Plan, Option<String>) {
    if !citius_cpu::gains_from_halves() {
        let text = "bf16: this processor is no faster in 16 bits, so everything is computed in 32";
        return (plan, Some(text.into()));
    }
    let all = plan.calls.iter().filter(|call| matches!(call.work, Work::Matmul(_))).count();
    let flops = plan.total().flops.max(1);
    let halved = citius_cpu::halved(plan);
    let share = 100.0 * halved.flops as f64 / flops as f64;
    let text = format!(
        "bf16: {} of {all} products, {share:.0}% of the arithmetic, in 16 bits with sums in 32; for the others rounding and packing \
         would cost more than it saves",
        halved.products
    );
    (halved.plan, Some(text))
}

/// The plan as the processor runs it in 32 bits, and what is special about that.
fn in_thirds(plan: Plan, isa: Option<Isa>) -> (Plan, Option<String>) {
    let all = plan.calls.iter().filter(|call| matches!(call.work, Work::Matmul(_))).count();
    let flops = plan.total().flops.max(1);
    let thirds = citius_cpu::in_thirds(plan, isa.unwrap_or_else(Isa::detect));
    let share = 100.0 * thirds.flops as f64 / flops as f64;
    let text = format!(
        "fp32: {} of {all} products, {share:.0}% of the arithmetic, on matrix units, each number as the sum of three bfloat16: as exact \
         as in 32 bits",
        thirds.products
    );
    (thirds.plan, (thirds.products > 0).then_some(text))
}

/// Of an H200.
const H200: Chip = Chip { multiprocessors: 132, capability: (9, 0) };

/// The GPU that the step is scheduled for, in words, and its size.
fn gpu(index: usize) -> Result<(String, Chip), TrainError> {
    match citius_cuda::Device::open(index) {
        Ok(gpu) => {
            let name = format!("on the {}, {} multiprocessors", gpu.name, gpu.multiprocessors);
            Ok((name, gpu.chip()))
        }
        Err(error @ CudaError::NoSuchDevice { .. }) => Err(error.into()),
        Err(_) => {
            let name = format!(
                "as an H200 would run it, {} multiprocessors; there is no GPU to ask here",
                H200.multiprocessors
            );
            Ok((name, H200))
        }
    }
}

/// The schedule, and what it may take.
fn on_a_gpu(plan: &Plan, chip: Chip, precision: Precision) -> String {
    let options = citius_cuda::Options { precision, ..Default::default() };
    let scheduled = citius_cuda::schedule(plan, chip, &|blocks| blocks.min(chip.multiprocessors), options);
    format!("{}{}", Dump(&scheduled.schedule, &scheduled.plan), Estimate::of(&scheduled, precision))
}
