//! Pictures varied at random inside the compiled step. A picture moved or mirrored is its rows and columns in another order: a product with
//! a matrix of ones and zeros on each side, exact in any precision that holds a byte.

use citius_graph::{Graph, Mode, Tensor};
use serde::{Deserialize, Serialize};

/// What is done to every picture of a batch, each in its own way.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Vary {
    /// Moved by up to so many pixels, up or down and left or right; what comes in is black.
    Shift { pixels: usize },
    /// Left and right exchanged.
    MirrorX { probability: f64 },
    /// Top and bottom exchanged.
    MirrorY { probability: f64 },
    /// A rectangle painted with `value`, in the unit of what the network sees; its area and its width over its height are drawn, the one
    /// evenly between the bounds of `scale`, shares of the picture, the other evenly between the logarithms of those of `ratio`.
    Erase { probability: f64, scale: [f64; 2], ratio: [f64; 2], value: f64 },
}

impl Vary {
    pub fn name(&self) -> String {
        match self {
            Vary::Shift { pixels } => format!("moved by up to {pixels} pixels"),
            Vary::MirrorX { probability: 0.5 } => "mirrored".to_owned(),
            Vary::MirrorX { probability } => format!("mirrored, {probability} of them"),
            Vary::MirrorY { probability } => format!("upside down, {probability} of them"),
            Vary::Erase { probability, .. } => format!("partly painted over, {probability} of them"),
        }
    }
}

/// Pictures `[n,c,h,w]` as `pixels · scale + shift`, varied while training: `pixels` are those of a file, 0 being black.
#[track_caller]
pub fn vary(pixels: &Tensor, how: &[Vary], (scale, shift): (f64, f64)) -> Tensor {
    let g = pixels.graph();
    let _line = g.called_here();
    let seen = |pixels: &Tensor| pixels * scale + shift;
    if how.is_empty() || g.mode() == Mode::Eval {
        return seen(pixels);
    }
    let [n, c, h, w] = pixels.dims()[..] else {
        g.report("vary", format!("pictures are {}, must be [n,c,h,w]", pixels.shape()));
        return seen(pixels);
    };
    let shifts = how.iter().map(|way| if let Vary::Shift { pixels } = way { *pixels } else { 0 });
    let pixels_moved = shifts.max().unwrap_or(0);
    let across =
        how.iter().filter_map(|way| if let Vary::MirrorX { probability } = way { Some(*probability) } else { None });
    let upright =
        how.iter().filter_map(|way| if let Vary::MirrorY { probability } = way { Some(*probability) } else { None });
    let mut y = pixels.clone();
    if let Some(columns) = selection(g, [n, w], pixels_moved, across.collect()) {
        y = y.reshape(&[n, c * h, w]).matmul(&columns.transpose(&[0, 2, 1])).reshape(&[n, c, h, w]);
    }
    if let Some(rows) = selection(g, [n, h], pixels_moved, upright.collect()) {
        let beside = y.transpose(&[0, 2, 1, 3]).reshape(&[n, h, c * w]);
        y = rows.matmul(&beside).reshape(&[n, h, c, w]).transpose(&[0, 2, 1, 3]);
    }
    let erased = how.iter().filter_map(|way| match *way {
        Vary::Erase { probability, scale, ratio, value } => {
            Some((painted(g, [n, h, w], probability, scale, ratio), value))
        }
        Vary::Shift { .. } | Vary::MirrorX { .. } | Vary::MirrorY { .. } => None,
    });
    erased.fold(seen(&y), |y, (mask, value)| mask.choose(&g.scalar(value), &y))
}

/// `[n,side,side]`: 1 at `[·,i,k]` where place i of the new picture is place k of the old one; `None` where nothing moves.
#[track_caller]
fn selection(g: &Graph, [n, side]: [usize; 2], pixels: usize, mirrored: Vec<f64>) -> Option<Tensor> {
    if pixels == 0 && mirrored.is_empty() {
        return None;
    }
    let mut from = g.iota(side).reshape(&[1, side, 1]);
    for probability in mirrored {
        let turned = g.random_uniform(&[n, 1, 1]).lt(&g.scalar(probability));
        from = turned.choose(&(side as f64 - 1.0 - &from), &from);
    }
    if pixels > 0 {
        let places = 2 * pixels + 1;
        from = from + ((g.random_uniform(&[n, 1, 1]) * places as f64).floor() - pixels as f64);
    }
    Some(from.eq(&g.iota(side).reshape(&[1, 1, side])))
}

/// `[n,1,h,w]`: 1 where the rectangle is.
#[track_caller]
fn painted(g: &Graph, [n, h, w]: [usize; 3], probability: f64, scale: [f64; 2], ratio: [f64; 2]) -> Tensor {
    let draw = || g.random_uniform(&[n, 1, 1, 1]);
    let between = |[low, high]: [f64; 2]| draw() * (high - low) + low;
    let area = between(scale) * (h * w) as f64;
    let proportion = between(ratio.map(f64::ln)).exp(); // width over height
    let span = |length: Tensor, side: usize, shape: &[usize]| {
        let length = (length.sqrt() + 0.5).floor().clamp(0.0, side as f64);
        let start = (draw() * (side as f64 + 1.0 - &length)).floor();
        let place = g.iota(side).reshape(shape);
        place.ge(&start) * place.lt(&(start + length))
    };
    let rows = span(&area / &proportion, h, &[1, 1, h, 1]);
    let columns = span(area * proportion, w, &[1, 1, 1, w]);
    draw().lt(&g.scalar(probability)) * rows * columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_varied_while_judging() {
        for (mode, how) in [(Mode::Eval, vec![Vary::Shift { pixels: 2 }]), (Mode::Train, Vec::new())] {
            let g = Graph::with_mode(mode);
            let y = vary(&g.input("x", &[2, 3, 4, 4]), &how, (0.5, 1.0));
            assert_eq!(y.dims(), [2, 3, 4, 4]);
            assert!(!g.nodes().iter().any(|node| node.op.name().contains("random")), "{g}");
            g.check().unwrap();
        }
    }

    #[test]
    fn only_pictures_are_varied() {
        let g = Graph::with_mode(Mode::Train);
        vary(&g.input("x", &[2, 48]), &[Vary::MirrorX { probability: 0.5 }], (1.0, 0.0));
        assert!(g.check().unwrap_err().to_string().contains("[2,48], must be [n,c,h,w]"));
    }
}
