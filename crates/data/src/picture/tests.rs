//! Decoding: every kind of file as PIL reads it, and damaged ones.
//!
//! `testdata/` was made with PIL from one picture of 20×14: red rises to the right, green downwards, blue falls.

use super::{Channels, Picture, decode};

/// A PNG file of 1 or 3 channels.
pub fn png(width: u32, height: u32, channels: usize, pixels: &[u8]) -> Vec<u8> {
    let colour = if channels == 1 { ::png::ColorType::Grayscale } else { ::png::ColorType::Rgb };
    png_of(width, height, colour, ::png::BitDepth::Eight, pixels)
}

fn png_of(width: u32, height: u32, colour: ::png::ColorType, depth: ::png::BitDepth, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}

const RGB_JPEG: &[u8] = include_bytes!("testdata/rgb.jpg");
const PROGRESSIVE: &[u8] = include_bytes!("testdata/progressive.jpg");
const GREY_JPEG: &[u8] = include_bytes!("testdata/grey.jpg");
const CMYK: &[u8] = include_bytes!("testdata/cmyk.jpg");
const TURNED: &[u8] = include_bytes!("testdata/turned.jpg");
const PALETTE: &[u8] = include_bytes!("testdata/palette.png");
const LOSSY: &[u8] = include_bytes!("testdata/lossy.webp");
const LOSSLESS: &[u8] = include_bytes!("testdata/lossless.webp");
const ALPHA: &[u8] = include_bytes!("testdata/alpha.webp");

const ALL: [&[u8]; 9] = [RGB_JPEG, PROGRESSIVE, GREY_JPEG, CMYK, TURNED, PALETTE, LOSSY, LOSSLESS, ALPHA];

fn at(picture: &Picture, x: usize, y: usize) -> &[u8] {
    let c = picture.channels;
    &picture.pixels[(y * picture.width + x) * c..][..c]
}

fn assert_near(got: &[u8], expected: &[u8], most: u8) {
    assert!(got.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) <= most), "{got:?} is not near {expected:?}");
}

/// `Image.open(file).convert("RGB")` of PIL at (10, 3), (5, 7) and (9, 13).
#[test]
fn every_kind_as_pil() {
    let original = [[120, 51, 171], [60, 119, 169], [108, 221, 97]];
    let cases = [
        ("rgb", RGB_JPEG, [[119, 51, 170], [61, 119, 167], [113, 215, 105]], 3),
        ("progressive", PROGRESSIVE, [[119, 51, 170], [61, 119, 167], [113, 215, 105]], 3),
        ("grey", GREY_JPEG, [[85; 3], [107; 3], [172; 3]], 1),
        ("cmyk", CMYK, [[121, 51, 171], [60, 119, 169], [108, 221, 97]], 3),
        ("palette", PALETTE, [[132, 60, 161], [48, 119, 175], [132, 204, 93]], 0),
        ("lossy", LOSSY, [[120, 51, 170], [59, 117, 165], [116, 216, 107]], 3),
        ("lossless", LOSSLESS, original, 0),
        ("alpha, dropped", ALPHA, original, 0),
    ];
    for (name, bytes, expected, most) in cases {
        let rgb = decode(bytes, Channels::Rgb).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((rgb.width, rgb.height, rgb.channels), (20, 14, 3), "{name}");
        let padded = decode(bytes, Channels::Rgbx).unwrap();
        let grey = decode(bytes, Channels::Grey).unwrap();
        assert_eq!((padded.channels, grey.channels), (4, 1));
        for ((x, y), expected) in [(10, 3), (5, 7), (9, 13)].into_iter().zip(expected) {
            assert_near(at(&rgb, x, y), &expected, most);
            assert_eq!(&at(&padded, x, y)[..3], at(&rgb, x, y), "{name}");
            let luma = super::decode::luma(expected[0], expected[1], expected[2]);
            assert_near(at(&grey, x, y), &[luma], most.max(2));
        }
        let as_is = decode(bytes, Channels::AsIs).unwrap();
        assert_eq!(as_is.channels, if name == "grey" { 1 } else { 3 });
    }
}

#[test]
fn orientation_six_is_turned_upright() {
    let lying = decode(RGB_JPEG, Channels::Rgb).unwrap();
    let upright = decode(TURNED, Channels::Rgb).unwrap();
    assert_eq!((upright.width, upright.height), (14, 20));
    // a quarter turn clockwise: (x, y) goes to (13 - y, x)
    assert_eq!(at(&upright, 13 - 3, 10), at(&lying, 10, 3));
    assert_eq!(at(&upright, 0, 19), at(&lying, 19, 13));
}

