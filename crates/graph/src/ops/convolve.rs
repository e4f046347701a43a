//! Convolution of pictures with channels last, as a product over windows that are never copied.

use crate::Tensor;

/// How a kernel walks over pictures, down and across.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Convolution {
    pub stride: [usize; 2],
    /// Zeros before and behind.
    pub padding: [(usize, usize); 2],
    pub dilation: [usize; 2],
    /// Parts that the channels are cut into; each result channel sees one of them.
    pub groups: usize,
}

impl Default for Convolution {
    fn default() -> Convolution {
        Convolution { stride: [1, 1], padding: [(0, 0); 2], dilation: [1, 1], groups: 1 }
    }
}

/// Products smaller than this many pieces leave threads idle.
const PIECES: usize = 32;

impl Tensor {
    /// Pictures `[n,h,w,c]` and a kernel `[kh,kw,c/groups,o]` give `[n,oh,ow,o]`:
    /// `y[n,i,j,o] = Σ x[n, i·stride + u·dilation − padding, …, c] · kernel[u,v,c,o]`.
    #[track_caller]
    pub fn convolve(&self, kernel: &Tensor, by: Convolution) -> Tensor {
        if let Some(problem) = misfit(self, kernel, by) {
            self.fail("convolve", problem);
            return self.clone();
        }
        let groups = by.groups;
        let value = match groups {
            1 => {
                // [n,oh,ow,kh,kw,c] × [kh,kw,c,o]
                let windows = windows(&self.padded(by), kernel, by).transpose(&[0, 1, 3, 2, 4, 5]);
                windows.contract(kernel, 3)
            }
            _ if kernel.dims()[2] == 1 && groups == kernel.dims()[3] => channel_by_channel(self, kernel, by),
            _ => {
                let each = Convolution { groups: 1, ..by };
                let (c, o) = (kernel.dims()[2], kernel.dims()[3] / groups);
                let group = |i: usize| {
                    let own = kernel.slice(3, i * o, (i + 1) * o);
                    self.slice(3, i * c, (i + 1) * c).convolve(&own, each)
                };
                return Tensor::concat(&(0..groups).map(group).collect::<Vec<_>>(), 3);
            }
        };
        value.with_gradient(&[self, kernel], move |v| {
            let (x, kernel) = (&v.x[0], &v.x[1]);
            let dims = x.dims();
            let dx = v.dy.convolve_back(kernel, by, [dims[1], dims[2]]);
            vec![Some(dx), Some(kernel_gradient(x, kernel, v.dy, by))]
        })
    }

    /// The gradient of [`Tensor::convolve`] with respect to pictures of this size, given that of its result; as a layer, the
    /// transposed convolution: `[n,oh,ow,o] → [n,h,w,c]`.
    #[track_caller]
    pub fn convolve_back(&self, kernel: &Tensor, by: Convolution, size: [usize; 2]) -> Tensor {
        let groups = by.groups;
        if groups > 1 && !(kernel.dims()[2] == 1 && groups == kernel.dims()[3]) {
            let each = Convolution { groups: 1, ..by };
            let o = kernel.dims()[3] / groups;
            let group = |i: usize| {
                let own = kernel.slice(3, i * o, (i + 1) * o);
                self.slice(3, i * o, (i + 1) * o).convolve_back(&own, each, size)
            };
            return Tensor::concat(&(0..groups).map(group).collect::<Vec<_>>(), 3);
        }
        let value = match by.stride != [1, 1] && by.dilation == [1, 1] && groups == 1 {
            true => self.back_in_phases(kernel, by, size),
            false => self.back_as_one(kernel, by, size),
        };
        value.with_gradient(&[self, kernel], move |v| {
            let (dy, kernel) = (&v.x[0], &v.x[1]);
            let (seen, by) = seen_by(v.dy, dy, kernel, by);
            vec![Some(seen.convolve(kernel, by)), Some(kernel_gradient(&seen, kernel, dy, by))]
        })
    }

    /// Every place of the result sees the windows that saw it: a convolution of dy, `stride` apart, with the kernel turned.
    fn back_as_one(&self, kernel: &Tensor, by: Convolution, size: [usize; 2]) -> Tensor {
        let groups = by.groups;
        let mut spread = self.clone();
        let (mut padding, mut cut) = ([(0, 0); 2], [(0, 0); 2]);
        for side in 0..2 {
            let (low, high) = by.padding[side];
            let reach = by.dilation[side] * (kernel.dims()[side] - 1);
            let unseen = (size[side] + low + high - reach - 1) - by.stride[side] * (self.dims()[side + 1] - 1);
            spread = spread.spread(side + 1, by.stride[side] - 1);
            padding[side] = (reach.saturating_sub(low), (reach + unseen).saturating_sub(high));
            cut[side] = (low.saturating_sub(reach), high.saturating_sub(reach + unseen));
        }
        let back = Convolution { stride: [1, 1], padding, ..by };
        let d = kernel.dims();
        let turned = turned(kernel, groups, [&Vec::from_iter(0..d[0]), &Vec::from_iter(0..d[1])]);
        let mut value = match groups {
            1 => windows(&spread.padded(back), &turned, back).transpose(&[0, 1, 3, 2, 4, 5]).contract(&turned, 3),
            _ => channel_by_channel(&spread, &turned, back),
        };
        for (side, (before, behind)) in cut.into_iter().enumerate() {
            let length = value.dims()[side + 1];
            value = value.slice(side + 1, before, length - behind);
        }
        value
    }

