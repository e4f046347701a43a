//! Foreign text on a terminal: names of files and columns, labels and keys are escaped before a person sees them.
//!
//! A name may hold an escape sequence that clears the screen, a line break that fakes a line of ours, or a direction mark that
//! reorders what stands beside it. [`Escaped::escaped`] is for all text that is shown, [`shell_word`] for commands to copy. Files
//! and JSON keep the text as it is.

use std::ffi::OsStr;
use std::path::Path;

/// Text from outside, for people.
pub trait Escaped {
    /// What a terminal would obey or hide is written as `\n`, `\u{1b}` or, where it is no UTF-8, `\xff`; all else as it is.
    /// Escaping twice changes nothing.
    fn escaped(&self) -> String;
}

impl Escaped for str {
    fn escaped(&self) -> String {
        self.as_bytes().escaped()
    }
}

impl Escaped for OsStr {
    fn escaped(&self) -> String {
        self.as_encoded_bytes().escaped()
    }
}

impl Escaped for Path {
    fn escaped(&self) -> String {
        self.as_os_str().escaped()
    }
}

impl Escaped for [u8] {
    fn escaped(&self) -> String {
        let mut out = String::with_capacity(self.len());
        for chunk in self.utf8_chunks() {
            chunk.valid().chars().for_each(|c| match is_hidden(c) {
                true => out.extend(c.escape_default()),
                false => out.push(c),
            });
            out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
        }
        out
    }
}

/// The text with its line breaks, all else escaped: for text of several lines that is our own.
pub fn escaped_lines(text: &str) -> String {
    text.split('\n').map(Escaped::escaped).collect::<Vec<_>>().join("\n")
}

/// Control characters, marks that change the direction of text, blanks without width, separators of lines and paragraphs.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// A word that a shell takes as this name: as it is, in quotes, or where it holds what a terminal must not see, as `$'…'`.
pub fn shell_word(name: impl AsRef<OsStr>) -> String {
    let name = name.as_ref();
    let plain = |c: char| c.is_alphanumeric() || "._-/+=:,@%".contains(c);
    match name.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
        Some(text) if !text.contains(is_hidden) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => dollar_quoted(name.as_encoded_bytes()),
    }
}

/// Bytes as bash, zsh and ksh read them between `$'` and `'`. A byte is three digits, so that the next character is no part of it.
fn dollar_quoted(name: &[u8]) -> String {
    let mut out = String::from("$'");
    let octal = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:03o}")).collect::<String>();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str(r"\n"),
                '\t' => out.push_str(r"\t"),
                '\r' => out.push_str(r"\r"),
                '\'' | '\\' => out.extend(['\\', c]),
                c if is_hidden(c) => out += &octal(c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        out += &octal(chunk.invalid());
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_hides_is_escaped_and_nothing_else() {
        let hostile = "a\u{1b}[31m\n\t\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}b";
        let shown = r"a\u{1b}[31m\n\t\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}b";
        assert_eq!(hostile.escaped(), shown);
        assert_eq!(shown.escaped(), shown, "escaping twice changes nothing");
        for plain in ["größe (m²)", "日本語", "e\u{301}te\u{301}", r"C:\new", "it's \"so\"", "✓ 😀", ""] {
            assert_eq!(plain.escaped(), plain);
        }
        assert_eq!(escaped_lines("one\n\u{1b}two\n"), "one\n\\u{1b}two\n");
    }

    #[test]
    fn words_for_a_shell() {
        let words = ["a/b-1.csv", "my file.csv", "part-*.csv", "it's", "", "a\n'\u{1b}1"].map(shell_word);
        let expected = ["a/b-1.csv", "'my file.csv'", "'part-*.csv'", r"'it'\''s'", "''", r"$'a\n\'\0331'"];
        assert_eq!(words, expected);
    }

    #[cfg(unix)]
    #[test]
    fn a_shell_takes_the_word_as_the_name() {
        use std::os::unix::ffi::OsStrExt;
        let names: [&[u8]; 8] = [
            b"plain",
            b"two words",
            b"it's $HOME `x`",
            b"a\nb",
            b"\x1b[31m1\\n",
            b"\xff\xfe0",
            "\u{202e}x\u{200b}7'".as_bytes(),
            b"a -rf \t",
        ];
        for name in names {
            let word = shell_word(OsStr::from_bytes(name));
            assert!(!word.contains(is_hidden), "{word:?}");
            let Ok(said) = std::process::Command::new("bash").arg("-c").arg(format!("printf %s {word}")).output()
            else {
                return; // no bash here
            };
            assert_eq!(said.stdout, name, "{word}");
        }
        assert_eq!(Path::new(OsStr::from_bytes(b"a\xffb")).escaped(), r"a\xffb");
    }
}
