//! NumPy's `.npy`: a magic, a header that is a Python literal, and the bytes of one array.
//!
//! The shape is checked against the bytes that are there before anything is allocated.

use super::{Column, MAX_COLUMNS, MISSING, Table, Values};
use crate::error::DataError;
use crate::suggest;

/// The first bytes of every `.npy` file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a 1-D or 2-D array of numbers; columns are named by index.
pub(super) fn parse(name: &str, bytes: &[u8]) -> Result<Table, DataError> {
    let array =
        Array::parse(bytes).map_err(|problem| DataError::Binary { file: name.to_owned(), format: "NPY", problem })?;
    let columns: Vec<Column> = (0..array.columns)
        .map(|column| Column { name: column.to_string(), values: Values::Number(array.column(column)) })
        .collect();
    Ok(Table { name: name.to_owned(), columns, rows: array.rows, header: false, reading: Default::default() })
}

/// A checked array: `data` holds exactly `rows · columns` items.
pub(super) struct Array<'a> {
    item: Item,
    fortran: bool,
    pub rows: usize,
    pub columns: usize,
    /// One dimension only.
    pub flat: bool,
    data: &'a [u8],
}

impl<'a> Array<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let (header, data) = split_header(bytes)?;
        let item = Item::parse(&quoted(value_of(header, "descr")?)?)?;
        let fortran = match value_of(header, "fortran_order")? {
            rest if rest.starts_with("False") => false,
            rest if rest.starts_with("True") => true,
            _ => return Err("fortran_order in its header is neither True nor False".into()),
        };
        let shape = shape(value_of(header, "shape")?)?;
        let (rows, columns) = match shape[..] {
            [rows] => (rows, 1),
            [rows, columns] => (rows, columns),
            _ => {
                return Err(format!(
                    "its array has {} dimensions, a table has 2; reshape it to (rows, columns)",
                    shape.len()
                ));
            }
        };
        if rows == 0 || columns == 0 {
            return Err(format!("its array of {rows} × {columns} is empty"));
        }
        let wanted = (rows as u128 * columns as u128).saturating_mul(item.size() as u128);
        if wanted != data.len() as u128 {
            return Err(format!(
                "its header promises {rows} × {columns} items of {} bytes, {wanted} bytes, and {} follow; \
                 it is cut short or damaged",
                item.size(),
                data.len()
            ));
        }
        if columns > MAX_COLUMNS || rows >= MISSING as usize {
            return Err(format!("an array of {rows} × {columns} is too large for a table"));
        }
        Ok(Array { item, fortran, rows, columns, flat: shape.len() == 1, data })
    }

    pub(super) fn column(&self, column: usize) -> Vec<f64> {
        let size = self.item.size();
        let (first, step) = match self.fortran {
            true => (column * self.rows, 1),
            false => (column, self.columns),
        };
        self.data
            .chunks_exact(size)
            .skip(first)
            .step_by(step)
            .take(self.rows)
            .map(|bytes| self.item.read(bytes))
            .collect()
    }
}

/// The header text and the bytes behind it.
fn split_header(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    let cut = || "its header is cut short".to_owned();
    let rest = bytes.strip_prefix(MAGIC).ok_or("it does not begin with \\x93NUMPY")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match version[0] {
        1 => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
            (u16::from_le_bytes(*length) as usize, rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        other => return Err(format!("version {other} of the format is not known")),
    };
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is not text".to_owned())?;
    Ok((header, data))
}

/// What follows `'key':` in the header.
fn value_of<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    [format!("'{key}'"), format!("\"{key}\"")]
        .iter()
        .find_map(|quoted| header.split_once(quoted.as_str()))
        .and_then(|(_, rest)| rest.trim_start().strip_prefix(':'))
        .map(str::trim_start)
        .ok_or_else(|| format!("its header does not say {key}"))
}

/// A quoted Python string.
fn quoted(text: &str) -> Result<String, String> {
    let mark = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    mark.and_then(|mark| text[1..].split_once(mark))
        .map(|(inner, _)| inner.to_owned())
        .ok_or_else(|| "it holds records of several fields; save a plain 2-D array of numbers".to_owned())
}

/// A Python tuple of sizes.
fn shape(text: &str) -> Result<Vec<usize>, String> {
    let inner = text
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
        .map(|(inner, _)| inner)
        .ok_or("its shape is not a tuple")?;
    let sizes: Vec<&str> = inner.split(',').map(str::trim).collect();
    let sizes = match sizes.split_last() {
        Some((&"", rest)) => rest,
        _ => &sizes[..],
    };
    if sizes.len() > 32 {
        return Err("its shape has more than 32 dimensions".into());
    }
    sizes
        .iter()
        .map(|size| size.parse::<usize>().map_err(|_| format!("{:?} in its shape is not a size", suggest::short(size))))
        .collect()
}

