//! Products in bfloat16: what they compute, told exactly, and how near a training stays to one in 32 bits. Runs where the processor has
//! the instructions, except for what happens where it has not.

use citius_cpu::{
    Driver, Executable, Flow, Inputs, Isa, LARGE_PRODUCT, Memory, Options, Outputs, gains_from_halves, has_halves,
};
use citius_graph::{DType, Graph, Init, random};
use citius_nn::{Activation, Adam, Learning, Module, TransformerClassifier, cross_entropy, mlp};
use citius_plan::Plan;

/// As the processor rounds: to nearest, ties to even, what is subnormal to zero.
fn bfloat16(x: f32) -> f32 {
    let bits = x.to_bits();
    flush(f32::from_bits((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF_0000))
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// One lane of the instruction: the second of a pair first, each rounded once.
fn multiply_pair(sum: f32, first: [f32; 2], second: [f32; 2]) -> f32 {
    flush(first[0].mul_add(first[1], flush(second[0].mul_add(second[1], sum))))
}

/// All outputs, after each step.
struct Keep {
    outputs: usize,
    kept: Vec<Vec<Vec<f32>>>,
}

impl Driver for Keep {
    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.kept.push((0..self.outputs).map(|i| outputs.f32(i).to_vec()).collect());
        Flow::Continue
    }
}

fn numbers(stream: u32, n: usize) -> Vec<f32> {
    (0..n as u64).map(|i| random::normal(stream as u64, i)).collect()
}

/// Outputs of each of `steps` steps, and the plan that made them.
fn run(plan: Plan, inputs: &Inputs, steps: u64, options: Options) -> (Vec<Vec<Vec<f32>>>, Plan) {
    let mut memory = Memory::new(0);
    let mut step = Executable::new(plan, &mut memory, options).unwrap();
    let mut keep = Keep { outputs: step.plan().outputs.len(), kept: vec![] };
    step.run(&mut memory, inputs, 0, steps, &mut keep).unwrap();
    (keep.kept, step.plan().clone())
}

/// The same for 1, 2 and 3 threads, which give the same bits; pairs, not tiles (`tiles.rs`).
fn run_halved(plan: &Plan, inputs: &Inputs, steps: u64) -> (Vec<Vec<Vec<f32>>>, Plan) {
    run_halved_on(Isa::Avx512, plan, inputs, steps)
}

fn run_halved_on(isa: Isa, plan: &Plan, inputs: &Inputs, steps: u64) -> (Vec<Vec<Vec<f32>>>, Plan) {
    let options = Options { isa: Some(isa), halves_from: Some(1), ..Options::default() };
    let on = |threads| run(plan.clone(), inputs, steps, Options { threads, ..options });
    let (found, plan) = on(1);
    let bits = |all: &[Vec<Vec<f32>>]| all.iter().flatten().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
    for threads in [2, 3] {
        assert!(bits(&on(threads).0) == bits(&found), "{threads} threads: other bits than one");
    }
    (found, plan)
}

/// Products of a plan in bfloat16.
fn halved(plan: &Plan) -> usize {
    plan.calls.iter().filter(|call| call.label.starts_with("in bfloat16")).count()
}

#[test]
fn a_product_is_what_the_instruction_computes() {
    if !has_halves() {
        return;
    }
    for turned in [false, true] {
        for [m, k, n] in [[1, 2, 2], [33, 64, 40], [64, 63, 17], [40, 513, 96], [100, 40, 200]] {
            let g = Graph::new();
            let a = if turned { g.input("a", &[k, m]).t() } else { g.input("a", &[m, k]) };
            g.output("y", &(a.matmul(&g.input("b", &[k, n])) + 1.0).relu());
            let mut a = numbers(1, m * k);
            let b = numbers(2, k * n);
            // vanishes when it is rounded; ties, to even
            a[0] = 1e-40;
            a[1] = f32::from_bits(0x3F80_8000);
            a[m * k - 1] = f32::from_bits(0x3F81_8000);
            let plan = citius_plan::compile(&g).unwrap();
            let (found, plan) = run_halved(&plan, &Inputs::new().f32("a", &a).f32("b", &b), 1);
            assert_eq!(halved(&plan), 1, "{plan}");
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let a = |t: usize| if turned { a[t * m + i] } else { a[i * k + t] };
                let term = |t: usize| if t < k { [a(t), b[t * n + j]].map(bfloat16) } else { [0.0; 2] };
                let pairs = (0..k).step_by(2).map(|t| (term(t), term(t + 1)));
                let sum = pairs.fold(0.0, |sum, (first, second)| multiply_pair(sum, first, second));
                let (found, expected) = (found[0][0][i * n + j], f32::max(sum + 1.0, 0.0));
                assert!(found == expected, "{turned} {m}·{k}·{n} [{i},{j}]: {found}, {expected}");
                // and near what the rounded factors give exactly
                let terms = (0..k).map(|t| term(t)[0] as f64 * term(t)[1] as f64);
                let (exact, size) = terms.fold((1.0, 1.0), |(sum, size), x| (sum + x, size + x.abs()));
                assert!((found as f64 - exact.max(0.0)).abs() < 1e-6 * size, "{found}, exactly {exact}");
            }
        }
    }
}