    /// The same without the zeros in between: places of the result that are `stride` apart are seen through the same elements of the kernel, so
    /// they are a convolution of dy with those alone. All such phases, interleaved, are the result.
    fn back_in_phases(&self, kernel: &Tensor, by: Convolution, size: [usize; 2]) -> Tensor {
        let (dy, k) = (self.dims(), kernel.dims());
        let phases = [0, 1].map(|side| Phase::all(k[side], by.stride[side], by.padding[side].0, size[side]));
        let room = [0, 1].map(|side| {
            let before = phases[side].iter().map(|p| p.before()).max().unwrap_or(0);
            let behind = phases[side].iter().map(|p| p.end().saturating_sub(dy[side + 1])).max().unwrap_or(0);
            (before, behind)
        });
        let padded = self.pad(&[(0, 0), room[0], room[1], (0, 0)]);
        let (mut parts, mut at) = (Vec::new(), Vec::new());
        for (down, across) in phases[0].iter().flat_map(|down| phases[1].iter().map(move |across| (down, across))) {
            let part = match down.taps.is_empty() || across.taps.is_empty() {
                true => self.graph().full(0.0, &[dy[0], down.count, across.count, k[2]]),
                false => {
                    let turned = turned(kernel, 1, [&down.taps, &across.taps]);
                    let rows = padded.slice(1, down.start(room[0].0), down.end() + room[0].0);
                    let seen = rows.slice(2, across.start(room[1].0), across.end() + room[1].0);
                    let seen = windows(&seen, &turned, Convolution::default());
                    seen.transpose(&[0, 1, 3, 2, 4, 5]).contract(&turned, 3)
                }
            };
            parts.push(part);
            at.push(vec![0, down.first, across.first, 0]);
        }
        Tensor::interleave(&parts, at, vec![1, by.stride[0], by.stride[1], 1], &[dy[0], size[0], size[1], k[2]])
    }

    fn padded(&self, by: Convolution) -> Tensor {
        self.pad(&[(0, 0), by.padding[0], by.padding[1], (0, 0)])
    }
}

/// Places of a side that are `stride` apart, and what they are seen through.
struct Phase {
    /// The first place, and how many there are.
    first: usize,
    count: usize,
    /// Elements of the kernel.
    taps: Vec<usize>,
    /// The first place is seen through the first of them by this element of dy; through each further one by the element before.
    seen_by: usize,
}

impl Phase {
    fn all(kernel: usize, stride: usize, padding: usize, size: usize) -> Vec<Phase> {
        let phase = |first: usize| Phase {
            first,
            count: (size - first).div_ceil(stride),
            taps: ((first + padding) % stride..kernel).step_by(stride).collect(),
            seen_by: (first + padding) / stride,
        };
        (0..stride.min(size)).map(phase).collect()
    }

    /// Zeros that are wanted before dy.
    fn before(&self) -> usize {
        (self.taps.len()).saturating_sub(1 + self.seen_by)
    }

    /// The first element of dy that sees it, behind so many zeros.
    fn start(&self, zeros: usize) -> usize {
        zeros + self.seen_by + 1 - self.taps.len()
    }

    /// Behind the last.
    fn end(&self) -> usize {
        self.seen_by + self.count
    }
}

fn misfit(x: &Tensor, kernel: &Tensor, by: Convolution) -> Option<String> {
    let (xd, kd) = (x.dims(), kernel.dims());
    let (&[_, h, w, c], &[kh, kw, kc, o]) = (xd.as_slice(), kd.as_slice()) else {
        return Some(format!(
            "needs pictures [n,h,w,c] and a kernel [kh,kw,c,o], got {} and {}",
            x.shape(),
            kernel.shape()
        ));
    };
    if by.groups == 0 || c != kc * by.groups || o % by.groups != 0 {
        return Some(format!("{c} channels in {} groups for a kernel of {kc} → {o}", by.groups));
    }
    if by.stride.contains(&0) || by.dilation.contains(&0) || kh * kw == 0 {
        return Some("kernel, stride and dilation must be at least 1".into());
    }
    for (side, size, k) in [(0, h, kh), (1, w, kw)] {
        let reach = by.dilation[side] * (k - 1) + 1;
        let room = size + by.padding[side].0 + by.padding[side].1;
        if reach > room {
            return Some(format!(
                "the kernel reaches over {reach}, the picture with its padding is {room} {}",
                ["high", "wide"][side]
            ));
        }
    }
    None
}

