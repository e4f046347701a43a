//! Products on matrix units: what they compute, told exactly, and that numbers in three parts are multiplied as exactly as in 32 bits.
//! What the units do is written down here in plain arithmetic; where the processor has none, that alone is tested.

use citius_cpu::{Driver, Executable, Flow, Inputs, Isa, Memory, Options, Outputs};
use citius_graph::{DType, Graph, Init, random};
use citius_plan::Plan;

/// Terms of a tile.
const TERMS: usize = 32;

fn numbers(stream: u32, n: usize) -> Vec<f32> {
    (0..n as u64).map(|i| random::normal(stream as u64, i)).collect()
}

/// One element of a tile's product, added to a sum: terms sixteen apart go together, each half of them in a row, and nothing is subnormal.
fn tile(sum: f32, terms: &[[f32; 2]]) -> f32 {
    let term = |t: usize| terms.get(t).copied().unwrap_or([0.0; 2]);
    let add = |from: usize| {
        (from..from + TERMS / 2).fold(0.0, |sum, t| flush(flush(term(t)[0]).mul_add(flush(term(t)[1]), sum)))
    };
    flush(sum + flush(add(0) + add(TERMS / 2)))
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// To nearest, ties to even.
fn rounded(x: f32) -> [f32; 1] {
    let bits = x.to_bits();
    [f32::from_bits((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF_0000)]
}

/// Three numbers of eight bits whose sum is the number.
fn parted(x: f32) -> [f32; 3] {
    let mut left = x;
    [0; 3].map(|_| {
        let part = f32::from_bits((left.to_bits() + 0x8000) & 0xFFFF_0000);
        left -= part;
        part
    })
}

/// Which parts of both sides are multiplied, in order.
const WHOLE: [[usize; 2]; 1] = [[0, 0]];
const PARTS: [[usize; 2]; 6] = [[0, 2], [0, 1], [1, 1], [1, 0], [2, 0], [0, 0]];

/// A sum of products, as the units take it.
fn product<const N: usize>(terms: &[[f32; 2]], parts: impl Fn(f32) -> [f32; N], order: &[[usize; 2]]) -> f32 {
    terms.chunks(TERMS).fold(0.0, |sum, terms| {
        let parts: Vec<[[f32; N]; 2]> = terms.iter().map(|term| term.map(&parts)).collect();
        order.iter().fold(sum, |sum, [left, right]| {
            let terms: Vec<[f32; 2]> = parts.iter().map(|[a, b]| [a[*left], b[*right]]).collect();
            tile(sum, &terms)
        })
    })
}

#[test]
fn three_parts_are_all_of_a_number() {
    let edges =
        [0.0, -0.0, 1.0, -1.0, f32::MIN_POSITIVE * 65536.0, 3.0e38, 1.0 + f32::EPSILON, 1.0 - f32::EPSILON / 2.0];
    for x in numbers(1, 100_000).into_iter().chain(edges) {
        let parts = parted(x);
        assert_eq!(parts[0] + (parts[1] + parts[2]), x);
        assert!(parts.iter().all(|part| part.to_bits() & 0xFFFF == 0), "{x}: {parts:?} are no bfloat16");
        assert!(parts[1].abs() <= x.abs() / 256.0 && parts[2].abs() <= x.abs() / 65536.0, "{x}: {parts:?}");
    }
}

/// Errors are compared with those of products in 32 bits added up in a row, against the exact sum.
#[test]
fn products_of_parts_are_as_exact_as_in_32_bits() {
    for (k, spread) in [(32, 0.0), (256, 0.0), (2048, 0.0), (256, 8.0), (2048, 8.0)] {
        let (mut ours, mut plain) = (0.0f64, 0.0f64);
        for trial in 0..40 {
            // by up to e^±spread of each other
            let scaled = |x: (usize, f32)| x.1 * (spread * random::normal(9, (trial * k + x.0) as u64) / 3.0).exp();
            let [a, b] = [2 * trial, 2 * trial + 1].map(|stream| numbers(stream as u32 + 10, k));
            let terms: Vec<[f32; 2]> = a.into_iter().enumerate().map(scaled).zip(b).map(|(a, b)| [a, b]).collect();
            let exact: f64 = terms.iter().map(|[a, b]| *a as f64 * *b as f64).sum();
            let size: f64 = terms.iter().map(|[a, b]| (*a as f64 * *b as f64).abs()).sum();
            let error = |sum: f32| ((sum as f64 - exact) / size).powi(2);
            ours += error(product(&terms, parted, &PARTS));
            plain += error(terms.iter().fold(0.0f32, |sum, [a, b]| a.mul_add(*b, sum)));
        }
        let [ours, plain] = [ours, plain].map(|sum| (sum / 40.0).sqrt());
        assert!(ours <= plain, "{k} terms: {ours:.2e} of their size, in 32 bits {plain:.2e}");
    }
}

/// All outputs, after each step.
struct Keep {
    outputs: usize,
    kept: Vec<Vec<f32>>,
}

impl Driver for Keep {
    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.kept = (0..self.outputs).map(|i| outputs.f32(i).to_vec()).collect();
        Flow::Continue
    }
}

/// Outputs of a step, the same bits for 1, 2 and 3 threads; every product is on the units.
fn run(plan: &Plan, inputs: &Inputs, halves: bool) -> Vec<Vec<f32>> {
    let run = |threads: usize| {
        let (halves_from, thirds_from) = (halves.then_some(1), Some(1));
        let options = Options { threads, isa: Some(Isa::Amx), halves_from, thirds_from, ..Options::default() };
        let mut memory = Memory::new(0);
        let mut step = Executable::new(plan.clone(), &mut memory, options).unwrap();
        let label = if halves { "in bfloat16" } else { "in three bfloat16" };
        let made = step.plan().calls.iter().filter(|call| call.label.starts_with(label)).count();
        assert_eq!(made, plan.outputs.len(), "{}", step.plan());
        let mut keep = Keep { outputs: plan.outputs.len(), kept: vec![] };
        step.run(&mut memory, inputs, 0, 1, &mut keep).unwrap();
        keep.kept
    };
    let found = run(1);
    let bits = |all: &[Vec<f32>]| all.iter().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
    for threads in [2, 3] {
        assert!(bits(&run(threads)) == bits(&found), "{threads} threads: other bits than one");
    }
    found
}

/// Few rows and many, few terms and more than are packed at once, both sides packed beforehand, and either of them as it goes, in strips
/// that keep either side at hand, and with sides that change places.
const SHAPES: [[usize; 3]; 12] = [
    [1, 2, 2],
    [33, 64, 40],
    [64, 63, 17],
    [17, 63, 64],
    [200, 513, 96],
    [96, 1100, 203],
    [700, 40, 40],
    [40, 33, 700],
    [545, 65, 577],
    [300, 700, 40],
    [330, 700, 260],
    [600, 300, 1030],
];

/// Of the elements of a result, how many are looked at.
const LOOKED_AT: usize = 20_000;

#[test]
fn a_product_is_what_the_units_compute() {
    if Isa::detect() < Isa::Amx {
        return;
    }
    for (turned, halves) in [(false, false), (true, false), (false, true), (true, true)] {
        for [m, k, n] in SHAPES {
            let g = Graph::new();
            let a = if turned { g.input("a", &[k, m]).t() } else { g.input("a", &[m, k]) };
            let (b, c) = (g.input("b", &[k, n]), g.input("c", &[m, n]));
            g.output("y", &(a.matmul(&b) + c).relu());
            let plan = citius_plan::compile(&g).unwrap();
            let (mut a, b, c) = (numbers(1, m * k), numbers(2, k * n), numbers(3, m * n));
            // vanishes; ties
            a[0] = 1e-40;
            a[1] = f32::from_bits(0x3F80_8000);
            a[m * k - 1] = f32::from_bits(0x3F81_8000);
            let inputs = Inputs::new().f32("a", &a).f32("b", &b).f32("c", &c);
            let found = run(&plan, &inputs, halves).remove(0);
            let mut wrong = 0;
            // not in step with tiles
            let every = (m * n / LOOKED_AT).max(1) | 1;
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).step_by(every) {
                let a = |t: usize| if turned { a[t * m + i] } else { a[i * k + t] };
                let terms: Vec<[f32; 2]> = (0..k).map(|t| [flush(a(t)), b[t * n + j]]).collect();
                let sum = match halves {
                    true => product(&terms, rounded, &WHOLE),
                    false => product(&terms, parted, &PARTS),
                };
                wrong += (found[i * n + j] != f32::max(sum + c[i * n + j], 0.0)) as usize;
            }
            assert_eq!(wrong, 0, "of {} elements of {m}·{k}·{n}, turned: {turned}, in 16 bits: {halves}", m * n);
        }
    }
}