/// What is not zero is paired in the order of the sum, by stretches of so many terms.
const STRETCH: usize = 96;

#[test]
fn zeros_are_left_out_of_products() {
    if !has_halves() {
        return;
    }
    // no multiple of anything, with enough arithmetic
    let [rows, deep, wide] = [131, 301, 448];
    let g = Graph::new();
    let h = g.input("x", &[rows, deep]).relu();
    let (w, dy) = (g.input("w", &[deep, wide]), g.input("dy", &[rows, wide]));
    g.output("rows", &(h.matmul(&w) + 1.0));
    g.output("columns", &h.t().matmul(&dy));
    g.output("turned", &dy.t().matmul(&h));
    let plan = citius_plan::compile(&g).unwrap();
    let (w, dy) = (numbers(2, deep * wide), numbers(3, rows * wide));
    // about half are zeros; none; all
    for shift in [0.0, 10.0, -10.0] {
        let x: Vec<f32> = numbers(1, rows * deep).into_iter().map(|x| x + shift).collect();
        let (found, plan) = run_halved(&plan, &Inputs::new().f32("x", &x).f32("w", &w).f32("dy", &dy), 1);
        assert_eq!(halved(&plan), 3, "{plan}");
        let packed = plan.calls.iter().filter(|call| call.label.starts_with("to bfloat16")).count();
        assert_eq!(packed, 2, "the side with zeros is read as it is, the other packed once for both: {plan}");
        let h = |i: usize, k: usize| bfloat16(x[i * deep + k].max(0.0));
        let sum = |terms: &dyn Fn(usize) -> [f32; 2], count: usize| {
            (0..count).step_by(STRETCH).fold(0.0, |sum, start| {
                let terms: Vec<[f32; 2]> =
                    (start..count.min(start + STRETCH)).map(terms).filter(|term| term[0] != 0.0).collect();
                let pair = |pair: &[[f32; 2]]| (pair[0], *pair.get(1).unwrap_or(&[0.0; 2]));
                terms.chunks(2).map(pair).fold(sum, |sum, (first, second)| multiply_pair(sum, first, second))
            })
        };
        for (i, j) in (0..rows).flat_map(|i| (0..wide).map(move |j| (i, j))) {
            let expected = sum(&|k| [h(i, k), bfloat16(w[k * wide + j])], deep) + 1.0;
            assert!(found[0][0][i * wide + j] == expected, "rows [{i},{j}] of {shift}");
        }
        for (k, j) in (0..deep).flat_map(|k| (0..wide).map(move |j| (k, j))) {
            let expected = sum(&|i| [h(i, k), bfloat16(dy[i * wide + j])], rows);
            assert!(found[0][1][k * wide + j] == expected, "columns [{k},{j}] of {shift}");
            assert!(found[0][2][j * deep + k] == expected, "turned [{j},{k}] of {shift}");
        }
    }
    // what is not finite shows where it is multiplied
    let mut x = numbers(1, rows * deep);
    x[5 * deep] = f32::NAN;
    let (found, _) = run_halved(&plan, &Inputs::new().f32("x", &x).f32("w", &w).f32("dy", &dy), 1);
    let row = |i: usize| &found[0][0][i * wide..(i + 1) * wide];
    assert!(row(5).iter().all(|y| y.is_nan()) && row(4).iter().chain(row(6)).all(|y| y.is_finite()));
}

