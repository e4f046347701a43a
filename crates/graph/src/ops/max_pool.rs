//! The largest element of each window of a picture.

use super::Vjp;
use crate::Tensor;

impl Tensor {
    /// `[n,h,w,c] → [n,oh,ow,c]`; the first among equals gets the gradient.
    #[track_caller]
    pub fn max_pool(&self, size: [usize; 2], stride: [usize; 2]) -> Tensor {
        let elements = elements(self, size, stride);
        let Some(largest) = elements.into_iter().reduce(|a, b| a.maximum(&b)) else { return self.clone() };
        largest.with_gradient(&[self], move |v| vec![Some(gradient(v, size, stride))])
    }
}

/// For each place of a window, row by row, the elements that all windows have there; nothing where there are no windows.
fn elements(x: &Tensor, size: [usize; 2], stride: [usize; 2]) -> Vec<Tensor> {
    if x.rank() != 4 {
        x.fail("max_pool", format!("needs pictures [n,h,w,c], got {}", x.shape()));
        return vec![];
    }
    let windows = x.windows(1, size[0], stride[0], 1).windows(3, size[1], stride[1], 1);
    let d = windows.dims();
    if d.len() != 6 {
        return vec![];
    }
    let places = (0..size[0]).flat_map(|u| (0..size[1]).map(move |v| (u, v)));
    let element = |(u, v)| windows.slice(2, u, u + 1).slice(4, v, v + 1).reshape(&[d[0], d[1], d[3], d[5]]);
    places.map(element).collect()
}

fn gradient(v: &Vjp, size: [usize; 2], stride: [usize; 2]) -> Tensor {
    let x = &v.x[0];
    let (dims, to) = (x.dims(), v.dy.dims());
    let mut before: Option<Tensor> = None;
    let mut shares = Vec::new();
    for element in elements(x, size, stride) {
        let largest = element.eq(v.y);
        let first = before.as_ref().map_or(largest.clone(), |before| before.choose(&before.constant(0.0), &largest));
        shares.push(first.choose(v.dy, &first.constant(0.0)));
        before = Some(before.map_or(largest.clone(), |before| before.maximum(&largest)));
    }
    let places: Vec<[usize; 2]> = (0..size[0]).flat_map(|u| (0..size[1]).map(move |v| [u, v])).collect();
    if stride == size {
        // each element is in one window at most
        let inside = [dims[0], to[1] * size[0], to[2] * size[1], dims[3]];
        let at = places.iter().map(|&[u, v]| vec![0, u, v, 0]).collect();
        let dx = Tensor::interleave(&shares, at, vec![1, size[0], size[1], 1], &inside);
        return dx.pad(&[(0, 0), (0, dims[1] - inside[1]), (0, dims[2] - inside[2]), (0, 0)]);
    }
    let place = |(share, [u, v]): (Tensor, [usize; 2])| {
        let spread = share.spread(1, stride[0] - 1).spread(2, stride[1] - 1);
        let behind = |axis: usize, start: usize| dims[axis] - start - spread.dims()[axis];
        spread.pad(&[(0, 0), (u, behind(1, u)), (v, behind(2, v)), (0, 0)])
    };
    let placed = shares.into_iter().zip(places).map(place).reduce(|a, b| a + b);
    placed.unwrap_or_else(|| x.clone())
}
