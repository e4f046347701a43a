//! Bytes to a [`Picture`]. Formats are told apart by their first bytes, never by a file's name.
//!
//! A declared size is a claim: it is held against [`MOST_PIXELS`] and against the bytes that are there before any
//! memory is taken. Damaged bytes give an error, also where a decoder would panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};

use super::{exif, jpeg, png, webp};

/// PIL's limit too; larger is refused as a decompression bomb.
pub const MOST_PIXELS: u64 = 178_956_970;

/// A decoded picture, upright.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    pub width: usize,
    pub height: usize,
    /// 1 grey, 3 RGB, 4 RGB and a byte of no meaning.
    pub channels: usize,
    /// Row-major, interleaved: `height · width · channels`.
    pub pixels: Vec<u8>,
}

/// Which channels a picture is wanted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channels {
    Grey,
    #[default]
    Rgb,
    /// RGB and a fourth byte of no meaning: what SIMD likes best.
    Rgbx,
    /// Grey stays grey, everything else becomes RGB.
    AsIs,
}

impl Channels {
    /// Bytes per pixel, for a file that has colours or not.
    pub(super) fn count(self, colour: bool) -> usize {
        match self {
            Channels::Grey => 1,
            Channels::Rgb => 3,
            Channels::Rgbx => 4,
            Channels::AsIs => 1 + 2 * colour as usize,
        }
    }
}

/// Decodes JPEG, PNG or WebP. Alpha is dropped, 16 bits become 8, EXIF's orientation is applied.
pub fn decode(bytes: &[u8], channels: Channels) -> Result<Picture, String> {
    let mut picture = Picture::default();
    decode_into(bytes, channels, &mut picture)?;
    Ok(picture)
}

/// As [`decode`], into memory that is used again.
pub fn decode_into(bytes: &[u8], channels: Channels, into: &mut Picture) -> Result<(), String> {
    let format = Format::of(bytes)?;
    let decoded = catch_unwind(AssertUnwindSafe(|| match format {
        Format::Jpeg => jpeg::decode(bytes, channels, into),
        Format::Png => png::decode(bytes, channels, into),
        Format::Webp => webp::decode(bytes, channels, into),
    }));
    let orientation = decoded.unwrap_or_else(|_| Err("its bytes are damaged; the decoder gave up".into()))?;
    exif::turn(into, orientation);
    Ok(())
}

/// Whether bytes begin as those of a format that is read do.
pub(super) fn is_known(bytes: &[u8]) -> bool {
    Format::of(bytes).is_ok()
}

#[derive(Clone, Copy)]
enum Format {
    Jpeg,
    Png,
    Webp,
}

impl Format {
    fn of(bytes: &[u8]) -> Result<Format, String> {
        let known_but_not_read = match bytes {
            [] => return Err("the file is empty".into()),
            [0xff, 0xd8, 0xff, ..] => return Ok(Format::Jpeg),
            [0x89, b'P', b'N', b'G', ..] => return Ok(Format::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => return Ok(Format::Webp),
            [b'G', b'I', b'F', b'8', ..] => "GIF",
            [b'B', b'M', ..] => "BMP",
            [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => "TIFF",
            [_, _, _, _, b'f', b't', b'y', b'p', ..] => "HEIC or AVIF",
            _ => return Err("not a picture: it begins as neither JPEG, PNG nor WebP does".into()),
        };
        Err(format!("{known_but_not_read} is not read; convert it to JPEG, PNG or WebP"))
    }
}

/// Whether a picture may be this large, given the bytes of its file: `densest` is how many pixels of its format one
/// byte can hold.
pub(super) fn check_size(width: u64, height: u64, bytes: usize, densest: u64) -> Result<(), String> {
    if width == 0 || height == 0 {
        return Err(format!("it declares {width}×{height} pixels: none"));
    }
    let pixels = width * height; // each below 2³²
    if pixels > MOST_PIXELS {
        return Err(format!(
            "it declares {width}×{height} pixels, more than the {MOST_PIXELS} that are taken; \
             it may be a decompression bomb: if it is real, shrink it first"
        ));
    }
    if pixels > (bytes as u64).saturating_mul(densest) {
        return Err(format!(
            "it declares {width}×{height} pixels, more than its {bytes} bytes can hold; it is cut short or damaged"
        ));
    }
    Ok(())
}

/// Makes room for a picture; bytes left from the last one are overwritten by the decoder.
pub(super) fn prepare(into: &mut Picture, width: usize, height: usize, channels: usize) -> Result<(), String> {
    let bytes = width * height * channels;
    if bytes > into.pixels.capacity() {
        into.pixels.clear();
        into.pixels.try_reserve_exact(bytes).map_err(|_| format!("{bytes} bytes of memory could not be had"))?;
    }
    into.pixels.resize(bytes, 0);
    (into.width, into.height, into.channels) = (width, height, channels);
    Ok(())
}

/// Pixels of 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGB, alpha) bytes to the channels wanted.
pub(super) fn convert(
    from: &[u8],
    samples: usize,
    width: usize,
    height: usize,
    channels: Channels,
    into: &mut Picture,
) -> Result<(), String> {
    let wanted = channels.count(samples > 2);
    prepare(into, width, height, wanted)?;
    let pairs = from.chunks_exact(samples).zip(into.pixels.chunks_exact_mut(wanted));
    match (samples, wanted) {
        (1, 1) | (3, 3) | (4, 4) => into.pixels.copy_from_slice(&from[..width * height * wanted]),
        (1 | 2, _) => pairs.for_each(|(from, to)| to.fill(from[0])),
        (_, 1) => pairs.for_each(|(from, to)| to[0] = luma(from[0], from[1], from[2])),
        _ => pairs.for_each(|(from, to)| to[..3].copy_from_slice(&from[..3])),
    }
    Ok(())
}

/// PIL's: `0.299 r + 0.587 g + 0.114 b`, rounded.
#[inline(always)]
pub(super) fn luma(r: u8, g: u8, b: u8) -> u8 {
    ((r as u32 * 19595 + g as u32 * 38470 + b as u32 * 7471 + 0x8000) >> 16) as u8
}
