//! JSON lines (`.jsonl`, `.ndjson`): an object per line. Objects and arrays within are flattened, so that
//! `{"a": 1, "b": {"c": "x"}, "d": [1, 2]}` is a row of the columns `a`, `b.c`, `d.0` and `d.1`.
//!
//! Cells are text, as those of delimited text are, and what a column holds is decided alike. `null` and a key that is
//! not there are missing cells.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::MAX_COLUMNS;
use crate::suggest;

/// Objects and arrays within each other.
const DEEPEST: usize = 32;

/// Whether a text is JSON lines, or meant to be: it begins with an object.
pub(super) fn looks_like_json_lines(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix('{').map(str::trim_start);
    inside.is_some_and(|inside| inside.starts_with(['"', '}']))
}

/// The columns of a text, in the order in which their keys appear.
#[derive(Debug, Default)]
pub(super) struct JsonKeys {
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// A row may have keys that are not among these, which are passed over.
    pub others_allowed: bool,
    /// Rows and keys of a text whose rows have too different keys for a table.
    pub scattered: Option<(usize, usize)>,
}

/// A table may have so many cells whatever its text, and beyond that so many for each byte of it: where rows have keys of their own,
/// nearly all cells are missing.
const FREE_CELLS: usize = 1 << 24;
const CELLS_PER_BYTE: usize = 16;

impl JsonKeys {
    /// Those of all rows of a text; of lines that cannot be read, none.
    pub(super) fn of(text: &str, others_allowed: bool) -> JsonKeys {
        let mut keys = JsonKeys { others_allowed, ..JsonKeys::default() };
        let most = FREE_CELLS.max(text.len().saturating_mul(CELLS_PER_BYTE));
        for (row, (_, line)) in lines(text).enumerate() {
            if keys.names.len().saturating_mul(row) > most {
                keys.scattered = Some((row, keys.names.len()));
                return keys;
            }
            let mut found: Vec<String> = Vec::new();
            let read = for_each_leaf(line, &mut |key, _| {
                if !keys.places.contains_key(key) {
                    found.push(key.to_owned());
                }
            });
            if read.is_err() {
                continue;
            }
            for key in found {
                if keys.names.len() > MAX_COLUMNS {
                    return keys;
                }
                let next = keys.names.len();
                keys.places.entry(key).or_insert_with_key(|key| {
                    keys.names.push(key.clone());
                    next
                });
            }
        }
        keys
    }

    /// Adds the names that a model knows, where the rows have one of them: a key that no row has is missing in all.
    pub(super) fn expect(&mut self, known: &[String]) {
        if !known.iter().any(|name| self.places.contains_key(name)) {
            return;
        }
        for name in known {
            if !self.places.contains_key(name) {
                self.places.insert(name.clone(), self.names.len());
                self.names.push(name.clone());
            }
        }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Calls `visit(byte offset of the line, its cells)` for each line that is not blank, until it breaks. A line that
    /// cannot be read has no cells; [`JsonKeys::problem_of`] says why.
    pub(super) fn for_each_row<B>(
        &self,
        text: &str,
        mut visit: impl FnMut(usize, &[&str]) -> ControlFlow<B>,
    ) -> Option<B> {
        let mut cells: Vec<Cow<'_, str>> = Vec::new();
        for (offset, line) in lines(text) {
            cells.clear();
            cells.resize(self.names.len(), Cow::Borrowed(""));
            let mut known = true;
            let read = for_each_leaf(line, &mut |key, cell| match self.places.get(key) {
                Some(at) => cells[*at] = cell,
                None => known &= self.others_allowed,
            });
            if read.is_err() || !known {
                cells.clear();
            }
            let cells: Vec<&str> = cells.iter().map(|cell| cell.trim()).collect();
            if let ControlFlow::Break(value) = visit(offset, &cells) {
                return Some(value);
            }
        }
        None
    }

    /// Why a line cannot be read, and what to do.
    pub(super) fn problem_of(&self, line: &str) -> (String, &'static str) {
        let mut unknown = None;
        let read = for_each_leaf(line, &mut |key, _| {
            if !self.others_allowed && !self.places.contains_key(key) {
                unknown.get_or_insert_with(|| suggest::short(key));
            }
        });
        match (read, unknown) {
            (Err(error), _) => {
                // the position is that within the line
                let error = error.to_string();
                let why = error.split(" at line ").next().unwrap_or(&error);
                (format!("is not a JSON object: {why}"), "write one object per line, such as {\"a\": 1, \"b\": \"x\"}")
            }
            (Ok(()), Some(key)) => (
                format!("has the key {key:?}, which no row near the beginning has"),
                "name every key in the first line (null will do), or read the file whole with more --memory",
            ),
            (Ok(()), None) => ("has no keys".to_owned(), "remove it"),
        }
    }
}

/// The lines that are not blank, each with its byte offset.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut end = 0;
    let lines = text.split_inclusive(['\n', '\r']).map(move |line| {
        end += line.len();
        (end - line.len(), line.trim_start_matches('\u{feff}').trim())
    });
    lines.filter(|(_, line)| !line.is_empty())
}

