use citius_graph::ops::recurrence::{Cell, Recurrence};
use citius_graph::{Convolution, DType, Graph, Tensor};
use citius_nn::{Vary, vary};

use super::{Case, Start};

/// Every big op on several shapes, axes of length 1 and 0 among them.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    matmuls(&mut cases);
    reductions(&mut cases);
    movements(&mut cases);
    windows(&mut cases);
    convolutions(&mut cases);
    softmaxes(&mut cases);
    rows(&mut cases);
    recurrences(&mut cases);
    others(&mut cases);
    cases
}

fn one(name: String, dims: &[usize], body: impl FnOnce(&Graph, &Tensor) -> Tensor) -> Case {
    Case::new(name, vec![Start::arbitrary("x", dims)], |g, x| body(g, &x[0]))
}

fn matmuls(cases: &mut Vec<Case>) {
    // stored with its rows in another order, by itself and behind an epilogue
    for (perm, dims) in [([0, 2, 1, 3], [2, 5, 51]), ([1, 0, 2, 3], [3, 10, 17]), ([2, 0, 1, 3], [5, 6, 17])] {
        let starts = || vec![Start::arbitrary("a", &[2, 3, 5, 4]), Start::arbitrary("b", &[2, 3, 4, 17])];
        let turned = |x: &[Tensor]| x[0].matmul(&x[1]).transpose(&perm).reshape(&dims);
        cases.push(Case::new(format!("matmul turned {perm:?}"), starts(), |_, x| turned(x)));
        cases.push(Case::new(format!("matmul turned {perm:?}, relu"), starts(), |_, x| (turned(x) - 0.2).relu()));
    }
    for (m, k, n) in [(1, 1, 1), (2, 3, 4), (1, 5, 1), (9, 3, 17), (5, 1, 2), (0, 3, 2), (2, 0, 3), (2, 3, 0)] {
        for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
            let a = Start::arbitrary("a", &if ta { [k, m] } else { [m, k] });
            let b = Start::arbitrary("b", &if tb { [n, k] } else { [k, n] });
            cases.push(Case::new(format!("matmul {m}·{k}·{n} ta={ta} tb={tb}"), vec![a, b], |_, x| {
                let turn = |t: &Tensor, turned: bool| if turned { t.t() } else { t.clone() };
                turn(&x[0], ta).matmul(&turn(&x[1], tb))
            }));
        }
    }
    for (a, b) in
        [(&[3, 2, 4][..], &[3, 4, 2][..]), (&[2, 1, 2, 3], &[1, 2, 3, 2]), (&[2, 2, 3], &[3, 2]), (&[2, 3], &[2, 3, 1])]
    {
        let starts = vec![Start::arbitrary("a", a), Start::arbitrary("b", b)];
        cases.push(Case::new(format!("matmul {a:?} × {b:?}"), starts, |_, x| x[0].matmul(&x[1])));
        let starts = vec![Start::arbitrary("a", a)];
        cases.push(Case::new(format!("matmul {a:?} × itself"), starts, |_, x| x[0].t().matmul(&x[0])));
    }
}

fn reductions(cases: &mut Vec<Case>) {
    for (dims, axes) in [
        (&[1][..], &[0][..]),
        (&[33], &[0]),
        (&[3, 5], &[0]),
        (&[3, 5], &[1]),
        (&[3, 5], &[]),
        (&[2, 3, 4], &[1]),
        (&[2, 3, 4], &[0, 2]),
        (&[2, 3, 4], &[0, 1, 2]),
        (&[2, 1, 3], &[1]),
        (&[2, 3, 1, 4], &[1, 2]),
        (&[], &[]),
        (&[3, 0], &[1]),
        (&[0, 3], &[1]),
    ] {
        let over = format!("{dims:?} over {axes:?}");
        for keepdims in [false, true] {
            cases.push(one(format!("sum {over}"), dims, |_, x| x.sum(axes, keepdims)));
            let empty = axes.iter().any(|&a| dims[a] == 0);
            if !empty {
                cases.push(one(format!("mean {over}"), dims, |_, x| x.mean(axes, keepdims)));
                cases.push(one(format!("max {over}"), dims, |_, x| x.max(axes, keepdims)));
            }
        }
    }
    for (dims, axis) in [(&[1][..], 0), (&[7], 0), (&[3, 5], 1), (&[3, 5], 0), (&[2, 3, 4], 1), (&[0, 4], 1)] {
        cases.push(one(format!("argmax {dims:?} over {axis}"), dims, |_, x| x.argmax(axis)));
    }
    let tied = vec![1.0, 3.0, 3.0, 0.0, 2.0, 2.0, 2.0, 2.0];
    for axes in [&[0][..], &[1], &[0, 1]] {
        let start = Start::new("x", &[2, 4], tied.clone());
        cases.push(Case::new(format!("max of ties over {axes:?}"), vec![start], |_, x| x[0].max(axes, false)));
    }
    cases.push(Case::new("argmax of ties", vec![Start::new("x", &[2, 4], tied)], |_, x| x[0].argmax(1)));
}

