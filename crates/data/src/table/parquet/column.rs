//! One column of a row group, decoded some rows at a time.

use std::borrow::Cow;

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type as types;
use parquet::data_type::{AsBytes, ByteArray, FixedLenByteArray, Int96};
use parquet::errors::Result;
use parquet::schema::types::ColumnDescPtr;

use super::types::Root;
use crate::table::blocks::Numbers;
use crate::table::cell::MissingTokens;
use crate::table::columnar::{self, FieldKind, Labels, Lists};
use crate::table::{MISSING, Values};

/// A column and the rows of it that were decoded last.
pub(super) struct Column {
    root: Root,
    values: Decoded,
    /// A value is there where the level is this; below, it is missing.
    present: i16,
    /// An item of a list, missing or not, where the level is at least this.
    item: i16,
    /// A level for each row, or for each item and each list without items; none if there are no levels.
    levels: Vec<i16>,
    /// 0 where a row begins.
    repetition: Vec<i16>,
    rows: usize,
}

/// The values that are there.
enum Decoded {
    Bool(Typed<types::BoolType>),
    I32(Typed<types::Int32Type>),
    I64(Typed<types::Int64Type>),
    I96(Typed<types::Int96Type>),
    F32(Typed<types::FloatType>),
    F64(Typed<types::DoubleType>),
    Bytes(Typed<types::ByteArrayType>),
    Fixed(Typed<types::FixedLenByteArrayType>),
}

struct Typed<T: types::DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
}

impl<T: types::DataType> Typed<T> {
    fn new(reader: ColumnReaderImpl<T>) -> Typed<T> {
        Typed { reader, values: Vec::new() }
    }

    /// How many rows there were.
    fn read(&mut self, rows: usize, levels: &mut Vec<i16>, repetition: &mut Vec<i16>) -> Result<usize> {
        self.values.clear();
        Ok(self.reader.read_records(rows, Some(levels), Some(repetition), &mut self.values)?.0)
    }
}

/// The same for every type of values.
macro_rules! each {
    ($decoded:expr, $typed:ident => $result:expr) => {
        match $decoded {
            Decoded::Bool($typed) => $result,
            Decoded::I32($typed) => $result,
            Decoded::I64($typed) => $result,
            Decoded::I96($typed) => $result,
            Decoded::F32($typed) => $result,
            Decoded::F64($typed) => $result,
            Decoded::Bytes($typed) => $result,
            Decoded::Fixed($typed) => $result,
        }
    };
}

impl Column {
    pub(super) fn new(root: Root, about: ColumnDescPtr, pages: Box<dyn PageReader>) -> Column {
        let (present, item) = (about.max_def_level(), about.repeated_ancestor_def_level());
        let values = match get_column_reader(about, pages) {
            ColumnReader::BoolColumnReader(reader) => Decoded::Bool(Typed::new(reader)),
            ColumnReader::Int32ColumnReader(reader) => Decoded::I32(Typed::new(reader)),
            ColumnReader::Int64ColumnReader(reader) => Decoded::I64(Typed::new(reader)),
            ColumnReader::Int96ColumnReader(reader) => Decoded::I96(Typed::new(reader)),
            ColumnReader::FloatColumnReader(reader) => Decoded::F32(Typed::new(reader)),
            ColumnReader::DoubleColumnReader(reader) => Decoded::F64(Typed::new(reader)),
            ColumnReader::ByteArrayColumnReader(reader) => Decoded::Bytes(Typed::new(reader)),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => Decoded::Fixed(Typed::new(reader)),
        };
        Column { root, values, present, item, levels: Vec::new(), repetition: Vec::new(), rows: 0 }
    }

    /// Skips rows; how many there were.
    pub(super) fn skip(&mut self, rows: usize) -> Result<usize> {
        each!(&mut self.values, typed => typed.reader.skip_records(rows))
    }

    /// Decodes the next rows; how many there were.
    pub(super) fn read(&mut self, rows: usize) -> Result<usize> {
        self.levels.clear();
        self.repetition.clear();
        self.rows = each!(&mut self.values, typed => typed.read(rows, &mut self.levels, &mut self.repetition))?;
        Ok(self.rows)
    }

    /// The rows as columns of a table: one, or as many as the longest list has items.
    pub(super) fn values(&self, missing: &MissingTokens) -> std::result::Result<Vec<Values>, String> {
        match self.root.kind {
            FieldKind::Number => Ok(vec![Values::Number(self.floats())]),
            FieldKind::Text => Ok(vec![self.text(missing)?]),
            FieldKind::Time(kind) => Ok(vec![columnar::times(&self.floats(), kind)]),
            FieldKind::List(length) => self.lists(length),
        }
    }

