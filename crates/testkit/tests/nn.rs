//! Layers and learning, run by the reference.

use citius_graph::{DType, Graph, Init, Mode, Names, Tensor};
use citius_nn::schedules::{Cosine, Plateau};
use citius_nn::{
    Activation, Adam, AdamW, Clip, Dropout, Lamb, Learning, Linear, Lion, Module, Muon, RmsProp, Sgd, awake_units,
    cross_entropy, mlp, mse, quantile,
};
use citius_testkit::cases::{Start, numbers};
use citius_testkit::{Case, Evaluate, Naive, Reference, Tolerance, Values, compare, finite};

const EXACT: Tolerance = Tolerance { relative: 1e-10, absolute: 1e-12 };

fn values(pairs: &[(&str, &[f64])]) -> Values {
    pairs.iter().map(|(name, data)| (name.to_string(), data.to_vec())).collect()
}

#[test]
fn dropout_keeps_the_mean_and_changes_by_step() {
    let g = Graph::new();
    let x = g.parameter("x", &[10_000], Init::Constant(2.0));
    let y = Dropout::new(0.25).forward(&x);
    g.output("y", &y);
    g.output("dx", &g.gradients(&y.sum_all(), &[x])[0].clone().unwrap());
    let mut r = Reference::new(&g, 0);
    let first = r.step(&Values::new()).unwrap();
    let kept = 2.0 / 0.75;
    assert!(first["y"].iter().all(|&y| y == 0.0 || (y - kept).abs() < 1e-12));
    let share = first["y"].iter().filter(|&&y| y != 0.0).count() as f64 / 10_000.0;
    assert!((share - 0.75).abs() < 0.02, "{share}");
    assert!(first["y"].iter().zip(&first["dx"]).all(|(y, d)| (y / 2.0 - d).abs() < 1e-12));
    assert_ne!(first["y"], r.step(&Values::new()).unwrap()["y"]);
}

#[test]
fn dropout_of_a_relu_has_the_gradient_of_both() {
    let both = |together: bool, p: f64| {
        let g = Graph::new();
        let x = g.parameter("x", &[200], Init::Normal { mean: 0.0, std: 1.0 });
        let dropout = Dropout::new(p);
        let y = if together { dropout.after_relu(&x) } else { dropout.forward(&x.relu()) };
        g.output("y", &y);
        g.output("dx", &g.gradients(&(&y * y.exp()).sum_all(), &[x])[0].clone().unwrap());
        Reference::new(&g, 0).step(&Values::new()).unwrap()
    };
    for p in [0.0, 0.3, 1.0] {
        let (one, other) = (both(true, p), both(false, p));
        assert_eq!((&one["y"], &one["dx"]), (&other["y"], &other["dx"]), "{p}");
    }
}

#[test]
fn dropout_of_everything_is_zero_with_gradient_zero() {
    let g = Graph::new();
    let x = g.parameter("x", &[4], Init::Constant(2.0));
    let y = Dropout::new(1.0).forward(&x);
    g.output("y", &y);
    g.output("dx", &g.gradients(&y.sum_all(), &[x])[0].clone().unwrap());
    let out = Reference::new(&g, 0).step(&Values::new()).unwrap();
    assert_eq!((&out["y"][..], &out["dx"][..]), (&[0.0; 4][..], &[0.0; 4][..]));
}

#[test]
fn a_unit_that_was_awake_once_stays_so() {
    let g = Graph::new();
    awake_units("0.bias", &g.input("h", &[3]));
    let mut r = Reference::new(&g, 0);
    r.step(&values(&[("h", &[0.0, -0.5, 0.0])])).unwrap();
    r.step(&values(&[("h", &[0.0, 0.1, 2.0])])).unwrap();
    assert_eq!(r.get("probe.awake.0.bias"), Some(&[0.0, 0.5, 2.0][..]));
}

#[test]
fn linear_is_x_wt_plus_b() {
    let g = Graph::with_mode(Mode::Eval);
    g.output("y", &Linear::new("fc", 2, 3).forward(&g.input("x", &[1, 1, 2])));
    let mut r = Reference::new(&g, 0);
    // W [3,2] = [[1,2],[3,4],[5,6]] is stored as [2,3]
    r.set("fc.weight", &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0]).unwrap();
    r.set("fc.bias", &[0.5, 0.0, -0.5]).unwrap();
    assert_eq!(r.step(&values(&[("x", &[10.0, 1.0])])).unwrap()["y"], [12.5, 34.0, 55.5]);
}

#[test]
fn the_pinball_loss_has_the_slope_of_differences() {
    for (width, levels) in [(1, &[0.1, 0.5, 0.9][..]), (3, &[0.05, 0.95]), (1, &[0.7])] {
        let dims = [vec![33, levels.len() * width], vec![33, width]];
        let starts = vec![Start::arbitrary("prediction", &dims[0]), Start::arbitrary("target", &dims[1])];
        let case = Case::new("quantile", starts, |_, x| quantile(&x[0], &x[1], levels));
        let (checked, beside_a_kink) = finite::check(&case, Tolerance::new(1e-6, 1e-6));
        assert!(checked > 60 && beside_a_kink == 0, "{checked} {beside_a_kink}");
    }
}

