//! Mistakes that were made once.

use citius_cpu::{Driver, Executable, Flow, Inputs, Memory, Options, Outputs, Slots};
use citius_graph::{Graph, Init};

struct Feed(f32);

impl Driver for Feed {
    fn feed(&mut self, _: u64, slots: &mut Slots) {
        if let Some(x) = slots.f32("x") {
            x.fill(self.0);
        }
    }
    fn after(&mut self, _: u64, _: &Outputs) -> Flow {
        Flow::Continue
    }
}

fn adder() -> Graph {
    let g = Graph::new();
    let sum = g.state("sum", &[64], Init::Zeros);
    g.assign(&sum, &(&sum + g.input("x", &[64])));
    g
}

/// An input that was fed, then bound, then fed again read the memory it had been bound to.
#[test]
fn fed_bound_fed() {
    let mut memory = Memory::new(0);
    let plan = citius_plan::compile(&adder()).unwrap();
    let mut step = Executable::new(plan, &mut memory, Options { threads: 1, ..Options::default() }).unwrap();
    step.run(&mut memory, &Inputs::new(), 0, 1, &mut Feed(1.0)).unwrap();
    let x = vec![10.0; 64];
    step.run(&mut memory, &Inputs::new().f32("x", &x), 1, 1, &mut Feed(0.0)).unwrap();
    drop(x);
    step.run(&mut memory, &Inputs::new(), 2, 1, &mut Feed(100.0)).unwrap();
    assert_eq!(memory.get("sum").unwrap()[63], 111.0);
}

/// Two plans that disagree about a leaf shared its bytes.
#[test]
fn a_leaf_of_another_shape_is_refused() {
    let with = |n: usize| {
        let g = Graph::new();
        g.output("y", &g.parameter("w", &[n], Init::Zeros).sum_all());
        citius_plan::compile(&g).unwrap()
    };
    let mut memory = Memory::new(0);
    Executable::new(with(4), &mut memory, Options::default()).unwrap();
    let error = Executable::new(with(4096), &mut memory, Options::default()).err().unwrap();
    assert!(error.to_string().contains("\"w\" is [4]"), "{error}");
}

/// A driver that panicked left the other threads waiting for ever.
#[test]
fn a_panicking_driver_comes_back() {
    struct Panics;
    impl Driver for Panics {
        fn feed(&mut self, _: u64, _: &mut Slots) {}
        fn after(&mut self, step: u64, _: &Outputs) -> Flow {
            assert!(step < 3, "third step");
            Flow::Continue
        }
    }
    let mut memory = Memory::new(0);
    let plan = citius_plan::compile(&adder()).unwrap();
    let mut step = Executable::new(plan, &mut memory, Options { threads: 2, ..Options::default() }).unwrap();
    let run = std::panic::AssertUnwindSafe(|| step.run(&mut memory, &Inputs::new(), 0, 10, &mut Panics));
    assert!(std::panic::catch_unwind(run).is_err());
    // and the executable still works
    step.run(&mut memory, &Inputs::new(), 0, 2, &mut Feed(1.0)).unwrap();
}

#[test]
fn an_absurd_number_of_threads_is_refused() {
    let plan = citius_plan::compile(&adder()).unwrap();
    assert!(Executable::new(plan, &mut Memory::new(0), Options { threads: usize::MAX, ..Options::default() }).is_err());
}