/// Calls `visit` with the flattened key and the text of each value of an object.
fn for_each_leaf<'t>(line: &'t str, visit: &mut dyn FnMut(&str, Cow<'t, str>)) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(line);
    deserializer.deserialize_map(Flatten { key: &mut String::new(), depth: 0, visit })?;
    deserializer.end()
}

/// Visits the values of an object or array and of those within it.
struct Flatten<'a, 't> {
    /// That of the object or array.
    key: &'a mut String,
    depth: usize,
    visit: &'a mut dyn FnMut(&str, Cow<'t, str>),
}

impl<'t> Flatten<'_, 't> {
    fn value(&mut self, key: fmt::Arguments<'_>, value: &'t RawValue) -> Result<(), serde_json::Error> {
        let length = self.key.len();
        if self.depth > 0 {
            self.key.push('.');
        }
        fmt::Write::write_fmt(self.key, key).map_err(serde_json::Error::custom)?;
        let text = value.get();
        let within = Flatten { key: self.key, depth: self.depth + 1, visit: self.visit };
        match text.as_bytes().first() {
            Some(b'{' | b'[') if within.depth >= DEEPEST => {
                return Err(serde_json::Error::custom(format!(
                    "more than {DEEPEST} objects or arrays within each other"
                )));
            }
            Some(b'{') => serde_json::Deserializer::from_str(text).deserialize_map(within)?,
            Some(b'[') => serde_json::Deserializer::from_str(text).deserialize_seq(within)?,
            Some(b'"') => (self.visit)(self.key, serde_json::from_str::<Text<'t>>(text)?.0),
            Some(b'n') => (self.visit)(self.key, Cow::Borrowed("")),
            _ => (self.visit)(self.key, Cow::Borrowed(text)),
        }
        self.key.truncate(length);
        Ok(())
    }
}

impl<'t> Visitor<'t> for Flatten<'_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = map.next_key()? {
            let value = map.next_value()?;
            self.value(format_args!("{key}"), value).map_err(A::Error::custom)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut items: A) -> Result<(), A::Error> {
        let mut at = 0;
        while let Some(value) = items.next_element()? {
            self.value(format_args!("{at}"), value).map_err(A::Error::custom)?;
            at += 1;
        }
        Ok(())
    }
}

/// Text of JSON, which is borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Text<'t>(#[serde(borrow)] Cow<'t, str>);

#[cfg(test)]
mod tests {
    use super::super::{MISSING, ReadOptions, Table, Values, open_blocks_of};

    fn read(text: &str) -> Result<Table, String> {
        Table::from_bytes("t.jsonl", text.as_bytes(), &ReadOptions::default()).map_err(|error| error.to_string())
    }

    fn numbers(table: &Table, name: &str) -> Vec<f64> {
        match &table.columns[table.column(name).unwrap()].values {
            Values::Number(values) => values.clone(),
            Values::Text { .. } => panic!("text"),
        }
    }

    const PEOPLE: &str = concat!(
        "{\"age\": 31, \"town\": \"Ulm\", \"paid\": true, \"at\": {\"x\": 1.5, \"y\": [1, 2]}}\n",
        "\n",
        "{\"town\": \"K\\u00f6ln\", \"age\": null, \"paid\": false, \"at\": {\"y\": [3, 4], \"x\": -2e3}, \"note\": \"a \\\"b\\\"\"}\r\n",
        "  {\"age\": 45, \"town\": \"Ulm\", \"paid\": true, \"at\": {}}\n",
        "{\"age\": 9007199254740993, \"town\": \"\"}",
    );

    #[test]
    fn objects_are_rows_and_keys_are_columns() {
        let table = read(PEOPLE).unwrap();
        assert_eq!(table.names().collect::<Vec<_>>(), ["age", "town", "paid", "at.x", "at.y.0", "at.y.1", "note"]);
        assert_eq!((table.rows, table.header), (4, true));
        assert_eq!(numbers(&table, "age")[0], 31.0);
        assert!(numbers(&table, "age")[1].is_nan());
        assert_eq!(table.reading.rounded.iter().collect::<Vec<_>>(), ["age"], "numbers are read as they are written");
        assert_eq!(numbers(&table, "at.x")[..2], [1.5, -2000.0]);
        assert_eq!(numbers(&table, "at.y.1")[..2], [2.0, 4.0]);
        let town = Values::Text { codes: vec![0, 1, 0, MISSING], labels: vec!["Ulm".into(), "Köln".into()] };
        assert_eq!(table.columns[1].values, town);
        let paid = Values::Text { codes: vec![0, 1, 0, MISSING], labels: vec!["true".into(), "false".into()] };
        assert_eq!(table.columns[2].values, paid);
        let note = Values::Text { codes: vec![MISSING, 0, MISSING, MISSING], labels: vec!["a \"b\"".into()] };
        assert_eq!(table.columns[6].values, note);
    }

