//! Dates and times in text: the format of a column is detected over all its values, parsed to seconds and written back.
//!
//! | form | examples |
//! |---|---|
//! | ISO 8601 | `2024-01-31`, `2024-01-31T18:30:00.25Z`, `2024-01-31 18:30+01:00`, `2024/01/31`, `2024-01` |
//! | day first | `31.01.2024`, `31/01/2024 18:30`, `31-01-2024` |
//! | month first | `01/31/2024`, `1/31/2024 6:30 PM` |
//! | month by name | `31 Jan 2024`, `31-Jan-2024`, `Jan 31, 2024`, `January 2024` |
//! | compact | `20240131`, for [`DateFormat::of_named_column`] alone, as any whole number may look like it |
//!
//! A year has four digits, or two behind day and month: `31/12/99` is 1999, `1/31/24` is 2024, as POSIX has it. Whether day or month comes first in `01/02/2024` is decided by the whole column.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

/// Seconds of a day.
pub const DAY: f64 = 86_400.0;

/// How a column writes its dates and times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DateFormat {
    pub order: DateOrder,
    /// Between the parts of a date; none in the compact form.
    pub separator: Option<char>,
    /// Whether a comma stands before the year.
    #[serde(default)]
    pub comma: bool,
    pub month: MonthStyle,
    /// Whether the day is written; if not, a date is the first day of its month.
    pub day: bool,
    /// Whether numbers below 10 begin with a zero.
    pub padded: bool,
    /// Whether a year is written with its last two digits.
    #[serde(default)]
    pub short_year: bool,
    pub clock: Option<ClockFormat>,
    /// No value says whether day or month comes first; `order` is an assumption.
    #[serde(default)]
    pub ambiguous: bool,
}

/// The order of the parts of a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DateOrder {
    YearMonthDay,
    DayMonthYear,
    MonthDayYear,
}

/// How a month is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MonthStyle {
    Number,
    /// `Jan`; with capitals `JAN`.
    Short {
        capitals: bool,
    },
    /// `January`; with capitals `JANUARY`.
    Full {
        capitals: bool,
    },
}

/// How the time of a day is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockFormat {
    /// `T` or a space before it.
    pub separator: char,
    /// Whether an hour below 10 begins with a zero.
    pub padded: bool,
    pub seconds: bool,
    /// Digits of a second, at most 6: what seconds since 1970 hold as a floating-point number.
    pub fraction: u8,
    pub half_day: Option<HalfDay>,
    pub zone: Option<ZoneFormat>,
}

/// How `am` and `pm` are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HalfDay {
    pub capitals: bool,
    pub space: bool,
}

/// How the offset from UTC is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneFormat {
    pub style: ZoneStyle,
    pub space: bool,
    /// Seconds east of UTC; 0 where the values of the column differ, which are then written in UTC.
    pub offset: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneStyle {
    /// `Z`
    Z,
    /// `UTC`
    Utc,
    /// `+01:00`
    Colon,
    /// `+0100`
    Compact,
    /// `+01`
    Hours,
}

/// The parts of a moment in the proleptic Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Civil {
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    /// The fraction is dropped.
    pub second: u32,
    /// 0 is Monday, 6 is Sunday.
    pub weekday: u32,
    /// 1 to 366.
    pub day_of_year: u32,
}

