//! The f64 reference against PyTorch: what is left is the graph's and nn's mathematics.

use citius_testkit::{Naive, Tolerance, golden};

const EXACT: Tolerance = Tolerance { relative: 1e-9, absolute: 1e-11 };

#[test]
fn ops() {
    golden::ops(&Naive, EXACT);
}

#[test]
fn layers() {
    golden::layers(&Naive, EXACT);
}

#[test]
fn losses() {
    golden::losses(&Naive, EXACT);
}

#[test]
fn optimizers() {
    golden::optimizers(&Naive, EXACT);
}

#[test]
fn schedules() {
    golden::schedules(&Naive, EXACT);
}

#[test]
fn models() {
    golden::models(&Naive, EXACT);
}

#[test]
fn init() {
    golden::init();
}

#[test]
fn recurrent() {
    golden::recurrent(&Naive, EXACT);
}
