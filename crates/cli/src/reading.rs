//! Flags of every command that reads a source: what it is, and how a table's text becomes cells.

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
    #[arg(long, value_name = "TOKEN", value_delimiter = ',', allow_hyphen_values = true)]
    pub missing: Option<Vec<String>>,
    /// Columns to read as text whatever they hold
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub text: Option<Vec<String>>,
    /// Whether the first line holds names [default: found out]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub header: Option<bool>,
    /// comma, semicolon, tab or spaces [default: found out]
    #[arg(long)]
    pub delimiter: Option<String>,
}

impl ReadingArgs {
    pub fn wishes(&self) -> Wishes {
        Wishes {
            target: self.target.clone(),
            kind: self.kind,
            missing: self.missing.clone(),
            text: self.text.clone(),
            header: self.header,
            delimiter: self.delimiter.clone(),
            ..Wishes::default()
        }
    }
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
