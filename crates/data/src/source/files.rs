//! Many files as one table, and the patterns that name files.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::concat::common_name;
use crate::error::DataError;
use crate::escape::Escaped;
use crate::suggest;
use crate::table::{MISSING, ReadOptions, Table, Values};

/// The files a pattern names (`*`, `?`, `[a-z]`, `**` for any folders), `part2` before `part10`. The name of a file that
/// is there is that file, whatever characters it has.
pub fn expand(pattern: &str) -> Result<Vec<PathBuf>, DataError> {
    if Path::new(pattern).is_file() {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let options =
        glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
    let paths = glob::glob_with(pattern, options).map_err(|error| DataError::Unsupported {
        file: pattern.to_owned(),
        what: format!("not a pattern: {} at character {}", error.msg, error.pos + 1),
        next: "use * for any characters, ? for one, [a-z] for one of several, ** for any folders".into(),
    })?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| DataError::Io { path: error.path().escaped(), source: error.into() })?;
        if path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(DataError::NotFound { path: pattern.to_owned(), hint: near(pattern) });
    }
    files.sort_by(|a, b| natural(&a.to_string_lossy(), &b.to_string_lossy()));
    Ok(files)
}

/// What there is where the pattern leads nowhere: the first folder it names that is not there, or the names near it.
fn near(pattern: &str) -> String {
    let mut folder = PathBuf::new();
    for part in Path::new(pattern).components() {
        let name = part.as_os_str().to_string_lossy();
        let next = folder.join(part);
        let wild = name.contains(['*', '?', '[']);
        if !wild && next.is_dir() {
            folder = next;
            continue;
        }
        let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        let mut names: Vec<String> = std::fs::read_dir(shown)
            .into_iter()
            .flatten()
            .flatten()
            .take(10_000)
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort_by(|a, b| natural(a, b));
        let plain = name.replace(['*', '?'], "");
        let hint = suggest::hint(&plain, names.iter().map(String::as_str));
        return match names.is_empty() {
            true => format!(" matches; {} is empty", shown.escaped()),
            false => format!(
                " matches{hint}; {} holds {}",
                shown.escaped(),
                suggest::list(names.iter().map(String::as_str), 8)
            ),
        };
    }
    " matches: it is a folder; name the files in it, such as with /*".to_owned()
}

/// Names in order, runs of digits by their value.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) else {
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (p, q) = (digits(left), digits(right));
            let (m, n) = (p.trim_start_matches('0'), q.trim_start_matches('0'));
            match m.len().cmp(&n.len()).then_with(|| m.cmp(n)) {
                Ordering::Equal => (left, right) = (&left[p.len()..], &right[q.len()..]),
                order => return order,
            }
        } else if x == y {
            (left, right) = (&left[x.len_utf8()..], &right[y.len_utf8()..]);
        } else {
            return x.cmp(&y);
        }
    }
}

fn digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

/// Tables with the same columns under each other. Columns are matched by name, those without a header by place; a
/// column that is text in one file is text in all.
pub fn tables(paths: &[PathBuf], options: &ReadOptions) -> Result<Table, DataError> {
    let Some((first, rest)) = paths.split_first() else {
        return Err(DataError::Inconsistent("no files to put together".into()));
    };
    let mut options = options.clone();
    let mut parts = vec![Table::read(first, &options)?];
    if options.expect_columns.is_empty() && parts[0].header {
        options.expect_columns = parts[0].names().map(str::to_owned).collect();
    }
    if options.expect_written.is_empty() {
        options.expect_written = parts[0].reading.written.clone();
    }
    for path in rest {
        let table = Table::read(path, &options)?;
        check_columns(&parts[0], &table)?;
        parts.push(table);
    }
    // cells of a column that is text somewhere are kept as they are written: 01 is not 1
    let is_text = |table: &Table, name: &str| {
        table.columns.iter().any(|column| column.name == name && matches!(column.values, Values::Text { .. }))
    };
    let names: Vec<String> = parts[0].names().map(str::to_owned).collect();
    let text: Vec<String> = names.into_iter().filter(|name| parts.iter().any(|table| is_text(table, name))).collect();
    options.expect_text.extend(text.iter().cloned());
    for (table, path) in parts.iter_mut().zip(paths) {
        if text.iter().any(|name| !is_text(table, name)) {
            *table = Table::read(path, &options)?;
        }
    }
    stack(parts)
}

