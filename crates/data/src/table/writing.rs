//! Numbers as people write them: `1,234`, `$5.20`, `12%`, and `3,5` where commas do not separate cells.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Delimiter;

/// How the numbers of a column are written, where that is not the plain way. What a number is counted in stays: `12%`
/// is 12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writing {
    /// `%`, or the sign of a currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<char>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commas: Option<Commas>,
}

/// The writing of each column that is not written the plain way, by name.
pub type Writings = BTreeMap<String, Writing>;

/// What a comma in a number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Commas {
    /// `1,234.5`
    Thousands,
    /// `1,5` or `1.234,5`
    Decimal,
}

const CURRENCIES: [char; 4] = ['$', '€', '£', '¥'];

impl Writing {
    /// The number that a cell spells in this way, unless it spells none.
    pub(super) fn number(self, cell: &str) -> Option<f64> {
        let spelled = Spelled::of(cell)?;
        let commas = self.commas.unwrap_or(Commas::Thousands);
        if !spelled.reads(commas) || spelled.mark.is_some_and(|mark| Some(mark) != self.mark) {
            return None;
        }
        let digits: String = match commas {
            Commas::Thousands => spelled.digits.replace(',', ""),
            Commas::Decimal => spelled.digits.replace('.', "").replace(',', "."),
        };
        let value: f64 = digits.parse().ok()?;
        Some(if spelled.negative { -value } else { value })
    }

    /// Whether a cell that is a plain number might mean another one here: `1.234` beside `1,5`.
    pub(super) fn doubts(self, plain: &str) -> bool {
        self.commas == Some(Commas::Decimal) && plain.contains('.')
    }
}

impl fmt::Display for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commas = self.commas.map(|commas| match commas {
            Commas::Thousands => "thousands separated by commas".to_owned(),
            Commas::Decimal => "a comma before the decimals".to_owned(),
        });
        let mark = self.mark.map(|mark| match mark {
            '%' => "in percent".to_owned(),
            mark => format!("in {mark}"),
        });
        f.write_str(&commas.into_iter().chain(mark).collect::<Vec<_>>().join(", "))
    }
}

/// How many cells, none of them plain numbers, read as numbers in which way.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Ways {
    thousands: usize,
    decimal: usize,
    /// Cells with a comma among them.
    commas: usize,
    /// Cells without a mark among them.
    unmarked: usize,
    /// The marks, as bits: `%`, then the currencies.
    marks: u8,
}

impl Ways {
    /// Looks at a cell that is no plain number.
    pub(super) fn count(&mut self, cell: &str) {
        let Some(spelled) = Spelled::of(cell) else { return };
        let (thousands, decimal) = (spelled.reads(Commas::Thousands), spelled.reads(Commas::Decimal));
        if !(thousands || decimal) {
            return;
        }
        self.thousands += thousands as usize;
        self.decimal += decimal as usize;
        self.commas += spelled.digits.contains(',') as usize;
        match spelled.mark {
            None => self.unmarked += 1,
            Some(mark) => self.marks |= 1 << CURRENCIES.iter().position(|c| *c == mark).map_or(0, |at| at + 1),
        }
    }

    pub(super) fn add(&mut self, other: Ways) {
        self.thousands += other.thousands;
        self.decimal += other.decimal;
        self.commas += other.commas;
        self.unmarked += other.unmarked;
        self.marks |= other.marks;
    }

    /// The way that suits most cells and how many these are, beside `plain` numbers. What cells leave open is as
    /// `expected`, then as the rest of the file `leans`.
    pub(super) fn best(self, plain: usize, delimiter: Delimiter, expected: Option<Writing>, leans: Leaning) -> Way {
        let mark = match self.marks.count_ones() {
            0 => None,
            1 if self.marks == 1 => Some('%'),
            1 => Some(CURRENCIES[self.marks.trailing_zeros() as usize - 1]),
            _ => return None, // sums of different currencies
        };
        if mark == Some('%') && plain + self.unmarked > 0 {
            return None; // 5 may be 5% or 500%
        }
        let expected = expected.and_then(|writing| writing.commas);
        let commas = match self.commas {
            0 => None,
            _ if delimiter == Delimiter::Comma && expected.is_none() => Some(Commas::Thousands),
            _ => Some(match self.thousands.cmp(&self.decimal) {
                Ordering::Greater => Commas::Thousands,
                Ordering::Less => Commas::Decimal,
                Ordering::Equal => expected.unwrap_or_else(|| leans.commas(delimiter)),
            }),
        };
        let writing = Writing { mark, commas };
        Some((writing, self.read_by(writing))).filter(|(_, cells)| *cells > 0)
    }

    /// How many cells that are no plain numbers are written like this.
    pub(super) fn read_by(self, writing: Writing) -> usize {
        match writing.commas {
            Some(Commas::Decimal) => self.decimal,
            Some(Commas::Thousands) | None => self.thousands,
        }
    }
}

/// A writing, and how many cells that are no plain numbers it reads.
pub(super) type Way = Option<(Writing, usize)>;

/// Columns of a file in which commas can mean but one thing.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Leaning {
    thousands: usize,
    decimal: usize,
}

