//! Any bytes as a picture.

use citius_data::picture::{Channels, decode};

use crate::Draw;

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let channels = draw.pick(&[Channels::AsIs, Channels::Grey, Channels::Rgb, Channels::Rgbx]);
    if let Ok(picture) = decode(draw.rest(), channels) {
        assert!(picture.width > 0 && picture.height > 0);
        assert_eq!(picture.pixels.len(), picture.width * picture.height * picture.channels);
    }
}
