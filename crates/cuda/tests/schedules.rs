//! What can be held without a GPU: how steps are scheduled, and the source that comes out.

use std::collections::BTreeMap;
use std::path::Path;

use citius_cuda::{
    By, Care, Chip, Dump, Halves, LARGE_PRODUCT, Layout, LeafPlaces, Options, Precision, Rule, Schedule, Scheduled,
    Team, call_library, keep_zeros, read_through_transposes, render,
};
use citius_graph::scalar::Binary;
use citius_graph::{Convolution, DType, Graph, Init};
use citius_nn::{
    Activation, Adam, Cell, Depth, LeNet, Learning, Module, ResNet, ResNet9, Stem, TransformerClassifier,
    cross_entropy, forecaster, mlp, mse,
};
use citius_plan::{Instr, Plan, Work};

const ONE: Team = Team { blocks: 1, groups: 2, threads: 64 };
const GRID: Team = Team { blocks: 132, groups: 1, threads: 512 };

/// A training step that gathers its batch.
fn step(sizes: &[usize], batch: usize, rows: usize, bytes: bool) -> Plan {
    let g = Graph::new();
    let r = g.input_of("rows", &[batch], DType::I32);
    let width = sizes[0];
    let x = match bytes {
        true => g.input_of("x", &[rows, width], DType::U8).gather_rows(&r).to_f32() * 0.5 + -1.0,
        false => g.input("x", &[rows, width]).gather_rows(&r),
    };
    let out = mlp(sizes, Activation::Relu, 0.0).whole().forward(&x);
    let loss = match sizes[sizes.len() - 1] {
        1 => mse(&out, &g.input("y", &[rows, 1]).gather_rows(&r)),
        _ => cross_entropy(&out, &g.input_of("y", &[rows], DType::I32).gather_rows(&r), 0.0, None),
    };
    Learning::new(Adam::default(), 1e-3).record(&loss).unwrap();
    read_through_transposes(&citius_plan::compile(&g).unwrap())
}

/// A step of a small convolutional network.
fn pictures() -> Plan {
    let g = Graph::new();
    let net = LeNet { inputs: 3, size: [20, 20], channels: [8, 12], hidden: 16, outputs: 10, dropout: 0.1 };
    let out = net.forward(&g.input("x", &[16, 3, 20, 20]));
    let loss = cross_entropy(&out, &g.input_of("y", &[16], DType::I32), 0.0, None);
    Learning::new(Adam::default(), 1e-3).record(&loss).unwrap();
    read_through_transposes(&citius_plan::compile(&g).unwrap())
}

/// A training step of a recurrent network.
fn recurrent_step(cell: Cell, width: usize) -> Plan {
    let g = Graph::new();
    let out = forecaster(cell, 10, width, 1).layers(2).whole().forward(&g.input("x", &[32, 100, 10]));
    let loss = mse(&out, &g.input("y", &[32, 1]));
    Learning::new(Adam::default(), 1e-2).record(&loss).unwrap();
    read_through_transposes(&citius_plan::compile(&g).unwrap())
}

/// Convolutions large enough for matrix units.
fn residual() -> Plan {
    let g = Graph::new();
    let net = ResNet { inputs: 3, outputs: 10, depth: Depth::Eighteen, stem: Stem::Cifar, width: 16 };
    let loss =
        cross_entropy(&net.forward(&g.input("x", &[256, 3, 16, 16])), &g.input_of("y", &[256], DType::I32), 0.0, None);
    Learning::new(Adam::default(), 1e-3).record(&loss).unwrap();
    let mut plan = read_through_transposes(&citius_plan::compile(&g).unwrap());
    keep_zeros(&mut plan);
    plan
}

/// A step of a transformer with two layers, as a GPU runs it.
fn attention(precision: Precision, capability: (i32, i32)) -> Scheduled {
    let g = Graph::new();
    let out = TransformerClassifier::default().forward(&g.input_of("x", &[32, 50], DType::I32));
    let loss = cross_entropy(&out, &g.input_of("y", &[32], DType::I32), 0.0, None);
    Learning::new(Adam::default(), 1e-3).record(&loss).unwrap();
    let plan = citius_plan::compile(&g).unwrap();
    let chip = Chip { multiprocessors: 132, capability };
    citius_cuda::schedule(&plan, chip, &|blocks| blocks, Options { precision, ..Options::default() })
}

#[test]
fn a_block_attends_for_a_sequence_and_a_head() {
    let Scheduled { plan, schedule, .. } = attention(Precision::Tf32, (9, 0));
    let text = Dump(&schedule, &plan).to_string();
    // scores, softmax, dropout and weighted sum, and back again, with the values' gradient beside it, in each of two layers
    assert_eq!(text.matches("128 blocks on matrix units").count(), 6, "{text}");
    assert!(!text.contains("transpose"), "keys are read and their gradient is written where they are\n{text}");
    // what is dropped between the linear layers is drawn by the product before
    assert!(!text.contains("random 3276800"), "{text}");
    assert!(schedule.levels.len() <= 38, "{}", schedule.levels.len());
    let exact = attention(Precision::Fp32, (9, 0));
    let text = Dump(&exact.schedule, &exact.plan).to_string();
    assert_eq!((text.matches("128 blocks\n").count(), text.matches("matrix units").count()), (4, 0), "{text}");
}

