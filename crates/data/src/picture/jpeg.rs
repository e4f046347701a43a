//! JPEG, baseline and progressive, through `zune-jpeg`.

use std::cell::RefCell;

use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::decode::{Channels, Picture, check_size, convert, prepare};
use super::exif;

/// A block of 8×8 pixels takes a bit at least; in a progressive file the later passes may all be one run.
const PIXELS_PER_BYTE: u64 = 512;

/// Decodes; the answer is the orientation.
pub(super) fn decode(bytes: &[u8], channels: Channels, into: &mut Picture) -> Result<u8, String> {
    let problem = |error: zune_jpeg::errors::DecodeErrors| format!("not a usable JPEG file: {error}");
    let options = DecoderOptions::default().set_max_width(usize::MAX).set_max_height(usize::MAX);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(problem)?;
    let info = decoder.info().ok_or("its header is cut short")?;
    let (width, height) = (info.width as usize, info.height as usize);
    check_size(width as u64, height as u64, bytes.len(), PIXELS_PER_BYTE)?;
    if !ends(bytes) {
        return Err("not a usable JPEG file: it ends before the picture does; it is cut short".into());
    }
    let orientation = info.exif_data.as_deref().map_or(1, exif::orientation);

    let colour = info.components > 2;
    let input = decoder.input_colorspace().ok_or("its header is cut short")?;
    let direct = match (input, channels.count(colour)) {
        (ColorSpace::Luma | ColorSpace::YCbCr, 1) => Some(ColorSpace::Luma),
        (ColorSpace::Luma | ColorSpace::YCbCr, 3) => Some(ColorSpace::RGB),
        (ColorSpace::Luma | ColorSpace::YCbCr, 4) => Some(ColorSpace::RGBA),
        _ => None,
    };
    // anew: how colours are converted is chosen while the header is read
    let decoder_to = |space| JpegDecoder::new_with_options(ZCursor::new(bytes), options.jpeg_set_out_colorspace(space));
    if let Some(space) = direct {
        let mut decoder = decoder_to(space);
        prepare(into, width, height, space.num_components())?;
        decoder.decode_into(&mut into.pixels).map_err(problem)?;
        return Ok(orientation);
    }
    // RGB kept as such, and the inks of print
    let mut decoder = decoder_to(ColorSpace::RGB);
    RAW.with_borrow_mut(|raw| {
        raw.clear();
        raw.resize(width * height * 3, 0);
        decoder.decode_into(raw).map_err(problem)?;
        convert(raw, 3, width, height, channels, into)
    })?;
    Ok(orientation)
}

thread_local! {
    static RAW: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Whether an end-of-image marker follows the start of the scan: a stream of codes never holds one, and the decoder
/// would paint what is missing grey.
fn ends(bytes: &[u8]) -> bool {
    let is = |marker: u8| move |pair: &[u8]| pair == [0xff, marker];
    let Some(end) = bytes.windows(2).rposition(is(0xd9)) else { return false };
    // nearly always the last two bytes; else whether it is the end of a thumbnail in the header
    end + 2 == bytes.len() || scan_start(bytes).is_some_and(|scan| end > scan)
}

/// Where the first scan begins, segment by segment.
fn scan_start(bytes: &[u8]) -> Option<usize> {
    let mut at = 2;
    loop {
        match *bytes.get(at..at + 2)? {
            [0xff, 0xff] => at += 1,
            [0xff, 0xda] => return Some(at),
            [0xff, 0x01 | 0xd0..=0xd8] => at += 2,
            [0xff, _] => at += 2 + u16::from_be_bytes([*bytes.get(at + 2)?, *bytes.get(at + 3)?]) as usize,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fourth byte changes nothing about the other three; files wider and narrower than the 16 pixels that are
    /// converted at once.
    #[test]
    fn rgbx_is_rgb_with_a_byte_more() {
        let files: [&[u8]; 5] = [
            include_bytes!("testdata/rgb.jpg"),
            include_bytes!("testdata/progressive.jpg"),
            include_bytes!("testdata/turned.jpg"),
            include_bytes!("testdata/grey.jpg"),
            include_bytes!("testdata/cmyk.jpg"),
        ];
        for bytes in files {
            let (mut three, mut four) = (Picture::default(), Picture::default());
            decode(bytes, Channels::Rgb, &mut three).unwrap();
            decode(bytes, Channels::Rgbx, &mut four).unwrap();
            let without: Vec<u8> = four.pixels.chunks_exact(4).flat_map(|p| p[..3].to_vec()).collect();
            assert!(without == three.pixels, "{}×{}", three.width, three.height);
        }
    }
}