fn movements(cases: &mut Vec<Case>) {
    for (from, to) in [
        (&[4][..], &[3, 4][..]),
        (&[3, 1], &[3, 4]),
        (&[], &[2, 3]),
        (&[1], &[33]),
        (&[2, 1, 3], &[5, 2, 4, 3]),
        (&[1, 1], &[1, 1]),
        (&[1, 3], &[0, 3]),
    ] {
        cases.push(one(format!("broadcast {from:?} to {to:?}"), from, |_, x| x.broadcast_to(to)));
    }
    for (from, to) in [(&[2, 6][..], &[3, 4][..]), (&[2, 3, 4], &[24]), (&[1, 1], &[]), (&[0, 3], &[5, 0])] {
        cases.push(one(format!("reshape {from:?} to {to:?}"), from, |_, x| x.square().reshape(to)));
    }
    for (dims, perm) in [
        (&[3, 4][..], &[1, 0][..]),
        (&[2, 3, 4], &[2, 0, 1]),
        (&[2, 3, 4], &[0, 2, 1]),
        (&[2, 3, 1, 5], &[3, 1, 0, 2]),
        (&[33, 2], &[1, 0]),
        (&[3], &[0]),
        (&[0, 3], &[1, 0]),
    ] {
        cases.push(one(format!("transpose {dims:?} by {perm:?}"), dims, |_, x| x.tanh().transpose(perm)));
        // two in a row become one
        cases.push(one(format!("transpose {dims:?} twice"), dims, |_, x| x.transpose(perm).transpose(perm)));
    }
    for (dims, axis, start, end) in [
        (&[33][..], 0, 5, 20),
        (&[5], 0, 0, 5),
        (&[5], 0, 2, 2),
        (&[6, 3], 0, 4, 6),
        (&[6, 3], 1, 1, 2),
        (&[2, 5, 3], 1, 1, 4),
        (&[0, 5], 1, 1, 3),
    ] {
        cases.push(one(format!("slice {dims:?} axis {axis} {start}..{end}"), dims, |_, x| x.slice(axis, start, end)));
    }
    for (parts, axis) in [
        (&[&[2][..], &[3]][..], 0),
        (&[&[1], &[33], &[2]], 0),
        (&[&[2, 3], &[2, 1]], 1),
        (&[&[2, 3], &[4, 3], &[1, 3]], 0),
        (&[&[2, 1, 3], &[2, 4, 3]], 1),
        (&[&[2, 0], &[2, 2]], 1),
        (&[&[3]], 0),
    ] {
        let starts = parts.iter().enumerate().map(|(i, dims)| Start::arbitrary(&format!("x{i}"), dims)).collect();
        cases.push(Case::new(format!("concat {parts:?} axis {axis}"), starts, |_, x| Tensor::concat(x, axis)));
    }
    cases.push(one("concat with itself".into(), &[2, 2], |_, x| Tensor::concat(&[x.clone(), x.exp(), x.clone()], 1)));
}