#[test]
fn convolutions_go_to_the_matrix_units() {
    let plan = residual();
    let on_units = |precision| {
        let products = call_library(&plan, rule(precision)).map_or(BTreeMap::new(), |large| large.products);
        products.values().filter(|by| matches!(by, By::Tensor(_))).count()
    };
    assert_eq!(on_units(Precision::Fp32), 0);
    // each of the convolutions behind the first, forward and both gradients, those of strided ones in phases, as far as they are large enough
    assert!(on_units(Precision::Bf16) >= 48, "{}", on_units(Precision::Bf16));
    assert!(on_units(Precision::Tf32) >= 48, "{}", on_units(Precision::Tf32));
    // three channels are brought element by element
    let first = |precision| {
        let large = call_library(&plan, Rule::new(precision, 32 << 20, rule(precision).chip)).unwrap();
        let of_first = |i: &&usize| large.plan.calls[**i].label.contains("(in conv1 Conv2d 3→");
        large.products.keys().filter(of_first).count()
    };
    assert_eq!((first(Precision::Bf16), first(Precision::Tf32)), (2, 0));
    // zeros around pictures are written once, not in each step
    assert!(!plan.calls.iter().any(|c| matches!(&c.work, Work::Loop(l) if l.program.instrs == [Instr::Const(0.0)])));
}

/// Rows of several outer indices are no neighbours in memory: where a kernel gradient's few rows are brought element by element, those of
/// one outer index are a tile, since the other side has outer indices too: parts of the sum.
#[test]
fn few_rows_of_several_outer_indices_are_not_one_tile() {
    for (outputs, dims) in [(64, [64, 16, 16, 3]), (320, [4, 64, 64, 4])] {
        let g = Graph::new();
        let x = g.input("x", &dims);
        let kernel = g.parameter("kernel", &[3, 3, dims[3], outputs], Init::Zeros);
        let by = Convolution { padding: [(1, 1); 2], ..Convolution::default() };
        let y = x.convolve(&kernel, by);
        g.output("gradient", &g.gradients(&(&y * &y).sum_all(), &[kernel]).remove(0).unwrap());
        let plan = read_through_transposes(&citius_plan::compile(&g).unwrap());
        let large = call_library(&plan, Rule::new(Precision::Bf16, 1 << 20, rule(Precision::Bf16).chip)).unwrap();
        let product = |i: &usize| match &large.plan.calls[*i].work {
            Work::Matmul(m) if m.a.row == 1 => Some(m.clone()),
            _ => None,
        };
        let gradients: Vec<_> = large.products.keys().filter_map(product).collect();
        assert_eq!(gradients.len(), 1, "{dims:?}");
        assert!(gradients[0].m < 16 && gradients[0].b.outer.iter().any(|stride| *stride > 0), "{:?}", gradients[0]);
    }
}

/// What is asked to equal something computed again would never do so, and moments hold for whole columns.
#[test]
fn maxima_and_moments_are_not_rounded() {
    let g = Graph::new();
    let net = ResNet9 { inputs: 3, outputs: 10, width: 16 };
    let loss =
        cross_entropy(&net.forward(&g.input("x", &[64, 3, 16, 16])), &g.input_of("y", &[64], DType::I32), 0.0, None);
    Learning::new(Adam::default(), 1e-3).record(&loss).unwrap();
    let plan = read_through_transposes(&citius_plan::compile(&g).unwrap());
    let large = call_library(&plan, Rule::new(Precision::Bf16, 1 << 20, rule(Precision::Bf16).chip)).unwrap();
    let mut maxima = 0;
    for call in &large.plan.calls {
        let (program, operands) = match &call.work {
            Work::Loop(l) => (&l.program, &l.operands),
            Work::Matmul(m) => (&m.program, &m.operands),
            _ => continue,
        };
        for instr in &program.instrs {
            let Instr::Binary(Binary::Eq, a, b) = *instr else { continue };
            for side in [a, b] {
                if let Instr::Load(operand) = program.instrs[side] {
                    assert!(!large.half.contains(operands[operand].buffer), "{}", call.label);
                    maxima += 1;
                }
            }
        }
    }
    assert!(maxima >= 3, "of three stages");
    let is_vector = |id: &usize| large.plan.buffers[*id].shape.elements() <= 16 << 3;
    assert!(!large.half.buffers.iter().any(is_vector), "{:?}", large.half.buffers);
    // that running moments are updated from it keeps no convolution's result whole
    let is_half = |i: &usize| match &large.plan.calls[*i].work {
        Work::Matmul(m) => m.stores.iter().all(|s| large.half.contains(m.operands[s.1].buffer)),
        _ => false,
    };
    let halves = large.products.keys().filter(|i| is_half(i)).count();
    assert!(halves >= 12, "{halves}: seven convolutions, there and back");
}