impl DateFormat {
    /// The format in which all the values are dates; none where one of them is not, or where there are none.
    pub fn of_column<'a>(values: impl Iterator<Item = &'a str>) -> Option<DateFormat> {
        Self::detect(values).filter(|format| format.separator.is_some())
    }

    /// The same for a column that is known to hold dates, which may be compact: `20240131`.
    pub fn of_named_column<'a>(values: impl Iterator<Item = &'a str>) -> Option<DateFormat> {
        Self::detect(values)
    }

    fn detect<'a>(mut values: impl Iterator<Item = &'a str>) -> Option<DateFormat> {
        let first = Scanned::of(values.next()?)?;
        let mut evidence = Evidence::begin(&first)?;
        for value in values {
            evidence.add(&Scanned::of(value)?)?;
        }
        evidence.conclude()
    }

    /// Seconds since the beginning of 1970, in UTC where the column has zones. A time of day may be missing or have other digits.
    pub fn parse(&self, text: &str) -> Option<f64> {
        let scanned = Scanned::of(text)?;
        let number = |style: MonthStyle| style == MonthStyle::Number;
        let order_fits = match scanned.order {
            Some(order) => order == self.order,
            None => self.order != DateOrder::YearMonthDay,
        };
        let fits = order_fits
            && (scanned.separator, scanned.comma, scanned.day) == (self.separator, self.comma, self.day)
            && scanned.short_year == self.short_year
            && number(scanned.month) == number(self.month);
        let zoned = self.clock.as_ref().is_some_and(|clock| clock.zone.is_some());
        let zone_fits = scanned.clock.as_ref().map_or(!zoned, |clock| clock.format.zone.is_some() == zoned);
        (fits && zone_fits).then(|| scanned.seconds(self.order)).flatten()
    }

    /// Seconds since 1970 as the column writes them. What its values never had, such as seconds, is added where it is not 0;
    /// of a column without days, the month alone is written. Empty for what is not finite.
    pub fn write(&self, seconds: f64) -> String {
        if !seconds.is_finite() {
            return String::new();
        }
        let parts = Parts::of(seconds + self.offset());
        let mut out = String::new();
        // writing into a string does not fail
        let _ = self.write_date(&mut out, &parts.civil);
        let _ = self.write_clock(&mut out, &parts);
        out
    }

    /// The parts of a moment in the zone of the column.
    pub fn civil(&self, seconds: f64) -> Civil {
        Civil::of(seconds + self.offset())
    }

    /// The same dates with day and month exchanged, where the column leaves open which comes first.
    pub fn exchanged(&self) -> Option<DateFormat> {
        let order = match (self.ambiguous, self.order) {
            (true, DateOrder::DayMonthYear) => DateOrder::MonthDayYear,
            (true, DateOrder::MonthDayYear) => DateOrder::DayMonthYear,
            _ => return None,
        };
        Some(DateFormat { order, ..self.clone() })
    }

    fn offset(&self) -> f64 {
        let zone = self.clock.as_ref().and_then(|clock| clock.zone);
        zone.map_or(0.0, |zone| f64::from(zone.offset))
    }

    fn write_date(&self, out: &mut String, civil: &Civil) -> fmt::Result {
        let two = |number: u32| if self.padded { format!("{number:02}") } else { number.to_string() };
        let month = match self.month {
            MonthStyle::Number => two(civil.month),
            MonthStyle::Short { capitals } => cased(&MONTHS[civil.month as usize - 1][..3], capitals),
            MonthStyle::Full { capitals } => cased(MONTHS[civil.month as usize - 1], capitals),
        };
        let year = match self.short_year {
            true => format!("{:02}", civil.year.rem_euclid(100)),
            false => format!("{:04}", civil.year),
        };
        let day = two(civil.day);
        let Some(separator) = self.separator else {
            return write!(out, "{year}{:02}{:02}", civil.month, civil.day);
        };
        let comma = if self.comma { "," } else { "" };
        match (self.order, self.day) {
            (DateOrder::YearMonthDay, true) => write!(out, "{year}{separator}{month}{separator}{day}"),
            (DateOrder::YearMonthDay, false) => write!(out, "{year}{separator}{month}"),
            (DateOrder::DayMonthYear, _) => write!(out, "{day}{separator}{month}{comma}{separator}{year}"),
            (DateOrder::MonthDayYear, true) => write!(out, "{month}{separator}{day}{comma}{separator}{year}"),
            (DateOrder::MonthDayYear, false) => write!(out, "{month}{comma}{separator}{year}"),
        }
    }

    fn write_clock(&self, out: &mut String, parts: &Parts) -> fmt::Result {
        let (civil, micros) = (&parts.civil, parts.micros);
        let midnight = (civil.hour, civil.minute, civil.second, micros) == (0, 0, 0, 0);
        let plain =
            ClockFormat { separator: ' ', padded: true, seconds: false, fraction: 0, half_day: None, zone: None };
        let format = match &self.clock {
            None if midnight || !self.day => return Ok(()),
            None => &plain,
            Some(format) => format,
        };
        let hour = match format.half_day {
            Some(_) => (civil.hour + 11) % 12 + 1,
            None => civil.hour,
        };
        out.push(format.separator);
        match format.padded {
            true => write!(out, "{hour:02}:{:02}", civil.minute)?,
            false => write!(out, "{hour}:{:02}", civil.minute)?,
        }
        if format.seconds || civil.second != 0 || micros != 0 {
            write!(out, ":{:02}", civil.second)?;
        }
        let digits = format!("{micros:06}");
        let needed = digits.trim_end_matches('0').len().max(format.fraction as usize).min(6);
        if needed > 0 {
            write!(out, ".{}", &digits[..needed])?;
        }
        if let Some(HalfDay { capitals, space }) = format.half_day {
            let half = if civil.hour < 12 { "am" } else { "pm" };
            let half = if capitals { half.to_uppercase() } else { half.to_owned() };
            write!(out, "{}{half}", if space { " " } else { "" })?;
        }
        let Some(ZoneFormat { style, space, offset }) = format.zone else { return Ok(()) };
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
        out.push_str(if space { " " } else { "" });
        match style {
            ZoneStyle::Z | ZoneStyle::Utc if offset == 0 => {
                out.push_str(if style == ZoneStyle::Z { "Z" } else { "UTC" });
                Ok(())
            }
            ZoneStyle::Compact => write!(out, "{sign}{:02}{:02}", minutes / 60, minutes % 60),
            ZoneStyle::Hours if minutes.is_multiple_of(60) => write!(out, "{sign}{:02}", minutes / 60),
            _ => write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60),
        }
    }
}