/// The table has the columns of the first, in any order.
pub(super) fn check_columns(first: &Table, table: &Table) -> Result<(), DataError> {
    let other = |what: String, next: &str| {
        Err(DataError::Unsupported { file: table.name.clone(), what, next: next.to_owned() })
    };
    if first.header != table.header {
        let (with, without) = if first.header { (first, table) } else { (table, first) };
        return other(
            format!("{} has a header with names, {} has none", with.name, without.name),
            "give both or none a header, or say which with --header",
        );
    }
    let lacks = |table: &Table, names: &Table| -> Vec<String> {
        names.names().filter(|name| !table.names().any(|own| own == *name)).map(|name| format!("{name:?}")).collect()
    };
    let (missing, added) = (lacks(table, first), lacks(first, table));
    if missing.is_empty() && added.is_empty() {
        return Ok(());
    }
    let list = |names: &[String]| suggest::list(names.iter().map(String::as_str), 8);
    let mut difference = Vec::new();
    if !first.header {
        difference.push(format!("has {} columns, {} has {}", table.columns.len(), first.name, first.columns.len()));
    } else {
        if !missing.is_empty() {
            difference.push(format!("lacks {} of {}", list(&missing), first.name));
        }
        if !added.is_empty() {
            difference.push(format!("has {} in addition", list(&added)));
        }
    }
    other(difference.join(" and "), "tables that are read as one need the same columns")
}

fn stack(parts: Vec<Table>) -> Result<Table, DataError> {
    let name = common_name(parts.iter().map(|table| table.name.as_str()))?;
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else {
        return Err(DataError::Inconsistent("no files to put together".into()));
    };
    let mut numbers: Vec<_> = all.columns.iter().map(|column| codes_of(&column.values)).collect();
    for mut table in parts {
        for (column, numbers) in all.columns.iter_mut().zip(&mut numbers) {
            let from = table.columns.iter_mut().find(|from| from.name == column.name);
            let from = from.map(|from| std::mem::replace(&mut from.values, Values::Number(Vec::new())));
            match (&mut column.values, from) {
                (Values::Number(to), Some(Values::Number(from))) => to.extend(from),
                (Values::Text { codes, labels }, Some(Values::Text { codes: more, labels: names })) => {
                    let merged: Vec<u32> = names
                        .into_iter()
                        .map(|name| {
                            *numbers.entry(name).or_insert_with_key(|name| {
                                labels.push(name.clone());
                                labels.len() as u32 - 1
                            })
                        })
                        .collect();
                    codes.extend(more.iter().map(|code| merged.get(*code as usize).copied().unwrap_or(MISSING)));
                }
                _ => {
                    let (file, what) = (table.name, format!("column {:?} holds another kind of values", column.name));
                    return Err(DataError::Unsupported { file, what, next: "read the column as text".into() });
                }
            }
        }
        all.rows += table.rows;
        all.reading.add(table.reading);
    }
    all.name = name;
    all.check()?;
    Ok(all)
}