/// A right side that is stored the other way round is packed from where it is, without a turned copy, as long as that is there: one that
/// is overwritten while the product waits for its left side is copied before.
#[test]
fn a_turned_side_is_what_it_was() {
    let [m, k, n] = [200, 70, 150];
    let run = |isa: Isa, overwritten: bool| {
        let g = Graph::new();
        let w = g.parameter("w", &[n, k], Init::Normal { mean: 0.0, std: 1.0 });
        let x = g.input("x", &[m, k]);
        // some waves later
        let late = x.sum(&[1], false).tanh().sum_all().tanh();
        g.output("y", &(x + late).matmul(&w.t()));
        if overwritten {
            g.assign(&w, &(&w * 2.0));
        }
        let options = Options { threads: 2, isa: Some(isa), thirds_from: Some(1), ..Options::default() };
        let mut memory = Memory::new(7);
        let mut step = Executable::new(citius_plan::compile(&g).unwrap(), &mut memory, options).unwrap();
        let copies = step.plan().calls.iter().filter(|call| call.label.starts_with("transpose")).count();
        let mut keep = Keep { outputs: 1, kept: vec![] };
        step.run(&mut memory, &Inputs::new().f32("x", &numbers(1, m * k)), 0, 1, &mut keep).unwrap();
        (copies, keep.kept.remove(0))
    };
    let (copies, expected) = run(Isa::Portable, false);
    assert_eq!(copies, 1);
    for overwritten in [false, true] {
        let (copies, found) = run(Isa::detect(), overwritten);
        let apart = found.iter().zip(&expected).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-4, "overwritten: {overwritten}: {apart}");
        if Isa::detect() >= Isa::Amx {
            assert_eq!(copies, overwritten as usize, "overwritten: {overwritten}");
        }
    }
}