impl fmt::Display for DateFormat {
    /// `YYYY-MM-DD hh:mm`, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let month = match self.month {
            MonthStyle::Number => "MM",
            MonthStyle::Short { .. } => "Mon",
            MonthStyle::Full { .. } => "Month",
        };
        let comma = if self.comma { "," } else { "" };
        let separator = self.separator.map_or(String::new(), String::from);
        let s = &separator;
        let year = if self.short_year { "YY" } else { "YYYY" };
        match (self.order, self.day) {
            (DateOrder::YearMonthDay, true) => write!(f, "{year}{s}{month}{s}DD")?,
            (DateOrder::YearMonthDay, false) => write!(f, "{year}{s}{month}")?,
            (DateOrder::DayMonthYear, _) => write!(f, "DD{s}{month}{comma}{s}{year}")?,
            (DateOrder::MonthDayYear, true) => write!(f, "{month}{s}DD{comma}{s}{year}")?,
            (DateOrder::MonthDayYear, false) => write!(f, "{month}{comma}{s}{year}")?,
        }
        let Some(clock) = &self.clock else { return Ok(()) };
        write!(f, "{}hh:mm", clock.separator)?;
        f.write_str(if clock.seconds { ":ss" } else { "" })?;
        f.write_str(if clock.fraction > 0 { ".f" } else { "" })?;
        f.write_str(if clock.half_day.is_some() { " am/pm" } else { "" })?;
        match clock.zone {
            None => Ok(()),
            Some(ZoneFormat { offset: 0, .. }) => f.write_str(", UTC"),
            Some(ZoneFormat { offset, .. }) => {
                let minutes = offset.unsigned_abs() / 60;
                write!(f, ", UTC{}{:02}:{:02}", if offset < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
            }
        }
    }
}

impl Civil {
    /// The parts of a moment in UTC, from seconds since 1970.
    pub fn of(seconds: f64) -> Civil {
        let whole = seconds.floor() as i64;
        let (days, rest) = (whole.div_euclid(86_400), whole.rem_euclid(86_400) as u32);
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: (days + 3).rem_euclid(7) as u32, // day 0 was a Thursday
            day_of_year: (days - days_from_civil(year, 1, 1)) as u32 + 1,
        }
    }

    /// Seconds since 1970; the weekday and the day of the year are not looked at.
    pub fn seconds(&self) -> f64 {
        let days = days_from_civil(self.year, self.month, self.day);
        days as f64 * DAY + f64::from(self.hour * 3600 + self.minute * 60 + self.second)
    }

    /// The same time of day some months later; the last day of the month where it has fewer days.
    pub fn plus_months(&self, months: i64) -> Civil {
        let month = self.year * 12 + i64::from(self.month) - 1 + months;
        let (year, month) = (month.div_euclid(12), month.rem_euclid(12) as u32 + 1);
        let day = self.day.min(days_in_month(year, month));
        Civil::of(Civil { year, month, day, ..*self }.seconds())
    }
}

