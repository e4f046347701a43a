//! Character encodings of text files: UTF-8, or what a byte order mark says, unless another one is named.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use encoding_rs::{Decoder, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::DataError;

/// An encoding by one of its usual names: `latin-1`, `windows-1252`, `utf-16`, `shift_jis` ….
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextEncoding(&'static Encoding);

impl TextEncoding {
    /// The encoding of a file that begins with these bytes: what its byte order mark says, else what was given. `None` for
    /// UTF-8.
    pub(crate) fn of_file(head: &[u8], given: Option<TextEncoding>) -> Option<TextEncoding> {
        let encoding = Encoding::for_bom(head).map(|(encoding, _)| TextEncoding(encoding)).or(given);
        encoding.filter(|encoding| encoding.0 != UTF_8)
    }

    /// A line break is the same byte as in ASCII, so that lines are found before they are decoded.
    pub(crate) fn has_lines(self) -> bool {
        self.0.is_ascii_compatible()
    }

    /// Text in UTF-16 holds a zero at least where a line ends.
    fn is_likely(self, bytes: &[u8]) -> bool {
        (self.0 != UTF_16LE && self.0 != UTF_16BE) || bytes.contains(&0)
    }

    /// The text of bytes that hold whole characters.
    pub(crate) fn decode<'a>(self, file: &str, bytes: &'a [u8]) -> Result<Cow<'a, str>, DataError> {
        let (text, damaged) = self.0.decode_without_bom_handling(bytes);
        if !bytes.is_empty() && !self.is_likely(bytes) {
            return Err(DataError::Unsupported {
                file: file.to_owned(),
                what: format!("is not {} text", self.0.name()),
                next: "leave --encoding out, or name another encoding".to_owned(),
            });
        }
        if !damaged {
            return Ok(text);
        }
        let valid = text.find(char::REPLACEMENT_CHARACTER).unwrap_or(0);
        let line = text[..valid].bytes().filter(|byte| *byte == b'\n').count() + 1;
        Err(DataError::Unsupported {
            file: file.to_owned(),
            what: format!("line {line} is not {} text", self.0.name()),
            next: "name the encoding of the file with --encoding, or save it as UTF-8".to_owned(),
        })
    }

    /// What `source` holds, as UTF-8.
    pub(crate) fn reader(self, source: Box<dyn Read + Send>) -> Utf8Reader {
        Utf8Reader {
            source,
            encoding: self,
            decoder: self.0.new_decoder(),
            output: String::new(),
            taken: 0,
            begun: false,
            ended: false,
        }
    }
}

impl fmt::Display for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name().to_lowercase())
    }
}

impl FromStr for TextEncoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Python writes latin_1 and utf_16_be
        let name = text.trim().to_lowercase().replace('_', "-");
        let names = [name.replace('-', "_"), name.replace("latin-", "latin"), name];
        let found = names.iter().find_map(|name| Encoding::for_label(name.as_bytes()));
        match found.filter(|encoding| *encoding != encoding_rs::REPLACEMENT) {
            Some(encoding) => Ok(TextEncoding(encoding)),
            None => Err(format!(
                "{text:?} is not the name of an encoding; use utf-8, utf-16, latin-1, windows-1252, windows-1251, \
                 shift_jis, gbk, big5, euc-kr or another that browsers know"
            )),
        }
    }
}

impl Serialize for TextEncoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TextEncoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The bytes of a whole file, or of its beginning, as text without a byte order mark.
pub(crate) fn text_of<'a>(
    file: &str,
    bytes: &'a [u8],
    encoding: Option<TextEncoding>,
    line_at: impl Fn(&[u8]) -> usize,
) -> Result<Cow<'a, str>, DataError> {
    if let Some(encoding) = TextEncoding::of_file(bytes, encoding) {
        let mark = Encoding::for_bom(bytes).map_or(0, |(_, length)| length);
        return encoding.decode(file, &bytes[mark..]);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| DataError::NotUtf8 { file: file.to_owned(), line: line_at(&bytes[..error.valid_up_to()]) })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text).into())
}

/// Whether the bytes are UTF-16, in which every other byte may be a zero.
pub(crate) fn has_zeros(bytes: &[u8], encoding: Option<TextEncoding>) -> bool {
    let encoding = TextEncoding::of_file(bytes, encoding);
    encoding.is_some_and(|encoding| encoding.0 == UTF_16LE || encoding.0 == UTF_16BE)
}

