use citius_graph::Graph;
use citius_nn::schedules::{Cosine, Exponential, OneCycle, Step, Warmup};
use citius_nn::{Plateau, Schedule, ScheduleConfig};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::load;
use crate::compare::assert_none;
use crate::{Evaluate, Tolerance, Values, compare};

#[derive(Deserialize)]
struct File {
    base_lr: f64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    schedule: String,
    args: Map<String, Value>,
    rates: Vec<f64>,
    metrics: Option<Vec<f64>>,
}

/// The rate at each step of every schedule.
#[track_caller]
pub fn schedules(executor: &dyn Evaluate, tolerance: Tolerance) {
    let file = load::<File>("schedules");
    let run = |case: &Case| {
        let rates = match &case.metrics {
            Some(metrics) => plateau(case, file.base_lr, metrics),
            None => rates(case, file.base_lr, executor),
        };
        let result = rates.and_then(|rates| compare(&rates, &case.rates, tolerance));
        result.err().map(|e| format!("{}: {e}", case.schedule))
    };
    let failures = file.cases.iter().filter_map(run).collect();
    assert_none(&format!("golden schedules on {}", executor.name()), file.cases.len(), failures);
}

fn rates(case: &Case, base: f64, executor: &dyn Evaluate) -> Result<Vec<f64>, String> {
    let g = Graph::new();
    g.output("rate", &by_pytorchs_name(case)?.rate(base, &g.step()));
    let outputs = executor.run(&g, &Values::new(), &vec![Values::new(); case.rates.len()])?;
    Ok(outputs.iter().map(|o| o["rate"][0]).collect())
}

fn plateau(case: &Case, base: f64, metrics: &[f64]) -> Result<Vec<f64>, String> {
    let number = |key: &str| case.args.get(key).and_then(Value::as_f64).ok_or(format!("no {key}"));
    let rule = Plateau {
        factor: number("factor")?,
        patience: number("patience")? as usize,
        threshold: number("threshold")?,
        ..Plateau::default()
    };
    let mut watch = rule.watch(base);
    let mut rates = vec![base];
    for &metric in metrics {
        watch.observe(metric);
        rates.push(base * watch.scale());
    }
    Ok(rates)
}

fn by_pytorchs_name(case: &Case) -> Result<ScheduleConfig, String> {
    let number = |key: &str| case.args.get(key).and_then(Value::as_f64).ok_or(format!("no {key}"));
    Ok(match case.schedule.as_str() {
        "constant" => ScheduleConfig::Constant,
        "step" => ScheduleConfig::Step(Step { step_size: number("step_size")? as usize, gamma: number("gamma")? }),
        "exponential" => ScheduleConfig::Exponential(Exponential { gamma: number("gamma")? }),
        "cosine" => {
            ScheduleConfig::Cosine(Cosine { t_max: Some(number("T_max")? as usize), eta_min: number("eta_min")? })
        }
        "one_cycle" => ScheduleConfig::OneCycle(OneCycle {
            total_steps: Some(number("total_steps")? as usize),
            pct_start: number("pct_start")?,
            div_factor: number("div_factor")?,
            final_div_factor: number("final_div_factor")?,
        }),
        "warmup" => ScheduleConfig::Warmup(Warmup {
            steps: number("total_iters")? as usize,
            start_factor: number("start_factor")?,
            then: Box::new(ScheduleConfig::Constant),
        }),
        other => return Err(format!("no schedule {other}")),
    })
}