pub fn days_in_month(year: i64, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. Years begin in March, so that a leap day is the last; an era is 400 of them.
fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

/// Year, month and day; the inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = (shifted + 2) as u32 % 12 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A moment with its fraction, rounded to microseconds.
struct Parts {
    civil: Civil,
    micros: u32,
}

impl Parts {
    fn of(seconds: f64) -> Parts {
        // beyond a thousand million years nothing is known of fractions
        let seconds = seconds.clamp(-1e17, 1e17);
        let whole = seconds.floor();
        let micros = ((seconds - whole) * 1e6).round() as u32;
        let carry = micros / 1_000_000;
        Parts { civil: Civil::of(whole + f64::from(carry)), micros: micros % 1_000_000 }
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn cased(name: &str, capitals: bool) -> String {
    if capitals { name.to_uppercase() } else { name.to_owned() }
}

/// What is plain to see in one value.
struct Scanned {
    /// Unknown where two numbers stand before the year.
    order: Option<DateOrder>,
    separator: Option<char>,
    comma: bool,
    month: MonthStyle,
    day: bool,
    padded: bool,
    year: u32,
    short_year: bool,
    /// What stands beside the year, as it is written: month and day where the order is unknown.
    beside: [u32; 2],
    clock: Option<ScannedClock>,
}

struct ScannedClock {
    format: ClockFormat,
    /// Since midnight, in the zone.
    seconds: f64,
}

impl Scanned {
    fn of(text: &str) -> Option<Scanned> {
        let mut cursor = Cursor { rest: text.trim().as_bytes() };
        let mut scanned = match cursor.rest.first()? {
            b'0'..=b'9' => Scanned::of_digits(&mut cursor)?,
            _ => Scanned::of_name(&mut cursor)?,
        };
        scanned.clock = ScannedClock::of(&mut cursor)?;
        // the calendar is checked once the order is known
        (cursor.rest.is_empty() && scanned.year > 0 && (scanned.day || scanned.clock.is_none())).then_some(scanned)
    }

    /// `2024-01-31`, `31.01.2024`, `31 Jan 2024`, `20240131`
    fn of_digits(cursor: &mut Cursor<'_>) -> Option<Scanned> {
        let (first, width) = cursor.digits(8)?;
        let base = |separator, beside, year| Scanned {
            order: None,
            separator,
            comma: false,
            month: MonthStyle::Number,
            day: true,
            padded: true,
            year,
            short_year: false,
            beside,
            clock: None,
        };
        if width == 8 {
            let order = Some(DateOrder::YearMonthDay);
            return Some(Scanned { order, ..base(None, [first / 100 % 100, first % 100], first / 10_000) });
        }
        let separator = cursor.one_of(b"-/. ")?;
        let (second, second_width, month) = cursor.month_or_number()?;
        let named = month != MonthStyle::Number;
        let order = match (width, named) {
            (4, _) => Some(DateOrder::YearMonthDay),
            (1 | 2, true) => Some(DateOrder::DayMonthYear),
            (1 | 2, false) => None,
            _ => return None,
        };
        if separator == ' ' && !named {
            return None;
        }
        if width == 4 {
            // a dot would make it a number
            let may_end = separator != '.' && second_width == 2;
            let goes_on =
                matches!(cursor.rest, [next, digit, ..] if *next == separator as u8 && digit.is_ascii_digit());
            let (day, day_width) = match goes_on && cursor.eat(separator as u8) {
                true => cursor.digits(2).map(|(day, width)| (Some(day), width))?,
                false if may_end && !named => (None, 2),
                false => return None,
            };
            let padded = (named || second_width == 2) && day_width == 2;
            let beside = [second, day.unwrap_or(1)];
            return Some(Scanned { order, month, day: day.is_some(), padded, ..base(Some(separator), beside, first) });
        }
        let comma = cursor.eat(b',');
        let (year, short_year) = cursor.year_behind(separator)?;
        let padded = width == 2 && (named || second_width == 2);
        // 1.2.24 is a version
        if short_year && separator == '.' && !padded {
            return None;
        }
        Some(Scanned { order, month, comma, padded, short_year, ..base(Some(separator), [first, second], year) })
    }

    /// `Jan 31, 2024`, `January 2024`
    fn of_name(cursor: &mut Cursor<'_>) -> Option<Scanned> {
        let (number, month) = cursor.month()?;
        let mut comma = cursor.eat(b',');
        let separator = cursor.one_of(b"-/. ")?;
        let (mut year, width) = cursor.digits(4)?;
        let (mut day, mut padded) = (None, true);
        if width <= 2 {
            (day, padded) = (Some(year), width == 2);
            comma |= cursor.eat(b',');
            year = cursor.year_behind(separator).filter(|(_, short)| !short)?.0;
        } else if width != 4 {
            return None;
        }
        Some(Scanned {
            order: Some(DateOrder::MonthDayYear),
            separator: Some(separator),
            comma,
            month,
            day: day.is_some(),
            padded,
            year,
            short_year: false,
            beside: [number, day.unwrap_or(1)],
            clock: None,
        })
    }

    /// Since 1970, in UTC where there is a zone; none where the calendar has no such day.
    fn seconds(&self, order: DateOrder) -> Option<f64> {
        let [month, day] = match order {
            DateOrder::DayMonthYear => [self.beside[1], self.beside[0]],
            DateOrder::YearMonthDay | DateOrder::MonthDayYear => self.beside,
        };
        let year = i64::from(self.year);
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        let midnight = days_from_civil(year, month, day) as f64 * DAY;
        Some(self.clock.as_ref().map_or(midnight, |clock| {
            midnight + clock.seconds - clock.format.zone.map_or(0.0, |zone| f64::from(zone.offset))
        }))
    }
}

impl ScannedClock {
    /// `T18:30`, ` 6:30:00.5 PM`, ` 18:30:00+01:00`; `Some(None)` where nothing follows the date.
    fn of(cursor: &mut Cursor<'_>) -> Option<Option<ScannedClock>> {
        if cursor.rest.is_empty() {
            return Some(None);
        }
        cursor.eat(b',');
        let separator = cursor.one_of(b"T ")?;
        let (hour, hour_width) = cursor.digits(2)?;
        let (minute, 2) = cursor.eat(b':').then(|| cursor.digits(2)).flatten()? else { return None };
        let mut seconds = 0.0;
        let (mut with_seconds, mut fraction) = (false, 0);
        if cursor.eat(b':') {
            let (second, 2) = cursor.digits(2)? else { return None };
            (with_seconds, seconds) = (true, f64::from(second));
            if second > 59 {
                return None;
            }
            if cursor.eat(b'.') || cursor.eat(b',') {
                let (part, digits) = cursor.fraction()?;
                (fraction, seconds) = (digits.min(6), seconds + part);
            }
        }
        let space = cursor.eat(b' ');
        let half = cursor.half_day();
        let zone = match half {
            None if !cursor.rest.is_empty() => {
                let (style, offset) = cursor.zone()?;
                Some(ZoneFormat { style, space, offset })
            }
            _ => None,
        };
        let hour = match half {
            Some((_, pm)) if (1..=12).contains(&hour) => hour % 12 + if pm { 12 } else { 0 },
            None if hour < 24 => hour,
            _ => return None,
        };
        let format = ClockFormat {
            separator,
            padded: hour_width == 2,
            seconds: with_seconds,
            fraction,
            half_day: half.map(|(capitals, _)| HalfDay { capitals, space }),
            zone,
        };
        let seconds = f64::from(hour * 3600 + minute * 60) + seconds;
        (minute < 60).then_some(Some(ScannedClock { format, seconds }))
    }
}

/// The rest of a value.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn eat(&mut self, byte: u8) -> bool {
        let there = self.rest.first() == Some(&byte);
        if there {
            self.rest = &self.rest[1..];
        }
        there
    }

    fn one_of(&mut self, bytes: &[u8]) -> Option<char> {
        let byte = *self.rest.first().filter(|byte| bytes.contains(byte))?;
        self.rest = &self.rest[1..];
        Some(byte as char)
    }

    /// All digits that follow, and how many; none where there are more than `most`.
    fn digits(&mut self, most: usize) -> Option<(u32, usize)> {
        let width = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if width == 0 || width > most.min(8) {
            return None;
        }
        let value = self.rest[..width].iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
        self.rest = &self.rest[width..];
        Some((value, width))
    }

    /// The separator and a year of four digits, or of two, which is said beside it.
    fn year_behind(&mut self, separator: char) -> Option<(u32, bool)> {
        match self.eat(separator as u8).then(|| self.digits(4))?? {
            (year, 4) => Some((year, false)),
            (year, 2) => Some((year + if year < 69 { 2000 } else { 1900 }, true)),
            _ => None,
        }
    }

    /// What stands behind the point of a number, and how many digits; nine are looked at.
    fn fraction(&mut self) -> Option<(f64, u8)> {
        let width = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(width);
        self.rest = rest;
        let known = &digits[..width.min(9)];
        let value = known.iter().fold(0.0, |value, digit| value * 10.0 + f64::from(digit - b'0'));
        (width > 0).then(|| (value / 10f64.powi(known.len() as i32), known.len() as u8))
    }

    fn letters(&self) -> &[u8] {
        let width = self.rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        &self.rest[..width]
    }

    fn month_or_number(&mut self) -> Option<(u32, usize, MonthStyle)> {
        match self.digits(2) {
            Some((number, width)) => Some((number, width, MonthStyle::Number)),
            None => self.month().map(|(number, style)| (number, 2, style)),
        }
    }

    fn month(&mut self) -> Option<(u32, MonthStyle)> {
        let word = std::str::from_utf8(self.letters()).ok()?;
        let capitals = word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_uppercase());
        let is = |full: &str| word.eq_ignore_ascii_case(full) || word.eq_ignore_ascii_case(&full[..3]);
        let month = MONTHS.iter().position(|full| is(full))?;
        let short = word.len() == 3;
        self.rest = &self.rest[word.len()..];
        let style = if short { MonthStyle::Short { capitals } } else { MonthStyle::Full { capitals } };
        Some((month as u32 + 1, style))
    }

    /// Whether it has capitals, and whether it is the second half.
    fn half_day(&mut self) -> Option<(bool, bool)> {
        let found = match self.letters() {
            b"AM" => (true, false),
            b"PM" => (true, true),
            b"am" => (false, false),
            b"pm" => (false, true),
            _ => return None,
        };
        self.rest = &self.rest[2..];
        Some(found)
    }

    /// How the zone is written, and seconds east of UTC.
    fn zone(&mut self) -> Option<(ZoneStyle, i32)> {
        for (name, style) in [(&b"Z"[..], ZoneStyle::Z), (b"UTC", ZoneStyle::Utc)] {
            if self.letters() == name {
                self.rest = &self.rest[name.len()..];
                return Some((style, 0));
            }
        }
        let sign = if self.one_of(b"+-")? == '-' { -1 } else { 1 };
        let (number, width) = self.digits(4)?;
        let (hours, minutes, style) = match width {
            4 => (number / 100, number % 100, ZoneStyle::Compact),
            2 if self.eat(b':') => (number, self.digits(2).filter(|(_, width)| *width == 2)?.0, ZoneStyle::Colon),
            2 => (number, 0, ZoneStyle::Hours),
            _ => return None,
        };
        (hours < 24 && minutes < 60).then(|| (style, sign * (hours * 3600 + minutes * 60) as i32))
    }
}

