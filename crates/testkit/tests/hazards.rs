//! Hazards of fusion and of updates in place, each once wrong: the CPU executor against the reference over three steps.

use citius_graph::{DType, Graph, Init, Tensor};
use citius_nn::{Learning, Sgd};
use citius_testkit::cases::numbers;
use citius_testkit::{Cpu, Evaluate, Naive, Tolerance, Values, compare};

/// Builds a graph, runs three steps of it everywhere, compares every output.
fn check(name: &str, build: impl Fn(&Graph)) {
    let g = Graph::new();
    build(&g);
    g.check().unwrap_or_else(|e| panic!("{name}: {e}"));
    // what the leaves hold at the end is read in the step after
    let values = |leaf: &citius_graph::Leaf| {
        let t = g.tensor(leaf.node);
        let whole = t.dtype() != DType::F32;
        let values = numbers(&leaf.name, t.elements());
        (leaf.name.clone(), values.into_iter().map(|v| if whole { (v.abs() * 3.0).floor() } else { v }).collect())
    };
    let all: Values = g.leaves().iter().map(values).collect();
    let expected = Naive.run(&g, &all_but_inputs(&g, &all), &[all.clone(), all.clone(), all.clone()]).unwrap();
    for cpu in Cpu::all() {
        let found = cpu.run(&g, &all_but_inputs(&g, &all), &[all.clone(), all.clone(), all.clone()]);
        let found = found.unwrap_or_else(|e| panic!("{name} on {}: {e}", cpu.name()));
        for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
            for (output, values) in expected {
                compare(&found[output], values, Tolerance::new(1e-4, 1e-4))
                    .unwrap_or_else(|e| panic!("{name} on {}, step {step}, {output}: {e}", cpu.name()));
            }
        }
    }
}

fn all_but_inputs(g: &Graph, all: &Values) -> Values {
    let kept = g.leaves().into_iter().filter(|l| l.kind != citius_graph::LeafKind::Input);
    kept.map(|l| (l.name.clone(), all[&l.name].clone())).collect()
}

fn state(g: &Graph, name: &str, dims: &[usize]) -> Tensor {
    g.state(name, dims, Init::Zeros)
}

/// Assigns, and shows what the leaf held before.
fn assign(g: &Graph, name: &str, leaf: &Tensor, value: &Tensor) {
    g.output(name, leaf);
    g.assign(leaf, value);
}

#[test]
fn an_update_may_read_its_leaf_through_a_view() {
    check("transposed", |g| {
        let a = state(g, "a", &[37, 37]);
        assign(g, "o", &a, &a.t());
    });
    check("symmetrised", |g| {
        let a = state(g, "a", &[41, 41]);
        assign(g, "o", &a, &(&a + a.t() * 0.3));
    });
    check("recut", |g| {
        let a = state(g, "a", &[31, 37]);
        assign(g, "o", &a, &(&a + a.reshape(&[37, 31]).t() * 0.3));
    });
    check("first row everywhere", |g| {
        let a = state(g, "a", &[40, 60]);
        assign(g, "o", &a, &(a.slice(0, 0, 1).broadcast_to(&[40, 60]) * 0.3 + &a));
    });
    check("gradient of w − wᵀ", |g| {
        let w = g.parameter("w", &[41, 41], Init::Zeros);
        Learning::new(Sgd::default(), 0.1).record(&(&w - w.t()).square().sum_all()).unwrap();
    });
}

#[test]
fn updates_may_wait_for_each_other() {
    check("exchanged", |g| {
        let (a, b) = (state(g, "a", &[300]), state(g, "b", &[300]));
        assign(g, "o", &a, &b);
        assign(g, "p", &b, &a);
    });
    check("exchanged and turned", |g| {
        let (a, b) = (state(g, "a", &[20, 30]), state(g, "b", &[30, 20]));
        assign(g, "o", &a, &b.t());
        assign(g, "p", &b, &a.t());
    });
    check("three in a ring", |g| {
        let (a, b, c) = (state(g, "a", &[5]), state(g, "b", &[5]), state(g, "c", &[5]));
        assign(g, "o", &a, &b);
        assign(g, "p", &b, &(&c + 1.0));
        assign(g, "q", &c, &a);
    });
}

#[test]
fn integers_are_copied_as_they_are() {
    check("rows by a slice", |g| {
        let i = g.input_of("i", &[6], DType::I32);
        g.output("o", &g.input("t", &[9, 4]).gather_rows(&i.slice(0, 1, 4)));
    });
    check("rows by a concatenation", |g| {
        let i = g.input_of("i", &[6], DType::I32);
        g.output("o", &g.input("t", &[9, 4]).gather_rows(&Tensor::concat(&[i.clone(), i], 0)));
    });
    check("turned", |g| g.output("o", &g.input_of("i", &[6, 20], DType::I32).t()));
    check("bytes after a product", |g| {
        let mask = g.input_of("m", &[20, 30], DType::U8).to_f32();
        g.output("o", &(g.input("a", &[20, 7]).matmul(&g.input("b", &[7, 30])) + mask));
    });
}

