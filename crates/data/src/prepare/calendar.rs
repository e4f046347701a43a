//! Dates and times as calendar features: the time elapsed, and the place in the year, the month, the week and the day.
//!
//! ```text
//! elapsed   seconds since 1970, scaled as a number is
//! year      sin and cos of 2πp and 4πp, p the share of the year that has passed: a season, and its shape
//! month     sin and cos of 2πp
//! week      one input for each weekday
//! day       sin and cos of 2πp and 4πp
//! ```
//!
//! Sine and cosine put the last of December beside the first of January. A cycle has inputs where the training rows cover
//! nearly a whole one: of half a year nobody can learn a season.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use super::moments::Moments;
use super::scale::{Scale, Scaling};
use crate::table::{Civil, DAY, DateFormat, DateOrder, days_in_month};
use crate::table::{Column, MISSING};

/// Share of a cycle that the training rows have to cover.
const COVERED: f64 = 0.95;
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// What is done with a column of dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dates {
    /// Calendar features.
    Calendar,
    /// Labels, as any text.
    Labels,
}

/// The calendar features of one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Calendar {
    format: DateFormat,
    elapsed: Scaling,
    cycles: Vec<Cycle>,
    /// For missing cells, in seconds since 1970; all inputs are 0 if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fill: Option<f64>,
    missing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Cycle {
    Year,
    Month,
    Week,
    Day,
}

impl Cycle {
    const ALL: [Cycle; 4] = [Cycle::Year, Cycle::Month, Cycle::Week, Cycle::Day];

    fn name(self) -> &'static str {
        match self {
            Cycle::Year => "year",
            Cycle::Month => "month",
            Cycle::Week => "week",
            Cycle::Day => "day",
        }
    }

    /// Its length in days.
    fn days(self) -> f64 {
        match self {
            Cycle::Year => 365.2425,
            Cycle::Month => 365.2425 / 12.0,
            Cycle::Week => 7.0,
            Cycle::Day => 1.0,
        }
    }

    /// Multiples of its frequency that have a sine and a cosine; a week has its days instead.
    fn harmonics(self) -> usize {
        match self {
            Cycle::Year | Cycle::Day => 2,
            Cycle::Month => 1,
            Cycle::Week => 0,
        }
    }

    fn width(self) -> usize {
        match self {
            Cycle::Week => WEEKDAYS.len(),
            _ => 2 * self.harmonics(),
        }
    }

    /// The share of it that has passed.
    fn position(self, civil: &Civil) -> f64 {
        let day = (civil.hour * 3600 + civil.minute * 60 + civil.second) as f64 / DAY;
        let year = || 337 + days_in_month(civil.year, 2);
        match self {
            Cycle::Year => (civil.day_of_year as f64 - 1.0 + day) / year() as f64,
            Cycle::Month => (civil.day as f64 - 1.0 + day) / days_in_month(civil.year, civil.month) as f64,
            Cycle::Week => civil.weekday as f64 / 7.0,
            Cycle::Day => day,
        }
    }

    fn write(self, civil: &Civil, input: &mut [f32]) {
        if self == Cycle::Week {
            input[civil.weekday as usize % 7] = 1.0;
            return;
        }
        let position = self.position(civil);
        for (harmonic, pair) in input.chunks_exact_mut(2).enumerate() {
            let (sin, cos) = (TAU * (harmonic + 1) as f64 * position).sin_cos();
            (pair[0], pair[1]) = (sin as f32, cos as f32);
        }
    }

    fn names(self, column: &str) -> Vec<String> {
        let name = self.name();
        let waves = (1..=self.harmonics()).flat_map(|harmonic| {
            let times = if harmonic == 1 { String::new() } else { format!("{harmonic} ") };
            ["sin", "cos"].map(|wave| format!("{column}=({wave} {times}{name})"))
        });
        match self {
            Cycle::Week => WEEKDAYS.iter().map(|day| format!("{column}={day}")).collect(),
            _ => waves.collect(),
        }
    }
}

impl Calendar {
    /// Of training rows with these labels; `None` if there are no two different times.
    pub(super) fn fit(
        format: DateFormat,
        labels: &[(&str, usize)],
        fill: Option<&str>,
        missing: bool,
        scale: Option<Scale>,
    ) -> Option<Calendar> {
        let times: Vec<(f64, usize)> =
            labels.iter().filter_map(|(label, rows)| Some((format.parse(label)?, *rows))).collect();
        let each = || times.iter().flat_map(|(time, rows)| std::iter::repeat_n(*time, *rows));
        let moments = Moments::of(each());
        if moments.count == 0 || moments.constant() {
            return None;
        }
        let elapsed = Scaling::fit(scale.unwrap_or(Scale::Standard), &moments, each());
        let days = (moments.max - moments.min) / DAY;
        let covered = |cycle: &Cycle| {
            let mut positions = times.iter().map(|(time, _)| cycle.position(&format.civil(*time)));
            let first = positions.next();
            days >= COVERED * cycle.days() && positions.any(|position| Some(position) != first)
        };
        let cycles = Cycle::ALL.into_iter().filter(covered).collect();
        let fill = fill.and_then(|label| format.parse(label));
        Some(Calendar { format, elapsed, cycles, fill, missing })
    }

    pub(super) fn width(&self) -> usize {
        1 + self.cycles.iter().map(|cycle| cycle.width()).sum::<usize>() + self.missing as usize
    }

    pub(super) fn names(&self, column: &str) -> Vec<String> {
        let elapsed = std::iter::once(format!("{column}=(elapsed)"));
        let cycles = self.cycles.iter().flat_map(|cycle| cycle.names(column));
        elapsed.chain(cycles).chain(self.missing.then(|| format!("{column}=(missing)"))).collect()
    }

