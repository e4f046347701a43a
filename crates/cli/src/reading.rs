//! Flags of every command that reads a source: what it is, and how a table's text becomes cells.

use citius_data::TextEncoding;
use citius_data::source::GapFill;
use citius_train::{SourceKind, Wishes};
use clap::Args;

#[derive(Args)]
pub struct ReadingArgs {
    /// Column to predict [default: the last]
    #[arg(long, value_name = "NAME|INDEX", allow_hyphen_values = true)]
    pub target: Option<String>,
    /// table, pictures, series or text [default: found out]
    #[arg(long, value_parser = source_kind)]
    pub kind: Option<SourceKind>,
    /// Tokens that stand for a missing cell, besides the usual ones
    #[arg(long, value_name = "TOKEN,…", value_parser = list, allow_hyphen_values = true)]
    missing: Option<Vec<List>>,
    /// Columns to read as text whatever they hold; a name with a comma goes in quotes: '"a, first",b'
    #[arg(long, value_name = "COLUMN,…", value_parser = list)]
    text: Option<Vec<List>>,
    /// Whether the first line holds names [default: found out]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub header: Option<bool>,
    /// comma, semicolon, tab, pipe or spaces [default: found out]
    #[arg(long)]
    pub delimiter: Option<String>,
    /// Encoding of a file of text, such as latin-1, windows-1251, utf-16 or shift_jis [default: utf-8]
    #[arg(long)]
    pub encoding: Option<TextEncoding>,
}

impl ReadingArgs {
    pub fn wishes(&self) -> Wishes {
        Wishes {
            target: self.target.clone(),
            kind: self.kind,
            missing: self.missing(),
            text: self.text(),
            header: self.header,
            delimiter: self.delimiter.clone(),
            encoding: self.encoding,
            ..Wishes::default()
        }
    }

    pub fn missing(&self) -> Option<Vec<String>> {
        self.missing.as_ref().map(|lists| lists.concat())
    }

    pub fn text(&self) -> Option<Vec<String>> {
        self.text.as_ref().map(|lists| lists.concat())
    }
}

/// Flags of the commands that make inputs of a table's columns.
#[derive(Args, Clone)]
pub struct ColumnArgs {
    /// Columns to leave out
    #[arg(long, value_name = "COLUMN,…", value_parser = list, allow_hyphen_values = true)]
    drop: Option<Vec<List>>,
    /// The only columns to use, besides the target
    #[arg(long, value_name = "COLUMN,…", value_parser = list, allow_hyphen_values = true)]
    only: Option<Vec<List>>,
}

impl ColumnArgs {
    pub fn drop(&self) -> Option<Vec<String>> {
        self.drop.as_ref().map(|lists| lists.concat())
    }

    pub fn only(&self) -> Option<Vec<String>> {
        self.only.as_ref().map(|lists| lists.concat())
    }
}

/// Flags of the commands that make windows over a series.
#[derive(Args, Clone)]
pub struct SeriesArgs {
    /// Column that says when each row of a series was; its rows are sorted by it. none: rows are in the order of the file
    /// [default: the first column of dates]
    #[arg(long, value_name = "COLUMN|none", allow_hyphen_values = true)]
    pub time: Option<String>,
    /// What takes the place of missing values of a series, and of missing rows: previous, the value before them; linear, a
    /// straight line between their neighbours; refuse, an error [default: previous]
    #[arg(long, value_name = "previous|linear|refuse")]
    pub fill: Option<GapFill>,
}

/// What one flag lists.
pub type List = Vec<String>;

/// Words between commas; one that begins with a quote goes on to the next quote.
pub fn list(text: &str) -> Result<List, String> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        let (word, after) = match rest.strip_prefix('"') {
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
            Some(quoted) => quoted.split_once('"').ok_or_else(|| format!("the quote in {rest} is not closed"))?,
        };
        words.push(word.to_owned());
        match (after.strip_prefix(','), after) {
            (Some(more), _) => rest = more,
            (None, "") => return Ok(words),
            (None, _) => return Err(format!("a comma is missing before {after}")),
        }
    }
}

/// The words as [`list`] takes them.
pub fn listed(words: &[String]) -> String {
    let quoted = |word: &String| if word.contains(',') { format!("\"{word}\"") } else { word.clone() };
    words.iter().map(quoted).collect::<Vec<_>>().join(",")
}

fn source_kind(text: &str) -> Result<SourceKind, String> {
    Ok(match text {
        "table" => SourceKind::Table,
        "pictures" => SourceKind::Pictures,
        "series" => SourceKind::Series,
        "text" => SourceKind::Text,
        _ => return Err("write table, pictures, series or text".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_go_in_quotes() {
        for (text, words) in [
            ("a,b", &["a", "b"][..]),
            ("\"a, first\",b", &["a, first", "b"]),
            ("b,\"a, first\"", &["b", "a, first"]),
            ("-999", &["-999"]),
            ("a,,b", &["a", "", "b"]),
            ("5\"", &["5\""]),
        ] {
            let got = list(text).unwrap();
            assert_eq!(got, words, "{text}");
            assert_eq!(listed(&got), text);
        }
        assert!(list("a,\"b").unwrap_err().contains("not closed"));
        assert!(list("\"a\"b").unwrap_err().contains("comma is missing"));
    }
}
