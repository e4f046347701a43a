//! What the columns of a Parquet file are, in the words of Arrow's types.
//!
//! A file says it by a physical type and an annotation, of which there are an old and a new kind; one that was
//! written from Arrow arrays also holds their schema, which knows durations and lists of a fixed length.

use std::sync::Arc;

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::root_as_message;
use arrow_schema::{DataType, Schema, TimeUnit};
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit as Unit, Type as Physical};
use parquet::file::metadata::FileMetaData;
use parquet::schema::types::Type;

use crate::table::columnar::{FieldKind, field_kind};

/// The longest name of a type in a message.
const LONGEST_NAME: usize = 200;

/// A field of the schema that can be read.
#[derive(Debug, Clone)]
pub(super) struct Root {
    /// The column of the file that holds it.
    pub leaf: usize,
    pub kind: FieldKind,
    /// Of its values, or of the items of its lists.
    pub data_type: DataType,
}

/// Each field, or what it is and why it is not read.
pub(super) fn roots(file: &FileMetaData) -> Vec<Result<Root, String>> {
    let schema = file.schema_descr();
    let fields = schema.root_schema().get_fields();
    let hints = hints(file).filter(|hints| hints.fields().len() == fields.len());
    let mut leaf = 0;
    let root = |(place, field): (usize, &Arc<Type>)| {
        let first = leaf;
        while leaf < schema.num_columns() && schema.get_column_root_idx(leaf) == place {
            leaf += 1;
        }
        let hint = hints.as_ref().map(|hints| hints.field(place)).filter(|hint| hint.name() == field.name());
        let (kind, data_type) = field_type(field, hint.map(|hint| hint.data_type())).map_err(short)?;
        Ok(Root { leaf: first, kind, data_type })
    };
    fields.iter().enumerate().map(root).collect()
}

fn short(mut what: String) -> String {
    if let Some((end, _)) = what.char_indices().nth(LONGEST_NAME) {
        what.truncate(end);
    }
    what
}

/// The schema of the arrays that the file was written from.
fn hints(file: &FileMetaData) -> Option<Schema> {
    let entry = file.key_value_metadata()?.iter().find(|entry| entry.key == "ARROW:schema")?;
    let bytes = base64(entry.value.as_ref()?)?;
    let message = if bytes.starts_with(&[0xff; 4]) { bytes.get(8..)? } else { &bytes };
    try_fb_to_schema(root_as_message(message).ok()?.header_as_schema()?).ok()
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let mut bits = 0u32;
        for at in 0..4 {
            bits = bits << 6 | four.get(at).map_or(Some(0), |byte| digit(*byte))? as u32;
        }
        bytes.extend(&bits.to_be_bytes()[1..four.len().max(1)]);
    }
    Some(bytes)
}

/// How a field is read, and the type of its values or items.
fn field_type(field: &Type, hint: Option<&DataType>) -> Result<(FieldKind, DataType), String> {
    let info = field.get_basic_info();
    if field.is_primitive() {
        let item = primitive(field, hint)?;
        return match info.repetition() {
            Repetition::REPEATED => list(item, None),
            _ => kind_of(item),
        };
    }
    let is_list =
        matches!(info.logical_type_ref(), Some(LogicalType::List)) || info.converted_type() == ConvertedType::LIST;
    let is_map = matches!(info.logical_type_ref(), Some(LogicalType::Map))
        || matches!(info.converted_type(), ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE);
    let repeated = |field: &Type| field.get_basic_info().repetition() == Repetition::REPEATED;
    let [entries] = field.get_fields() else { return Err("Struct, which is not read".into()) };
    match (is_list, is_map) {
        (_, true) => return Err("Map, which is not read".into()),
        (true, _) if repeated(entries) && !repeated(field) => {}
        _ => return Err("Struct, which is not read".into()),
    }
    let (inner, length) = match hint {
        Some(DataType::List(item) | DataType::LargeList(item)) => (Some(item.data_type()), None),
        Some(DataType::FixedSizeList(item, length)) => (Some(item.data_type()), Some(*length)),
        _ => (None, None),
    };
    if entries.is_primitive() {
        return list(primitive(entries, inner)?, length);
    }
    // Written by old tools, an entry of these names is the item itself, a structure.
    let is_item = entries.name() == "array" || entries.name() == format!("{}_tuple", field.name());
    match entries.get_fields() {
        [item] if item.is_primitive() && !repeated(item) && !is_item => list(primitive(item, inner)?, length),
        _ => Err("List of nested values, and only lists of numbers are read".into()),
    }
}

fn kind_of(data_type: DataType) -> Result<(FieldKind, DataType), String> {
    match field_kind(&data_type) {
        Ok(kind) => Ok((kind, data_type)),
        Err(why) => Err(format!("{data_type}, {why}")),
    }
}

/// A list of these items, as Arrow has them.
fn list(item: DataType, length: Option<i32>) -> Result<(FieldKind, DataType), String> {
    let list = match length {
        Some(length) => DataType::new_fixed_size_list(item.clone(), length, true),
        None => DataType::new_list(item.clone(), true),
    };
    kind_of(list).map(|(kind, _)| (kind, item))
}

fn primitive(field: &Type, hint: Option<&DataType>) -> Result<DataType, String> {
    let found = annotated(field)?;
    Ok(hint.and_then(|hint| hinted(&found, hint)).unwrap_or(found))
}