/// What the values of a column agree on.
struct Evidence {
    format: DateFormat,
    /// Which order is still possible.
    orders: Vec<DateOrder>,
    /// Smallest and largest of what stands beside the year, and of the years.
    ranges: [(u32, u32); 3],
    /// Values with a time of day, and without.
    clocks: bool,
    bare: bool,
    /// Zones differ.
    zones: bool,
}

impl Evidence {
    fn begin(first: &Scanned) -> Option<Evidence> {
        let orders = match first.order {
            Some(order) => vec![order],
            None => vec![DateOrder::DayMonthYear, DateOrder::MonthDayYear],
        };
        let format = DateFormat {
            order: orders[0],
            separator: first.separator,
            comma: first.comma,
            month: first.month,
            day: first.day,
            padded: first.padded,
            short_year: first.short_year,
            clock: None,
            ambiguous: false,
        };
        let [a, b] = first.beside;
        let ranges = [(a, a), (b, b), (first.year, first.year)];
        let mut evidence = Evidence { format, orders, ranges, clocks: false, bare: false, zones: false };
        evidence.add(first)?;
        Some(evidence)
    }

    /// None where the value does not go with those before.
    fn add(&mut self, value: &Scanned) -> Option<()> {
        let format = &mut self.format;
        let unknown = format.order != DateOrder::YearMonthDay && format.month == MonthStyle::Number;
        let same_order = match value.order {
            Some(order) => order == format.order && (!unknown || value.month != MonthStyle::Number),
            None => unknown,
        };
        let alike = (value.separator, value.comma, value.day) == (format.separator, format.comma, format.day);
        if !same_order || !alike || value.short_year != format.short_year {
            return None;
        }
        format.month = match (format.month, value.month) {
            (MonthStyle::Number, MonthStyle::Number) => MonthStyle::Number,
            (MonthStyle::Number, _) | (_, MonthStyle::Number) => return None,
            // May is short and full
            (MonthStyle::Short { capitals }, MonthStyle::Short { .. }) => MonthStyle::Short { capitals },
            (MonthStyle::Short { capitals } | MonthStyle::Full { capitals }, _) => MonthStyle::Full { capitals },
        };
        format.padded &= value.padded;
        self.orders.retain(|order| value.seconds(*order).is_some());
        if self.orders.is_empty() {
            return None;
        }
        let [a, b] = value.beside;
        for (range, number) in self.ranges.iter_mut().zip([a, b, value.year]) {
            *range = (range.0.min(number), range.1.max(number));
        }
        let Some(ScannedClock { format: clock, .. }) = &value.clock else {
            self.bare = true;
            return Some(());
        };
        self.clocks = true;
        let Some(known) = &mut format.clock else {
            format.clock = Some(clock.clone());
            return Some(());
        };
        if known.half_day.is_some() != clock.half_day.is_some() || known.zone.is_some() != clock.zone.is_some() {
            return None;
        }
        known.padded &= clock.padded;
        known.seconds |= clock.seconds;
        known.fraction = known.fraction.max(clock.fraction);
        if let (Some(known), Some(zone)) = (&mut known.zone, clock.zone) {
            self.zones |= known.offset != zone.offset;
        }
        Some(())
    }

