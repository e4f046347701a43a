//! Every map op of the registry against finite differences at its samples, and against the gradient stated at its kinks.

use citius_graph::ops::map::ALL;
use citius_testkit::cases::map_ops::{case, cases};
use citius_testkit::{Case, Naive, Tolerance, compare, finite};

const NEAR: Tolerance = Tolerance { relative: 1e-7, absolute: 1e-8 };

#[test]
fn derivatives_at_the_samples() {
    for def in ALL {
        for n in [0, 1, def.samples.len(), 33] {
            let (checked, skipped) = finite::check(&case(def, def.samples, n), NEAR);
            assert_eq!((checked, skipped), (n * def.arity, 0), "{}", def.name);
        }
    }
}

#[test]
fn derivatives_at_the_kinks() {
    for def in ALL {
        for kink in def.kinks {
            let outputs = case(def, &[kink.at], 1).reference();
            for (k, stated) in kink.grad.iter().enumerate() {
                assert_eq!(outputs[&format!("grad.x{k}")], [*stated], "{} at {:?}", def.name, kink.at);
            }
        }
    }
}

#[test]
fn values_are_the_expression() {
    for def in ALL {
        let outputs = case(def, def.samples, def.samples.len()).reference();
        let expected: Vec<f64> = def.samples.iter().map(|x| def.eval(x, def.sample_attrs)).collect();
        compare(&outputs["y"], &expected, NEAR).unwrap_or_else(|e| panic!("{}: {e}", def.name));
    }
}

/// The derivative is a graph like any other: its own derivative is right too.
#[test]
fn second_derivatives() {
    for def in ALL {
        let first = case(def, def.samples, def.samples.len());
        let starts = (0..def.arity).map(|k| {
            let name = format!("x{k}");
            let values = first.initial[&name].clone();
            citius_testkit::cases::Start::new(&name, &[values.len()], values)
        });
        let second = Case::new(format!("{} twice", def.name), starts.collect(), |g, x| {
            let y = def.apply(def.sample_attrs, &x.iter().collect::<Vec<_>>());
            let slopes = g.gradients(&y.sum_all(), x);
            slopes.into_iter().flatten().fold(g.full(0.0, &x[0].dims()), |sum, d| sum + d.square())
        });
        finite::check(&second, NEAR);
    }
}

/// The suite that executors run, on the reference itself.
#[test]
fn suite() {
    assert!(cases().len() >= 4 * ALL.len());
    citius_testkit::map_ops(&Naive, NEAR);
}
