//! WebP, lossy and lossless, through `image-webp`: the first frame of a moving one.

use std::io::Cursor;

use super::decode::{Channels, Picture, check_size, convert};
use super::exif;

/// A lossless stream can say "all white" in a few bytes: so many pixels are taken from any file …
const FREE_PIXELS: usize = 32 << 20;
/// … and beyond them this many per byte: real pictures stay far below.
const PIXELS_PER_BYTE: u64 = 4096;

/// Decodes; the answer is the orientation.
pub(super) fn decode(bytes: &[u8], channels: Channels, into: &mut Picture) -> Result<u8, String> {
    let problem = |error: image_webp::DecodingError| format!("not a usable WebP file: {error}");
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(bytes)).map_err(problem)?;
    let (width, height) = decoder.dimensions();
    check_size(width as u64, height as u64, bytes.len().max(FREE_PIXELS / PIXELS_PER_BYTE as usize), PIXELS_PER_BYTE)?;
    let size = decoder.output_buffer_size().ok_or("it is larger than memory")?;
    decoder.set_memory_limit(size.saturating_mul(2).saturating_add(64 << 20));
    let mut raw = Vec::new();
    raw.try_reserve_exact(size).map_err(|_| format!("{size} bytes of memory could not be had"))?;
    raw.resize(size, 0);
    decoder.read_image(&mut raw).map_err(problem)?;
    let orientation = decoder.exif_metadata().ok().flatten().map_or(1, |block| exif::orientation(&block));
    let samples = if decoder.has_alpha() { 4 } else { 3 };
    convert(&raw, samples, width as usize, height as usize, channels, into)?;
    Ok(orientation)
}
