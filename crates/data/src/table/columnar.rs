//! Typed columns of Parquet and Arrow files to those of a table, and Arrow's arrays in particular.
//!
//! ```text
//! numbers, booleans (0/1), decimals      numbers
//! dates, timestamps                      text, as ISO 8601 writes it; in UTC where there is a zone
//! times of day, durations                seconds
//! strings, dictionaries of strings       text
//! lists of numbers                       columns name[0], name[1] …, missing where a list is shorter
//! null                                   missing
//! ```

use std::collections::HashMap;

use arrow_array::array::AnyDictionaryArray;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};

use super::cell::{Cell, MissingTokens};
use super::datetime::{ClockFormat, DAY, DateFormat, DateOrder, MonthStyle, ZoneFormat, ZoneStyle};
use super::{
    Column, MAX_COLUMNS, MISSING, ReadOptions, Reading, Table, Values, join_values, select_columns, unique_names,
};
use crate::error::DataError;

/// Longer lists are not features of a row.
const LONGEST_LIST: usize = 4096;

/// Numbers that a column of lists may take whatever it holds.
const FREE_ITEMS: usize = 1 << 27;

/// The fields of a file that are read.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    pub names: Vec<String>,
    /// Their places in the file's schema, rising.
    pub places: Vec<usize>,
    pub kinds: Vec<FieldKind>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FieldKind {
    Number,
    Text,
    Time(TimeKind),
    /// A list of numbers, of this length if it is fixed.
    List(Option<usize>),
}

/// What a date or timestamp says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TimeKind {
    Day,
    Moment { zoned: bool },
}

impl Fields {
    /// Those that are asked for, all of which must be of a kind that is read.
    /// `kind` of a place is how the field is read, or what it is and why it is not.
    pub(super) fn choose<'a>(
        file: &str,
        names: impl Iterator<Item = &'a str>,
        kind: impl Fn(usize) -> Result<FieldKind, String>,
        options: &ReadOptions,
    ) -> Result<Fields, DataError> {
        let mut names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
        if names.is_empty() || names.len() > MAX_COLUMNS {
            return Err(DataError::Unsupported {
                file: file.to_owned(),
                what: format!("{} columns", names.len()),
                next: format!("a table has 1 to {MAX_COLUMNS}"),
            });
        }
        unique_names(&mut names);
        let places = select_columns(file, &names, &options.columns)?;
        let kind = |place: &usize| {
            kind(*place).map_err(|why| DataError::Unsupported {
                file: file.to_owned(),
                what: format!("column {:?} is of type {why}", names[*place]),
                next: "leave it out by naming the columns to read, or save it as numbers or text".to_owned(),
            })
        };
        let kinds = places.iter().map(kind).collect::<Result<_, _>>()?;
        let names = places.iter().map(|place| names[*place].clone()).collect();
        Ok(Fields { names, places, kinds })
    }

    /// As [`Fields::choose`], by Arrow's types.
    pub(super) fn of_schema(file: &str, schema: &Schema, options: &ReadOptions) -> Result<Fields, DataError> {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let kind = |place: usize| {
            let data_type = schema.field(place).data_type();
            field_kind(data_type).map_err(|why| format!("{data_type}, {why}"))
        };
        Fields::choose(file, names, kind, options)
    }

    /// The columns of a table whose lists have at most these lengths.
    pub(super) fn columns(&self, widths: &[usize]) -> Vec<String> {
        let parts = self.names.iter().zip(&self.kinds).zip(widths);
        parts
            .flat_map(|((name, kind), width)| match kind {
                FieldKind::List(_) => (0..*width).map(|at| format!("{name}[{at}]")).collect(),
                _ => vec![name.clone()],
            })
            .collect()
    }

    /// The lengths that are known without looking at the rows.
    pub(super) fn fixed_widths(&self) -> Option<Vec<usize>> {
        let width = |kind: &FieldKind| match kind {
            FieldKind::List(length) => length.map(|length| length.max(1)),
            _ => Some(1),
        };
        self.kinds.iter().map(width).collect()
    }
}