fn windows(cases: &mut Vec<Case>) {
    for (dims, axis, size, stride, dilation) in [
        (&[5][..], 0, 2, 1, 1),
        (&[7], 0, 3, 2, 1),
        (&[9], 0, 3, 1, 2),
        (&[8], 0, 2, 2, 1),
        (&[9], 0, 2, 2, 1),
        (&[1], 0, 1, 1, 1),
        (&[2, 6, 3], 1, 3, 1, 1),
        (&[2, 6, 3], 1, 2, 3, 2),
        (&[3, 5], 1, 5, 1, 1),
    ] {
        let name = format!("windows {dims:?} axis {axis} of {size}, {stride} apart, spread {dilation}");
        cases.push(one(name.clone(), dims, |_, x| x.windows(axis, size, stride, dilation)));
        cases.push(one(format!("{name}, max"), dims, |_, x| {
            x.windows(axis, size, stride, dilation).max(&[axis + 1], false)
        }));
        cases.push(one(format!("{name}, sum"), dims, |_, x| {
            (x.windows(axis, size, stride, dilation).exp() * 0.5).sum(&[axis + 1], false)
        }));
    }
    for (dims, zeros) in
        [(&[3][..], &[(1, 2)][..]), (&[2, 3], &[(0, 1), (2, 0)]), (&[2, 1, 2], &[(1, 1), (1, 0), (0, 3)])]
    {
        cases.push(one(format!("pad {dims:?} by {zeros:?}"), dims, |_, x| x.pad(zeros)));
    }
    for (dims, axis, zeros) in [(&[3][..], 0, 1), (&[1], 0, 3), (&[2, 3, 2], 1, 2)] {
        cases.push(one(format!("spread {dims:?} axis {axis} by {zeros}"), dims, |_, x| x.spread(axis, zeros)));
    }
    for (dims, size, stride) in [
        ([1, 4, 4, 2], [2, 2], [2, 2]),
        ([2, 5, 3, 1], [2, 2], [2, 2]),
        ([1, 5, 4, 3], [3, 2], [2, 1]),
        ([1, 2, 3, 1], [1, 1], [1, 1]),
    ] {
        cases.push(one(format!("max_pool {dims:?} of {size:?}, {stride:?} apart"), &dims, |_, x| {
            x.max_pool(size, stride)
        }));
    }
    cases.push(one("flip".into(), &[2, 3, 2], |_, x| x.flip(1)));
    for (a, b, inner) in [
        (&[3, 2, 4][..], &[2, 4, 5][..], 2),
        (&[2, 3, 2, 4], &[2, 4, 17], 2),
        (&[4, 2, 3, 5], &[2, 3, 5, 1], 3),
        (&[1, 2, 1], &[2, 1, 3], 2),
    ] {
        let starts = || vec![Start::arbitrary("a", a), Start::arbitrary("b", b)];
        let name = format!("contract {a:?} × {b:?} over {inner}");
        cases.push(Case::new(name.clone(), starts(), |_, x| x[0].contract(&x[1], inner)));
        cases.push(Case::new(format!("{name}, relu"), starts(), |_, x| (x[0].contract(&x[1], inner) - 0.2).relu()));
    }
}

fn convolutions(cases: &mut Vec<Case>) {
    let plain = Convolution::default();
    for (x, k, by) in [
        ([1, 4, 4, 1], [3, 3, 1, 1], plain),
        ([2, 3, 4, 1], [2, 3, 1, 17], plain),
        ([2, 4, 4, 2], [1, 1, 2, 3], plain),
        ([2, 4, 3, 2], [3, 3, 2, 2], Convolution { padding: [(1, 1); 2], ..plain }),
        ([1, 4, 5, 2], [3, 3, 2, 1], Convolution { stride: [2, 2], padding: [(1, 1); 2], ..plain }),
        ([1, 6, 5, 1], [3, 2, 1, 2], Convolution { stride: [2, 3], padding: [(0, 1), (2, 0)], ..plain }),
        ([1, 5, 4, 1], [3, 3, 1, 2], Convolution { dilation: [2, 1], padding: [(2, 2), (1, 1)], ..plain }),
        ([1, 3, 3, 2], [1, 1, 2, 2], Convolution { stride: [2, 2], padding: [(1, 1); 2], ..plain }),
        ([1, 4, 5, 1], [1, 2, 1, 2], Convolution { stride: [2, 3], ..plain }),
        ([1, 5, 3, 2], [5, 3, 2, 1], Convolution { stride: [2, 4], padding: [(3, 1), (0, 2)], ..plain }),
        ([1, 3, 3, 4], [3, 2, 2, 4], Convolution { groups: 2, padding: [(1, 1); 2], ..plain }),
        ([2, 4, 3, 3], [3, 2, 1, 3], Convolution { groups: 3, stride: [2, 1], padding: [(1, 1); 2], ..plain }),
        ([3, 3, 3, 2], [3, 3, 2, 3], plain),
    ] {
        let starts = || vec![Start::arbitrary("x", &x), Start::arbitrary("k", &k)];
        cases.push(Case::new(format!("convolve {x:?} by {k:?}, {by:?}"), starts(), |_, x| x[0].convolve(&x[1], by)));
        let out = |side: usize| {
            let (low, high) = by.padding[side];
            (x[side + 1] + low + high - by.dilation[side] * (k[side] - 1) - 1) / by.stride[side] + 1
        };
        let y = [x[0], out(0), out(1), k[3]];
        let starts = vec![Start::arbitrary("y", &y), Start::arbitrary("k", &k)];
        cases.push(Case::new(format!("convolve back {y:?} by {k:?}, {by:?}"), starts, |_, t| {
            t[0].convolve_back(&t[1], by, [x[1], x[2]])
        }));
    }
    // longer by a stride than the windows reach, with zeros around and without
    for (groups, padding, size) in
        [(1, [(0, 0), (1, 1)], [5, 1]), (1, [(1, 1), (0, 0)], [3, 3]), (2, [(0, 0); 2], [5, 3])]
    {
        let by = Convolution { stride: [1, 2], dilation: [2, 1], padding, groups };
        let starts = vec![Start::arbitrary("y", &[1, 2, 2, 2]), Start::arbitrary("k", &[2, 1, 1, 2])];
        cases.push(Case::new(format!("convolve back to {size:?}, {by:?}"), starts, move |_, t| {
            t[0].convolve_back(&t[1], by, size)
        }));
    }
}

