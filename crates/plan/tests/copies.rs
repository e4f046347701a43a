use citius_graph::{Graph, Init};

/// The right side of a product that is stored the other way is copied; one that is the same for every outer index, once.
#[test]
fn a_repeated_right_side_is_copied_once() {
    let g = Graph::new();
    let weight = g.parameter("weight", &[5, 4], Init::Zeros);
    let x = g.input("x", &[3, 2, 4]);
    let turned = weight.t().broadcast_to(&[3, 4, 5]);
    g.output("y", &x.matmul(&turned));
    let other = weight.broadcast_to(&[3, 5, 4]).transpose(&[0, 2, 1]);
    g.output("z", &(x.matmul(&other) * 2.0));
    let plan = citius_plan::compile(&g).unwrap_or_else(|e| panic!("{e}\n{g}"));
    let largest = plan.buffers.iter().map(|b| b.shape.elements()).max();
    assert_eq!(largest, Some(30), "a result has 30 elements, three copies would have 60\n{plan}");
}

#[test]
fn a_sum_of_large_values_is_read_by_all_but_one_as_a_value() {
    let readers = |rows: usize| {
        let g = Graph::new();
        let [a, b, c] = ["a", "b", "c"].map(|name| g.input(name, &[rows, 512]));
        let shared = (&a + &b) * &c;
        g.output("across", &shared.sum(&[1], false));
        g.output("down", &shared.sum(&[0], false));
        let plan = citius_plan::compile(&g).unwrap();
        let is_a =
            |id: &usize| matches!(&plan.buffers[*id].storage, citius_plan::Storage::Leaf { name, .. } if name == "a");
        plan.calls.iter().filter(|call| call.work.touches().0.iter().any(is_a)).count()
    };
    assert_eq!(readers(4096), 1);
    assert_eq!(readers(8), 2, "in a cache, reading again is cheaper than storing");
}
