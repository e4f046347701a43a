//! Products in bfloat16: what they compute, told exactly. Runs where the processor has the instructions.

use citius_cpu::{Driver, Executable, Flow, Inputs, Memory, Options, Outputs, has_halves};
use citius_graph::{Graph, Init, random};
use citius_plan::Plan;

/// As the processor rounds: to nearest, ties to even.
fn bfloat16(x: f32) -> f64 {
    let bits = x.to_bits();
    let rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF_0000;
    f32::from_bits(rounded) as f64
}

struct Keep(Vec<f32>);

impl Driver for Keep {
    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.0 = outputs.f32(0).to_vec();
        Flow::Continue
    }
}

fn product(turned: bool, [m, k, n]: [usize; 3]) -> Plan {
    let g = Graph::new();
    let a = if turned { g.input("a", &[k, m]).t() } else { g.input("a", &[m, k]) };
    let b = g.parameter("b", &[k, n], Init::Zeros);
    g.output("y", &(a.matmul(&b) + 1.0).relu());
    citius_plan::compile(&g).unwrap()
}

#[test]
fn factors_are_rounded_and_sums_are_not() {
    if !has_halves() {
        return;
    }
    for turned in [false, true] {
        for [m, k, n] in [[1, 2, 2], [33, 64, 40], [64, 63, 17], [40, 513, 96]] {
            let a: Vec<f32> = (0..m * k).map(|i| random::normal(1, i as u64)).collect();
            let b: Vec<f32> = (0..k * n).map(|i| random::normal(2, i as u64)).collect();
            let mut results = Vec::new();
            for threads in [1, 3] {
                let mut memory = Memory::new(0);
                let options = Options { threads, halves_from: Some(1), ..Options::default() };
                let mut step = Executable::new(product(turned, [m, k, n]), &mut memory, options).unwrap();
                assert!(step.plan().calls.iter().any(|c| c.label.contains("bfloat16")), "{}", step.plan());
                assert!(memory.set("b", &b));
                let mut keep = Keep(Vec::new());
                step.run(&mut memory, &Inputs::new().f32("a", &a), 0, 1, &mut keep).unwrap();
                results.push(keep.0);
            }
            assert_eq!(results[0], results[1], "the same bits for any number of threads");
            for i in 0..m {
                for j in 0..n {
                    let at = |k_: usize| if turned { a[k_ * m + i] } else { a[i * k + k_] };
                    let terms = (0..k).map(|t| bfloat16(at(t)) * bfloat16(b[t * n + j]));
                    let (exact, size) = terms.fold((1.0, 1.0), |(sum, size), x| (sum + x, size + x.abs()));
                    let found = results[0][i * n + j] as f64;
                    let expected = f64::max(exact, 0.0);
                    assert!(
                        (found - expected).abs() < 1e-6 * size,
                        "{turned} {m}·{k}·{n} [{i},{j}]: {found}, {expected}"
                    );
                }
            }
        }
    }
}
