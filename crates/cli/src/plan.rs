//! `citius plan`: the compiled training step, with costs, without training.

use citius_nn::Module;
use citius_train::{Arrival, Training, count, plan_step};
use clap::Args;

use crate::args::WishArgs;
use crate::error::{Done, Failure};
use crate::screen::{self, Sink, line};

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    #[command(flatten)]
    wishes: WishArgs,
}

const EXAMPLES: &str = "Examples:
  citius plan
  citius plan houses.csv --target price --hidden 256,256 --batch-size 128";

pub fn run(args: &PlanArgs) -> Result<Done, Failure> {
    args.wishes.machine.options()?;
    let Training { problem, settings, choices, .. } = Training::new(args.wishes.wishes()?)?;
    screen::show_choices(Sink::Stdout, &choices);
    let form = problem.train.form();
    let model = settings.model(form.width, form.outputs());
    let batch = settings.batch_size.clamp(1, form.rows.max(1));
    let updates = settings.updates(form.rows, settings.epochs);
    let arrival = if problem.train.resident().is_some() { Arrival::Gathered } else { Arrival::Given };
    let plan = plan_step(&model, &settings, &form, arrival, batch, updates)?;
    let steps = form.rows.div_ceil(batch);
    line(Sink::Stdout, "");
    line(Sink::Stdout, &format!("{}: the step of {batch} rows, {} times an epoch", model.describe(), count(steps)));
    line(Sink::Stdout, "");
    line(Sink::Stdout, plan.to_string().trim_end());
    Ok(Done::Well)
}