/// Some rows: for each field its columns, as many as the longest list of these rows has.
#[derive(Debug, Default)]
pub(super) struct Part {
    rows: usize,
    fields: Vec<Vec<Values>>,
}

impl Part {
    /// Columns of so many rows for each field.
    pub(super) fn new(rows: usize, fields: Vec<Vec<Values>>) -> Part {
        Part { rows, fields }
    }

    /// The arrays of a batch, one for each of `kinds`.
    pub(super) fn of(batch: &RecordBatch, kinds: &[FieldKind], missing: &MissingTokens) -> Result<Part, String> {
        if batch.num_columns() != kinds.len() {
            return Err(format!("{} columns of {} were read", batch.num_columns(), kinds.len()));
        }
        let convert = |(array, kind): (&ArrayRef, &FieldKind)| match kind {
            FieldKind::Number => numbers(array).map(|values| vec![Values::Number(values)]),
            FieldKind::Text => text(array, missing).map(|values| vec![values]),
            FieldKind::Time(kind) => numbers(array).map(|values| vec![times(&values, *kind)]),
            FieldKind::List(_) => list(array),
        };
        let fields = batch.columns().iter().zip(kinds).map(convert).collect::<Result<_, _>>()?;
        Ok(Part { rows: batch.num_rows(), fields })
    }

    /// The parts of all fields, one below the other.
    pub(super) fn join(parts: Vec<Part>) -> Part {
        let rows = parts.iter().map(|part| part.rows).sum();
        let counts: Vec<usize> = parts.iter().map(|part| part.rows).collect();
        let mut columns: Vec<Vec<Vec<Values>>> = Vec::new();
        for part in parts {
            columns.resize_with(part.fields.len(), Vec::new);
            columns.iter_mut().zip(part.fields).for_each(|(field, values)| field.push(values));
        }
        let fields = columns.into_iter().map(|parts| join_field(parts, &counts)).collect();
        Part { rows, fields }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns each field has.
    pub(super) fn widths(&self) -> Vec<usize> {
        self.fields.iter().map(Vec::len).collect()
    }

    /// A table, its lists filled up with missing to these lengths.
    pub(super) fn table(self, file: &str, fields: &Fields, widths: &[usize]) -> Table {
        let rows = self.rows;
        let values = self.fields.into_iter().zip(widths).flat_map(|(mut values, width)| {
            values.resize_with(*width, || Values::Number(vec![f64::NAN; rows]));
            values
        });
        let columns =
            fields.columns(widths).into_iter().zip(values).map(|(name, values)| Column { name, values }).collect();
        Table { name: file.to_owned(), columns, rows, header: true, reading: Reading::default() }
    }
}

/// One field of several parts; lists are as long as the longest.
fn join_field(parts: Vec<Vec<Values>>, rows: &[usize]) -> Vec<Values> {
    let width = parts.iter().map(Vec::len).max().unwrap_or(0);
    let mut columns: Vec<Vec<Values>> = (0..width).map(|_| Vec::new()).collect();
    for (mut part, rows) in parts.into_iter().zip(rows) {
        part.resize_with(width, || Values::Number(vec![f64::NAN; *rows]));
        columns.iter_mut().zip(part).for_each(|(column, values)| column.push(values));
    }
    columns.into_iter().map(join_values).collect()
}

/// How a type is read; otherwise why it is not.
pub(super) fn field_kind(data_type: &DataType) -> Result<FieldKind, &'static str> {
    use DataType::*;
    Ok(match data_type {
        Utf8 | LargeUtf8 | Utf8View | Null => FieldKind::Text,
        Dictionary(_, values) => match field_kind(values)? {
            FieldKind::List(_) => return Err("which is not read"),
            kind => kind,
        },
        List(item) | LargeList(item) if is_number(item.data_type()) => FieldKind::List(None),
        FixedSizeList(item, length) if is_number(item.data_type()) => {
            let length = usize::try_from(*length).unwrap_or(0);
            if length > LONGEST_LIST {
                return Err("longer than 4096, the longest that is read");
            }
            FieldKind::List(Some(length))
        }
        List(_) | LargeList(_) | FixedSizeList(..) => return Err("and only lists of numbers are read"),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => return Err("which is neither numbers nor text"),
        Date32 => FieldKind::Time(TimeKind::Day),
        Date64 => FieldKind::Time(TimeKind::Moment { zoned: false }),
        Timestamp(_, zone) => FieldKind::Time(TimeKind::Moment { zoned: zone.is_some() }),
        other if is_number(other) => FieldKind::Number,
        _ => return Err("which is not read"),
    })
}

