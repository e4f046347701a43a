//! Random compositions of ops against finite differences.

use std::cell::Cell;

use citius_testkit::cases::composed::for_each;
use citius_testkit::{Tolerance, finite};

#[test]
fn derivatives() {
    let (checked, skipped) = (Cell::new(0), Cell::new(0));
    for_each(256, |case| {
        case.graph.check().map_err(|e| e.to_string())?;
        case.graph.verify()?;
        let (c, s) = finite::check(case, Tolerance::new(1e-6, 1e-6));
        checked.set(checked.get() + c);
        skipped.set(skipped.get() + s);
        Ok(())
    });
    let (checked, skipped) = (checked.get(), skipped.get());
    assert!(skipped * 20 < checked, "{skipped} elements beside a kink, {checked} checked");
}