    #[test]
    fn a_row_may_be_alone_and_keys_may_come_late() {
        assert_eq!(numbers(&read("{\"a\":1}").unwrap(), "a"), [1.0]);
        let late = "{\"a\":1}\n".repeat(3000) + "{\"b\":2}\n";
        let table = read(&late).unwrap();
        assert_eq!((table.rows, table.columns.len()), (3001, 2));
        assert_eq!(numbers(&table, "b")[3000], 2.0);
    }

    #[test]
    fn lines_that_are_no_objects_are_named() {
        for (text, want) in [
            ("{\"a\":1}\n{\"a\":}\n", "line 2 is not a JSON object: expected value; write one object per line"),
            ("{\"a\":1}\n\n[1]\n", "line 3 is not a JSON object: invalid type: sequence, expected an object"),
            ("{\"a\":1}\n{\"a\":2}{\"a\":3}\n", "line 2 is not a JSON object: trailing characters"),
            ("{\"a\":1}\n{\"a\":\"x\n", "line 2 is not a JSON object: EOF while parsing a string"),
            ("{\"a\":1}\na,b\n", "line 2 is not a JSON object: expected value"),
            ("{\"a\":1}\n{}\nnull\n", "line 3 is not a JSON object: invalid type: null"),
            ("{\n  \"a\": 1,\n  \"b\": 2\n}\n", "one JSON document over many lines"),
            ("{\"a\": [\n  1,\n  2\n]}\n", "one JSON document over many lines"),
            ("{}\n", "has no keys"),
            ("[{\"a\":1},\n {\"a\":2}]\n", "a JSON array; write one object per line"),
            (" [\n[1,2],[3,4]]", "a JSON array"),
            ("{\"a\":1e400}\n{\"a\":1}\n", "infinite"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(want), "{text:?}: {error}");
        }
        let deep = format!("{{\"a\":{}1{}}}\n", "[".repeat(40), "]".repeat(40));
        assert!(
            read(&format!("{{\"a\":1}}\n{deep}")).unwrap_err().contains("line 2 is not a JSON object: more than 32")
        );
        let deepest = format!("{{\"a\":{}1{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(&deepest).is_err());
    }

    #[test]
    fn settings_of_delimited_text_are_refused() {
        let options = ReadOptions { header: Some(true), ..ReadOptions::default() };
        let error = Table::from_bytes("t.jsonl", b"{\"a\":1}\n", &options).unwrap_err().to_string();
        assert!(error.contains("leave --header out"), "{error}");
        let options = ReadOptions { delimiter: Some(crate::table::Delimiter::Comma), ..ReadOptions::default() };
        let error = Table::from_bytes("t.jsonl", b"{\"a\":1}\n", &options).unwrap_err().to_string();
        assert!(error.contains("leave --delimiter out"), "{error}");
    }

    #[test]
    fn rows_of_keys_of_their_own_are_no_table() {
        let text: String = (0..20_000).map(|i| format!("{{\"k{i}\":1,\"y\":2}}\n")).collect();
        let error = Table::from_bytes("t.jsonl", text.as_bytes(), &ReadOptions::default()).unwrap_err().to_string();
        assert!(
            error.contains("different keys in the first") && error.contains("give all lines the same keys"),
            "{error}"
        );
    }

    #[test]
    fn keys_that_a_model_knows_and_no_row_has_are_missing() {
        let known = |names: &[&str]| ReadOptions {
            for_model: true,
            expect_columns: names.iter().map(|name| (*name).to_owned()).collect(),
            ..ReadOptions::default()
        };
        let read = |names: &[&str]| Table::from_bytes("t.jsonl", b"{\"a\":3,\"user\":null}\n", &known(names)).unwrap();
        let table = read(&["coupon", "a", "user.age"]);
        assert_eq!(table.names().collect::<Vec<_>>(), ["a", "user", "coupon", "user.age"]);
        assert!(table.columns[2].is_missing(0) && !table.columns[0].is_missing(0));
        assert_eq!(read(&["b", "c"]).names().collect::<Vec<_>>(), ["a", "user"], "rows of something else");
    }

    #[test]
    fn blocks_hold_what_the_whole_holds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        std::fs::write(&path, PEOPLE).unwrap();
        let whole = read(PEOPLE).unwrap();
        for bytes in [0, 1, 60, 200] {
            let blocks = open_blocks_of(&path, &ReadOptions::default(), bytes).unwrap();
            assert!(blocks.header());
            let tables = (0..blocks.blocks().len() - 1).map(|block| blocks.read(block).unwrap()).collect();
            // as text, since missing numbers are unlike themselves
            let joined = format!("{:?}", super::super::concat(tables).unwrap());
            assert_eq!(joined, format!("{whole:?}"), "in blocks of {bytes}");
        }
    }

    #[test]
    fn a_key_behind_the_head_of_blocks_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        let rows = "{\"a\": 1, \"text\": \"some words to fill the line\"}\n".repeat(100_000);
        std::fs::write(&path, format!("{rows}{{\"late\": 2}}\n")).unwrap();
        let error = open_blocks_of(&path, &ReadOptions::default(), 1 << 20).err().unwrap().to_string();
        assert!(error.contains("line 100001 has the key \"late\""), "{error}");
    }
}