/// A step that gives the loss and the gradient of each parameter.
fn learned(g: &Graph, loss: &citius_graph::Tensor) -> Plan {
    let learned = Learning::new(Adam::default(), 1e-3).record(loss).unwrap();
    let loss = g.outputs().iter().position(|output| output.0 == "loss");
    assert_eq!(loss, Some(0));
    for parameter in &learned.parameters {
        g.output(&format!("gradient of {}", parameter.name), &parameter.gradient);
    }
    citius_plan::compile(g).unwrap()
}

/// In 32 bits and in 16: gradients of the first step are within `share` of each other in length, ten losses within 1%.
fn compare(plan: &Plan, inputs: &Inputs, products: usize, share: f64) {
    let whole = run(plan.clone(), inputs, 10, Options { threads: 2, ..Options::default() }).0;
    for isa in Isa::available().into_iter().filter(|isa| *isa >= Isa::Avx512) {
        compare_on(isa, plan, &whole, inputs, products, share);
    }
}

fn compare_on(isa: Isa, plan: &Plan, whole: &[Vec<Vec<f32>>], inputs: &Inputs, products: usize, share: f64) {
    let (halves, with_halves) = run_halved_on(isa, plan, inputs, 10);
    assert!(halved(&with_halves) >= products, "{with_halves}");
    for (i, (name, _)) in plan.outputs.iter().enumerate().filter(|output| output.1.0.starts_with("gradient of")) {
        let both = || whole[0][i].iter().zip(&halves[0][i]).map(|(x, y)| (*x as f64, *y as f64));
        let length = both().map(|(x, _)| x * x).sum::<f64>().sqrt();
        let apart = both().map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt();
        assert!(apart <= share * length + 1e-7, "{name}: {:.2}% of {length} apart", 100.0 * apart / length);
    }
    for (step, (x, y)) in whole.iter().zip(&halves).enumerate() {
        let (x, y) = (x[0][0], y[0][0]);
        assert!((x - y).abs() < 0.01 * x.abs(), "loss of step {step}: {x} in 32 bits, {y} in 16");
    }
    assert!(halves[9][0][0] < halves[0][0][0], "nothing is learned");
}

/// 128-512-256-10: with relu all large products but the first have a side full of zeros.
fn network(activation: Activation, share: f64) {
    if !has_halves() {
        return;
    }
    let g = Graph::new();
    let (x, y) = (g.input("x", &[256, 128]), g.input_of("y", &[256], DType::I32));
    let output = mlp(&[128, 512, 256, 10], activation, 0.1).whole().forward(&x);
    let plan = learned(&g, &cross_entropy(&output, &y, 0.0, None));
    let x = numbers(1, 256 * 128);
    let y: Vec<i32> = x.chunks(128).map(|row| (row[0].abs() * 4.0) as i32).map(|class| class.min(9)).collect();
    compare(&plan, &Inputs::new().f32("x", &x).i32("y", &y), 8, share);
}

#[test]
fn a_smooth_network_learns_as_in_32_bits() {
    network(Activation::Tanh, 0.01);
}