    /// What the inputs are, for people.
    pub(super) fn remark(&self) -> String {
        let cycles: Vec<&str> = self.cycles.iter().map(|cycle| cycle.name()).collect();
        let order = match (self.format.ambiguous, self.format.order) {
            (true, DateOrder::MonthDayYear) => " (01/02/2024 is read as the 2nd of January; no cell says which)",
            (true, _) => " (01/02/2024 is read as the 1st of February; no cell says which)",
            (false, _) => "",
        };
        match &cycles[..] {
            [] => format!("dates{order}, taken as the time elapsed"),
            _ => format!("dates{order}, taken as the time elapsed and the place in {}", cycles.join(", ")),
        }
    }

    /// The error is the first row, counted from 0, whose cell is no date.
    pub(super) fn write<'o>(
        &self,
        column: &Column,
        cells: impl Iterator<Item = (usize, &'o mut [f32])>,
    ) -> Result<(), usize> {
        let (codes, labels) = column.labels();
        let times: Vec<Option<f64>> = labels.iter().map(|label| self.format.parse(label)).collect();
        for (row, input) in cells {
            let time = match codes[row] {
                MISSING => self.fill,
                code => Some(times[code as usize].ok_or(row)?),
            };
            if self.missing && codes[row] == MISSING {
                input[self.width() - 1] = 1.0;
            }
            let Some(time) = time else { continue };
            input[0] = self.elapsed.apply(time);
            let civil = self.format.civil(time);
            let mut offset = 1;
            for cycle in &self.cycles {
                cycle.write(&civil, &mut input[offset..offset + cycle.width()]);
                offset += cycle.width();
            }
        }
        Ok(())
    }

    /// What cells look like, for people.
    pub(super) fn form(&self) -> String {
        self.format.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Values;

    fn calendar(labels: &[&str]) -> Option<Calendar> {
        let format = DateFormat::of_column(labels.iter().copied()).unwrap();
        let counted: Vec<(&str, usize)> = labels.iter().map(|label| (*label, 1)).collect();
        Calendar::fit(format, &counted, None, false, None)
    }

    fn days(count: i64) -> Vec<String> {
        let format = DateFormat::of_column(["2023-01-31"].into_iter()).unwrap();
        (0..count).map(|day| format.write(1_672_531_200.0 + day as f64 * DAY)).collect()
    }

    fn of(labels: &[String]) -> Calendar {
        calendar(&labels.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
    }

    fn inputs(calendar: &Calendar, label: &str) -> Vec<f32> {
        let column = Column { name: "d".into(), values: Values::Text { codes: vec![0], labels: vec![label.into()] } };
        let mut row = vec![0.0; calendar.width()];
        calendar.write(&column, std::iter::once((0, &mut row[..]))).unwrap();
        row
    }

    #[test]
    fn cycles_that_the_rows_cover_have_inputs() {
        let named = |labels: &[String]| of(labels).cycles;
        assert_eq!(named(&days(3)), []);
        assert_eq!(named(&days(20)), [Cycle::Week]);
        assert_eq!(named(&days(100)), [Cycle::Month, Cycle::Week]);
        assert_eq!(named(&days(365)), [Cycle::Year, Cycle::Month, Cycle::Week]);
        let hours = ["2024-05-01 00:00", "2024-05-01 12:00", "2024-05-02 00:00"].map(str::to_owned);
        assert_eq!(named(&hours), [Cycle::Day]);
        // always on Mondays, always at noon
        let weekly: Vec<String> = days(100).into_iter().skip(1).step_by(7).map(|day| day + " 12:00").collect();
        assert_eq!(named(&weekly), [Cycle::Month]);
        assert!(calendar(&["2024-05-01", "2024-05-01"]).is_none());
    }

    #[test]
    fn places_in_their_cycles_by_hand() {
        let calendar = of(&days(365));
        let names = calendar.names("d");
        assert_eq!(names.len(), calendar.width());
        assert_eq!(names[..4], ["d=(elapsed)", "d=(sin year)", "d=(cos year)", "d=(sin 2 year)"]);
        assert_eq!(names[7..9], ["d=Monday", "d=Tuesday"]);
        // the first of January 2023 was a Sunday
        let new_year = inputs(&calendar, "2023-01-01");
        assert_eq!(new_year[1..], [0., 1., 0., 1., 0., 1., 0., 0., 0., 0., 0., 0., 1.]);
        let end = inputs(&calendar, "2023-12-31");
        assert!((end[1] + (TAU / 365.0).sin() as f32).abs() < 1e-6 && end[2] > 0.999);
        let mean = inputs(&calendar, "2023-07-02");
        assert!(mean[0].abs() < 1e-6 && (new_year[0] + end[0]).abs() < 1e-6);
        // a leap year's last day is as near to its end
        let leap = inputs(&calendar, "2024-12-31");
        assert!((leap[1] + (TAU / 366.0).sin() as f32).abs() < 1e-6);
    }

    #[test]
    fn what_is_no_date_is_the_error() {
        let calendar = of(&days(30));
        let labels = vec!["2023-01-05".to_owned(), "soon".to_owned()];
        let column = Column { name: "d".into(), values: Values::Text { codes: vec![0, MISSING, 1], labels } };
        let mut rows = vec![0.0; 3 * calendar.width()];
        let cells = rows.chunks_exact_mut(calendar.width()).enumerate();
        assert_eq!(calendar.write(&column, cells), Err(2));
    }
}
