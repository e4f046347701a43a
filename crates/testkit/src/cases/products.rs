//! Products that matrix units can take: rows of sixteen bytes and more, either way they lie, with epilogues, in batches, of windows.

use citius_graph::Tensor;
use citius_graph::ops::convolve::Convolution;

use super::{Case, Start};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (m, k, n) in [(64, 64, 32), (136, 40, 72), (8, 136, 96), (40, 328, 16)] {
        for (turn_a, turn_b) in [(false, false), (true, false), (false, true), (true, true)] {
            let a = if turn_a { [k, m] } else { [m, k] };
            let b = if turn_b { [n, k] } else { [k, n] };
            let starts = vec![
                Start::arbitrary("a", &a),
                Start::arbitrary("b", &b),
                Start::arbitrary("bias", &[n]),
                Start::arbitrary("more", &[m, n]),
            ];
            let name = format!("{a:?}{} × {b:?}{}", if turn_a { "ᵀ" } else { "" }, if turn_b { "ᵀ" } else { "" });
            cases.push(Case::new(name, starts, |_, x| {
                let side = |t: &Tensor, turned: bool| if turned { t.t() } else { t.clone() };
                (side(&x[0], turn_a).matmul(&side(&x[1], turn_b)) * 0.125 + &x[2]).silu() + &x[3]
            }));
        }
    }
    let starts = vec![Start::arbitrary("a", &[3, 40, 64]), Start::arbitrary("b", &[3, 64, 24])];
    cases.push(Case::new("in a batch", starts, |_, x| x[0].matmul(&x[1]) * 0.125));
    for (channels, outputs, size, stride) in [(8, 16, 3, 1), (16, 24, 3, 2), (32, 8, 1, 1)] {
        let starts = vec![
            Start::arbitrary("pictures", &[4, 9, 9, channels]),
            Start::arbitrary("kernel", &[size, size, channels, outputs]),
        ];
        let name = format!("{channels} → {outputs} by windows of {size}, every {stride}");
        cases.push(Case::new(name, starts, move |_, x| {
            let padding = [(size / 2, size / 2); 2];
            x[0].convolve(&x[1], Convolution { stride: [stride, stride], padding, ..Convolution::default() }) * 0.125
        }));
    }
    cases
}