impl Leaning {
    /// What the columns of a file tell together.
    pub(super) fn of(columns: impl Iterator<Item = Ways>) -> Leaning {
        let mut leaning = Leaning::default();
        for ways in columns.filter(|ways| ways.commas > 0) {
            leaning.thousands += (ways.thousands > ways.decimal) as usize;
            leaning.decimal += (ways.decimal > ways.thousands) as usize;
        }
        leaning
    }

    /// What `1,234` means. In doubt, who separates by semicolons does so because commas stand before decimals.
    fn commas(self, delimiter: Delimiter) -> Commas {
        match self.thousands.cmp(&self.decimal) {
            Ordering::Greater => Commas::Thousands,
            Ordering::Less => Commas::Decimal,
            Ordering::Equal if delimiter == Delimiter::Semicolon => Commas::Decimal,
            Ordering::Equal => Commas::Thousands,
        }
    }
}

/// A cell that may be a number: digits, commas and full stops behind a sign, with at most one mark around them.
struct Spelled<'a> {
    negative: bool,
    mark: Option<char>,
    digits: &'a str,
}

impl<'a> Spelled<'a> {
    fn of(cell: &'a str) -> Option<Spelled<'a>> {
        let first = cell.chars().next()?;
        if !(first.is_ascii_digit() || matches!(first, '+' | '-' | '.') || CURRENCIES.contains(&first)) {
            return None;
        }
        let (sign, rest) = signed(cell);
        let (mark, rest) = match rest.strip_prefix(CURRENCIES) {
            Some(rest) => (cell[sign.len()..].chars().next(), rest.trim_start()),
            None => (None, rest),
        };
        // -$5 and $-5
        let (sign, rest) = if sign.is_empty() && mark.is_some() { signed(rest) } else { (sign, rest) };
        let last = rest.chars().next_back().filter(|last| *last == '%' || CURRENCIES.contains(last));
        let (mark, digits) = match (mark, last) {
            (None, Some(last)) => (Some(last), rest[..rest.len() - last.len_utf8()].trim_end()),
            _ => (mark, rest),
        };
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b',' | b'.'));
        plain.then_some(Spelled { negative: sign == "-", mark, digits })
    }

    fn reads(&self, commas: Commas) -> bool {
        let (separator, point) = match commas {
            Commas::Thousands => (',', '.'),
            Commas::Decimal => ('.', ','),
        };
        let (whole, decimals) = match self.digits.split_once(point) {
            Some((whole, decimals)) => (whole, Some(decimals)),
            None => (self.digits, None),
        };
        // without a comma, a full stop stands before decimals
        let clear = commas == Commas::Thousands || decimals.is_some() || !whole.contains('.');
        clear
            && decimals.is_none_or(all_digits)
            && (grouped(whole, separator) || all_digits(whole))
            && (whole, decimals.unwrap_or("")) != ("", "")
    }
}

fn signed(text: &str) -> (&str, &str) {
    let end = text.starts_with(['+', '-']) as usize;
    (&text[..end], text[end..].trim_start())
}

/// Groups of three digits, but for the first, which may be shorter and does not begin with 0.
fn grouped(whole: &str, separator: char) -> bool {
    let mut groups = whole.split(separator);
    let first = groups.next().unwrap_or("");
    let mut more = false;
    let full = groups.all(|group| {
        more = true;
        group.len() == 3 && all_digits(group)
    });
    full && more && (1..=3).contains(&first.len()) && all_digits(first) && !first.starts_with('0')
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(cell: &str, commas: Commas, mark: Option<char>) -> Option<f64> {
        Writing { mark, commas: Some(commas) }.number(cell)
    }

    #[test]
    fn ways_to_write_a_number() {
        use Commas::{Decimal, Thousands};
        for (cell, commas, mark, value) in [
            ("1,003", Thousands, None, 1003.0),
            ("-17,000,000.25", Thousands, None, -17_000_000.25),
            ("12", Thousands, None, 12.0),
            ("3.4%", Thousands, Some('%'), 3.4),
            ("-.5 %", Thousands, Some('%'), -0.5),
            ("$1,500", Thousands, Some('$'), 1500.0),
            ("-$5", Thousands, Some('$'), -5.0),
            ("$-5", Thousands, Some('$'), -5.0),
            ("1.234,50 €", Decimal, Some('€'), 1234.5),
            ("0,199", Decimal, None, 0.199),
            ("+7,", Decimal, None, 7.0),
        ] {
            assert_eq!(reads(cell, commas, mark), Some(value), "{cell}");
        }
        for cell in ["", "-", "%", "$", "1,00", "0,123", "1,2345", "1234,567", ",123", "1.2.3", "1,234,", "$5%", "5 kg"]
        {
            assert_eq!(reads(cell, Thousands, Some('$')), None, "{cell}");
        }
        for cell in ["1.234", "1,2,3", "1.23,4", ",", "12.345.67,8"] {
            assert_eq!(reads(cell, Decimal, None), None, "{cell}");
        }
        assert_eq!(reads("€5", Thousands, Some('$')), None, "another currency");
    }
}
