//! The schedule as text: printed by `citius plan --device cuda`, compared in tests.

use std::fmt;

use citius_plan::Plan;

use super::{Cut, Fibre, Schedule, Step, Team};

/// A schedule together with the plan it runs.
pub struct Dump<'a>(pub &'a Schedule, pub &'a Plan);

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Dump(schedule, plan) = self;
        for (n, level) in schedule.levels.iter().enumerate() {
            writeln!(f, "level {n}")?;
            level.iter().try_for_each(|fibre| write_fibre(f, fibre, plan))?;
        }
        let ahead = schedule.ahead.iter().map(|b| (b, "next"));
        for (beside, whose) in ahead.chain(schedule.behind.iter().map(|b| (b, "last"))) {
            writeln!(f, "beside level {}, of the {whose} step", beside.level)?;
            beside.stages.iter().flatten().try_for_each(|fibre| write_fibre(f, fibre, plan))?;
        }
        if schedule.by_levels() {
            return writeln!(f, "one step at a time, a launch for each level and each product");
        }
        let Team { blocks, groups, threads } = schedule.team;
        let barriers = schedule.barriers();
        writeln!(f, "many steps at a time by {blocks} × {groups} × {threads} threads, {barriers} barriers a step")
    }
}

fn write_fibre(f: &mut fmt::Formatter, fibre: &Fibre, plan: &Plan) -> fmt::Result {
    let units = match fibre.cut {
        Cut::Rows { rows, per_unit } => format!("{rows} rows in {} units", rows.div_ceil(per_unit)),
        Cut::Tiles { tile, units } => format!("{units} tiles of {}×{}", tile.rows, tile.cols),
        Cut::Tensor { tile, units } => format!("{units} tiles of {}×{} on matrix units", tile.rows, tile.cols),
        Cut::Blocks { count, on_units: false } => format!("{count} blocks"),
        Cut::Blocks { count, on_units: true } => format!("{count} blocks on matrix units"),
        Cut::Own { units } => format!("{units} units"),
        Cut::Library => "cuBLASLt".to_owned(),
    };
    writeln!(f, "  {units}")?;
    for step in &fibre.steps {
        match *step {
            Step::Call(i) => writeln!(f, "    {:<36} {}", plan.calls[i].work.shape(), plan.calls[i].label)?,
            Step::Combine(i) => writeln!(f, "    {:<36} {}", "combine", plan.calls[i].label)?,
        }
    }
    Ok(())
}