fn codes_of(values: &Values) -> HashMap<String, u32> {
    match values {
        Values::Number(_) => Default::default(),
        Values::Text { labels, .. } => labels.iter().cloned().zip(0..).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn names(dir: &tempfile::TempDir, pattern: &str) -> Result<String, String> {
        let files = expand(&dir.path().join(pattern).to_string_lossy()).map_err(|error| error.to_string())?;
        let short = |file: &PathBuf| file.strip_prefix(dir.path()).unwrap().to_string_lossy().replace('\\', "/");
        Ok(files.iter().map(short).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn patterns_find_files_in_natural_order() {
        let dir = folder(
            &["p10.csv", "p2.csv", "p02b.csv", "q1.csv", ".hidden.csv", "in/p3.csv", "in/deep/p4.csv", "a[1].x"]
                .map(|name| (name, "")),
        );
        assert_eq!(names(&dir, "p*.csv").unwrap(), "p2.csv p02b.csv p10.csv");
        assert_eq!(names(&dir, "[pq]?.csv").unwrap(), "p2.csv q1.csv");
        assert_eq!(names(&dir, "**/p?.csv").unwrap(), "in/deep/p4.csv in/p3.csv p2.csv");
        assert_eq!(names(&dir, "a[1].x").unwrap(), "a[1].x", "a file that is there is itself");
    }

    #[test]
    fn nothing_found_says_what_is_there() {
        let dir = folder(&[("train-1.csv", ""), ("train-2.csv", "")]);
        let error = names(&dir, "trian-*.csv").unwrap_err();
        assert!(error.contains("did you mean \"train-") && error.contains("holds train-1.csv, train-2.csv"), "{error}");
        let error = names(&dir, "dta/*.csv").unwrap_err();
        assert!(error.contains("dta/*.csv: no such file matches; "), "{error}");
        assert!(names(&dir, "a***").unwrap_err().contains("not a pattern"));
        assert!(names(&dir, "").unwrap_err().contains("it is a folder"));
        assert!(expand("").is_err());
    }

    #[test]
    fn natural_order_is_an_order() {
        let mut names = ["a1", "a01", "a", "a10", "a9", "b", "a1b", "é2", "é10", ""];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["", "a", "a01", "a1", "a1b", "a9", "a10", "b", "é2", "é10"]);
        for (a, b) in names.iter().flat_map(|a| names.iter().map(move |b| (a, b))) {
            assert_eq!(natural(a, b), natural(b, a).reverse());
        }
    }

    fn read(files: &[(&str, &str)]) -> Result<Table, String> {
        let dir = folder(files);
        let paths: Vec<PathBuf> = files.iter().map(|(name, _)| dir.path().join(name)).collect();
        tables(&paths, &ReadOptions::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn tables_stand_under_each_other() {
        let all = read(&[
            ("a.csv", "n,city\n1,Rome\n2,Oslo\n"),
            ("b.csv", "city,n\nBern,3\nRome,4\n,5\n"), // another order of columns, and a missing cell
        ])
        .unwrap();
        assert_eq!((all.rows, all.name.as_str()), (5, "a.csv and 1 more"));
        assert_eq!(all.columns[0].values, Values::Number(vec![1., 2., 3., 4., 5.]));
        let Values::Text { codes, labels } = &all.columns[1].values else { panic!() };
        assert_eq!((labels.join(" "), &codes[..]), ("Rome Oslo Bern".into(), &[0, 1, 2, 0, MISSING][..]));
    }

    #[test]
    fn a_column_that_is_text_in_one_file_is_text_in_all() {
        let all = read(&[("a.csv", "id,v\n01,1\n1,2\n"), ("b.csv", "id,v\nx,3\n01,4\n")]).unwrap();
        let Values::Text { codes, labels } = &all.columns[0].values else { panic!() };
        assert_eq!((labels.join(" "), &codes[..]), ("01 1 x".into(), &[0, 1, 2, 0][..]));
    }

    #[test]
    fn other_columns_are_named() {
        let error = read(&[("a.csv", "n,city\n1,Rome\n"), ("b.csv", "n,town\n1,Rome\n")]).unwrap_err();
        assert!(error.starts_with("b.csv: lacks \"city\" of a.csv and has \"town\" in addition"), "{error}");
        let error = read(&[("a.csv", "1,2\n3,4\n"), ("b.csv", "1,2,3\n4,5,6\n")]).unwrap_err();
        assert!(error.contains("has 3 columns, a.csv has 2"), "{error}");
        let error = read(&[("a.csv", "n,m\n3,4\n"), ("b.csv", "1,2\n4,5\n")]).unwrap_err();
        assert!(error.contains("a.csv has a header with names, b.csv has none"), "{error}");
        assert!(read(&[]).is_err());
    }
}