    /// The rows as the numbers they are, or as f64 where some are missing or mean something else.
    pub(super) fn numbers(&self) -> Numbers<'_> {
        use DataType::*;
        let whole = each!(&self.values, typed => typed.values.len()) == self.rows;
        match (&self.values, &self.root.data_type) {
            (Decoded::F32(typed), Float32) if whole => Numbers::F32(&typed.values),
            (Decoded::F64(typed), Float64) if whole => Numbers::F64(Cow::Borrowed(&typed.values)),
            (Decoded::I32(typed), Int8 | Int16 | Int32 | Date32) if whole => Numbers::I32(&typed.values),
            (Decoded::I64(typed), Int64) if whole => Numbers::I64(&typed.values),
            _ => Numbers::F64(Cow::Owned(self.floats())),
        }
    }

    /// The rows, or the items of all lists one after the other, as f64.
    fn floats(&self) -> Vec<f64> {
        let of = &self.root.data_type;
        match &self.values {
            Decoded::Bool(typed) => self.spread(&typed.values, |value| *value as u8 as f64),
            Decoded::F32(typed) => self.spread(&typed.values, |value| *value as f64),
            Decoded::F64(typed) => self.spread(&typed.values, |value| *value),
            Decoded::I32(typed) => {
                let number = integer(of);
                self.spread(&typed.values, |value| match of {
                    // Whole days, in seconds as every Date64.
                    DataType::Date64 => *value as f64 * 86400.0,
                    DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => *value as u32 as f64,
                    _ => number(*value as i64),
                })
            }
            Decoded::I64(typed) => {
                let number = integer(of);
                self.spread(&typed.values, |value| number(*value))
            }
            Decoded::I96(typed) => self.spread(&typed.values, |value: &Int96| value.to_nanos() as f64 / 1e9),
            Decoded::Bytes(typed) => self.spread(&typed.values, |value: &ByteArray| big_endian(of, value.data())),
            Decoded::Fixed(typed) => {
                self.spread(&typed.values, |value: &FixedLenByteArray| big_endian(of, value.as_bytes()))
            }
        }
    }

    /// Values with NaN where they are missing.
    fn spread<T>(&self, values: &[T], number: impl Fn(&T) -> f64) -> Vec<f64> {
        if self.levels.is_empty() || self.levels.len() == values.len() {
            return values.iter().map(number).collect();
        }
        let mut values = values.iter();
        let items = self.levels.iter().filter(|level| **level >= self.item);
        let value = |level: &i16| match *level == self.present {
            true => values.next().map_or(f64::NAN, &number),
            false => f64::NAN,
        };
        items.map(value).collect()
    }

    fn text(&self, missing: &MissingTokens) -> std::result::Result<Values, String> {
        let mut labels = Labels::new(missing, self.rows);
        match (&self.root.data_type, &self.values) {
            (DataType::Null, _) => labels.codes.resize(self.rows, MISSING),
            (_, Decoded::Bytes(typed)) => {
                let words = typed.values.iter().map(|value| std::str::from_utf8(value.data()));
                let words: Vec<&str> =
                    words.collect::<std::result::Result<_, _>>().map_err(|_| "text that is not UTF-8")?;
                match self.levels.is_empty() {
                    true => labels.take(words.into_iter().map(Some)),
                    false => {
                        let mut words = words.into_iter();
                        let word = |level: &i16| if *level == self.present { words.next() } else { None };
                        labels.take(self.levels.iter().map(word));
                    }
                }
            }
            (other, _) => return Err(format!("a column of {other} where text was expected")),
        }
        Ok(labels.values())
    }

    fn lists(&self, length: Option<usize>) -> std::result::Result<Vec<Values>, String> {
        let mut ranges: Vec<(usize, usize)> = Vec::with_capacity(self.rows);
        let mut items = 0;
        for (level, repetition) in self.levels.iter().zip(&self.repetition) {
            if *repetition == 0 {
                ranges.push((items, items));
            }
            items += (*level >= self.item) as usize;
            ranges.last_mut().ok_or("an item before the first list")?.1 = items;
        }
        if let Some(length) = length {
            // A list that is missing has no items either.
            let other = |(from, to): &&(usize, usize)| to > from && to - from != length;
            if let Some((from, to)) = ranges.iter().find(other) {
                return Err(format!("a list of {} items where all have {length}", to - from));
            }
        }
        Lists { numbers: self.floats(), ranges, length }.columns()
    }
}

/// What an integer stands for; everything about time but dates is in seconds.
fn integer(data_type: &DataType) -> impl Fn(i64) -> f64 {
    use DataType::*;
    let decimal = match data_type {
        Decimal128(_, scale) => Some(*scale),
        _ => None,
    };
    let unsigned = *data_type == UInt64;
    let per_second = match data_type {
        Date64 => 1e3,
        Timestamp(unit, _) | Time32(unit) | Time64(unit) | Duration(unit) => match unit {
            TimeUnit::Second => 1.0,
            TimeUnit::Millisecond => 1e3,
            TimeUnit::Microsecond => 1e6,
            TimeUnit::Nanosecond => 1e9,
        },
        _ => 1.0,
    };
    move |value| match decimal {
        Some(scale) => columnar::decimal(value as i128, scale),
        None if unsigned => value as u64 as f64,
        None => value as f64 / per_second,
    }
}

/// What bytes stand for: decimals, the largest digits first, and halves.
fn big_endian(data_type: &DataType, bytes: &[u8]) -> f64 {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    match (data_type, bytes) {
        (DataType::Float16, [low, high]) => Half::from_le_bytes([*low, *high]).to_f64(),
        (DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale), bytes) if bytes.len() <= 32 => {
            let sign = if bytes.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 };
            let mut wide = [sign; 32];
            wide[32 - bytes.len()..].copy_from_slice(bytes);
            let value = i256::from_be_bytes(wide);
            match value.to_i128() {
                Some(value) => columnar::decimal(value, *scale),
                None => columnar::scaled(&value.to_string(), *scale),
            }
        }
        _ => f64::NAN,
    }
}