    fn conclude(self) -> Option<DateFormat> {
        let Evidence { mut format, orders, ranges: [first, second, years], clocks, bare, zones } = self;
        if let Some(ZoneFormat { offset, .. }) = format.clock.as_mut().and_then(|clock| clock.zone.as_mut()) {
            // a date without time and zone among others is no moment
            if clocks && bare {
                return None;
            }
            *offset = if zones { 0 } else { *offset };
        }
        format.order = match orders[..] {
            [only] => only,
            // with dots the day comes first; where one number stays the same over years, it is the day of months
            _ if format.separator == Some('.') => DateOrder::DayMonthYear,
            _ if years.0 < years.1 && first.0 == first.1 && second.0 < second.1 => DateOrder::DayMonthYear,
            _ if years.0 < years.1 && second.0 == second.1 && first.0 < first.1 => DateOrder::MonthDayYear,
            _ => {
                format.ambiguous = true;
                DateOrder::MonthDayYear
            }
        };
        Some(format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn detect(values: &[&str]) -> Option<DateFormat> {
        DateFormat::of_column(values.iter().copied())
    }

    /// Seconds of a moment in UTC.
    fn at(year: i64, month: u32, day: u32, hour: u32, minute: u32, second: u32) -> f64 {
        Civil { year, month, day, hour, minute, second, weekday: 0, day_of_year: 0 }.seconds()
    }

    #[test]
    fn known_moments() {
        assert_eq!(at(1970, 1, 1, 0, 0, 0), 0.0);
        assert_eq!(at(2024, 2, 29, 12, 0, 0), 1_709_208_000.0);
        assert_eq!(at(2000, 3, 1, 0, 0, 0), 951_868_800.0);
        assert_eq!(at(1969, 12, 31, 23, 59, 59), -1.0);
        let civil = Civil::of(1_709_208_000.5);
        let Civil { year, month, day, hour, weekday, day_of_year, .. } = civil;
        assert_eq!((year, month, day, hour, weekday, day_of_year), (2024, 2, 29, 12, 3, 60));
        assert_eq!(Civil::of(at(2024, 12, 31, 0, 0, 0)).day_of_year, 366);
    }

    #[test]
    fn every_form_is_parsed_and_written_back() {
        let noon = at(2024, 1, 31, 12, 0, 0);
        let midnight = at(2024, 1, 31, 0, 0, 0);
        for (text, seconds) in [
            ("2024-01-31", midnight),
            ("2024/01/31", midnight),
            ("2024-1-31", midnight),
            ("31.01.2024", midnight),
            ("31.1.2024", midnight),
            ("31/01/2024", midnight),
            ("01/31/2024", midnight),
            ("1/31/2024", midnight),
            ("31-01-2024", midnight),
            ("31 Jan 2024", midnight),
            ("31-Jan-2024", midnight),
            ("31-JAN-2024", midnight),
            ("31 January 2024", midnight),
            ("Jan 31, 2024", midnight),
            ("January 31, 2024", midnight),
            ("2024-Jan-31", midnight),
            ("31/01/24", midnight),
            ("1/31/24 12:00 PM", noon),
            ("31.01.24 12:00", noon),
            ("31-Jan-24", midnight),
            ("12/31/68", at(2068, 12, 31, 0, 0, 0)),
            ("12/31/69", at(1969, 12, 31, 0, 0, 0)),
            ("2024-01", at(2024, 1, 1, 0, 0, 0)),
            ("Jan 2024", at(2024, 1, 1, 0, 0, 0)),
            ("2024-01-31 12:00", noon),
            ("2024-01-31T12:00:00", noon),
            ("2024-01-31T12:00:00Z", noon),
            ("2024-01-31T12:00:00.25", noon + 0.25),
            ("2024-01-31 12:00:00.250000", noon + 0.25),
            ("2024-01-31 13:00:00+01:00", noon),
            ("2024-01-31 06:30:00-0530", noon),
            ("2024-01-31 14:00:00 +02", noon),
            ("2024-01-31 12:00:00 UTC", noon),
            ("1/31/2024 12:00:00 PM", noon),
            ("1/31/2024 12:00 AM", midnight),
            ("01/31/2024 3:45pm", noon + 3.75 * 3600.0),
            ("31.01.2024 12:00:00", noon),
            ("Jan 31, 2024 12:00", noon),
        ] {
            let format = detect(&[text]).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(format.parse(text), Some(seconds), "{text}");
            assert_eq!(format.write(seconds), text, "{format:?}");
            let json = serde_json::to_string(&format).unwrap();
            assert_eq!(serde_json::from_str::<DateFormat>(&json).unwrap(), format);
        }
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "",
            "2024",
            "20240131",
            "2024-13",
            "2024-02-30",
            "2023-02-29",
            "31.13.2024",
            "1.2.24",
            "2024.01",
            "12:00",
            "2024-01-31 25:00",
            "2024-01-31 12:60",
            "2024-01-31x",
            "2024-01-31 13:00 PM",
            "2024-01-31 0:00 AM",
            "2024-01/31",
            "0000-01-01",
            "31 2024",
            "Jan",
            "Janu 3, 2024",
            "2024-01-31 12:00:60",
            "٢٠٢٤-٠١-٣١",
            "2024-01-31T",
            "2024-01-31 12:00 +1",
            "1-2-3",
            "10.0.0.1",
            "2024-01 12:00",
            "2024-",
            "2024-01-",
        ] {
            assert_eq!(detect(&[text]), None, "{text}");
        }
        assert_eq!(detect(&[]), None);
        assert_eq!(detect(&["2024-01-31", "soon"]), None);
        assert_eq!(detect(&["2024-01-31", "31.01.2024"]), None);
        assert_eq!(detect(&["2024-01-31 12:00", "2024-01-31 12:00Z"]), None, "a zone here and none there");
        assert_eq!(detect(&["2024-01-31", "2024-01-31 12:00Z"]), None);
    }

    #[test]
    fn the_whole_column_says_whether_the_day_comes_first() {
        let order = |values: &[&str]| detect(values).map(|format| (format.order, format.ambiguous));
        assert_eq!(order(&["01/02/2024", "13/02/2024"]), Some((DateOrder::DayMonthYear, false)));
        assert_eq!(order(&["01/02/2024", "02/13/2024"]), Some((DateOrder::MonthDayYear, false)));
        assert_eq!(order(&["01/02/2024", "02/05/2024"]), Some((DateOrder::MonthDayYear, true)));
        assert_eq!(order(&["13/02/2024", "02/13/2024"]), None, "they contradict each other");
        assert_eq!(order(&["01.02.2024", "02.05.2024"]), Some((DateOrder::DayMonthYear, false)));
        // the first of each month
        assert_eq!(order(&["01/11/2023", "01/12/2023", "01/01/2024"]), Some((DateOrder::DayMonthYear, false)));
        assert_eq!(order(&["11/01/2023", "12/01/2023", "01/01/2024"]), Some((DateOrder::MonthDayYear, false)));
        let open = detect(&["01/02/2024", "02/05/2024"]).unwrap();
        assert_eq!(open.exchanged().unwrap().parse("01/02/2024"), Some(at(2024, 2, 1, 0, 0, 0)));
        assert_eq!(detect(&["2024-01-02"]).unwrap().exchanged(), None);
    }

    #[test]
    fn values_of_a_column_may_leave_out_what_is_zero() {
        let format = detect(&["2024-01-31", "2024-01-31 06:00:00", "2024-01-31 06:00:00.5"]).unwrap();
        assert_eq!(format.write(at(2024, 2, 1, 0, 0, 0)), "2024-02-01 00:00:00.0");
        let format = detect(&["2024-01-31"]).unwrap();
        assert_eq!(format.write(at(2024, 1, 31, 6, 0, 0)), "2024-01-31 06:00", "nothing is lost");
        assert_eq!(format.write(f64::NAN), "");
        let format = detect(&["May 3, 2024", "January 4, 2024"]).unwrap();
        assert_eq!(format.write(at(2024, 2, 1, 0, 0, 0)), "February 1, 2024");
    }

    #[test]
    fn compact_dates_are_read_when_asked() {
        let format = DateFormat::of_named_column(["20240131", "20240201"].into_iter()).unwrap();
        assert_eq!(format.parse("20240229"), Some(at(2024, 2, 29, 0, 0, 0)));
        assert_eq!(format.write(at(2024, 12, 31, 0, 0, 0)), "20241231");
        assert_eq!(DateFormat::of_named_column(["20241301"].into_iter()), None);
    }

    #[test]
    fn zones_that_change_are_written_in_utc() {
        let format = detect(&["2024-03-31T01:00:00+01:00", "2024-03-31T03:00:00+02:00"]).unwrap();
        assert_eq!(format.parse("2024-03-31T03:00:00+02:00"), Some(at(2024, 3, 31, 1, 0, 0)));
        assert_eq!(format.write(at(2024, 3, 31, 1, 0, 0)), "2024-03-31T01:00:00+00:00");
        assert_eq!(format.to_string(), "YYYY-MM-DDThh:mm:ss, UTC");
        let fixed = detect(&["2024-03-31T01:00:00+01:00"]).unwrap();
        assert_eq!(fixed.civil(0.0).hour, 1);
        assert_eq!(fixed.to_string(), "YYYY-MM-DDThh:mm:ss, UTC+01:00");
    }

    #[test]
    fn months_are_added() {
        let of = |year, month, day| Civil::of(at(year, month, day, 6, 0, 0));
        assert_eq!(of(2024, 1, 31).plus_months(1), of(2024, 2, 29));
        assert_eq!(of(2023, 12, 1).plus_months(1), of(2024, 1, 1));
        assert_eq!(of(2024, 1, 31).plus_months(-11), of(2023, 2, 28));
    }

    proptest! {
        #[test]
        fn days_and_dates_are_inverse(days in -2_000_000i64..2_000_000) {
            let (year, month, day) = civil_from_days(days);
            prop_assert_eq!(days_from_civil(year, month, day), days);
            prop_assert!((1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day));
            let (y, m, d) = civil_from_days(days + 1);
            let next = match (day == days_in_month(year, month), month) {
                (false, _) => (year, month, day + 1),
                (true, 12) => (year + 1, 1, 1),
                (true, _) => (year, month + 1, 1),
            };
            prop_assert_eq!((y, m, d), next);
        }

        #[test]
        fn what_is_written_is_read_back(
            micros in -62_000_000_000_000_000i64..250_000_000_000_000_000,
            form in 0usize..14,
            coarse in 0usize..3,
        ) {
            let forms = [
                "2024-01-31", "31.01.2024", "31/01/2024", "1/31/2024", "Jan 31, 2024", "31 January 2024",
                "2024-01-31T12:00", "2024-01-31 12:00:00.5", "1/31/2024 3:45:00 PM", "31.1.2024 9:05",
                "2024-01-31T12:00:00Z", "2024-01-31 12:00:00+05:30", "2024-01-31 12:00-0330", "2024/1/31 12:00am",
            ];
            let unit = [86_400_000_000, 1_000_000, 1][coarse];
            let seconds = (micros / unit * unit) as f64 / 1e6;
            let Some(format) = detect(&[forms[form]]) else { return Ok(()) };
            let text = format.write(seconds);
            let again = format.parse(&text);
            // a number of 64 bits holds microseconds to half of one for 100 years around 1970
            let near = again.is_some_and(|again| (again - seconds).abs() <= 1e-6 + seconds.abs() * 1e-15);
            prop_assert!(near, "{seconds} {text} {again:?}");
            prop_assert!(coarse == 2 || again == Some(seconds), "{seconds} {text} {again:?}");
        }

        #[test]
        fn nothing_breaks_it(text in "[0-9JanFeb:/. +TZpm,-]{0,24}", seconds in proptest::num::f64::ANY) {
            if let Some(format) = DateFormat::of_named_column([&*text].into_iter()) {
                let parsed = format.parse(&text);
                prop_assert!(parsed.is_some(), "{text}");
                prop_assert_eq!(format.parse(&format.write(parsed.unwrap())), parsed, "{}", text);
                let _ = (format.write(seconds), format.civil(seconds), format.to_string());
            }
        }
    }
}