/// The types of items that are read.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Item {
    F4,
    F8,
    I1,
    I2,
    I4,
    I8,
    U1,
    U2,
    U4,
    U8,
    Bool,
}

impl Item {
    fn parse(descr: &str) -> Result<Item, String> {
        let code = descr.trim_start_matches(['<', '|', '=']);
        Ok(match code {
            "f4" => Item::F4,
            "f8" => Item::F8,
            "i1" | "b" => Item::I1,
            "i2" => Item::I2,
            "i4" => Item::I4,
            "i8" => Item::I8,
            "u1" | "B" => Item::U1,
            "u2" => Item::U2,
            "u4" => Item::U4,
            "u8" => Item::U8,
            "b1" | "?" => Item::Bool,
            _ => {
                return Err(format!(
                    "items of type {:?} are not read; save it with .astype(\"<f4\")",
                    suggest::short(descr)
                ));
            }
        })
    }

    fn size(self) -> usize {
        match self {
            Item::I1 | Item::U1 | Item::Bool => 1,
            Item::I2 | Item::U2 => 2,
            Item::F4 | Item::I4 | Item::U4 => 4,
            Item::F8 | Item::I8 | Item::U8 => 8,
        }
    }

    /// `bytes` holds one item.
    fn read(self, bytes: &[u8]) -> f64 {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide);
        match self {
            Item::F4 => f32::from_bits(bits as u32) as f64,
            Item::F8 => f64::from_bits(bits),
            Item::I1 => bits as i8 as f64,
            Item::I2 => bits as i16 as f64,
            Item::I4 => bits as i32 as f64,
            Item::I8 => bits as i64 as f64,
            Item::U1 | Item::U2 | Item::U4 | Item::U8 => bits as f64,
            Item::Bool => (bits != 0) as u8 as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ReadOptions;

    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn columns(bytes: &[u8]) -> Vec<Vec<f64>> {
        let table = parse("a.npy", bytes).unwrap();
        let values = |c: Column| match c.values {
            Values::Number(values) => values,
            Values::Text { .. } => unreachable!(),
        };
        table.columns.into_iter().map(values).collect()
    }

    fn message(header: &str, data: &[u8]) -> String {
        parse("a.npy", &npy(header, data)).unwrap_err().to_string()
    }

    #[test]
    fn both_orders_and_many_types() {
        let c = "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 3), }\n";
        let want = vec![vec![1., 4.], vec![2., 5.], vec![3., -1.]];
        assert_eq!(columns(&npy(c, &[1, 2, 3, 4, 5, 255])), want);
        let f = "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }\n";
        assert_eq!(columns(&npy(f, &[1, 4, 2, 5, 3, 255])), want);
        let one = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
        let data: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(columns(&npy(one, &data)), [[1.5, -2.0]]);
        let wide = "{'descr': '<u8', 'fortran_order': False, 'shape': (1, 1)}";
        assert_eq!(columns(&npy(wide, &[255; 8])), [[u64::MAX as f64]]);
        let flags = "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 1)}";
        assert_eq!(columns(&npy(flags, &[0, 1])), [[0., 1.]]);
    }

    #[test]
    fn bad_files_are_refused() {
        let h = |descr: &str, shape: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}");
        assert!(message(&h("'<f8'", "(2, 2)"), &[0; 24]).contains("cut short"));
        let huge = h("'<f8'", "(999999999999, 999999999999)");
        assert!(message(&huge, &[]).contains("promises"));
        assert!(message(&h("'<f8'", "(0, 99999999999999)"), &[]).contains("empty"));
        assert!(message(&h("'>f8'", "(1, 1)"), &[0; 8]).contains("astype"));
        assert!(message(&h("'|O'", "(1, 1)"), &[0; 8]).contains("astype"));
        assert!(message(&h("[('a', '<f8')]", "(1,)"), &[0; 8]).contains("fields"));
        assert!(message(&h("'<f8'", "(1, 1, 1)"), &[0; 8]).contains("3 dimensions"));
        assert!(message(&h("'<f8'", "()"), &[0; 8]).contains("0 dimensions"));
        assert!(message("{}", &[]).contains("descr"));
        let infinite = npy(&h("'<f8'", "(1, 1)"), &f64::INFINITY.to_le_bytes());
        let got = Table::from_bytes("a.npy", &infinite, &ReadOptions::default()).unwrap_err().to_string();
        assert!(got.contains("row 1") && got.contains("infinite"), "{got}");
        let whole = npy(&h("'<f8'", "(1, 1)"), &[0; 8]);
        for cut in 0..whole.len() {
            assert!(parse("a.npy", &whole[..cut]).is_err());
        }
    }
}