fn softmaxes(cases: &mut Vec<Case>) {
    for (dims, axis) in
        [(&[1][..], 0), (&[33], 0), (&[4, 1], 1), (&[3, 5], 1), (&[3, 5], 0), (&[2, 5, 3], 1), (&[0, 3], 1)]
    {
        let over = format!("{dims:?} over {axis}");
        cases.push(one(format!("softmax {over}"), dims, |_, x| x.softmax(axis)));
        cases.push(one(format!("log_softmax {over}"), dims, |_, x| x.log_softmax(axis)));
        cases.push(one(format!("log_sum_exp {over}"), dims, |_, x| x.log_sum_exp(axis)));
    }
}

fn rows(cases: &mut Vec<Case>) {
    for (table, dims, indices) in [
        (&[5, 3][..], &[4][..], &[4.0, 0.0, 0.0, 2.0][..]),
        (&[5], &[3], &[1.0, 1.0, 1.0]),
        (&[1, 4], &[1], &[0.0]),
        (&[4, 2, 3], &[3], &[3.0, 1.0, 3.0]),
        (&[6, 2], &[2, 3], &[0.0, 5.0, 5.0, 2.0, 5.0, 0.0]),
        (&[4, 2], &[0], &[]),
        (&[4, 2], &[], &[3.0]),
    ] {
        let gather = one(format!("gather_rows {table:?} at {indices:?}"), table, |g, x| {
            x.gather_rows(&g.input_of("rows", dims, DType::I32))
        });
        cases.push(gather.input("rows", indices));
        let mut values = dims.to_vec();
        values.extend_from_slice(&table[1..]);
        let scatter = one(format!("scatter_rows {values:?} at {indices:?}"), &values, |g, x| {
            x.scatter_rows(&g.input_of("rows", dims, DType::I32), table[0])
        });
        cases.push(scatter.input("rows", indices));
    }
    // rows that are looked up often enough: the table is multiplied, not the rows
    for guarded in [false, true] {
        let starts = vec![Start::arbitrary("table", &[3, 4]), Start::arbitrary("w", &[4, 5])];
        let case = Case::new(format!("rows of a table × matrix, guarded {guarded}"), starts, |g, x| {
            let indices = g.input_of("rows", &[2, 4], DType::I32);
            let mut rows = x[0].gather_rows(&indices);
            if guarded {
                let inside = indices.to_f32().lt(&g.scalar(3.0)).reshape(&[2, 4, 1]);
                rows = inside.choose(&rows, &g.scalar(f64::NAN));
            }
            let product = rows.reshape(&[8, 4]).matmul(&x[1]);
            product.exp() + (rows * 2.0).sum(&[2], true).reshape(&[8, 1])
        });
        cases.push(case.input("rows", &[2.0, 0.0, 2.0, 1.0, 1.0, 2.0, 0.0, 2.0]));
    }
}

