//! "Did you mean": the nearest known name to one that was mistyped.

use crate::escape::Escaped;

/// The candidate nearest to `wanted`, if one is near enough to be a slip of the finger.
pub(crate) fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = fold(wanted);
    candidates
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&wanted, &fold(name)), name))
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// `; did you mean "price"?`, or nothing.
pub(crate) fn hint<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wanted, candidates).map_or(String::new(), |name| format!("; did you mean {name:?}?"))
}

/// Names for a message, the first `limit` of them.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>, limit: usize) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.iter().take(limit).map(|name| name.escaped()).collect::<Vec<_>>();
    match names.len().saturating_sub(limit) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A cell or name for a message: cut after 40 characters.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Case, blanks and underscores do not count.
fn fold(name: &str) -> String {
    name.chars().take(200).filter(|c| !matches!(c, ' ' | '_' | '-')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_refuses_strangers() {
        let names = ["price", "rooms", "Median Income"];
        assert_eq!(nearest("prise", names), Some("price"));
        assert_eq!(nearest("median_income", names), Some("Median Income"));
        assert_eq!(nearest("zzz", names), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn lists_are_cut() {
        assert_eq!(list(["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(short(&"é".repeat(50)), format!("{}…", "é".repeat(40)));
    }
}
