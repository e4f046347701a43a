//! NumPy's `.npz`: a zip of `.npy` files, one for each array, stored or deflated.
//!
//! An array of one dimension is a column of its name; one of two is columns `name_0`, `name_1` ….

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use super::npy::Array;
use super::{Column, MAX_COLUMNS, Table, Values, unique_names};
use crate::error::DataError;
use crate::file::{FREE_GROWTH, MAX_GROWTH, uncompressed_name};

/// The first bytes of every zip file that holds something.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";

/// Reads every array of the file.
pub(super) fn parse(name: &str, bytes: &[u8]) -> Result<Table, DataError> {
    let broken = |problem: String| DataError::Binary { file: name.to_owned(), format: "NPZ", problem };
    let other = || DataError::Unsupported {
        file: name.to_owned(),
        what: "a zip or XLSX file, and not one of arrays (NPZ)".to_owned(),
        next: "save the table as CSV, Parquet or NPZ".to_owned(),
    };
    let archive = match ZipArchive::new(Cursor::new(bytes)) {
        Ok(archive) => archive,
        Err(error) if uncompressed_name(name).ends_with(".npz") => return Err(broken(problem_of(&error))),
        Err(_) => return Err(other()),
    };
    if !archive.file_names().any(|member| member.ends_with(".npy")) {
        return Err(other());
    }
    let (columns, rows) = arrays(bytes.len() as u64, archive).map_err(broken)?;
    Ok(Table { name: name.to_owned(), columns, rows, header: true, reading: Default::default() })
}

/// The columns of all arrays, and their rows.
fn arrays(size: u64, mut archive: ZipArchive<Cursor<&[u8]>>) -> Result<(Vec<Column>, usize), String> {
    let mut room = FREE_GROWTH.max(size.saturating_mul(MAX_GROWTH));
    let mut columns: Vec<Column> = Vec::new();
    let mut first: Option<(String, usize)> = None;
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(|error| problem_of(&error))?;
        let Some(name) = member.name().strip_suffix(".npy").map(str::to_owned) else { continue };
        let mut bytes = Vec::new();
        (&mut member)
            .take(room + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("array {name:?} cannot be decompressed ({error}); copy the file again"))?;
        room = room.checked_sub(bytes.len() as u64).ok_or_else(|| {
            format!("it expands more than {MAX_GROWTH} times, refused as it may fill the memory; use np.savez")
        })?;
        let array = Array::parse(&bytes).map_err(|problem| format!("array {name:?}: {problem}"))?;
        let (first_name, rows) = first.get_or_insert_with(|| (name.clone(), array.rows));
        if array.rows != *rows {
            return Err(format!(
                "array {name:?} has {} rows, array {first_name:?} has {rows}; arrays of a table have the same",
                array.rows
            ));
        }
        if columns.len() + array.columns > MAX_COLUMNS {
            return Err(format!("more than {MAX_COLUMNS} columns"));
        }
        columns.extend((0..array.columns).map(|at| Column {
            name: if array.flat { name.clone() } else { format!("{name}_{at}") },
            values: Values::Number(array.column(at)),
        }));
    }
    let mut names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    unique_names(&mut names);
    columns.iter_mut().zip(names).for_each(|(column, name)| column.name = name);
    Ok((columns, first.map_or(0, |(_, rows)| rows)))
}

fn problem_of(error: &ZipError) -> String {
    match error {
        ZipError::UnsupportedArchive(why) => format!("{why}; save it with np.savez"),
        other => format!("its zip is cut short or damaged ({other}); copy or download it again"),
    }
}