fn is_number(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_numeric()
        || matches!(data_type, Boolean | Date32 | Date64 | Timestamp(..) | Time32(_) | Time64(_) | Duration(_))
}

/// Any array of numbers as f64, NaN where null.
pub(super) fn numbers(array: &dyn Array) -> Result<Vec<f64>, String> {
    use DataType::*;
    Ok(match array.data_type() {
        Boolean => {
            let array = array.as_boolean();
            array.iter().map(|value| value.map_or(f64::NAN, |value| value as u8 as f64)).collect()
        }
        Int8 => primitive::<Int8Type>(array, |v| v as f64),
        Int16 => primitive::<Int16Type>(array, |v| v as f64),
        Int32 => primitive::<Int32Type>(array, |v| v as f64),
        Int64 => primitive::<Int64Type>(array, |v| v as f64),
        UInt8 => primitive::<UInt8Type>(array, |v| v as f64),
        UInt16 => primitive::<UInt16Type>(array, |v| v as f64),
        UInt32 => primitive::<UInt32Type>(array, |v| v as f64),
        UInt64 => primitive::<UInt64Type>(array, |v| v as f64),
        Float16 => primitive::<Float16Type>(array, |v| v.to_f64()),
        Float32 => primitive::<Float32Type>(array, |v| v as f64),
        Float64 => primitive::<Float64Type>(array, |v| v),
        Decimal32(_, scale) => primitive::<Decimal32Type>(array, |v| decimal(v as i128, *scale)),
        Decimal64(_, scale) => primitive::<Decimal64Type>(array, |v| decimal(v as i128, *scale)),
        Decimal128(_, scale) => primitive::<Decimal128Type>(array, |v| decimal(v, *scale)),
        Decimal256(_, scale) => primitive::<Decimal256Type>(array, |v| scaled(&v.to_string(), *scale)),
        // Days; everything else about time is in seconds.
        Date32 => primitive::<Date32Type>(array, |v| v as f64),
        Date64 => primitive::<Date64Type>(array, |v| v as f64 / 1e3),
        Timestamp(TimeUnit::Second, _) => primitive::<TimestampSecondType>(array, |v| v as f64),
        Timestamp(TimeUnit::Millisecond, _) => primitive::<TimestampMillisecondType>(array, |v| v as f64 / 1e3),
        Timestamp(TimeUnit::Microsecond, _) => primitive::<TimestampMicrosecondType>(array, |v| v as f64 / 1e6),
        Timestamp(TimeUnit::Nanosecond, _) => primitive::<TimestampNanosecondType>(array, |v| v as f64 / 1e9),
        Time32(TimeUnit::Second) => primitive::<Time32SecondType>(array, |v| v as f64),
        Time32(_) => primitive::<Time32MillisecondType>(array, |v| v as f64 / 1e3),
        Time64(TimeUnit::Microsecond) => primitive::<Time64MicrosecondType>(array, |v| v as f64 / 1e6),
        Time64(_) => primitive::<Time64NanosecondType>(array, |v| v as f64 / 1e9),
        Duration(TimeUnit::Second) => primitive::<DurationSecondType>(array, |v| v as f64),
        Duration(TimeUnit::Millisecond) => primitive::<DurationMillisecondType>(array, |v| v as f64 / 1e3),
        Duration(TimeUnit::Microsecond) => primitive::<DurationMicrosecondType>(array, |v| v as f64 / 1e6),
        Duration(TimeUnit::Nanosecond) => primitive::<DurationNanosecondType>(array, |v| v as f64 / 1e9),
        Dictionary(..) => {
            let array = array.as_any_dictionary();
            let values = numbers(array.values())?;
            keys(array).map(|key| key.and_then(|key| values.get(key)).copied().unwrap_or(f64::NAN)).collect()
        }
        other => return Err(format!("a column of {other} where numbers were expected")),
    })
}

