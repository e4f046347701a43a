//! The step between the rows of a series (pandas: `freq`): a number of seconds, business days, or months of the calendar.

use serde::{Deserialize, Serialize};

use super::TimeFormat;
use crate::table::{Civil, DAY, DateFormat, days_in_month};

/// Fewer times than this have no step that could be relied on.
const FEWEST: usize = 3;
/// How far from a whole number of steps two rows may be, in steps: clocks are not exact.
const JITTER: f64 = 0.2;
/// How far the mean step of a clock may be from the whole minutes that are meant, as a share of it.
const CLOCK: f64 = 0.01;
/// How far the most common step may be from the mean to be the step itself; a clock with jitter has many.
const EXACT: f64 = 0.001;
/// Share of rows that must follow the step.
const REGULAR: f64 = 0.9;
/// Weekdays alone are business days once this many rows have shown no weekend.
const FEWEST_BUSINESS_DAYS: usize = 10;

/// From one row to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeStep {
    /// Seconds, or units of a column of numbers.
    Units(f64),
    /// Days, without Saturdays and Sundays.
    BusinessDays,
    /// Months of the calendar, on the same day of each.
    Months(u32),
    /// The same on the last day of each.
    MonthEnds(u32),
}

impl TimeStep {
    /// The step that most of these times follow, which rise and differ; none where they are irregular.
    pub(super) fn detect(times: &[f64], format: &TimeFormat) -> Option<TimeStep> {
        if times.len() < FEWEST {
            return None;
        }
        let mut apart: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        apart.sort_by(f64::total_cmp);
        let median = apart[apart.len() / 2];
        if let TimeFormat::Date(format) = format {
            if median >= 28.0 * DAY
                && let Some(step) = months(times, format)
            {
                return Some(step);
            }
            let weekend = |time: &f64| format.civil(*time).weekday >= 5;
            if most_common(&apart, DAY * 1e-6) == DAY
                && times.len() >= FEWEST_BUSINESS_DAYS
                && apart.contains(&(3.0 * DAY))
                && !times.iter().any(weekend)
            {
                return Some(TimeStep::BusinessDays);
            }
        }
        let common = most_common(&apart, median * 1e-6);
        let alike = apart.iter().filter(|apart| (**apart - common).abs() <= median * 1e-6).count();
        let mean = mean(&apart, median);
        let exact = 2 * alike >= apart.len() && (mean / common - 1.0).abs() <= EXACT;
        let step = match format {
            _ if exact => common,
            TimeFormat::Number => median,
            TimeFormat::Date(_) => rounded(mean),
        };
        let follows = |apart: &&f64| (*apart / step - (*apart / step).round().max(1.0)).abs() <= JITTER;
        let regular = apart.iter().filter(follows).count();
        (step.is_finite() && step > 0.0 && regular as f64 >= REGULAR * apart.len() as f64)
            .then_some(TimeStep::Units(step))
    }

    /// Steps from one time to a later one.
    pub(super) fn between(self, from: f64, to: f64, format: &TimeFormat) -> f64 {
        match (self, format) {
            (TimeStep::Units(step), _) => (to - from) / step,
            (TimeStep::BusinessDays, TimeFormat::Date(format)) => {
                business_day(&format.civil(to)) - business_day(&format.civil(from))
            }
            (TimeStep::Months(months) | TimeStep::MonthEnds(months), TimeFormat::Date(format)) => {
                (month(&format.civil(to)) - month(&format.civil(from))) / f64::from(months.max(1))
            }
            // a number has no calendar
            _ => 1.0,
        }
    }

    /// The time some steps later.
    pub(super) fn after(self, time: f64, steps: usize, format: &TimeFormat) -> f64 {
        let TimeFormat::Date(format) = format else {
            let TimeStep::Units(step) = self else { return time };
            // 0.1 + 2 · 0.1 is meant to be 0.3
            let sum = time + step * steps as f64;
            let short: f64 = format!("{sum:.12e}").parse().unwrap_or(sum);
            return short;
        };
        // at most some hundred thousand years
        let count = i64::try_from(steps).unwrap_or(i64::MAX).min(1 << 22);
        let calendar = |move_: &dyn Fn(Civil) -> Civil| {
            let local = format.civil(time);
            time + (move_(local).seconds() - local.seconds())
        };
        match self {
            TimeStep::Units(step) => time + step * steps as f64,
            TimeStep::BusinessDays => {
                let days = |civil: Civil| {
                    let (weeks, weekday) = (count / 5, i64::from(civil.weekday.min(4)) + count % 5);
                    let days = weeks * 7 + count % 5 + if weekday >= 5 { 2 } else { 0 };
                    Civil::of(civil.seconds() + days as f64 * DAY)
                };
                calendar(&days)
            }
            TimeStep::Months(months) => calendar(&|civil| civil.plus_months(count * i64::from(months))),
            TimeStep::MonthEnds(months) => calendar(&|civil| {
                let later = Civil { day: 1, ..civil }.plus_months(count * i64::from(months));
                Civil::of(Civil { day: days_in_month(later.year, later.month), ..later }.seconds())
            }),
        }
    }

