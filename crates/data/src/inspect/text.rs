//! What is in a text: its characters and lines, and how it begins.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::column::{Label, share};
use super::figures::{count, cut, percent, plural};
use crate::error::DataError;
use crate::escape::Escaped;
use crate::file;
use crate::source::characters;

/// Characters told, most frequent first, and rarest first.
const MOST_TOLD: usize = 12;
/// Places below which a character can hardly be learned.
const FEW_PLACES: usize = 10;
/// Lines of the excerpt.
const EXCERPT: usize = 8;
const WIDTH: usize = 96;

/// What is in a text. `Display` makes it a page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextInspection {
    /// Of the file.
    pub name: String,
    pub bytes: usize,
    pub characters: usize,
    pub distinct: usize,
    /// What blanks separate.
    pub words: usize,
    pub lines: usize,
    pub empty_lines: usize,
    /// Characters of the longest line.
    pub longest_line: usize,
    /// The most frequent characters, that one first.
    pub frequent: Vec<Label>,
    /// Characters in fewer than 10 places, the rarest first.
    pub rare: Vec<Label>,
    /// The first lines.
    pub excerpt: String,
}

/// Looks at a whole text, plain or compressed.
pub fn text(path: &Path) -> Result<TextInspection, DataError> {
    let (name, bytes) = (file::name(path), file::read(path)?);
    let text = characters(&name, &bytes)?;
    let mut counts: HashMap<char, usize> = HashMap::new();
    text.chars().for_each(|c| *counts.entry(c).or_default() += 1);
    let characters = counts.values().sum();
    let mut ordered: Vec<(char, usize)> = counts.into_iter().collect();
    ordered.sort_unstable_by_key(|(c, places)| (std::cmp::Reverse(*places), *c));
    let label =
        |(c, places): &(char, usize)| Label { label: shown(*c), rows: *places, share: share(*places, characters) };
    let rare = ordered.iter().rev().filter(|(_, places)| *places < FEW_PLACES);
    Ok(TextInspection {
        bytes: bytes.len(),
        characters,
        distinct: ordered.len(),
        words: text.split_whitespace().count(),
        lines: text.lines().count(),
        empty_lines: text.lines().filter(|line| line.trim().is_empty()).count(),
        longest_line: text.lines().map(|line| line.chars().count()).max().unwrap_or(0),
        frequent: ordered.iter().take(MOST_TOLD).map(label).collect(),
        rare: rare.map(label).collect(),
        excerpt: text.lines().take(EXCERPT).map(|line| cut(line, WIDTH) + "\n").collect(),
        name,
    })
}

/// A character as people would name it.
fn shown(c: char) -> String {
    match c {
        ' ' => "blank".to_owned(),
        '\n' => "line end".to_owned(),
        '\t' => "tab".to_owned(),
        c if c.is_whitespace() => c.escape_default().to_string(),
        c => c.encode_utf8(&mut [0; 4]).escaped(),
    }
}

impl fmt::Display for TextInspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (characters, distinct) = (plural(self.characters, "character"), count(self.distinct));
        writeln!(f, "{}: text of {characters}, {distinct} different", cut(&self.name, 50))?;
        let longest = plural(self.longest_line, "character");
        writeln!(f, "\nwords     {}", count(self.words))?;
        writeln!(
            f,
            "lines     {}, {} of them empty; the longest has {longest}",
            count(self.lines),
            count(self.empty_lines)
        )?;
        let told = |labels: &[Label], all: usize, value: fn(&Label) -> String| {
            let mut text = String::new();
            for (place, label) in labels.iter().enumerate() {
                let next = format!("{}{} {}", if place > 0 { ", " } else { "" }, label.label, value(label));
                if text.chars().count() + next.chars().count() > WIDTH - 26 || place == MOST_TOLD {
                    return format!("{text} and {} more", count(all - place));
                }
                text += &next;
            }
            match all - labels.len() {
                0 => text,
                more => format!("{text} and {} more", count(more)),
            }
        };
        writeln!(f, "frequent  {}", told(&self.frequent, self.distinct, |label| percent(label.share)))?;
        if !self.rare.is_empty() {
            let rare = told(&self.rare, self.rare.len(), |label| format!("({})", label.rows));
            writeln!(f, "rare      {rare}: in fewer than {FEW_PLACES} places")?;
        }
        writeln!(f, "\nbegins")?;
        self.excerpt.lines().try_for_each(|line| writeln!(f, "{}", format!("  │ {line}").trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        std::fs::write(&path, format!("aaa b\n\n{}é\n", "x".repeat(200))).unwrap();
        let told = text(&path).unwrap();
        assert_eq!((told.characters, told.distinct, told.words, told.lines, told.empty_lines), (209, 6, 3, 3, 1));
        assert_eq!((told.longest_line, &told.frequent[0].label[..], told.frequent[0].rows), (201, "x", 200));
        let page = told.to_string();
        assert!(page.contains("a (3)") && page.lines().all(|line| line.chars().count() <= 100), "{page}");
        std::fs::write(&path, [0xff, b'\n']).unwrap();
        assert!(text(&path).unwrap_err().to_string().contains("not UTF-8"));
    }
}
