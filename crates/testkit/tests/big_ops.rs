//! Every big op on several shapes against finite differences.

use citius_testkit::cases::big_ops::cases;
use citius_testkit::{Naive, Tolerance, finite};

const NEAR: Tolerance = Tolerance { relative: 1e-7, absolute: 1e-8 };

#[test]
fn derivatives() {
    // what is large takes long and differs in nothing else
    for case in cases().iter().filter(|c| !c.name.contains("ties") && !c.name.contains("large")) {
        case.graph.check().unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let (_, skipped) = finite::check(case, NEAR);
        assert_eq!(skipped, 0, "{}", case.name);
    }
}

/// No slope exists there; the gradient is shared evenly.
#[test]
fn ties_share() {
    let case = cases().into_iter().find(|c| c.name == "max of ties over [1]").unwrap();
    let outputs = case.reference();
    let (a, b) = (1.0, 1f64.cos()); // dy of each row
    let expected = [0.0, a / 2.0, a / 2.0, 0.0, b / 4.0, b / 4.0, b / 4.0, b / 4.0];
    citius_testkit::compare(&outputs["grad.x"], &expected, NEAR).unwrap();
}

#[test]
fn suite() {
    citius_testkit::big_ops(&Naive, NEAR);
}
