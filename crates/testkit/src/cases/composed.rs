//! Random compositions of ops over small shapes.

use citius_graph::{DType, Graph, Tensor};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Case, Start};

/// Runs `check` on `count` random cases; a failing one is made as small as possible before it is shown. The cases are the same
/// each time.
#[track_caller]
pub fn for_each(count: u32, check: impl Fn(&Case) -> Result<(), String>) {
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let result = runner.run(&recipes(), |recipe| check(&build(&recipe)).map_err(TestCaseError::fail));
    if let Err(e) = result {
        panic!("{e}");
    }
}

/// Leaf sizes, and for each op its kind and three free choices.
type Recipe = (Vec<Vec<usize>>, Vec<(u8, usize, usize, usize)>);

fn recipes() -> impl Strategy<Value = Recipe> {
    let leaves = prop::collection::vec(prop::collection::vec(1..4usize, 0..4), 1..4);
    let ops = prop::collection::vec((0..34u8, 0..64usize, 0..64usize, 0..64usize), 1..12);
    (leaves, ops)
}

/// A pool of tensors, each op adds one made from those before it; the result is all of them.
pub fn build(recipe: &Recipe) -> Case {
    let (leaves, ops) = recipe;
    let starts = leaves.iter().enumerate().map(|(i, dims)| Start::arbitrary(&format!("x{i}"), dims)).collect();
    let case = Case::new(format!("{recipe:?}"), starts, |g, x| {
        let mut pool = x.to_vec();
        for &(kind, a, b, c) in ops {
            let made = op(g, kind, &pool[a % pool.len()], &pool[b % pool.len()], c);
            if made.elements() <= 96 {
                pool.push(made);
            }
        }
        let flat: Vec<Tensor> = pool.iter().map(|t| t.reshape(&[t.elements()])).collect();
        Tensor::concat(&flat, 0)
    });
    case.input("rows", &[1.0, 0.0, 1.0])
}

fn op(g: &Graph, kind: u8, a: &Tensor, b: &Tensor, c: usize) -> Tensor {
    let rank = a.rank();
    let axis = if rank == 0 { 0 } else { c % rank };
    let size = a.dims().get(axis).copied().unwrap_or(1);
    // where b does not fit, a takes its place
    let fits = citius_graph::Shape::broadcast(&a.shape(), &b.shape()).is_some();
    let b = if fits { b } else { a };
    match kind {
        0 => -a,
        1 => a.abs(),
        2 => a.square().tanh(),
        3 => (a.square() + 0.5).sqrt(),
        4 => (a.tanh() * 2.0).exp(),
        5 => (a.softplus() + 0.5).log(),
        6 => a.relu(),
        7 => a.leaky_relu(0.1),
        8 => a.elu(0.7),
        9 => a.gelu(),
        10 => a.gelu_tanh(),
        11 => a.silu(),
        12 => a.sigmoid(),
        13 => a.cos(),
        14 => a.clamp(-0.8, 0.9),
        15 => a.tanh().pow(3.0),
        16 => (a.sigmoid() + 0.5).pow_tensor(&b.tanh()),
        17 => a + b,
        18 => a - b,
        19 => (a * b).tanh(),
        20 => a / (b.square() + 0.5),
        21 => a.maximum(b),
        22 => a.minimum(b),
        23 => a.lt(b).choose(&a.tanh(), &b.cos()),
        24 => a.sum(&(0..rank).filter(|&i| c >> i & 1 == 1).collect::<Vec<_>>(), c & 8 != 0).tanh(),
        25 => a.mean(&(0..rank).filter(|&i| c >> i & 1 == 1).collect::<Vec<_>>(), c & 8 != 0),
        26 => a.max(&(0..rank).filter(|&i| c >> i & 1 == 1).collect::<Vec<_>>(), c & 8 != 0),
        27 => {
            let mut dims = a.dims();
            dims.insert(0, 1 + c % 3);
            a.broadcast_to(&dims)
        }
        28 => a.flatten(c % (rank + 1)),
        29 => {
            let mut perm: Vec<usize> = (0..rank).collect();
            perm.rotate_left(axis);
            a.transpose(&perm)
        }
        30 if rank > 0 => a.slice(axis, c % size, (c % size + 1 + c / 8).min(size)),
        31 if rank > 0 => Tensor::concat(&[a.clone(), a.cos()], axis),
        32 if rank > 0 && c.is_multiple_of(2) => a.softmax(axis),
        32 if rank > 0 => a.log_softmax(axis),
        33 if rank > 1 && c.is_multiple_of(3) => a.t().matmul(&a.cos()).tanh(),
        33 if rank > 1 && c % 3 == 1 => a.matmul(&a.t()).tanh(),
        33 if rank > 0 && size > 1 && axis == 0 => a.gather_rows(&g.input_of("rows", &[3], DType::I32)),
        _ => a.tanh(),
    }
}