/// What the schema of the arrays knows better.
fn hinted(found: &DataType, hint: &DataType) -> Option<DataType> {
    use DataType::*;
    match (found, hint) {
        (_, Dictionary(_, values)) => hinted(found, values),
        (Int32, Timestamp(..) | Time32(_)) | (Int64, Timestamp(..) | Time64(_) | Duration(_) | Date64) => {
            Some(hint.clone())
        }
        (Date32, Date64) => Some(Date64),
        (Binary, Utf8 | LargeUtf8 | Utf8View) => Some(Utf8),
        _ => None,
    }
}

fn annotated(field: &Type) -> Result<DataType, String> {
    use DataType::*;
    let Type::PrimitiveType { basic_info: info, physical_type, type_length, scale, precision } = field else {
        return Err("Struct, which is not read".into());
    };
    let (logical, converted) = (info.logical_type_ref(), info.converted_type());
    if let Some(LogicalType::Unknown) = logical {
        return Ok(Null);
    }
    let unknown = || match logical {
        Some(logical) => format!("{physical_type} as {logical:?}, which is not read"),
        None => format!("{physical_type} as {converted}, which is not read"),
    };
    let decimal = match (logical, converted) {
        (Some(LogicalType::Decimal(decimal)), _) => Some((decimal.precision, decimal.scale)),
        (None, ConvertedType::DECIMAL) => Some((*precision, *scale)),
        _ => None,
    };
    if let Some((precision, scale)) = decimal {
        let bytes = match physical_type {
            Physical::INT32 | Physical::INT64 => 16,
            Physical::BYTE_ARRAY => 32,
            Physical::FIXED_LEN_BYTE_ARRAY if (1..=32).contains(type_length) => *type_length,
            _ => return Err(unknown()),
        };
        let (precision, scale) = u8::try_from(precision).ok().zip(i8::try_from(scale).ok()).ok_or_else(unknown)?;
        return Ok(if bytes <= 16 { Decimal128(precision, scale) } else { Decimal256(precision, scale) });
    }
    Ok(match (physical_type, logical, converted) {
        (Physical::BOOLEAN, ..) => Boolean,
        (Physical::FLOAT, ..) => Float32,
        (Physical::DOUBLE, ..) => Float64,
        (Physical::INT96, ..) => Timestamp(TimeUnit::Nanosecond, None),
        (Physical::INT32, Some(LogicalType::Integer(int)), _) => match (int.bit_width, int.is_signed) {
            (8, true) => Int8,
            (16, true) => Int16,
            (32, true) => Int32,
            (8, false) => UInt8,
            (16, false) => UInt16,
            (32, false) => UInt32,
            _ => return Err(unknown()),
        },
        (Physical::INT32, None, ConvertedType::NONE | ConvertedType::INT_32) => Int32,
        (Physical::INT32, None, ConvertedType::INT_8) => Int8,
        (Physical::INT32, None, ConvertedType::INT_16) => Int16,
        (Physical::INT32, None, ConvertedType::UINT_8) => UInt8,
        (Physical::INT32, None, ConvertedType::UINT_16) => UInt16,
        (Physical::INT32, None, ConvertedType::UINT_32) => UInt32,
        (Physical::INT32, Some(LogicalType::Date), _) | (Physical::INT32, None, ConvertedType::DATE) => Date32,
        (Physical::INT32, None, ConvertedType::TIME_MILLIS) => Time32(TimeUnit::Millisecond),
        (Physical::INT64, Some(LogicalType::Integer(int)), _) if int.bit_width == 64 => match int.is_signed {
            true => Int64,
            false => UInt64,
        },
        (Physical::INT64, None, ConvertedType::NONE | ConvertedType::INT_64) => Int64,
        (Physical::INT64, None, ConvertedType::UINT_64) => UInt64,
        (Physical::INT64, None, ConvertedType::TIME_MICROS) => Time64(TimeUnit::Microsecond),
        (Physical::INT64, None, ConvertedType::TIMESTAMP_MILLIS) => Timestamp(TimeUnit::Millisecond, None),
        (Physical::INT64, None, ConvertedType::TIMESTAMP_MICROS) => Timestamp(TimeUnit::Microsecond, None),
        (Physical::INT64, Some(LogicalType::Timestamp(timestamp)), _) => Timestamp(unit(timestamp.unit), None),
        (Physical::INT32, Some(LogicalType::Time(time)), _) if time.unit == Unit::MILLIS => {
            Time32(TimeUnit::Millisecond)
        }
        (Physical::INT64, Some(LogicalType::Time(time)), _) if time.unit != Unit::MILLIS => Time64(unit(time.unit)),
        (Physical::BYTE_ARRAY, Some(LogicalType::String | LogicalType::Json), _)
        | (Physical::BYTE_ARRAY, None, ConvertedType::UTF8 | ConvertedType::JSON) => Utf8,
        (Physical::BYTE_ARRAY, ..) => Binary,
        (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16), _) if *type_length == 2 => Float16,
        (Physical::FIXED_LEN_BYTE_ARRAY, ..) => FixedSizeBinary(*type_length),
        _ => return Err(unknown()),
    })
}

fn unit(unit: Unit) -> TimeUnit {
    match unit {
        Unit::MILLIS => TimeUnit::Millisecond,
        Unit::MICROS => TimeUnit::Microsecond,
        Unit::NANOS => TimeUnit::Nanosecond,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length() {
        for (text, want) in [("", &b""[..]), ("Zg==", b"f"), ("Zm8=", b"fo"), ("Zm9v", b"foo"), ("Zm9vYg==", b"foob")] {
            assert_eq!(base64(text).as_deref(), Some(want), "{text}");
        }
        assert_eq!(base64("+/8="), Some(vec![0xfb, 0xff]));
        assert_eq!(base64("Zm9!"), None);
    }
}
