//! The tokens a text is made of, by number.

use serde::{Deserialize, Serialize};

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    Bytes,
    Chars,
}

/// The tokens a text is made of, by number. Belongs to a model: other texts must be numbered the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vocabulary {
    pub unit: Unit,
    /// Sorted; empty for bytes.
    chars: Vec<char>,
}

impl Vocabulary {
    /// Of bytes, which are their own numbers.
    pub(super) fn bytes() -> Vocabulary {
        Vocabulary { unit: Unit::Bytes, chars: Vec::new() }
    }

    /// Of the characters that occur in a text.
    pub(super) fn of(text: &str) -> Vocabulary {
        let mut known = vec![false; char::MAX as usize + 1];
        text.chars().for_each(|c| known[c as usize] = true);
        Vocabulary { unit: Unit::Chars, chars: (0 as char..=char::MAX).filter(|c| known[*c as usize]).collect() }
    }

    /// Number of tokens.
    pub fn size(&self) -> usize {
        match self.unit {
            Unit::Bytes => 256,
            Unit::Chars => self.chars.len(),
        }
    }

    /// Tokens for people: control characters and bytes that are not ASCII as escapes.
    pub fn labels(&self) -> Vec<String> {
        let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        match self.unit {
            Unit::Bytes => (0..=255u8)
                .map(|byte| if byte.is_ascii() { shown(byte as char) } else { format!("\\x{byte:02x}") })
                .collect(),
            Unit::Chars => self.chars.iter().copied().map(shown).collect(),
        }
    }

    /// The numbers of a text; the first character that has none is the error.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>, char> {
        match self.unit {
            Unit::Bytes => Ok(text.bytes().map(i32::from).collect()),
            Unit::Chars => text.chars().map(|c| self.number(c).map(|n| n as i32).ok_or(c)).collect(),
        }
    }

    /// The text of some numbers; a number without a token, and bytes that make no character, become `�`.
    pub fn decode(&self, numbers: &[i32]) -> String {
        match self.unit {
            Unit::Bytes => {
                // 0xff is in no UTF-8 text
                let bytes: Vec<u8> = numbers.iter().map(|n| u8::try_from(*n).unwrap_or(0xff)).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Unit::Chars => {
                let char_of = |n: &i32| usize::try_from(*n).ok().and_then(|n| self.chars.get(n)).copied();
                numbers.iter().map(|n| char_of(n).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
        }
    }

    pub(super) fn number(&self, c: char) -> Option<u32> {
        self.chars.binary_search(&c).ok().map(|n| n as u32)
    }
}