/// A regression step of `rows` rows of 3 features.
fn regression(g: &Graph, rows: usize) -> Tensor {
    let x = g.input("x", &[rows, 3]);
    mse(&mlp(&[3, 4, 1], Activation::Tanh, 0.0).forward(&x), &g.input("y", &[rows, 1]))
}

/// Two half batches accumulated are one whole batch, whatever the optimiser, the clipping and the schedule.
#[test]
fn accumulation_equals_the_whole_batch() {
    let (x, y) = (numbers("x", 4 * 8 * 3), numbers("y", 4 * 8));
    let batches = |rows: usize| -> Vec<Values> {
        x.chunks(rows * 3).zip(y.chunks(rows)).map(|(x, y)| values(&[("x", x), ("y", y)])).collect()
    };
    let optimizers: [fn() -> Learning; 7] = [
        || Learning::new(Lamb::default(), 0.01),
        || Learning::new(Lion::default(), 0.01),
        || Learning::new(Muon::default(), 0.01),
        || Learning::new(Sgd { momentum: 0.9, dampening: 0.5, ..Sgd::default() }, 0.1),
        || Learning::new(RmsProp { momentum: 0.5, centered: true, ..RmsProp::default() }, 0.01),
        || Learning::new(Adam::default(), 0.01).clip(Some(Clip::Norm { max_norm: 0.5 })),
        || Learning::new(AdamW::default(), 0.01).schedule(Cosine { t_max: Some(5), eta_min: 0.0 }),
    ];
    for (i, learning) in optimizers.iter().enumerate() {
        let run = |rows: usize, k: usize| {
            let g = Graph::new();
            learning().accumulate(k).record(&regression(&g, rows)).unwrap();
            let mut r = Reference::new(&g, 3);
            let outputs: Vec<Values> = batches(rows).iter().map(|b| r.step(b).unwrap()).collect();
            let rates: Vec<f64> = outputs.iter().skip(k - 1).step_by(k).map(|o| o["lr"][0]).collect();
            (["0.weight", "0.bias", "2.weight", "2.bias"].map(|n| r.get(n).unwrap().to_vec()).concat(), rates)
        };
        let (whole, rates) = run(8, 1);
        let (halves, half_rates) = run(4, 2);
        compare(&halves, &whole, EXACT).unwrap_or_else(|e| panic!("optimiser {i}: {e}"));
        assert_eq!(rates, half_rates);
    }
}

#[test]
fn between_updates_nothing_moves() {
    let g = Graph::new();
    Learning::new(Adam::default(), 0.1).accumulate(3).record(&regression(&g, 2)).unwrap();
    let mut r = Reference::new(&g, 0);
    let batch = values(&[("x", &numbers("x", 6)), ("y", &numbers("y", 2))]);
    let mut moments = Vec::new();
    for _ in 0..6 {
        r.step(&batch).unwrap();
        moments.push((r.get("0.weight").unwrap().to_vec(), r.get("0.weight.exp_avg").unwrap().to_vec()));
    }
    assert!(moments[0] == moments[1] && moments[1] != moments[2]);
    assert!(moments[2] == moments[3] && moments[3] == moments[4] && moments[4] != moments[5]);
    assert!(r.get("0.weight.accumulated").unwrap().iter().all(|&x| x == 0.0));
}

#[test]
fn probes_tell_norms() {
    let g = Graph::new();
    Learning::new(Sgd::default(), 0.5).record(&regression(&g, 4)).unwrap();
    let batch = values(&[("x", &numbers("x", 12)), ("y", &numbers("y", 4))]);
    let out = Naive.run(&g, &Values::new(), &[batch]).unwrap().remove(0);
    let total: f64 = out.iter().filter(|(n, _)| n.starts_with("probe.grad.")).map(|(_, v)| v[0]).sum();
    assert!((total.sqrt() - out["grad_norm"][0]).abs() < 1e-12);
    // plain SGD moves by rate·g
    let (update, grad) = (out["probe.update.0.weight"][0], out["probe.grad.0.weight"][0]);
    assert!((update - 0.25 * grad).abs() < 1e-12 && grad > 0.0);
}

#[test]
fn frozen_parameters_do_not_move() {
    let g = Graph::new();
    g.freeze(Names(vec!["0.*".into()]));
    Learning::new(AdamW::default(), 0.1).record(&regression(&g, 2)).unwrap();
    let mut r = Reference::new(&g, 0);
    let before = [r.get("0.weight").unwrap().to_vec(), r.get("2.weight").unwrap().to_vec()];
    r.step(&values(&[("x", &numbers("x", 6)), ("y", &numbers("y", 2))])).unwrap();
    assert_eq!(r.get("0.weight").unwrap(), before[0]);
    assert_ne!(r.get("2.weight").unwrap(), before[1]);
}