fn source(plan: &Plan, schedule: &Schedule, half: &Halves, timed: bool) -> Vec<String> {
    let mut places = LeafPlaces::default();
    places.admit(plan);
    let layout = Layout::new(plan, schedule, &places, &|name| name != "rows", half, 227 << 10);
    render(plan, schedule, &layout, &places, timed)
}

fn rule(precision: Precision) -> Rule {
    rule_for(precision, (9, 0))
}

fn rule_for(precision: Precision, capability: (i32, i32)) -> Rule {
    Rule::new(precision, LARGE_PRODUCT, Chip { multiprocessors: 132, capability })
}

/// Compares with a file beside this one; `UPDATE=1` writes it.
fn expect(name: &str, found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, found).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    let file = file.display();
    assert!(expected == found, "{file} differs from what is generated; look, then UPDATE=1 cargo test\n{found}");
}

#[test]
fn the_mnist_step_meets_three_times() {
    let plan = step(&[784, 128, 64, 10], 64, 60_000, true);
    let schedule = Schedule::new(&plan, GRID);
    assert_eq!(schedule.barriers(), 3);
    expect("mnist.schedule", &Dump(&schedule, &plan).to_string());
}

#[test]
fn the_source_of_a_small_step() {
    const FUNCTION: &str = "static __device__ __noinline__";
    let plan = step(&[3, 4, 1], 8, 100, false);
    let text = source(&plan, &Schedule::new(&plan, ONE), &Halves::default(), false).concat();
    assert!(text.contains("extern __shared__ __align__(256) char chip[];"), "parameters stay on the chip");
    // what is generated, without what every kernel begins with
    let start = text.find(FUNCTION).unwrap();
    expect("small.cu", &text[start..]);
}

#[test]
fn large_products_are_the_librarys() {
    let plan = step(&[1024, 1024, 1024, 10], 512, 4096, false);
    assert!(call_library(&step(&[784, 128, 64, 10], 64, 60_000, true), rule(Precision::Fp32)).is_none());
    for precision in [Precision::Fp32, Precision::Bf16, Precision::Fp16] {
        let large = call_library(&plan, rule(precision)).unwrap();
        // two layers forward, two gradients of weights, one of activations
        assert_eq!(large.products.len(), 5);
        assert_eq!(large.half.buffers.is_empty(), precision == Precision::Fp32);
        let schedule = Schedule::in_levels(&large.plan, &large.products, 132);
        assert!(schedule.by_levels());
        let text = source(&large.plan, &schedule, &large.half, false).concat();
        assert!(text.contains("level0(") && !text.contains(" steps("));
        assert_eq!(text.contains("(Bf16*)(scratch"), precision == Precision::Bf16);
        assert_eq!(text.contains("(Fp16*)(scratch"), precision == Precision::Fp16);
    }
}

/// With the compiler there (no GPU needed), everything compiles for several architectures.
#[test]
#[ignore = "needs libnvrtc: cargo xtask gpu"]
fn sources_compile() {
    let small = step(&[10, 64, 1], 32, 10_000, false);
    let mnist = step(&[784, 128, 64, 10], 64, 60_000, true);
    let pictures = pictures();
    let wide = step(&[1024, 1024, 1024, 10], 512, 4096, false);
    let residual = residual();
    let none = Halves::default();
    for capability in [(8, 0), (9, 0)] {
        for (plan, team) in [
            (&small, ONE),
            (&pictures, ONE),
            (&pictures, GRID),
            (&mnist, GRID),
            (&mnist, Team { blocks: 16, groups: 4, threads: 128 }),
        ] {
            for timed in [false, true] {
                compiles(&source(plan, &Schedule::new(plan, team), &none, timed), capability);
            }
        }
        for cell in [Cell::Tanh, Cell::Relu, Cell::Gru, Cell::Lstm] {
            // a warp, a group and several units a thread
            for width in [20, 48, 200] {
                let plan = recurrent_step(cell, width);
                let team = Team { blocks: 16, groups: 2, threads: 128 };
                compiles(&source(&plan, &Schedule::new(&plan, team), &none, false), capability);
            }
        }
        for precision in [Precision::Fp32, Precision::Tf32, Precision::Bf16] {
            let Scheduled { plan, schedule, half } = attention(precision, capability);
            let parts = source(&plan, &schedule, &half, false);
            // sums are shared where there are clusters
            let shared = precision != Precision::Fp32 && capability >= (9, 0);
            assert_eq!(parts.concat().contains("__cluster_dims__"), shared, "{precision} for {capability:?}");
            compiles(&parts, capability);
        }
        for precision in [Precision::Fp32, Precision::Tf32, Precision::Bf16, Precision::Fp16] {
            // none of the convolutions is exact there
            let rule = rule_for(precision, capability);
            for large in [&wide, &residual].into_iter().filter_map(|plan| call_library(plan, rule)) {
                let schedule = Schedule::in_levels(&large.plan, &large.products, 132);
                compiles(&source(&large.plan, &schedule, &large.half, false), capability);
            }
        }
    }
}

#[track_caller]
fn compiles(parts: &[String], capability: (i32, i32)) {
    for part in parts {
        citius_cuda::compile(part, capability, Care::Full).unwrap_or_else(|e| panic!("for {capability:?}: {e}"));
    }
}