/// Dates or timestamps as a text column writes them, from days or seconds since 1970: what is known of dates in text holds for them too.
pub(super) fn times(values: &[f64], kind: TimeKind) -> Values {
    let zone = ZoneFormat { style: ZoneStyle::Colon, space: false, offset: 0 };
    let clock = |zoned: bool| ClockFormat {
        separator: ' ',
        padded: true,
        seconds: true,
        fraction: 0,
        half_day: None,
        zone: zoned.then_some(zone),
    };
    let (clock, unit) = match kind {
        TimeKind::Day => (None, DAY),
        TimeKind::Moment { zoned } => (Some(clock(zoned)), 1.0),
    };
    let format = DateFormat {
        order: DateOrder::YearMonthDay,
        separator: Some('-'),
        comma: false,
        month: MonthStyle::Number,
        day: true,
        padded: true,
        short_year: false,
        clock,
        ambiguous: false,
    };
    let mut known: HashMap<u64, u32> = HashMap::new();
    let mut labels = Vec::new();
    let codes = values.iter().map(|value| match value.is_nan() {
        true => MISSING,
        false => *known.entry(value.to_bits()).or_insert_with(|| {
            labels.push(format.write(value * unit));
            labels.len() as u32 - 1
        }),
    });
    let codes = codes.collect();
    Values::Text { codes, labels }
}

fn primitive<T: ArrowPrimitiveType>(array: &dyn Array, number: impl Fn(T::Native) -> f64) -> Vec<f64> {
    let array = array.as_primitive::<T>();
    match array.null_count() {
        0 => array.values().iter().map(|value| number(*value)).collect(),
        _ => array.iter().map(|value| value.map_or(f64::NAN, &number)).collect(),
    }
}

/// unscaled · 10^-scale; division by an exact power of ten rounds once.
pub(super) fn decimal(unscaled: i128, scale: i8) -> f64 {
    match (unscaled.unsigned_abs() <= 1 << 53, scale) {
        (true, 0..=22) => unscaled as f64 / 10f64.powi(scale as i32),
        _ => scaled(&unscaled.to_string(), scale),
    }
}

pub(super) fn scaled(digits: &str, scale: i8) -> f64 {
    format!("{digits}e{}", -(scale as i32)).parse().unwrap_or(f64::NAN)
}

/// Strings as codes and labels, in order of first appearance.
fn text(array: &dyn Array, missing: &MissingTokens) -> Result<Values, String> {
    use DataType::*;
    let mut labels = Labels::new(missing, array.len());
    match array.data_type() {
        Utf8 => labels.take(array.as_string::<i32>().iter()),
        LargeUtf8 => labels.take(array.as_string::<i64>().iter()),
        Utf8View => labels.take(array.as_string_view().iter()),
        Null => labels.codes.resize(array.len(), MISSING),
        Dictionary(..) => {
            let array = array.as_any_dictionary();
            let Values::Text { codes, labels: words } = text(array.values(), missing)? else {
                return Err("a dictionary of text that holds none".into());
            };
            let mut renamed = vec![MISSING; words.len()];
            for key in keys(array) {
                let word = key.and_then(|key| codes.get(key)).copied().unwrap_or(MISSING);
                let Some(code) = renamed.get_mut(word as usize) else {
                    labels.codes.push(MISSING);
                    continue;
                };
                if *code == MISSING {
                    *code = labels.labels.len() as u32;
                    labels.labels.push(words[word as usize].clone());
                }
                labels.codes.push(*code);
            }
        }
        other => return Err(format!("a column of {other} where text was expected")),
    }
    Ok(labels.values())
}

/// A text column while it is read.
pub(super) struct Labels<'m> {
    missing: &'m MissingTokens,
    pub codes: Vec<u32>,
    labels: Vec<String>,
}

