//! Which way up: the orientation in EXIF, a tag of a small TIFF file inside the picture.

use super::decode::Picture;

/// The orientation 1–8 in a TIFF block; 1, upright, where it has none that can be read.
pub(super) fn orientation(tiff: &[u8]) -> u8 {
    find(tiff.strip_prefix(b"Exif\0\0").unwrap_or(tiff)).unwrap_or(1)
}

fn find(tiff: &[u8]) -> Option<u8> {
    let little = match tiff.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = [*tiff.get(at)?, *tiff.get(at.checked_add(1)?)?];
        Some(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let long = |at: usize| {
        let (first, second) = (short(at)? as u32, short(at.checked_add(2)?)? as u32);
        Some(if little { second << 16 | first } else { first << 16 | second })
    };
    let directory = long(4)? as usize;
    let entries = short(directory)? as usize;
    for entry in 0..entries {
        let at = directory.checked_add(2 + 12 * entry)?;
        if short(at)? == 0x0112 {
            return short(at + 8).filter(|value| (1..=8).contains(value)).map(|value| value as u8);
        }
    }
    None
}

/// Turns a picture upright. Rare, so it takes new memory.
pub(super) fn turn(picture: &mut Picture, orientation: u8) {
    if !(2..=8).contains(&orientation) {
        return;
    }
    let (w, h, c) = (picture.width, picture.height, picture.channels);
    let swapped = orientation >= 5;
    let (width, height) = if swapped { (h, w) } else { (w, h) };
    let mut pixels = Vec::with_capacity(picture.pixels.len());
    for y in 0..height {
        for x in 0..width {
            let (from_x, from_y) = match orientation {
                2 => (w - 1 - x, y),
                3 => (w - 1 - x, h - 1 - y),
                4 => (x, h - 1 - y),
                5 => (y, x),
                6 => (y, h - 1 - x),
                7 => (w - 1 - y, h - 1 - x),
                _ => (w - 1 - y, x),
            };
            let at = (from_y * w + from_x) * c;
            pixels.extend_from_slice(&picture.pixels[at..at + c]);
        }
    }
    *picture = Picture { width, height, channels: c, pixels };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TIFF block with an unrelated tag and the orientation.
    pub fn block(little: bool, value: u16) -> Vec<u8> {
        let short = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
        let long = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
        let mut out = if little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
        out.extend(long(8));
        out.extend(short(2));
        for (tag, value) in [(0x0100, 640), (0x0112, value)] {
            out.extend(short(tag));
            out.extend(short(3));
            out.extend(long(1));
            out.extend(short(value));
            out.extend([0, 0]);
        }
        out.extend(long(0));
        out
    }

    #[test]
    fn both_byte_orders_and_nonsense() {
        for little in [true, false] {
            assert_eq!(orientation(&block(little, 6)), 6);
            assert_eq!(orientation(&block(little, 9)), 1);
            let whole = block(little, 8);
            for cut in 0..whole.len() - 8 {
                assert!((1..=8).contains(&orientation(&whole[..cut])));
            }
        }
        assert_eq!(orientation(b"Exif\0\0II*\0\xff\xff\xff\xff"), 1);
    }

    /// What PIL's `ImageOps.exif_transpose` makes of the rows `1 2 3 / 4 5 6`.
    #[test]
    fn eight_ways_up() {
        let expected: [(usize, [u8; 6]); 8] = [
            (3, [1, 2, 3, 4, 5, 6]),
            (3, [3, 2, 1, 6, 5, 4]),
            (3, [6, 5, 4, 3, 2, 1]),
            (3, [4, 5, 6, 1, 2, 3]),
            (2, [1, 4, 2, 5, 3, 6]),
            (2, [4, 1, 5, 2, 6, 3]),
            (2, [6, 3, 5, 2, 4, 1]),
            (2, [3, 6, 2, 5, 1, 4]),
        ];
        for (i, (width, pixels)) in expected.into_iter().enumerate() {
            let mut picture = Picture { width: 3, height: 2, channels: 1, pixels: vec![1, 2, 3, 4, 5, 6] };
            turn(&mut picture, i as u8 + 1);
            assert_eq!((picture.width, &picture.pixels[..]), (width, &pixels[..]), "orientation {}", i + 1);
        }
    }
}