#[test]
fn bytes_and_integers_in_the_wrong_place_are_refused() {
    let refused = |build: &dyn Fn(&Graph) -> Tensor| {
        let g = Graph::new();
        g.output("o", &build(&g));
        citius_plan::compile(&g).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert!(refused(&|g| g.input_of("x", &[40, 60], DType::U8).t()).contains("to_f32"));
    assert!(refused(&|g| g.input_of("x", &[40, 60], DType::U8).max(&[1], false)).contains("to_f32"));
    assert!(refused(&|g| g.input_of("x", &[40, 60], DType::I32).argmax(1)).contains("to_f32"));
    let rows = |g: &Graph| g.input_of("i", &[4], DType::I32);
    assert!(refused(&|g| g.input("x", &[0, 2]).gather_rows(&rows(g))).contains("no rows"));
    assert!(refused(&|g| g.full(1.0, &[1 << 40, 1 << 40])).contains("more elements than memory"));
    let twice = |g: &Graph| {
        let a = state(g, "a", &[3]);
        g.assign(&a, &(&a + 1.0));
        g.assign(&a, &(&a + 2.0));
        a
    };
    assert!(refused(&twice).contains("assigned twice"));
}

#[test]
fn expressions_may_be_wide_and_deep() {
    check("forty operands", |g| {
        let terms: Vec<Tensor> = (0..40).map(|i| g.input(&format!("x{i}"), &[5000])).collect();
        g.output("o", &terms[1..].iter().fold(terms[0].clone(), |sum, t| sum + t));
    });
    check("forty operands of several shapes", |g| {
        let shape = |i: usize| [[4, 5, 6], [4, 1, 6], [1, 5, 1]][i % 3];
        let terms: Vec<Tensor> = (0..40).map(|i| g.input(&format!("x{i}"), &shape(i))).collect();
        g.output("o", &terms[1..].iter().fold(terms[0].clone(), |sum, t| sum + t));
    });
    check("twenty thousand ops", |g| {
        let (mut x, b) = (g.input("x", &[3]), g.input("b", &[3]));
        for _ in 0..20_000 {
            x = x * 0.5 + &b;
        }
        g.output("o", &x);
    });
}

#[test]
fn a_gathered_value_may_also_be_kept() {
    check("gather and update", |g| {
        let rows = g.input("t", &[9, 4]).gather_rows(&g.input_of("i", &[6], DType::I32)) * 2.0;
        assign(g, "s", &state(g, "s", &[6, 4]), &rows);
        g.output("o", &(&rows * 2.0));
    });
}

/// Not-a-number wins a maximum, however it is folded.
#[test]
fn a_maximum_keeps_not_a_number() {
    let g = Graph::new();
    let x = g.input("x", &[40, 40]);
    g.output("all", &x.max(&[0, 1], false));
    g.output("rows", &x.max(&[1], false));
    g.output("columns", &x.max(&[0], false));
    g.output("short rows", &x.reshape(&[160, 10]).max(&[1], false));
    let mut values = numbers("x", 1600);
    values[7] = f64::NAN;
    let inputs: Values = [("x".to_string(), values)].into();
    for cpu in Cpu::all() {
        let out = cpu.run(&g, &Values::new(), std::slice::from_ref(&inputs)).unwrap().remove(0);
        let nans =
            |name: &str| out[name].iter().enumerate().filter(|(_, v)| v.is_nan()).map(|(i, _)| i).collect::<Vec<_>>();
        let found = ["all", "rows", "columns", "short rows"].map(nans);
        assert_eq!(found, [vec![0], vec![0], vec![7], vec![0]], "{}", cpu.name());
    }
}

/// Folds over axes that a stretched operand does not walk evenly stand apart; one of them folds other axes over stored
/// bytes.
#[test]
fn a_reshape_that_must_be_folded_by_itself() {
    check("recut fold", |g| {
        let recut = state(g, "x", &[2, 6, 6]).transpose(&[0, 2, 1]).reshape(&[2, 6, 3, 2]);
        let uneven = state(g, "m", &[2, 1, 3, 1]);
        g.output("plain", &recut.sum(&[0, 1], false));
        g.output("weighted", &(&recut * &uneven).sum(&[0, 1], false));
    });
}