#[test]
fn few_and_many_bits_and_alpha() {
    use ::png::{BitDepth, ColorType};
    let grey = |depth, pixels: &[u8], width| {
        decode(&png_of(width, 1, ColorType::Grayscale, depth, pixels), Channels::AsIs).unwrap().pixels
    };
    assert_eq!(grey(BitDepth::One, &[0b1010_0000], 3), [255, 0, 255]);
    assert_eq!(grey(BitDepth::Four, &[0x0f, 0x30], 3), [0, 255, 51]);
    assert_eq!(grey(BitDepth::Sixteen, &[0x12, 0x34, 0xff, 0xff], 2), [0x12, 0xff]);
    let both = png_of(2, 1, ColorType::GrayscaleAlpha, BitDepth::Eight, &[10, 0, 20, 255]);
    assert_eq!(decode(&both, Channels::AsIs).unwrap().pixels, [10, 20]);
    let colours = png_of(1, 1, ColorType::Rgba, BitDepth::Eight, &[1, 2, 3, 0]);
    assert_eq!(decode(&colours, Channels::Rgb).unwrap().pixels, [1, 2, 3]);
}

#[test]
fn memory_that_is_used_again_holds_no_trace() {
    let mut picture = Picture { width: 9, height: 9, channels: 1, pixels: vec![77; 5000] };
    for bytes in ALL {
        super::decode_into(bytes, Channels::Rgb, &mut picture).unwrap();
        assert_eq!(picture, decode(bytes, Channels::Rgb).unwrap());
    }
}

#[test]
fn other_files_are_told_what_they_are() {
    let message = |bytes: &[u8]| decode(bytes, Channels::Rgb).unwrap_err();
    assert!(message(b"").contains("empty"));
    assert!(message(b"GIF89a....").contains("GIF is not read"));
    assert!(message(b"\0\0\0\x20ftypheic").contains("HEIC"));
    assert!(message(b"hello").contains("not a picture"));
}

/// Cut at every length: an error, and for JPEG too, whose decoder would paint the rest grey.
#[test]
fn truncated_files_are_refused() {
    for bytes in ALL {
        for length in 0..bytes.len() {
            // the last bytes of a PNG hold no pixels
            let decoded = decode(&bytes[..length], Channels::Rgb);
            assert!(decoded.is_err() || length + 20 > bytes.len(), "{length} of {} bytes were enough", bytes.len());
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    for bytes in ALL {
        for place in 0..bytes.len() {
            for bit in [0, 3, 7] {
                let mut damaged = bytes.to_vec();
                damaged[place] ^= 1 << bit;
                for channels in [Channels::Rgbx, Channels::Grey] {
                    if let Ok(picture) = decode(&damaged, channels) {
                        assert_eq!(picture.pixels.len(), picture.width * picture.height * picture.channels);
                    }
                }
            }
        }
    }
}

/// Headers that promise 65535×65535 pixels, or a size that is allowed but for which the bytes are too few.
#[test]
fn bombs_are_refused_by_their_header() {
    let jpeg = |width: u16, height: u16| {
        let mut bytes = RGB_JPEG.to_vec();
        let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
        bytes[frame + 5..frame + 7].copy_from_slice(&height.to_be_bytes());
        bytes[frame + 7..frame + 9].copy_from_slice(&width.to_be_bytes());
        decode(&bytes, Channels::Rgb).unwrap_err()
    };
    assert!(jpeg(65535, 65535).contains("decompression bomb"), "{}", jpeg(65535, 65535));
    assert!(jpeg(10_000, 10_000).contains("more than its 728 bytes can hold"), "{}", jpeg(10_000, 10_000));

    let png = |width: u32, height: u32| {
        let mut header = b"IHDR".to_vec();
        header.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
        header.extend([8, 2, 0, 0, 0]);
        let mut crc = flate2::Crc::new();
        crc.update(&header);
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0d".to_vec();
        bytes.extend(&header);
        bytes.extend(crc.sum().to_be_bytes());
        bytes.extend(b"\0\0\0\x04IDAT\0\0\0\0\0\0\0\0");
        decode(&bytes, Channels::Rgb).unwrap_err()
    };
    assert!(png(65535, 65535).contains("decompression bomb"), "{}", png(65535, 65535));
    assert!(png(10_000, 10_000).contains("can hold"), "{}", png(10_000, 10_000));

    // the size of a lossless WebP: 14 bits each, less one
    let mut bytes = LOSSLESS.to_vec();
    let start = bytes.windows(4).position(|four| four == b"VP8L").unwrap() + 9;
    bytes[start..start + 4].copy_from_slice(&[0xfe, 0xbf, 0xff, 0x0f]);
    let error = decode(&bytes, Channels::Rgb).unwrap_err();
    assert!(error.contains("16383×16383") && error.contains("bomb"), "{error}");
}