/// Plain SGD moves by rate·g: a factor of the rate is one of the way, whole or in strips.
#[test]
fn rates_by_name() {
    let moved = |rates: &[(&str, f64)]| {
        let g = Graph::new();
        let x = g.input("x", &[2, 90]);
        let loss = mse(&mlp(&[90, 50, 1], Activation::Tanh, 0.0).forward(&x), &g.input("y", &[2, 1]));
        Learning::new(Sgd::default(), 0.1).rates(rates).record(&loss).unwrap();
        let mut r = Reference::new(&g, 0);
        let names: Vec<String> = g.trainable().into_iter().map(|(leaf, _)| leaf.name).collect();
        let before: Vec<Vec<f64>> = names.iter().map(|n| r.get(n).unwrap().to_vec()).collect();
        r.step(&values(&[("x", &numbers("x", 180)), ("y", &numbers("y", 2))])).unwrap();
        let way = |(n, b): (&String, &Vec<f64>)| r.get(n).unwrap().iter().zip(b).map(|(a, b)| a - b).sum::<f64>();
        let ways: Vec<f64> = names.iter().zip(&before).map(way).collect();
        names.into_iter().zip(ways).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (plain, changed) = (moved(&[]), moved(&[("2.bias", 3.0), ("2.*", 0.0), ("0.weight", 0.5)]));
    for (name, way) in &plain {
        let factor = match name.as_str() {
            "2.bias" => 3.0,
            name if name.starts_with("2.") => 0.0,
            name if name.starts_with("0.weight") => 0.5,
            _ => 1.0,
        };
        assert!((changed[name] - factor * way).abs() < 1e-12 && *way != 0.0, "{name}: {way} {}", changed[name]);
    }
}

#[test]
fn the_plateau_scale_reaches_the_rate() {
    let g = Graph::new();
    Learning::new(Sgd::default(), 0.1).schedule(Plateau::default()).record(&regression(&g, 2)).unwrap();
    let mut r = Reference::new(&g, 0);
    let batch = values(&[("x", &numbers("x", 6)), ("y", &numbers("y", 2))]);
    assert_eq!(r.step(&batch).unwrap()["lr"], [0.1]);
    r.set(Plateau::SCALE, &[0.5]).unwrap();
    assert_eq!(r.step(&batch).unwrap()["lr"], [0.05]);
}

/// d loss/d logits = (softmax − one-hot)/n.
#[test]
fn cross_entropys_gradient() {
    let g = Graph::new();
    let x = g.input("x", &[2, 3]);
    let loss = cross_entropy(&x, &g.input_of("y", &[2], DType::I32), 0.0, None);
    g.output("dx", &g.gradients(&loss, std::slice::from_ref(&x))[0].clone().unwrap());
    g.output("p", &x.softmax(1));
    let out =
        Naive.run(&g, &Values::new(), &[values(&[("x", &numbers("x", 6)), ("y", &[2.0, 0.0])])]).unwrap().remove(0);
    let expected: Vec<f64> =
        out["p"].iter().zip([0.0, 0.0, 1.0, 1.0, 0.0, 0.0]).map(|(p, hit)| (p - hit) / 2.0).collect();
    compare(&out["dx"], &expected, EXACT).unwrap();
}

#[test]
fn every_activation_learns() {
    let (x, y) = (numbers("x", 24), numbers("y", 8));
    let batch = values(&[("x", &x), ("y", &y)]);
    for activation in Activation::ALL {
        let g = Graph::new();
        let prediction = mlp(&[3, 16, 1], activation, 0.0).forward(&g.input("x", &[8, 3]));
        Learning::new(Adam::default(), 0.02).record(&mse(&prediction, &g.input("y", &[8, 1]))).unwrap();
        let mut r = Reference::new(&g, 0);
        let losses: Vec<f64> = (0..60).map(|_| r.step(&batch).unwrap()["loss"][0]).collect();
        assert!(losses[59] < losses[0], "{activation}: {} to {}", losses[0], losses[59]);
    }
}

/// A wide hidden layer is stored and computed in strips; the function and its parameters stay those of the plain
/// layers.
#[test]
fn a_split_layer_is_the_plain_layers() {
    let (inputs, width, outputs) = (90, 50, 3);
    let loss = |split: bool| {
        let g = Graph::new();
        let x = g.input("x", &[4, inputs]);
        let y = match split {
            true => mlp(&[inputs, width, outputs], Activation::Relu, 0.0).forward(&x),
            false => {
                let h = Linear::new("0", inputs, width).forward(&x).relu();
                Linear::new("2", width, outputs).forward(&h)
            }
        };
        Learning::new(Adam::default(), 1e-2).record(&mse(&y, &g.input("y", &[4, outputs]))).unwrap();
        let input = values(&[("x", &numbers("x", 4 * inputs)), ("y", &numbers("y", 4 * outputs))]);
        let mut r = Reference::new(&g, 7);
        let losses: Vec<f64> = (0..5).map(|_| r.step(&input).unwrap()["loss"][0]).collect();
        (losses, g.leaves().len())
    };
    let ((whole, few), (strips, many)) = (loss(false), loss(true));
    assert!(many > few, "nothing was split");
    for (a, b) in whole.iter().zip(&strips) {
        assert!((a - b).abs() < 1e-9 * a.abs(), "{whole:?} {strips:?}");
    }
}
