//! What a row of a source looks like: named fields of fixed shape.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::DataError;

/// The name of the field a network takes, and of the one it predicts.
pub const INPUT: &str = "x";
pub const TARGET: &str = "y";

/// More fields than any source has.
pub const MOST_FIELDS: usize = 64;

/// How the values of a field are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    U8,
    I32,
    F32,
}

impl Kind {
    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Kind::U8 => 1,
            Kind::I32 | Kind::F32 => 4,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::U8 => "u8",
            Kind::I32 => "i32",
            Kind::F32 => "f32",
        })
    }
}

/// One field of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    pub name: String,
    pub kind: Kind,
    /// Of one row; empty for a single number.
    pub shape: Vec<usize>,
    /// Names of the classes that an i32 field counts, in order; empty where it holds no classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

impl Field {
    pub fn new(name: &str, kind: Kind, shape: &[usize]) -> Field {
        Field { name: name.to_owned(), kind, shape: shape.to_vec(), labels: Vec::new() }
    }

    /// A class number, with the names of the classes.
    pub fn classes(name: &str, labels: Vec<String>) -> Field {
        Field { name: name.to_owned(), kind: Kind::I32, shape: Vec::new(), labels }
    }

    /// Values in one row.
    pub fn width(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of one row.
    pub fn bytes(&self) -> usize {
        self.width() * self.kind.bytes()
    }
}

/// `x f32[3, 32, 32]`
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.kind)?;
        if !self.shape.is_empty() {
            write!(f, "{:?}", self.shape)?;
        }
        if !self.labels.is_empty() {
            write!(f, " ({} classes)", self.labels.len())?;
        }
        Ok(())
    }
}

/// The fields of a row, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Claimed")]
pub struct Schema {
    pub fields: Vec<Field>,
}

/// A schema as a file has it, before its sizes are checked.
#[derive(Deserialize)]
struct Claimed {
    fields: Vec<Field>,
}

impl TryFrom<Claimed> for Schema {
    type Error = DataError;

    fn try_from(claimed: Claimed) -> Result<Schema, DataError> {
        Schema::new(claimed.fields)
    }
}

impl Schema {
    /// Fields with different names, whose sizes can be counted.
    pub fn new(fields: Vec<Field>) -> Result<Schema, DataError> {
        if fields.len() > MOST_FIELDS {
            return Err(DataError::Inconsistent(format!(
                "{} fields, at most {MOST_FIELDS} are possible",
                fields.len()
            )));
        }
        for (i, field) in fields.iter().enumerate() {
            let width = field.shape.iter().try_fold(field.kind.bytes(), |bytes, size| bytes.checked_mul(*size));
            if width.is_none_or(|bytes| bytes > 1 << 40) {
                return Err(DataError::Inconsistent(format!(
                    "field {:?}: a row of shape {:?}",
                    field.name, field.shape
                )));
            }
            if fields[..i].iter().any(|other| other.name == field.name) {
                return Err(DataError::Inconsistent(format!("two fields {:?}", field.name)));
            }
        }
        Ok(Schema { fields })
    }

    /// The index of a field.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Bytes of one row, all fields together.
    pub fn row_bytes(&self) -> usize {
        self.fields.iter().map(Field::bytes).sum()
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, field) in self.fields.iter().enumerate() {
            write!(f, "{}{field}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_well_and_counts_bytes() {
        let schema = Schema::new(vec![
            Field::new(INPUT, Kind::F32, &[3, 4]),
            Field::classes(TARGET, vec!["cat".into(), "dog".into()]),
        ])
        .unwrap();
        assert_eq!(schema.to_string(), "x f32[3, 4], y i32 (2 classes)");
        assert_eq!(schema.row_bytes(), 52);
    }

    #[test]
    fn impossible_schemas_are_refused() {
        assert!(Schema::new(vec![Field::new("a", Kind::U8, &[]), Field::new("a", Kind::U8, &[])]).is_err());
        assert!(Schema::new(vec![Field::new("a", Kind::F32, &[usize::MAX, 2])]).is_err());
        // nor does a file bring one that was not checked
        let claim = |size: u64| format!(r#"{{"fields":[{{"name":"a","kind":"f32","shape":[{size},2]}}]}}"#);
        assert_eq!(serde_json::from_str::<Schema>(&claim(3)).unwrap().fields[0].width(), 6);
        let message = serde_json::from_str::<Schema>(&claim(u64::MAX)).unwrap_err().to_string();
        assert!(message.contains("field \"a\": a row of shape"), "{message}");
    }
}
