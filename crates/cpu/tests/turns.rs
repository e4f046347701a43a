//! Copies that turn matrices, of few columns and of many.

use citius_cpu::{Driver, Executable, Flow, Inputs, Isa, Memory, Options, Outputs};
use citius_graph::Graph;

#[derive(Default)]
struct Keep(Vec<f32>);

impl Driver for Keep {
    fn after(&mut self, _: u64, outputs: &Outputs) -> Flow {
        self.0 = outputs.f32(0).to_vec();
        Flow::Continue
    }
}

#[test]
fn a_matrix_is_turned() {
    for (lines, width) in [1, 2, 3, 4, 5, 17].into_iter().flat_map(|n| [1, 15, 16, 17, 40, 64].map(|w| (n, w))) {
        let g = Graph::new();
        g.output("y", &g.input("x", &[2, lines, width]).transpose(&[0, 2, 1]));
        let plan = citius_plan::compile(&g).unwrap();
        let x: Vec<f32> = (0..2 * lines * width).map(|i| i as f32).collect();
        let at = |i: usize| x[i / (lines * width) * lines * width + i % lines * width + i % (lines * width) / lines];
        let expected: Vec<f32> = (0..x.len()).map(at).collect();
        for isa in Isa::available() {
            let mut memory = Memory::new(0);
            let options = Options { threads: 2, isa: Some(isa), ..Options::default() };
            let mut step = Executable::new(plan.clone(), &mut memory, options).unwrap();
            let mut keep = Keep::default();
            step.run(&mut memory, &Inputs::new().f32("x", &x), 0, 1, &mut keep).unwrap();
            assert_eq!(keep.0, expected, "{lines}×{width}, {isa}");
        }
    }
}
