use citius_graph::{Convolution, Graph, Init};

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

/// The gradient of its kernel reads what the gradient of its input reads, inside the zeros around it.
#[test]
fn a_convolutions_gradient_is_stored_once() {
    let g = Graph::new();
    let x = g.input("x", &[2, 6, 7, 3]);
    let kernels = [g.parameter("first", &[3, 3, 3, 4], Init::Zeros), g.parameter("second", &[3, 3, 4, 5], Init::Zeros)];
    let by = Convolution { padding: [(1, 1); 2], ..Convolution::default() };
    let y = x.convolve(&kernels[0], by).relu().convolve(&kernels[1], by);
    for (name, gradient) in ["first", "second"].iter().zip(g.gradients(&(&y * &y).sum_all(), &kernels)) {
        g.output(name, &gradient.unwrap());
    }
    let plan = citius_plan::compile(&g).unwrap_or_else(|e| panic!("{e}\n{g}"));
    let of = |dims: &[usize]| plan.buffers.iter().filter(|b| b.shape.dims() == dims).count();
    assert_eq!(of(&[2, 8, 9, 5]), 1, "padded\n{plan}");
    assert_eq!(of(&[2, 6, 7, 5]), 0, "not plain as well\n{plan}");
}

/// Two strided convolutions of the same pictures: what one does not see needs no zeros.
#[test]
fn gradients_of_strided_convolutions_meet_in_one_phase() {
    let g = Graph::new();
    let x = g.parameter("x", &[2, 6, 8, 3], Init::Zeros);
    let by = Convolution { stride: [2, 2], padding: [(1, 1); 2], ..Convolution::default() };
    let (wide, narrow) = (g.input("wide", &[3, 3, 3, 4]), g.input("narrow", &[1, 1, 3, 4]));
    let y = x.convolve(&wide, by) + x.convolve(&narrow, Convolution { padding: [(0, 0); 2], ..by });
    let gradient = g.gradients(&(&y * &y).sum_all(), &[x]).remove(0).unwrap();
    g.output("gradient", &gradient);
    let plan = citius_plan::compile(&g).unwrap_or_else(|e| panic!("{e}\n{g}"));
    let whole = plan.buffers.iter().filter(|b| b.shape.dims() == [2, 6, 8, 3]).count();
    assert_eq!(whole, 2, "x and its gradient, not two gradients and their sum\n{plan}");
}

/// The gradient of a relu in front of a flattened linear layer is the epilogue of that layer's product, whatever axes it is read under.
#[test]
fn an_expression_goes_to_a_product_through_other_axes() {
    let g = Graph::new();
    let [inner, outer] =
        [("inner", [7, 3]), ("outer", [24, 5])].map(|(name, dims)| g.parameter(name, &dims, Init::Zeros));
    let bias = g.parameter("bias", &[3], Init::Zeros);
    let x = g.input("x", &[2, 8, 7]).matmul(&inner) + &bias;
    let y = x.relu().reshape(&[2, 24]).matmul(&outer);
    for (name, gradient) in ["inner", "bias"].iter().zip(g.gradients(&(&y * &y).sum_all(), &[inner, bias])) {
        g.output(name, &gradient.unwrap());
    }
    let plan = citius_plan::compile(&g).unwrap_or_else(|e| panic!("{e}\n{g}"));
    assert!(plan.calls.iter().any(|call| call.label.contains("matmul → choose")), "{plan}");
}

/// Where it would wait for something else, it stays what it was: a loop under its own axes, beside its neighbours.
#[test]
fn an_expression_of_late_values_keeps_its_axes() {
    let g = Graph::new();
    let (x, w) = (g.input("x", &[64, 40]), g.parameter("w", &[40, 1024], Init::Zeros));
    let late = g.input("late", &[64, 32, 32]);
    let late = (&late + late.sum(&[2], true).exp().sum(&[1], true)).exp();
    let y = x.matmul(&w).reshape(&[64, 32, 32]) * &late;
    g.output("product", &y.matmul(&g.input("v", &[64, 32, 8])));
    g.output("sum", &(&y + &late));
    let plan = citius_plan::compile(&g).unwrap_or_else(|e| panic!("{e}\n{g}"));
    assert!(plan.calls.iter().all(|call| !call.label.contains("matmul → mul")), "{plan}");
    let largest = plan.calls.iter().filter(|call| call.label.contains("mul, add")).count();
    assert_eq!(largest, 1, "one pass over both\n{plan}");
}
