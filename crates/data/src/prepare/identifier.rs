//! Identifier columns: they name a row and do not describe it, so a network could only learn the rows by heart.
//!
//! Text is an identifier where nearly every value is different. Numbers are one where, besides, the column's name says so:
//! `x` that counts 0, 1, 2, … may be what the target depends on, `customer_id` is not.

/// Fewer different values than this may be categories.
const MIN_DISTINCT: usize = 50;
/// Numbers that count the rows, without a gap: fewer rows may do so by chance.
const MIN_COUNTED: usize = 20;
/// Words of a name that stand for an identifier, wherever they are.
const ID_WORDS: [&str; 9] = ["id", "ids", "uid", "uuid", "guid", "rowid", "rownum", "pk", "unnamed"];
/// Words that do so at the end of a name: `order number`, and not `number of rooms`.
const LAST_WORDS: [&str; 7] = ["key", "index", "idx", "nr", "no", "number", "row"];

/// What a column of numbers is to its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowNumber {
    /// It names them, by its own name too.
    Identifier,
    /// It counts them, and may also be a quantity.
    Counter,
}

/// Whether `distinct` labels in `present` cells are too many to be categories.
pub(crate) fn labels_identify(distinct: usize, present: usize) -> bool {
    distinct > MIN_DISTINCT && distinct * 10 >= present * 9
}

/// Looks at all rows of a column, in the order of the file; NaN is missing.
pub(crate) fn row_number(name: &str, values: &[f64]) -> Option<RowNumber> {
    let present = || values.iter().copied().filter(|value| !value.is_nan());
    if present().any(|value| value.fract() != 0.0) {
        return None;
    }
    if names_identifier(name) {
        let mut sorted: Vec<u64> = present().map(|value| (value + 0.0).to_bits()).collect();
        let count = sorted.len();
        sorted.sort_unstable();
        sorted.dedup();
        return labels_identify(sorted.len(), count).then_some(RowNumber::Identifier);
    }
    let counts = values.len() > MIN_COUNTED && values.windows(2).all(|pair| pair[1] == pair[0] + 1.0);
    counts.then_some(RowNumber::Counter)
}

/// Whether a column's name says that it is an identifier: `PassengerId`, `order no`, `Unnamed: 0`, or nothing at all.
fn names_identifier(name: &str) -> bool {
    let words = words(name);
    let is_id = |word: &String| ID_WORDS.contains(&word.as_str());
    let last = |word: &String| LAST_WORDS.contains(&word.as_str());
    words.iter().any(is_id) || words.last().is_some_and(last) || name.trim().is_empty()
}

/// The words of a name in lower case, as `snake_case`, `kebab-case`, spaces and `camelCase` divide it.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if begins || !letter.is_alphabetic() {
            words.push(String::new());
        }
        if letter.is_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_an_identifier_is() {
        for name in ["id", "ID", "PassengerId", "customer_id", "order-no", "Unnamed: 0", "row", "", "house key", "id2"]
        {
            assert!(names_identifier(name), "{name}");
        }
        for name in ["x", "idle", "width", "number of rooms", "paid", "noise", "keyboard", "1", "humid"] {
            assert!(!names_identifier(name), "{name}");
        }
    }

    #[test]
    fn numbers_name_rows_where_nearly_all_differ() {
        let scattered: Vec<f64> = (0..200).map(|i| (i * 7919 % 10_007) as f64).collect();
        assert_eq!(row_number("user_id", &scattered), Some(RowNumber::Identifier));
        assert_eq!(row_number("income", &scattered), None);
        // ten visits of each
        let repeated: Vec<f64> = (0..200).map(|i| (i / 10) as f64).collect();
        assert_eq!(row_number("user_id", &repeated), None);
        let halves: Vec<f64> = (0..200).map(|i| i as f64 + 0.5).collect();
        assert_eq!(row_number("user_id", &halves), None);
        assert_eq!(row_number("user_id", &[]), None);
    }

    #[test]
    fn a_counter_without_a_telling_name_may_be_a_quantity() {
        let counted: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(row_number("x", &counted), Some(RowNumber::Counter));
        assert_eq!(row_number("index", &counted), Some(RowNumber::Identifier));
        let gap: Vec<f64> = counted.iter().map(|value| value * 2.0).collect();
        assert_eq!(row_number("x", &gap), None);
        assert_eq!(row_number("x", &counted[..10]), None);
    }
}