/// Of a thousand sums two or three are so near zero that rounding takes them to the other side, where the slope is another: as a
/// length that is the root, one in twenty.
#[test]
fn a_network_with_zeros_learns_as_in_32_bits() {
    network(Activation::Relu, 0.08);
}

#[test]
fn a_transformer_learns_as_in_32_bits() {
    if !has_halves() {
        return;
    }
    let g = Graph::new();
    let (x, y) = (g.input_of("x", &[8, 12], DType::I32), g.input_of("y", &[8], DType::I32));
    let output = TransformerClassifier { width: 64, feedforward: 128, dropout: 0.0, ..Default::default() }.forward(&x);
    let plan = learned(&g, &cross_entropy(&output, &y, 0.0, None));
    let tokens: Vec<i32> = (0..96).map(|i| (random::uniform(0, 1, i) * 100.0) as i32).collect();
    let classes: Vec<i32> = (0..8).collect();
    compare(&plan, &Inputs::new().i32("x", &tokens).i32("y", &classes), 20, 0.05);
}

#[test]
fn without_the_instructions_nothing_changes() {
    let g = Graph::new();
    g.output(
        "y",
        &g.input("a", &[256, 256]).matmul(&g.parameter("b", &[256, 256], Init::Normal { mean: 0.0, std: 1.0 })),
    );
    let (plan, a) = (citius_plan::compile(&g).unwrap(), numbers(1, 256 * 256));
    for isa in Isa::available() {
        let options = Options { threads: 1, isa: Some(isa), ..Options::default() };
        let inputs = Inputs::new().f32("a", &a);
        let (whole, _) = run(plan.clone(), &inputs, 1, options);
        let (halves, made) = run(plan.clone(), &inputs, 1, Options { halves_from: Some(LARGE_PRODUCT), ..options });
        let has = match isa {
            Isa::Portable | Isa::Avx2 => false,
            Isa::Avx512 => gains_from_halves() && Isa::detect() == Isa::Avx512,
            Isa::Amx => true,
        };
        assert_eq!(halved(&made), has as usize, "{isa}");
        assert_eq!(whole == halves, !has, "{isa}");
    }
}

/// A small batch that several threads read is brought to each of them: products of packed sides stay what they are.
#[test]
fn a_batch_that_each_thread_has_may_meet_a_product() {
    if !has_halves() {
        return;
    }
    let g = Graph::new();
    let (a, b) = (g.input("a", &[64, 256]), g.input("b", &[256, 128]));
    let rows = g.input_of("rows", &[64], DType::I32);
    let y = g.input("y", &[100, 128]).gather_rows(&rows);
    g.output("apart", &((a.matmul(&g.input("w", &[256, 256])) * 0.1).tanh().matmul(&b) - y));
    let plan = citius_plan::compile(&g).unwrap();
    let (a, w) = (numbers(1, 64 * 256), numbers(4, 256 * 256));
    let (b, y) = (numbers(2, 256 * 128), numbers(3, 100 * 128));
    let rows: Vec<i32> = (0..64).map(|i| (i * 37) % 100).collect();
    let inputs = Inputs::new().f32("a", &a).f32("w", &w).f32("b", &b).f32("y", &y).i32("rows", &rows);
    let (found, plan) = run_halved(&plan, &inputs, 2);
    assert_eq!(halved(&plan), 2, "{plan}");
    let whole = run(citius_plan::compile(&g).unwrap(), &inputs, 1, Options { threads: 1, ..Options::default() }).0;
    let square = |(x, y): (&f32, &f32)| (x - y) * (x - y);
    let apart: f32 = whole[0][0].iter().zip(&found[1][0]).map(square).sum();
    let length: f32 = whole[0][0].iter().map(|x| x * x).sum();
    assert!(apart.sqrt() < 0.02 * length.sqrt(), "{apart} of {length}");
}
