//! Reads a picture through an affine map, as PIL's `transform(AFFINE)`.

use serde::{Deserialize, Serialize};

/// What stands between pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interpolation {
    #[default]
    Nearest,
    Bilinear,
}

/// Rotation (degrees, clockwise), scale, shear (degrees) about the middle, then a shift in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Motion {
    pub angle: f64,
    pub shift: [f64; 2],
    pub scale: f64,
    pub shear: [f64; 2],
}

impl Motion {
    /// From a place in the new picture to one in the old, `[a b c; d e f]`: torchvision's `_get_inverse_affine_matrix`.
    pub fn inverse(&self, width: usize, height: usize) -> [f64; 6] {
        let (angle, sx, sy) = (self.angle.to_radians(), self.shear[0].to_radians(), self.shear[1].to_radians());
        let a = (angle - sy).cos() / sy.cos();
        let b = -(angle - sy).cos() * sx.tan() / sy.cos() - angle.sin();
        let c = (angle - sy).sin() / sy.cos();
        let d = -(angle - sy).sin() * sx.tan() / sy.cos() + angle.cos();
        let [a, b, c, d] = [d, -b, -c, a].map(|v| v / self.scale);
        let (cx, cy) = (width as f64 * 0.5, height as f64 * 0.5);
        let (x, y) = (-cx - self.shift[0], -cy - self.shift[1]);
        [a, b, a * x + b * y + cx, c, d, c * x + d * y + cy]
    }
}

/// Fills `to` with what the map finds in `from`, black where it leads outside.
pub(super) fn warp(
    from: &[u8],
    (width, height, channels): (usize, usize, usize),
    map: [f64; 6],
    interpolation: Interpolation,
    to: &mut [u8],
) {
    let [a, b, c, d, e, f] = map;
    for (y, row) in to.chunks_exact_mut(width * channels).enumerate() {
        for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
            let (px, py) = (x as f64 + 0.5, y as f64 + 0.5);
            let (from_x, from_y) = (a * px + b * py + c, d * px + e * py + f);
            if !(0.0..width as f64).contains(&from_x) || !(0.0..height as f64).contains(&from_y) {
                pixel.fill(0);
                continue;
            }
            let at = |x: usize, y: usize| &from[(y * width + x) * channels..][..channels];
            match interpolation {
                Interpolation::Nearest => pixel.copy_from_slice(at(from_x as usize, from_y as usize)),
                Interpolation::Bilinear => {
                    let (left, right, dx) = between(from_x, width);
                    let (above, below, dy) = between(from_y, height);
                    let corners = [at(left, above), at(right, above), at(left, below), at(right, below)];
                    for (k, value) in pixel.iter_mut().enumerate() {
                        let [p, q, r, s] = corners.map(|corner| corner[k] as f64);
                        let (upper, lower) = (p + (q - p) * dx, r + (s - r) * dx);
                        *value = (upper + (lower - upper) * dy + 0.5) as u8;
                    }
                }
            }
        }
    }
}

/// The two pixel centres around a place, and how far it is from the first.
fn between(place: f64, size: usize) -> (usize, usize, f64) {
    let place = place - 0.5;
    let first = place.floor();
    let clip = |at: f64| at.clamp(0.0, (size - 1) as f64) as usize;
    (clip(first), clip(first + 1.0), place - first)
}
