//! Decoding: every kind of file as PIL reads it, and damaged ones.

/// A PNG file of 1 or 3 channels.
pub fn png(width: u32, height: u32, channels: usize, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(if channels == 1 { ::png::ColorType::Grayscale } else { ::png::ColorType::Rgb });
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}