/// A turned copy that a product reads once more, elsewhere than on its right, stays.
#[test]
fn a_turned_side_that_is_read_twice_is_there() {
    for square in [false, true] {
        let run = |isa: Isa| {
            let g = Graph::new();
            let w = g.parameter("w", &[70, 70], Init::Normal { mean: 0.0, std: 1.0 });
            let (turned, x) = (w.t().slice(0, 0, 64).slice(1, 0, 64), g.input("x", &[64, 64]));
            g.output("y", &if square { turned.matmul(&turned) + &x } else { x.matmul(&turned) + &turned });
            let options = Options { isa: Some(isa), thirds_from: Some(1), ..Options::default() };
            let mut memory = Memory::new(7);
            let mut step = Executable::new(citius_plan::compile(&g).unwrap(), &mut memory, options).unwrap();
            let mut keep = Keep { outputs: 1, kept: vec![] };
            step.run(&mut memory, &Inputs::new().f32("x", &numbers(1, 64 * 64)), 0, 1, &mut keep).unwrap();
            keep.kept.remove(0)
        };
        let (expected, found) = (run(Isa::Portable), run(Isa::detect()));
        let apart = found.iter().zip(&expected).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-4, "square: {square}: {apart}");
    }
}

/// What is not a number shows in its row and column, and nowhere else.
#[test]
fn what_is_not_finite_stays_where_it_is() {
    if Isa::detect() < Isa::Amx {
        return;
    }
    let [m, k, n] = [200, 100, 96];
    let g = Graph::new();
    g.output("y", &g.input("a", &[m, k]).matmul(&g.input("b", &[k, n])));
    let plan = citius_plan::compile(&g).unwrap();
    let (mut a, b) = (numbers(1, m * k), numbers(2, k * n));
    for (row, bad) in [(5, f32::NAN), (70, f32::INFINITY), (199, f32::from_bits(0xFFFF_FFFF))] {
        a[row * k + 31] = bad;
    }
    for halves in [false, true] {
        let found = run(&plan, &Inputs::new().f32("a", &a).f32("b", &b), halves).remove(0);
        for (i, row) in found.chunks(n).enumerate() {
            let bad = [5, 70, 199].contains(&i);
            assert!(row.iter().all(|y| y.is_finite() != bad), "row {i}, in 16 bits: {halves}");
        }
    }
}

/// A small batch that products read where its rows are (`kernels/in_place.rs`): one on the units has it packed, so it is written out.
#[test]
fn a_gathered_batch_is_what_it_is_elsewhere() {
    for backward in [false, true] {
        let g = Graph::new();
        let rows = g.input_of("rows", &[256], DType::I32);
        let x = g.input("table", &[1000, 32]).gather_rows(&rows);
        g.output("y", &x.matmul(&g.input("w", &[32, 256])));
        if backward {
            g.output("dw", &x.t().matmul(&g.input("dy", &[256, 256])));
        }
        let plan = citius_plan::compile(&g).unwrap();
        let (table, w, dy) = (numbers(1, 32_000), numbers(2, 32 * 256), numbers(3, 256 * 256));
        let rows: Vec<i32> = (0..256).map(|i| i * 37 % 1000).collect();
        let mut found = Vec::new();
        for isa in Isa::available() {
            for threads in [1, 2] {
                let options = Options { threads, isa: Some(isa), ..Options::default() };
                let mut memory = Memory::new(0);
                let mut step = Executable::new(plan.clone(), &mut memory, options).unwrap();
                let mut keep = Keep { outputs: plan.outputs.len(), kept: vec![] };
                let inputs = Inputs::new().f32("table", &table).f32("w", &w).f32("dy", &dy).i32("rows", &rows);
                step.run(&mut memory, &inputs, 0, 1, &mut keep).unwrap();
                found.push((isa, keep.kept.concat()));
            }
        }
        for (isa, kept) in &found[1..] {
            let apart = kept.iter().zip(&found[0].1).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
            assert!(apart < 1e-4, "{isa} is {apart} from {}, backward: {backward}", found[0].0);
        }
    }
}
