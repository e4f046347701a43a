//! Writes one digit: picks a style, bends it as a hand would, and inks the path.

use super::strokes::{DIGITS, Stroke};
use super::{PIXELS, Rng, SIDE};

/// Draws `digit` on `pixels`, which is black.
pub(super) fn write(digit: u8, rng: &mut Rng, pixels: &mut [u8; PIXELS]) {
    let styles = DIGITS[usize::from(digit)];
    let style = styles[rng.below(styles.len())];
    let hand = Hand::new(rng);
    let mut path = Vec::with_capacity(128);
    for stroke in style {
        hand.follow(stroke, rng, &mut path);
    }
    fit(&mut path, rng);
    ink(&path, rng, pixels);
}

/// A straight piece of the pen's path, with the pressure (about 1) at its ends.
struct Piece {
    from: [f32; 2],
    to: [f32; 2],
    pressure: [f32; 2],
}

/// How one writer, on one occasion, departs from the skeleton.
struct Hand {
    /// Rows of the matrix that turns, slants and stretches.
    affine: [[f32; 2]; 2],
    /// Smooth displacement of the paper.
    waves: [Wave; 3],
    /// Deviation of each control point, in boxes.
    jitter: f32,
    /// Depth and phase of the pressure's change along a stroke.
    pressure: [f32; 2],
}

/// Displacement by `amplitude · wave(frequency · point + phase)`.
struct Wave {
    amplitude: [f32; 2],
    frequency: [f32; 2],
    phase: f32,
}

impl Hand {
    fn new(rng: &mut Rng) -> Self {
        // Most writers are careful; a few are not.
        let careless = rng.between(0.0, 1.0);
        let haste = 0.65 + 0.75 * careless * careless;

        // Rotation by the angle whose half has tangent `t`: exact without a sine.
        let t = rng.normal(0.055 * haste);
        let (cos, sin) = ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
        let slant = 0.08 + rng.normal(0.17 * haste);
        let width = 1.0 + rng.normal(0.13 * haste);
        Hand {
            // rotation · [[width, -slant], [0, 1]]: writing leans to the right.
            affine: [[cos * width, -cos * slant - sin], [sin * width, -sin * slant + cos]],
            waves: std::array::from_fn(|_| Wave {
                amplitude: [rng.normal(0.04 * haste), rng.normal(0.04 * haste)],
                frequency: [rng.between(-0.8, 0.8), rng.between(-0.8, 0.8)],
                phase: rng.between(0.0, 1.0),
            }),
            jitter: 0.016 * haste,
            pressure: [rng.between(0.0, 0.3), rng.between(0.0, 1.0)],
        }
    }

    /// Adds the pieces of one stroke to the path.
    fn follow(&self, stroke: Stroke, rng: &mut Rng, path: &mut Vec<Piece>) {
        let ends = [0, stroke.len() - 1];
        let mut points: Vec<[f32; 2]> = Vec::with_capacity(stroke.len());
        for (i, &point) in stroke.iter().enumerate() {
            if i > 0 && stroke[i - 1] == point {
                points.push(points[i - 1]);
                continue;
            }
            // The pen sets down and lifts off less exactly than it moves.
            let jitter = if ends.contains(&i) { 2.0 * self.jitter } else { self.jitter };
            let near = [point / 100, point % 100].map(|k| f32::from(k) / 100.0 + rng.normal(jitter));
            points.push(self.place(near));
        }

        let last = points.len() - 1;
        for i in 0..last {
            let (a, b) = (points[i], points[i + 1]);
            if stroke[i] == stroke[i + 1] {
                continue;
            }
            // Catmull-Rom: the slope at a point is that between its neighbours, none of them across a corner.
            let before = if i == 0 || stroke[i - 1] == stroke[i] { a } else { points[i - 1] };
            let after = if i + 1 == last || stroke[i + 1] == stroke[i + 2] { b } else { points[i + 2] };
            let at = |t: f32| [0, 1].map(|k| catmull_rom(before[k], a[k], b[k], after[k], t));
            let press = |t: f32| 1.0 + self.pressure[0] * wave(self.pressure[1] + 1.5 * (i as f32 + t) / last as f32);
            const CUTS: usize = 4;
            let (mut from, mut p) = (a, press(0.0));
            for cut in 1..=CUTS {
                let t = cut as f32 / CUTS as f32;
                let (to, q) = (at(t), press(t));
                path.push(Piece { from, to, pressure: [p, q] });
                (from, p) = (to, q);
            }
        }
    }