/// Decodes as it reads.
pub(crate) struct Utf8Reader {
    source: Box<dyn Read + Send>,
    encoding: TextEncoding,
    decoder: Decoder,
    output: String,
    /// Bytes of the output that were handed out.
    taken: usize,
    begun: bool,
    ended: bool,
}

/// Bytes decoded at a time.
const STEP: usize = 64 << 10;

impl Read for Utf8Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.output.len() && !self.ended {
            let mut input = vec![0; STEP];
            let read = self.source.read(&mut input)?;
            self.ended = read == 0;
            self.output.clear();
            self.taken = 0;
            let most = self.decoder.max_utf8_buffer_length(read);
            self.output.reserve(most.ok_or_else(|| io::Error::other("the text is too long"))?);
            let (_, _, damaged) = self.decoder.decode_to_string(&input[..read], &mut self.output, self.ended);
            let unlikely = !self.begun && read > 0 && !self.encoding.is_likely(&input[..read]);
            self.begun = true;
            if damaged || unlikely {
                let problem = format!("it is not {} text", self.decoder.encoding().name());
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
        let count = into.len().min(self.output.len() - self.taken);
        into[..count].copy_from_slice(&self.output.as_bytes()[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(name: &str) -> TextEncoding {
        name.parse().unwrap()
    }

    #[test]
    fn encodings_go_by_many_names() {
        for name in ["latin1", "latin-1", "latin_1", "Latin-1", "iso-8859-1", "ISO8859-1", "cp1252", "windows-1252"] {
            assert_eq!(encoding(name).to_string(), "windows-1252", "{name}");
        }
        assert_eq!(encoding("utf_8"), encoding("UTF-8"));
        assert_eq!(encoding("utf-16"), encoding("utf-16le"));
        assert_eq!(encoding("shift-jis"), encoding("sjis"));
        for name in ["", "klingon", "utf-7"] {
            assert!(name.parse::<TextEncoding>().unwrap_err().contains("is not the name of an encoding"), "{name}");
        }
    }

    #[test]
    fn text_is_decoded_whole_and_as_it_is_read() {
        let text = "größe;preis\n1,5;2 €\n".repeat(9000);
        for name in ["windows-1252", "iso-8859-15", "utf-8"] {
            let (bytes, _, damaged) = encoding(name).0.encode(&text);
            assert!(!damaged);
            let bytes = bytes.into_owned();
            assert_eq!(text_of("t", &bytes, Some(encoding(name)), <[u8]>::len).unwrap(), text);
            let mut out = String::new();
            encoding(name).reader(Box::new(io::Cursor::new(bytes))).read_to_string(&mut out).unwrap();
            assert_eq!(out, text, "{name}");
        }
        let wide: Vec<u8> = std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        assert_eq!(text_of("t", &wide, None, <[u8]>::len).unwrap(), text, "by its byte order mark");
        let mut out = String::new();
        TextEncoding::of_file(&wide, None)
            .unwrap()
            .reader(Box::new(io::Cursor::new(wide)))
            .read_to_string(&mut out)
            .unwrap();
        assert_eq!(out, text);
    }

    #[test]
    fn what_is_not_in_the_encoding_is_an_error() {
        let error = text_of("t.csv", b"a\nb\xff\n", None, |before| before.len()).unwrap_err().to_string();
        assert!(error.contains("line 3 is not UTF-8") && error.contains("--encoding"), "{error}");
        let error = text_of("t.csv", b"a\n\x81\xff\n", Some(encoding("shift_jis")), <[u8]>::len).unwrap_err();
        assert!(error.to_string().contains("line 2 is not Shift_JIS text"), "{error}");
        let error = text_of("t.csv", b"a,b\n1,2\n", Some(encoding("utf-16")), <[u8]>::len).unwrap_err();
        assert!(error.to_string().contains("is not UTF-16LE text; leave --encoding out"), "{error}");
        let mut out = Vec::new();
        let error = encoding("shift_jis").reader(Box::new(&b"a\n\x81\xff\n"[..])).read_to_end(&mut out).unwrap_err();
        assert!(error.to_string().contains("Shift_JIS"), "{error}");
    }
}