/// Every cell, in both directions, from a start or from 0, with lengths or in full, read at every step or at the last.
fn recurrences(cases: &mut Vec<Case>) {
    for cell in [Cell::Tanh, Cell::Relu, Cell::Gru, Cell::Lstm] {
        for variant in 0..4 {
            for (steps, rows, width) in [(1, 1, 1), (3, 2, 2), (2, 17, 1), (3, 0, 2), (3, 33, 5), (2, 3, 21)] {
                cases.push(recurrence(cell, [steps, rows, width], variant));
            }
        }
    }
}

/// States wider than a warp, which GPUs walk in ways of their own.
pub fn wide_recurrences() -> Vec<Case> {
    let cells = [Cell::Tanh, Cell::Relu, Cell::Gru, Cell::Lstm];
    let all = cells.into_iter().flat_map(|cell| (0..4).map(move |variant| (cell, variant)));
    all.flat_map(|(cell, variant)| [[3, 7, 40], [2, 3, 70]].map(|sizes| recurrence(cell, sizes, variant))).collect()
}

fn recurrence(cell: Cell, [steps, rows, width]: [usize; 3], variant: usize) -> Case {
    let (reverse, bare) = (variant % 2 == 1, variant >= 2);
    let gates = cell.gates() * width;
    let lstm = cell == Cell::Lstm;
    let mut starts = vec![Start::arbitrary("x", &[steps * rows, gates]), Start::arbitrary("u", &[width, gates])];
    if !bare {
        starts.extend(["b", "d"].map(|name| Start::arbitrary(name, &[gates])));
        starts.push(Start::arbitrary("h", &[rows, width]));
        starts.extend(lstm.then(|| Start::arbitrary("c", &[rows, width])));
    }
    let large = rows * width > 20;
    let name = format!("{}{cell:?} of {steps}·{rows}·{width}, variant {variant}", if large { "large " } else { "" });
    let case = Case::new(name, starts, |g, x| {
        let lengths = (!bare).then(|| g.input("lengths", &[rows]));
        let states = x[0].recurrence(&Recurrence {
            cell,
            reverse,
            weights: &x[1],
            biases: (!bare).then(|| (&x[2], &x[3])),
            start: if bare { &[] } else { &x[4..] },
            lengths: lengths.as_ref(),
            steps,
        });
        // the last of an LSTM's cells always counts, the states at each step where a start is given
        let read = match (&states.cell, bare) {
            (Some(c), true) => Tensor::concat(&[states.last, c.clone()], 0),
            (None, true) => states.last,
            (Some(c), false) => Tensor::concat(&[states.each, c.clone()], 0),
            (None, false) => states.each,
        };
        // the sum of many states of which most cancel is known less well
        if large { read * 0.05 } else { read }
    });
    if bare {
        return case;
    }
    // 0 (a row that never walks), short and full ones
    case.input("lengths", &(0..rows).map(|n| (n % (steps + 1)) as f64).collect::<Vec<_>>())
}

fn others(cases: &mut Vec<Case>) {
    cases.push(one("step".into(), &[3], |g, x| x * (g.step() + 2.0)));
    cases.push(one("random".into(), &[33], |g, x| x * g.random_uniform(&[33])));
    let erase = Vary::Erase { probability: 0.7, scale: [0.1, 0.4], ratio: [0.5, 2.0], value: -3.0 };
    let moves = [Vary::Shift { pixels: 2 }, Vary::MirrorX { probability: 0.5 }, Vary::MirrorY { probability: 0.5 }];
    cases.push(one("moved pictures".into(), &[3, 2, 5, 6], move |_, x| vary(x, &moves, (2.0, 1.0))));
    cases.push(one("painted pictures".into(), &[3, 2, 5, 6], move |_, x| vary(x, &[erase], (2.0, 1.0))));
    cases.push(one("iota".into(), &[2, 3], |g, x| x * g.iota(3)));
    cases.push(one("constant".into(), &[3], |g, x| x * g.full(0.25, &[3]) + g.scalar(1.5)));
    let cast = |name: &str, dtype: DType, values: &[f64]| {
        one(format!("cast {name}"), &[3], |g, x| x * g.input_of("whole", &[3], dtype).to_f32()).input("whole", values)
    };
    cases.push(cast("u8", DType::U8, &[0.0, 7.0, 255.0]));
    cases.push(cast("i32", DType::I32, &[-3.0, 0.0, 100_000.0]));
}