impl<'m> Labels<'m> {
    pub(super) fn new(missing: &'m MissingTokens, rows: usize) -> Labels<'m> {
        Labels { missing, codes: Vec::with_capacity(rows), labels: Vec::new() }
    }

    pub(super) fn values(self) -> Values {
        Values::Text { codes: self.codes, labels: self.labels }
    }

    pub(super) fn take<'a>(&mut self, cells: impl Iterator<Item = Option<&'a str>>) {
        // By the cell as it stands: each different one is looked at once.
        let mut known: HashMap<&str, u32> = HashMap::new();
        let mut trimmed: HashMap<&str, u32> = HashMap::new();
        for cell in cells {
            let code = match cell {
                None => MISSING,
                Some(cell) => *known.entry(cell).or_insert_with(|| match self.missing.classify(cell.trim()) {
                    Cell::Missing => MISSING,
                    _ => *trimmed.entry(cell.trim()).or_insert_with(|| {
                        self.labels.push(cell.trim().to_owned());
                        self.labels.len() as u32 - 1
                    }),
                }),
            };
            self.codes.push(code);
        }
    }
}

/// The keys of a dictionary.
fn keys(array: &dyn AnyDictionaryArray) -> impl Iterator<Item = Option<usize>> {
    let keys = match array.values().is_empty() {
        true => vec![0; array.len()],
        false => array.normalized_keys(),
    };
    let nulls = array.keys().nulls().cloned();
    keys.into_iter().enumerate().map(move |(row, key)| match &nulls {
        Some(nulls) if nulls.is_null(row) => None,
        _ => Some(key),
    })
}

/// Lists of numbers as columns, as many as the longest has items; at least one.
fn list(array: &dyn Array) -> Result<Vec<Values>, String> {
    use DataType::*;
    // The items of each row, and the numbers they are among.
    let (items, ranges): (&ArrayRef, Vec<(usize, usize)>) = match array.data_type() {
        List(_) => {
            let array = array.as_list::<i32>();
            let range = |pair: &[i32]| (pair[0] as usize, pair[1] as usize);
            (array.values(), array.value_offsets().windows(2).map(range).collect())
        }
        LargeList(_) => {
            let array = array.as_list::<i64>();
            let range = |pair: &[i64]| (pair[0] as usize, pair[1] as usize);
            (array.values(), array.value_offsets().windows(2).map(range).collect())
        }
        FixedSizeList(..) => {
            let array = array.as_fixed_size_list();
            let length = array.value_length() as usize;
            let range = |row: usize| {
                let start = array.value_offset_at(row);
                (start, start + length)
            };
            (array.values(), (0..array.len()).map(range).collect())
        }
        other => return Err(format!("a column of {other} where lists were expected")),
    };
    let numbers = numbers(items)?;
    let range = |(row, range)| if array.is_null(row) { (0, 0) } else { range };
    let ranges = ranges.into_iter().enumerate().map(range).collect();
    let length = match array.data_type() {
        FixedSizeList(_, length) => usize::try_from(*length).ok(),
        _ => None,
    };
    Lists { numbers, ranges, length }.columns()
}

/// Lists of numbers.
pub(super) struct Lists {
    /// The items of all.
    pub numbers: Vec<f64>,
    /// For each row its first item, and the first that is no longer.
    pub ranges: Vec<(usize, usize)>,
    /// If all have the same length.
    pub length: Option<usize>,
}

impl Lists {
    /// As many columns as the longest has items; at least one.
    pub(super) fn columns(&self) -> Result<Vec<Values>, String> {
        let rows = self.ranges.len();
        let values = |row: usize| self.numbers.get(self.ranges[row].0..self.ranges[row].1).unwrap_or(&[]);
        let longest = (0..rows).map(|row| values(row).len()).max().unwrap_or(0);
        if longest > LONGEST_LIST {
            return Err(format!("a list of {longest} items, at most {LONGEST_LIST} are read"));
        }
        let width = self.length.unwrap_or(longest);
        if rows.saturating_mul(width) > FREE_ITEMS.max(self.numbers.len().saturating_mul(1000)) {
            return Err(format!(
                "lists of up to {width} items, mostly much shorter, would fill the memory as {rows} rows of columns"
            ));
        }
        let column = |at: usize| (0..rows).map(|row| values(row).get(at).copied().unwrap_or(f64::NAN)).collect();
        Ok((0..width.max(1)).map(|at| Values::Number(column(at))).collect())
    }
}