    /// Whether rows of the one may be taken for rows of the other.
    pub(super) fn is_like(self, other: TimeStep) -> bool {
        let alike = |a: f64, b: f64| (a / b - 1.0).abs() <= JITTER;
        // a week of business days may look like days, and a few months like a number of days
        alike(self.typical(), other.typical())
    }

    /// Seconds of a usual step, or units.
    pub(super) fn typical(self) -> f64 {
        match self {
            TimeStep::Units(step) => step,
            TimeStep::BusinessDays => DAY,
            TimeStep::Months(months) | TimeStep::MonthEnds(months) => f64::from(months) * 365.2425 / 12.0 * DAY,
        }
    }

    /// For people: `every 15 minutes`.
    pub fn described(self, format: &TimeFormat) -> String {
        let every = |count: f64, unit: &str| match count {
            1.0 => format!("every {unit}"),
            count => format!("every {count} {unit}s"),
        };
        match self {
            TimeStep::BusinessDays => "every business day".to_owned(),
            TimeStep::Months(months) if months % 12 == 0 => every(f64::from(months / 12), "year"),
            TimeStep::Months(months) => every(f64::from(months), "month"),
            TimeStep::MonthEnds(months) => every(f64::from(months), "month") + ", on the last day",
            TimeStep::Units(step) if *format == TimeFormat::Number => format!("every {step}"),
            TimeStep::Units(step) => {
                let units = [(7.0 * DAY, "week"), (DAY, "day"), (3600.0, "hour"), (60.0, "minute")];
                match units.into_iter().find(|(unit, _)| (step / unit).fract() == 0.0) {
                    Some((unit, name)) => every(step / unit, name),
                    None => every(step, "second"),
                }
            }
        }
    }

    /// Steps after which values are commonly alike: a day of hours, a week of days, a year of months.
    pub fn season(self, format: &TimeFormat) -> Option<usize> {
        match self {
            TimeStep::BusinessDays => Some(5),
            TimeStep::Months(months) | TimeStep::MonthEnds(months) => {
                (months < 12 && 12 % months.max(1) == 0).then(|| 12 / months.max(1) as usize)
            }
            TimeStep::Units(step) if matches!(format, TimeFormat::Date(_)) => {
                let whole = |of: f64| (of / step).fract().abs() < 1e-9 && of / step >= 2.0;
                let cycle = [DAY, 7.0 * DAY].into_iter().find(|cycle| whole(*cycle))?;
                Some((cycle / step).round() as usize)
            }
            TimeStep::Units(_) => None,
        }
    }
}

/// The difference that occurs most often, the smallest of several; `apart` rises, and what is nearer than `alike` is the same.
fn most_common(apart: &[f64], alike: f64) -> f64 {
    let mut best: &[f64] = &[];
    for run in apart.chunk_by(|a, b| b - a <= alike) {
        best = if run.len() > best.len() { run } else { best };
    }
    best.get(best.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The mean step where some differences are several steps, each about `median`.
fn mean(apart: &[f64], median: f64) -> f64 {
    apart.iter().sum::<f64>() / apart.iter().map(|apart| (apart / median).round().max(1.0)).sum::<f64>()
}

/// Whole days, hours, minutes or seconds where a step is meant to be.
fn rounded(step: f64) -> f64 {
    let whole = |unit: f64| (step / unit).round() * unit;
    let near = |unit: &f64| whole(*unit) > 0.0 && (step - whole(*unit)).abs() <= CLOCK * step;
    [DAY, 3600.0, 60.0, 1.0].into_iter().find(near).map_or(step, whole)
}

/// Months from row to row, where all are at the same time of the same day, or of the last of a month.
fn months(times: &[f64], format: &DateFormat) -> Option<TimeStep> {
    let civil: Vec<Civil> = times.iter().map(|time| format.civil(*time)).collect();
    let clock = |civil: &Civil| (civil.hour, civil.minute, civil.second);
    let is_end = |civil: &Civil| civil.day == days_in_month(civil.year, civil.month);
    if civil.iter().any(|other| clock(other) != clock(&civil[0])) {
        return None;
    }
    let mut apart: Vec<f64> = civil.windows(2).map(|pair| month(&pair[1]) - month(&pair[0])).collect();
    apart.sort_by(f64::total_cmp);
    let months = most_common(&apart, 0.0);
    let whole = apart.iter().all(|apart| *apart >= 1.0 && (apart / months).fract() == 0.0);
    if !(1.0..=1200.0).contains(&months) || !whole {
        return None;
    }
    // 28 February is the last day, and no more than the 28th: other months settle it
    match (civil.iter().all(|other| other.day == civil[0].day), civil.iter().all(is_end)) {
        (true, false) => Some(TimeStep::Months(months as u32)),
        (_, true) => Some(TimeStep::MonthEnds(months as u32)),
        (false, false) => None,
    }
}

/// Months since year 0.
fn month(civil: &Civil) -> f64 {
    (civil.year * 12 + i64::from(civil.month) - 1) as f64
}

/// Days since 1970, Saturdays and Sundays not counted.
fn business_day(civil: &Civil) -> f64 {
    let day = (Civil { hour: 0, minute: 0, second: 0, ..*civil }.seconds() / DAY) as i64;
    // day 0 was a Thursday; weeks begin on Mondays
    ((day + 3).div_euclid(7) * 5 + i64::from(civil.weekday.min(5))) as f64
}
