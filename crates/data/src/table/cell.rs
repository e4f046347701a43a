//! One cell of text: missing, a number, or a label.

/// What a trimmed cell holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'a> {
    Missing,
    /// Any number the text spells, infinite ones included.
    Number(f64),
    Text(&'a str),
}

/// The tokens that mean "missing".
#[derive(Debug, Default)]
pub(super) struct MissingTokens {
    words: Vec<String>,
    /// `--missing -999` also covers `-999.0`.
    numbers: Vec<f64>,
}

impl MissingTokens {
    /// The usual tokens and `extra`.
    pub(super) fn new(extra: &[String]) -> Self {
        Self {
            words: extra.iter().map(|word| word.trim().to_owned()).collect(),
            numbers: extra.iter().filter_map(|word| finite(word)).collect(),
        }
    }

    /// Some number means "missing".
    pub(super) fn has_numbers(&self) -> bool {
        !self.numbers.is_empty() || self.is_number(f64::INFINITY) || self.is_number(f64::NEG_INFINITY)
    }

    /// This number means "missing".
    pub(super) fn is_number(&self, value: f64) -> bool {
        match value.is_infinite() {
            true => self.words.iter().any(|word| word.parse() == Ok(value)),
            false => self.numbers.contains(&value),
        }
    }

    /// Reads one cell, blanks around it already gone.
    pub(super) fn classify<'a>(&self, cell: &'a str) -> Cell<'a> {
        if is_usual_missing(cell) || self.words.iter().any(|word| word == cell) {
            return Cell::Missing;
        }
        if !may_be_number(cell) {
            return Cell::Text(cell);
        }
        match cell.parse::<f64>() {
            Ok(value) if value.is_nan() || self.numbers.contains(&value) => Cell::Missing,
            Ok(value) => Cell::Number(value),
            Err(_) => Cell::Text(cell),
        }
    }
}

/// The finite number a text spells.
pub(super) fn finite(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|v: &f64| v.is_finite())
}

fn is_usual_missing(cell: &str) -> bool {
    matches!(cell, "" | "?" | "NA" | "N/A" | "NaN" | "nan" | "null" | "NULL" | "None" | "NaT" | "<NA>" | "#N/A")
}

/// A quick look that spares labels the full parse: digits, signs, and the words `inf` and `nan`.
fn may_be_number(cell: &str) -> bool {
    let first = cell.as_bytes().first().copied().unwrap_or(0);
    first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.' | b'i' | b'I' | b'n' | b'N')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_told_apart() {
        let tokens = MissingTokens::new(&["-999".into(), "unknown".into()]);
        for missing in ["", "?", "NA", "nan", "-NaN", "None", "unknown", "-999.0"] {
            assert_eq!(tokens.classify(missing), Cell::Missing, "{missing}");
        }
        for (text, value) in [("1", 1.0), ("-.5e3", -500.0), ("+2.", 2.0)] {
            assert_eq!(tokens.classify(text), Cell::Number(value));
        }
        assert_eq!(tokens.classify("-inf"), Cell::Number(f64::NEG_INFINITY));
        for text in ["abc", "1_000", "12 kg", "0x10", "-", "nano"] {
            assert_eq!(tokens.classify(text), Cell::Text(text));
        }
    }
}
