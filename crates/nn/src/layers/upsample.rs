use citius_graph::{Graph, Tensor};

use super::norm::channels_last;
use crate::Module;

/// Pictures `[n,c,h,w]` enlarged by a whole factor to `[n,c,h·f,w·f]`, as PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct Upsample {
    factor: usize,
    way: Way,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Nearest,
    Bilinear { align_corners: bool },
}

impl Upsample {
    /// Every pixel becomes a square of equal pixels.
    pub fn nearest(factor: usize) -> Upsample {
        Upsample { factor, way: Way::Nearest }
    }

    /// Linear between the four pixels around. `align_corners`: the middles of the corner pixels stay where they are,
    /// rather than the edges of the picture.
    pub fn bilinear(factor: usize, align_corners: bool) -> Upsample {
        Upsample { factor, way: Way::Bilinear { align_corners } }
    }
}

impl Module for Upsample {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let g = x.graph();
        let _line = g.called_here();
        let _layer = g.scope(self.describe());
        let f = self.factor;
        let [n, c, h, w] = x.dims()[..] else {
            g.report(&self.describe(), format!("input is {}, must be [n,c,h,w]", x.shape()));
            return x.clone();
        };
        if f == 0 || x.elements() == 0 {
            g.report(&self.describe(), format!("{} by a factor of {f} is empty", x.shape()));
            return x.clone();
        }
        let (there, back) = channels_last(4);
        let last = x.transpose(&there);
        let larger = match self.way {
            Way::Nearest => last.reshape(&[n, h, 1, w, 1, c]).broadcast_to(&[n, h, f, w, f, c]),
            Way::Bilinear { align_corners } => {
                let (tall, wide) = (between(g, h, f, align_corners), between(g, w, f, align_corners));
                // [h·f,h] × [n,h,w·c], then [w·f,w] × [n·h·f,w,c]
                let taller = tall.matmul(&last.reshape(&[n, h, w * c]));
                wide.matmul(&taller.reshape(&[n * h * f, w, c]))
            }
        };
        larger.reshape(&[n, h * f, w * f, c]).transpose(&back)
    }

    fn describe(&self) -> String {
        match self.way {
            Way::Nearest => format!("Upsample {} nearest", self.factor),
            Way::Bilinear { .. } => format!("Upsample {} bilinear", self.factor),
        }
    }
}

/// `[size·f,size]`: row i holds the weights of the two pixels around the place that pixel i of the larger picture comes
/// from.
#[track_caller]
fn between(g: &Graph, size: usize, f: usize, align_corners: bool) -> Tensor {
    let larger = size * f;
    let i = g.iota(larger).reshape(&[larger, 1]);
    let from = match align_corners {
        true => i * ((size as f64 - 1.0) / (larger as f64 - 1.0).max(1.0)),
        false => (i + 0.5) * (1.0 / f as f64) - 0.5,
    };
    let from = from.clamp(0.0, size as f64 - 1.0);
    (1.0 - (from - g.iota(size)).abs()).maximum(&g.scalar(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_name_layer_and_shape() {
        for (factor, dims) in [(2, &[3, 4, 4][..]), (0, &[1, 3, 4, 4][..])] {
            let g = Graph::new();
            Upsample::nearest(factor).forward(&g.input("x", dims));
            let message = g.check().unwrap_err().to_string();
            assert!(message.contains(&format!("Upsample {factor} nearest")), "{message}");
            assert!(message.contains("upsample.rs"), "{message}");
        }
    }
}
