//! Any bytes as a picture.
#![no_main]

use citius_data::picture::{Channels, decode};
use citius_fuzz::{Draw, caught_panics_are_fine};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: caught_panics_are_fine(), |input: &[u8]| {
    let mut draw = Draw::new(input);
    let channels = draw.pick(&[Channels::AsIs, Channels::Grey, Channels::Rgb, Channels::Rgbx]);
    if let Ok(picture) = decode(draw.rest(), channels) {
        assert!(picture.width > 0 && picture.height > 0);
        assert_eq!(picture.pixels.len(), picture.width * picture.height * picture.channels);
    }
});
