//! The checks themselves: a wrong gradient and a wrong executor are caught.

use citius_graph::Graph;
use citius_testkit::cases::Start;
use citius_testkit::{Case, Evaluate, Naive, Tolerance, Values, big_ops, composed, finite, map_ops};

const F32: Tolerance = Tolerance { relative: 1e-5, absolute: 1e-6 };

#[test]
#[should_panic(expected = "by differences")]
fn a_wrong_gradient() {
    // detach hides half of d(x²) = 2x
    let half = Case::new("half", vec![Start::arbitrary("x", &[3])], |_, x| &x[0] * x[0].detach());
    finite::check(&half, F32);
}

#[test]
fn a_kink_is_passed_over() {
    let abs = Case::new("abs", vec![Start::new("x", &[2], vec![1e-6, 1.0])], |_, x| x[0].abs());
    assert_eq!(finite::check(&abs, F32), (1, 1));
}

/// Right but for one thing: the last element of each output.
struct Sloppy;

impl Evaluate for Sloppy {
    fn name(&self) -> String {
        "sloppy".into()
    }
    fn run(&self, graph: &Graph, initial: &Values, inputs: &[Values]) -> Result<Vec<Values>, String> {
        let mut outputs = Naive.run(graph, initial, inputs)?;
        outputs.iter_mut().flat_map(|o| o.values_mut()).filter_map(|v| v.last_mut()).for_each(|x| *x += 1e-3);
        Ok(outputs)
    }
}

#[test]
#[should_panic(expected = "map ops on sloppy")]
fn a_wrong_map_op() {
    map_ops(&Sloppy, F32);
}

#[test]
#[should_panic(expected = "big ops on sloppy")]
fn a_wrong_big_op() {
    big_ops(&Sloppy, F32);
}

#[test]
#[should_panic(expected = "minimal failing input")]
fn a_wrong_composition() {
    composed(&Sloppy, F32, 4);
}

#[test]
#[should_panic(expected = "golden ops on sloppy")]
fn wrong_goldens() {
    citius_testkit::golden::ops(&Sloppy, F32);
}

#[test]
fn the_reference_agrees_with_itself() {
    composed(&Naive, F32, 16);
}