/// `[n,h,w,c] → [n,oh,kh,ow,kw,c]`
fn windows(x: &Tensor, kernel: &Tensor, by: Convolution) -> Tensor {
    let k = kernel.dims();
    let down = x.windows(1, k[0], by.stride[0], by.dilation[0]);
    down.windows(3, k[1], by.stride[1], by.dilation[1])
}

/// Each channel by itself, its kernel `[kh,kw,1,c]`: a sum over the places of the kernel.
fn channel_by_channel(x: &Tensor, kernel: &Tensor, by: Convolution) -> Tensor {
    let windows = windows(&x.padded(by), kernel, by);
    let d = windows.dims();
    let places = (0..d[2]).flat_map(|u| (0..d[4]).map(move |v| (u, v)));
    let term = |(u, v): (usize, usize)| {
        let seen = windows.slice(2, u, u + 1).slice(4, v, v + 1).reshape(&[d[0], d[1], d[3], d[5]]);
        seen * kernel.slice(0, u, u + 1).slice(1, v, v + 1).reshape(&[d[5]])
    };
    places.map(term).reduce(|a, b| a + b).unwrap_or_else(|| x.clone())
}

/// These rows and columns of `[kh,kw,c,o]`, upside down and back to front, as `[rows,columns,o,c]`; a kernel of single channels keeps them
/// where they are.
fn turned(kernel: &Tensor, groups: usize, [rows, columns]: [&[usize]; 2]) -> Tensor {
    let d = kernel.dims();
    let places = rows.iter().enumerate().flat_map(|row| columns.iter().enumerate().map(move |column| (row, column)));
    let place = |((i, &u), (j, &v)): ((usize, &usize), (usize, &usize))| {
        let part = kernel.slice(0, u, u + 1).slice(1, v, v + 1);
        let part = if groups == 1 { part.transpose(&[0, 1, 3, 2]) } else { part };
        (part, vec![rows.len() - 1 - i, columns.len() - 1 - j, 0, 0])
    };
    let (parts, at): (Vec<Tensor>, Vec<Vec<usize>>) = places.map(place).unzip();
    let tail = if groups == 1 { [d[3], d[2]] } else { [d[2], d[3]] };
    Tensor::join(&parts, at, &[rows.len(), columns.len(), tail[0], tail[1]])
}

/// The part of x that the windows behind `dy` see, and a convolution that has these windows and no more: where x is longer than they reach by a
/// stride or more, as a transposed convolution may be asked for, it would have further ones.
fn seen_by(x: &Tensor, dy: &Tensor, kernel: &Tensor, mut by: Convolution) -> (Tensor, Convolution) {
    let mut x = x.clone();
    for side in 0..2 {
        let (low, high) = by.padding[side];
        let (length, stride) = (x.dims()[side + 1], by.stride[side]);
        let reach = by.dilation[side] * (kernel.dims()[side] - 1) + stride * dy.dims()[side + 1].saturating_sub(1) + 1;
        let unseen = (length + low + high).saturating_sub(reach) / stride * stride;
        by.padding[side] = (low, high.saturating_sub(unseen));
        x = x.slice(side + 1, 0, length - unseen.saturating_sub(high));
    }
    (x, by)
}

/// `dk[u,v,c,o] = Σ x[n, i·stride + u·dilation, …, c] · dy[n,i,j,o]`, summed in as many parts of the batch as keep threads busy.
fn kernel_gradient(x: &Tensor, kernel: &Tensor, dy: &Tensor, by: Convolution) -> Tensor {
    let (k, d, n) = (kernel.dims(), dy.dims(), x.dims()[0]);
    let padded = x.padded(by);
    if by.groups > 1 {
        let windows = windows(&padded, kernel, by);
        let place = |(u, v): (usize, usize)| {
            let seen = windows.slice(2, u, u + 1).slice(4, v, v + 1).reshape(&d);
            (seen * dy).sum(&[0, 1, 2], false).reshape(&[1, 1, 1, d[3]])
        };
        let row = |u: usize| Tensor::concat(&(0..k[1]).map(|v| place((u, v))).collect::<Vec<_>>(), 1);
        return Tensor::concat(&(0..k[0]).map(row).collect::<Vec<_>>(), 0);
    }
    let pieces = k[0] * k[1] * k[2].div_ceil(16) * k[3].div_ceil(64);
    let parts = (1..=n).find(|p| n % p == 0 && p * pieces >= PIECES).unwrap_or(n.max(1));
    let p = padded.dims();
    let cut = padded.reshape(&[parts, n / parts, p[1], p[2], p[3]]);
    let down = cut.windows(2, k[0], by.stride[0], by.dilation[0]);
    // [part,n,oh,kh,ow,kw,c] → [part,kh,kw,c,n,oh,ow]
    let seen = down.windows(4, k[1], by.stride[1], by.dilation[1]).transpose(&[0, 3, 5, 6, 1, 2, 4]);
    let dy = dy.reshape(&[parts, 1, 1, n / parts, d[1], d[2], d[3]]);
    seen.contract(&dy, 3).sum(&[0], false)
}
