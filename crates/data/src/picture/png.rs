//! PNG, through the `png` crate: palettes and few bits expanded, 16 bits cut to 8, the first frame of a moving one.

use std::io::Cursor;

use super::decode::{Channels, Picture, check_size, convert};
use super::exif;

/// A deflate stream expands 1032 times at most, and a pixel may take a single bit.
const PIXELS_PER_BYTE: u64 = 1032 * 8;

/// Decodes; the answer is the orientation.
pub(super) fn decode(bytes: &[u8], channels: Channels, into: &mut Picture) -> Result<u8, String> {
    let problem = |error: ::png::DecodingError| format!("not a usable PNG file: {error}");
    // the decoder's own tables; the picture itself is held against the file's size below
    let mut decoder = ::png::Decoder::new_with_limits(Cursor::new(bytes), ::png::Limits { bytes: 64 << 20 });
    decoder.set_transformations(::png::Transformations::EXPAND | ::png::Transformations::STRIP_16);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let info = decoder.read_header_info().map_err(problem)?;
    let (width, height) = (info.width as u64, info.height as u64);
    check_size(width, height, bytes.len(), PIXELS_PER_BYTE)?;
    // a row is a buffer of the decoder's
    decoder.set_limits(::png::Limits { bytes: (64 << 20) + 16 * width as usize });
    let mut reader = decoder.read_info().map_err(problem)?;
    let samples = reader.output_color_type().0.samples();
    let size = reader.output_buffer_size().ok_or("its rows are longer than memory")?;
    let mut raw = Vec::new();
    raw.try_reserve_exact(size).map_err(|_| format!("{size} bytes of memory could not be had"))?;
    raw.resize(size, 0);
    reader.next_frame(&mut raw).map_err(problem)?;
    let orientation = reader.info().exif_metadata.as_deref().map_or(1, exif::orientation);
    convert(&raw, samples, width as usize, height as usize, channels, into)?;
    Ok(orientation)
}