    /// Where a point of the skeleton lands.
    fn place(&self, point: [f32; 2]) -> [f32; 2] {
        let mut bent = point;
        for w in &self.waves {
            let shift = wave(w.frequency[0] * point[0] + w.frequency[1] * point[1] + w.phase);
            bent[0] += w.amplitude[0] * shift;
            bent[1] += w.amplitude[1] * shift;
        }
        self.affine.map(|row| row[0] * bent[0] + row[1] * bent[1])
    }
}

fn catmull_rom(before: f32, a: f32, b: f32, after: f32, t: f32) -> f32 {
    let (m, n) = (0.5 * (b - before), 0.5 * (after - a));
    a + t * (m + t * (3.0 * (b - a) - 2.0 * m - n + t * (2.0 * (a - b) + m + n)))
}

/// A sine of period 1 made of parabolas: the same bits on every machine, which no library promises.
fn wave(turns: f32) -> f32 {
    let x = turns - turns.floor();
    if x < 0.5 { 16.0 * x * (0.5 - x) } else { -16.0 * (x - 0.5) * (1.0 - x) }
}

/// Scales the path so that its longer side is about 20 pixels and moves it near the centre.
fn fit(path: &mut [Piece], rng: &mut Rng) {
    let (mut low, mut high) = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2]);
    for point in path.iter().flat_map(|piece| [piece.from, piece.to]) {
        for k in 0..2 {
            low[k] = low[k].min(point[k]);
            high[k] = high[k].max(point[k]);
        }
    }
    let longer = (high[0] - low[0]).max(high[1] - low[1]);
    let scale = rng.between(16.0, 20.0) / longer;
    let shift = [0, 1].map(|k| SIDE as f32 / 2.0 - scale * 0.5 * (low[k] + high[k]) + rng.normal(0.8));
    for piece in path {
        for point in [&mut piece.from, &mut piece.to] {
            for k in 0..2 {
                point[k] = scale * point[k] + shift[k];
            }
        }
    }
}

/// Lays ink along the path: full inside the pen's radius, fading over `soft` pixels around it.
fn ink(path: &[Piece], rng: &mut Rng, pixels: &mut [u8; PIXELS]) {
    let radius = rng.between(0.7, 1.7);
    let soft = rng.between(0.9, 1.6);
    let dark = rng.between(0.88, 1.0);

    let mut shade = [0f32; PIXELS];
    for Piece { from, to, pressure } in path {
        let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
        let per_length = 1.0 / (dx * dx + dy * dy).max(1e-9);
        let (r, dr) = (radius * pressure[0], radius * (pressure[1] - pressure[0]));
        let reach = r.max(r + dr) + 0.5 * soft;
        // Pixel i covers i..i+1; its shade is taken at the middle.
        let range = |a: f32, b: f32| {
            let start = (a.min(b) - reach).max(0.0) as usize;
            start..((a.max(b) + reach).max(0.0) as usize + 1).min(SIDE)
        };
        let columns = range(from[0], to[0]);
        for row in range(from[1], to[1]) {
            let y = row as f32 + 0.5 - from[1];
            let line = &mut shade[row * SIDE..][..SIDE];
            for column in columns.clone() {
                let x = column as f32 + 0.5 - from[0];
                let t = ((x * dx + y * dy) * per_length).clamp(0.0, 1.0);
                let (ex, ey) = (x - t * dx, y - t * dy);
                let inside = r + t * dr - (ex * ex + ey * ey).sqrt();
                line[column] = line[column].max(0.5 + inside / soft);
            }
        }
    }
    for (pixel, shade) in pixels.iter_mut().zip(shade) {
        if shade > 0.0 {
            // Paper has a grain.
            *pixel = (255.0 * dark * shade.min(1.0) * rng.between(0.94, 1.0)) as u8;
        }
    }
}
