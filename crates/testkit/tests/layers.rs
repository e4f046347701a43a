//! What layers do beyond PyTorch's numbers: chance, memory from step to step, and input that has no good answer.

use citius_cpu::{Driver, Executable, Flow, Inputs, Memory, Outputs, Slots};
use citius_graph::{DType, Graph, Init, Leaf, LeafKind, Mode, Tensor};
use citius_nn::{
    Activation, BatchNorm, Conv2d, DropPath, Dropout2d, Embedding, Flatten, Gpt, GroupNorm, Learning, Linear, Masks,
    Mixer, Module, MultiheadAttention, Muon, Residual, RotaryPositions, Sequential, Sgd, TransformerClassifier,
    Upsample, Vit, cross_entropy, mse, nll,
};
use citius_testkit::{Cpu, Evaluate, Naive, Reference, Tolerance, Values, cases::numbers, compare};

fn values(pairs: &[(&str, &[f64])]) -> Values {
    pairs.iter().map(|(name, data)| (name.to_string(), data.to_vec())).collect()
}

fn everywhere(test: impl Fn(&dyn Evaluate)) {
    test(&Naive);
    Cpu::all().iter().for_each(|cpu| test(cpu));
}

/// The graph's outputs after one step.
fn one_step(executor: &dyn Evaluate, g: &Graph, inputs: &Values) -> Values {
    g.check().unwrap();
    executor.run(g, &Values::new(), std::slice::from_ref(inputs)).unwrap().remove(0)
}

#[test]
fn dropout2d_drops_whole_channels_and_drop_path_whole_rows() {
    let chances: [(&dyn Module, usize); 2] = [(&Dropout2d::new(0.25), 6), (&DropPath::new(0.25), 24)];
    for (layer, together) in chances {
        everywhere(|executor| {
            let g = Graph::new();
            let x = g.parameter("x", &[250, 4, 2, 3], Init::Constant(3.0));
            let y = layer.forward(&x);
            g.output("y", &y);
            g.output("dx", &g.gradients(&y.sum_all(), &[x])[0].clone().unwrap());
            let out = one_step(executor, &g, &Values::new());
            let parts: Vec<&[f64]> = out["y"].chunks(together).collect();
            assert!(parts.iter().all(|p| p.iter().all(|v| *v == p[0]) && (p[0] == 0.0 || (p[0] - 4.0).abs() < 1e-5)));
            let share = parts.iter().filter(|p| p[0] != 0.0).count() as f64 / parts.len() as f64;
            assert!((share - 0.75).abs() < 0.08, "{} {share}", layer.describe());
            assert!(out["y"].iter().zip(&out["dx"]).all(|(y, d)| (y / 3.0 - d).abs() < 1e-5));
        });
    }
}

/// Without momentum the running moments are the means over all batches, and eval mode uses them.
#[test]
fn batch_norm_remembers() {
    let norm = BatchNorm::new_1d("bn", 2).momentum(None);
    let batches: Vec<Vec<f64>> = (0..3).map(|i| numbers(&format!("batch {i}"), 8)).collect();
    let g = Graph::new();
    g.output("y", &norm.forward(&g.input("x", &[4, 2])));
    let mut training = Reference::new(&g, 0);
    for batch in &batches {
        training.step(&values(&[("x", batch)])).unwrap();
    }
    let moments = |channel: usize| {
        let of = |batch: &Vec<f64>| {
            let x: Vec<f64> = batch.iter().skip(channel).step_by(2).copied().collect();
            let mean = x.iter().sum::<f64>() / 4.0;
            (mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 3.0)
        };
        let all: Vec<(f64, f64)> = batches.iter().map(of).collect();
        (all.iter().map(|m| m.0).sum::<f64>() / 3.0, all.iter().map(|m| m.1).sum::<f64>() / 3.0)
    };
    let (mean, variance) = ([moments(0).0, moments(1).0], [moments(0).1, moments(1).1]);
    let exact = Tolerance::new(1e-12, 1e-12);
    compare(training.get("bn.running_mean").unwrap(), &mean, exact).unwrap();
    compare(training.get("bn.running_var").unwrap(), &variance, exact).unwrap();
    assert_eq!(training.get("bn.num_batches_tracked"), Some(&[3.0][..]));

    let g = Graph::with_mode(Mode::Eval);
    g.output("y", &norm.forward(&g.input("x", &[1, 2])));
    let mut eval = Reference::new(&g, 0);
    eval.set("bn.running_mean", &mean).unwrap();
    eval.set("bn.running_var", &variance).unwrap();
    let y = eval.step(&values(&[("x", &[0.5, -1.0])])).unwrap().remove("y").unwrap();
    let expected = [(0.5 - mean[0]) / (variance[0] + 1e-5).sqrt(), (-1.0 - mean[1]) / (variance[1] + 1e-5).sqrt()];
    compare(&y, &expected, exact).unwrap();
}

/// Far from zero, all alike, and with a first row as far from the mean as can be.
#[test]
fn batch_norm_bears_far_means_and_odd_first_rows() {
    const ROWS: usize = 4096;
    let noise = numbers("noise", 4 * ROWS);
    let of = |row: usize, channel: usize| match channel {
        0 => 1e3 + noise[4 * row],
        1 => 7.0,
        2 if row == 0 => 1e3,
        _ => noise[4 * row + channel],
    };
    let x: Vec<f64> = (0..4 * ROWS).map(|i| of(i / 4, i % 4) as f32 as f64).collect();
    let channel = |channel: usize| -> Vec<f64> {
        let x: Vec<f64> = x.iter().skip(channel).step_by(4).copied().collect();
        let mean = x.iter().sum::<f64>() / ROWS as f64;
        let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / ROWS as f64;
        x.iter().map(|v| (v - mean) / (variance + 1e-5).sqrt()).collect()
    };
    let g = Graph::new();
    g.output("y", &BatchNorm::new_1d("bn", 4).forward(&g.input("x", &[ROWS, 4])));
    everywhere(|executor| {
        let y = one_step(executor, &g, &values(&[("x", &x)])).remove("y").unwrap();
        // a mean of 1e3 is known to some units of 6e-5
        for (number, tolerance) in [(0, 2e-3), (1, 0.0), (2, 1e-5), (3, 1e-5)] {
            let told: Vec<f64> = y.iter().skip(number).step_by(4).copied().collect();
            compare(&told, &channel(number), Tolerance::new(tolerance, tolerance)).unwrap();
        }
    });
}

/// Executors read row 0 for an index that is not there; the loss must tell.
#[test]
fn an_index_outside_the_table_is_not_a_number() {
    let g = Graph::new();
    let found = Embedding::new("emb", 3, 2).forward(&g.input_of("i", &[4], DType::I32));
    g.output("found", &found);
    g.output("loss", &mse(&found, &g.full(0.0, &[4, 2])));
    for cpu in Cpu::all() {
        let good = one_step(&cpu, &g, &values(&[("i", &[0.0, 2.0, 1.0, 0.0])]));
        assert!(good["found"].iter().all(|v| v.is_finite()) && good["loss"][0].is_finite());
        for outside in [3.0, -1.0, 1e6] {
            let bad = one_step(&cpu, &g, &values(&[("i", &[0.0, outside, 1.0, 0.0])]));
            let told: Vec<bool> = bad["found"].iter().map(|v| v.is_nan()).collect();
            assert_eq!(told, [false, false, true, true, false, false, false, false], "{outside}");
            assert!(bad["loss"][0].is_nan());
        }
    }
    // the reference refuses
    let outside = values(&[("i", &[0.0, 3.0, 1.0, 0.0])]);
    assert!(Naive.run(&g, &Values::new(), &[outside]).unwrap_err().contains("row 3 of a table of 3"));
}

/// As where a class is masked, or its probability is 0.
#[test]
fn a_class_at_minus_infinity_is_only_what_was_not_meant() {
    let g = Graph::new();
    let (x, y) = (g.parameter("x", &[1, 3], Init::Zeros), g.input_of("y", &[1], DType::I32));
    let losses = [cross_entropy(&x, &y, 0.0, None), cross_entropy(&x, &y, 0.0, Some(&[1.0, 2.0, 3.0])), nll(&x, &y)];
    for (i, loss) in losses.iter().enumerate() {
        g.output(&format!("loss {i}"), loss);
        g.output(&format!("dx {i}"), &g.gradients(loss, std::slice::from_ref(&x))[0].clone().unwrap());
    }
    let start = values(&[("x", &[1.0, 2.0, f64::NEG_INFINITY])]);
    everywhere(|executor| {
        let out = executor.run(&g, &start, &[values(&[("y", &[1.0])])]).unwrap().remove(0);
        for (i, expected) in [0.3132617, 0.3132617, -2.0].into_iter().enumerate() {
            compare(&out[&format!("loss {i}")], &[expected], Tolerance::new(1e-5, 1e-6)).unwrap();
            assert!(out[&format!("dx {i}")].iter().all(|d| d.is_finite()), "{out:?}");
        }
    });
}

#[test]
fn a_convolution_of_no_rows_has_a_gradient_of_zeros() {
    let g = Graph::new();
    let y = Conv2d::new("c", 2, 2, 1).bias(false).forward(&g.input("x", &[0, 2, 3, 3]));
    let weight = g.trainable().remove(0).1;
    g.output("d", &g.gradients(&y.sum_all(), &[weight])[0].clone().unwrap());
    everywhere(|executor| {
        let out = one_step(executor, &g, &values(&[("x", &[])]));
        assert_eq!(out["d"], [0.0; 4]);
    });
}

/// The weights of a linear layer behind a picture are stored with the picture's axes; they are a matrix all the same.
#[test]
fn muon_takes_the_matrix_behind_a_flattened_picture() {
    let g = Graph::new();
    let net = Sequential::new().with(Conv2d::new("c", 1, 5, 2)).with(Flatten).with(Linear::new("fc", 20, 7));
    let loss = net.forward(&g.input("x", &[3, 1, 3, 3])).square().mean_all();
    Learning::new(Muon::default(), 0.1).record(&loss).unwrap();
    let names: Vec<String> = g.leaves().into_iter().map(|leaf| leaf.name).collect();
    assert!(names.iter().any(|name| name == "fc.weight.momentum_buffer"), "{names:?}");
    everywhere(|executor| drop(one_step(executor, &g, &values(&[("x", &numbers("x", 27))]))));
}

/// Hidden by padding or by −∞: zeros go into `out_proj`, whose bias is 0 at the start, and all gradients are numbers.
/// Data that is there before the first step is looked through: layer, row and token are told.
#[test]
fn tokens_of_bound_data_are_checked_before_the_first_step() {
    let g = Graph::new();
    let all = g.input_of("tokens", &[4, 3], DType::I32);
    let batch = all.gather_rows(&g.input_of("rows", &[2], DType::I32));
    g.output("y", &Embedding::new("emb", 7, 2).forward(&batch).sum_all());
    for cpu in Cpu::all() {
        let mut memory = Memory::new(0);
        let options = citius_cpu::Options { threads: cpu.threads, isa: Some(cpu.isa), ..Default::default() };
        let mut step = Executable::new(citius_plan::compile(&g).unwrap(), &mut memory, options).unwrap();
        let mut run = |tokens: &[i32]| {
            let inputs = Inputs::new().i32("tokens", tokens).i32("rows", &[0, 3]);
            step.run(&mut memory, &inputs, 0, 1, &mut Nobody).map_err(|error| error.to_string())
        };
        assert_eq!(run(&[0, 1, 2, 3, 4, 5, 6, 6, 6, 0, 0, 0]), Ok(1));
        // row 2 is not even part of the batch
        let said = run(&[0, 1, 2, 3, 4, 5, 6, 7, 6, 0, 0, 0]).unwrap_err();
        for part in ["token 7 in row 2, place 1 of \"tokens\"", "outside 0 to 6", "in emb Embedding 7×2", "layers.rs"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(run(&[0, 1, 2, 3, 4, -5, 6, 0, 6, 0, 0, 0]).unwrap_err().contains("token -5 in row 1, place 2"));
    }
}

struct Nobody;

impl Driver for Nobody {
    fn feed(&mut self, _: u64, _: &mut Slots) {}

    fn after(&mut self, _: u64, _: &Outputs) -> Flow {
        Flow::Continue
    }
}

#[test]
fn a_query_with_nothing_to_attend_to_gets_zeros() {
    let hidden = f64::NEG_INFINITY;
    let added: Vec<f64> = [[0.0, hidden, 0.0], [hidden, hidden, hidden]].concat();
    let masks: [fn(&Graph) -> Masks; 2] = [
        |g| Masks { padding: Some(g.input("padding", &[2, 3])), ..Masks::default() },
        |g| Masks { added: Some(g.input("added", &[2, 3])), ..Masks::default() },
    ];
    for (which, masks) in masks.iter().enumerate() {
        everywhere(|executor| {
            let g = Graph::new();
            let x = g.parameter("x", &[2, 3, 4], Init::Normal { mean: 0.0, std: 1.0 });
            let layer = MultiheadAttention::new("attn", 4, 2);
            let y = layer.attend(&x.slice(1, 0, 2), &x, &x, &masks(&g));
            g.output("y", &y);
            let of: Vec<Tensor> = g.trainable().into_iter().map(|(_, t)| t).collect();
            let gradients: Vec<Tensor> =
                g.gradients(&y.square().sum_all(), &of).into_iter().flatten().map(|d| d.flatten(0)).collect();
            g.output("gradients", &Tensor::concat(&gradients, 0));
            let given = [("padding", &[0.0, 0.0, 1.0, 1.0, 1.0, 1.0][..]), ("added", &added[..])];
            let out = one_step(executor, &g, &values(&given[which..which + 1]));
            assert!(out["gradients"].iter().all(|d| d.is_finite()));
            // padding hides the second row of the batch, −∞ the second query of each
            let empty: Vec<bool> = out["y"].chunks(4).map(|row| row.iter().all(|v| *v == 0.0)).collect();
            let expected = if which == 0 { [false, false, true, true] } else { [false, true, false, true] };
            assert_eq!(empty, expected, "{}", executor.name());
        });
    }
}

/// Thirds of the projection are stored apart; by PyTorch's name there is one matrix.
#[test]
fn parts_of_a_projection_are_read_and_set_as_one() {
    let g = Graph::new();
    g.output("y", &MultiheadAttention::new("attn", 4, 2).forward(&g.input("x", &[2, 3, 4])));
    let mut memory = Memory::new(0);
    memory.admit(&citius_plan::compile(&g).unwrap()).unwrap();
    let given: Vec<f32> = numbers("w", 48).into_iter().map(|v| v as f32).collect();
    assert!(memory.set_user_view("attn.in_proj_weight", &given));
    assert_eq!(memory.user_view("attn.in_proj_weight"), Some((vec![12, 4], given.clone())));
    // row 5 of the whole is row 1 of the keys, stored as column 1
    let keys = memory.get("attn.in_proj_weight[4..8]").unwrap();
    assert_eq!([keys[1], keys[5], keys[9], keys[13]], given[20..24]);
}

#[test]
fn causal_attention_does_not_see_what_comes() {
    let g = Graph::with_mode(Mode::Eval);
    let x = g.input("x", &[1, 4, 6]);
    g.output("y", &MultiheadAttention::new("attn", 6, 3).attend(&x, &x, &x, &Masks::causal()));
    let now = numbers("x", 24);
    let mut later = now.clone();
    later[18..].iter_mut().for_each(|v| *v += 1.0);
    everywhere(|executor| {
        let (a, b) =
            (one_step(executor, &g, &values(&[("x", &now)])), one_step(executor, &g, &values(&[("x", &later)])));
        assert!(a["y"][..18] == b["y"][..18] && a["y"][18..] != b["y"][18..], "{}", executor.name());
    });
}

/// Turned queries and keys know how far apart they are, not where.
#[test]
fn rotary_products_depend_on_distances() {
    let g = Graph::new();
    let same = |name: &str| g.input(name, &[1, 4]).broadcast_to(&[5, 4]);
    let rotary = RotaryPositions::new(4);
    let products = rotary.forward(&same("q")).matmul(&rotary.forward(&same("k")).t());
    g.output("products", &products);
    let out = one_step(&Naive, &g, &values(&[("q", &numbers("q", 4)), ("k", &numbers("k", 4))]));
    let at = |i: usize, j: usize| out["products"][i * 5 + j];
    for (i, j) in (0..4).flat_map(|i| (0..4).map(move |j| (i, j))) {
        assert!((at(i, j) - at(i + 1, j + 1)).abs() < 1e-12);
    }
    assert!((at(0, 0) - at(0, 1)).abs() > 1e-3);
}

/// Sizes that leave remainders everywhere, with chance: three steps of the CPU beside the reference.
#[test]
fn models_of_middle_size() {
    let classes = |g: &Graph, logits: &Tensor| {
        let count = logits.dims().last().copied().unwrap_or(1);
        let rows = logits.elements() / count;
        cross_entropy(&logits.reshape(&[rows, count]), &g.input_of("y", &[rows], DType::I32), 0.0, None)
    };
    let tokens = |g: &Graph, rows: usize, count: usize| g.input_of("x", &[rows, count], DType::I32);
    follow("transformer", |g| {
        let (vocabulary, feedforward, dropout) = (5, 80, 0.1);
        let model =
            TransformerClassifier { vocabulary, width: 48, heads: 3, layers: 1, classes: 5, feedforward, dropout };
        classes(g, &model.forward(&tokens(g, 3, 21)))
    });
    follow("gpt", |g| {
        let model = Gpt { vocabulary: 6, context: 40, width: 32, heads: 2, layers: 1, dropout: 0.1, tied: true };
        classes(g, &model.forward(&tokens(g, 2, 35)))
    });
    follow("vit", |g| {
        let model = Vit { channels: 3, patch: 4, width: 18, heads: 1, layers: 1, classes: 5, dropout: 0.1 };
        classes(g, &model.forward(&g.input("pictures", &[3, 3, 12, 20])))
    });
    follow("mixer", |g| {
        let (mix_patches, mix_channels) = (19, 35);
        let model = Mixer { channels: 1, patch: 3, width: 34, mix_patches, mix_channels, blocks: 2, classes: 5 };
        classes(g, &model.forward(&g.input("pictures", &[3, 1, 12, 15])))
    });
    follow("pictures", |g| {
        let block = Sequential::new()
            .with(BatchNorm::new_2d("bn", 33))
            .with(Activation::Relu)
            .with(Dropout2d::new(0.2))
            .with(GroupNorm::new("group", 3, 33))
            .with(DropPath::new(0.2));
        let y = Residual::new(block).forward(&g.input("pictures", &[3, 33, 5, 7]));
        let y = Flatten.forward(&Upsample::bilinear(2, false).forward(&y));
        classes(g, &Linear::new("head", 33 * 10 * 14, 5).forward(&y))
    });
}

fn follow(name: &str, loss: impl Fn(&Graph) -> Tensor) {
    let g = Graph::new();
    Learning::new(Sgd { momentum: 0.9, ..Sgd::default() }, 0.05).record(&loss(&g)).unwrap_or_else(|e| panic!("{e}"));
    let input = |step: usize, leaf: &Leaf| {
        let t = g.tensor(leaf.node);
        let values = numbers(&format!("{} {step}", leaf.name), t.elements());
        // classes and tokens 0 to 4
        let whole = |v: &f64| ((v + 2.0) * 1.249).floor();
        let values = if t.dtype() == DType::I32 { values.iter().map(whole).collect() } else { values };
        (leaf.name.clone(), values)
    };
    let fed: Vec<Leaf> = g.leaves().into_iter().filter(|l| l.kind == LeafKind::Input).collect();
    let inputs: Vec<Values> = (0..3).map(|step| fed.iter().map(|leaf| input(step, leaf)).collect()).collect();
    let expected = Naive.run(&g, &Values::new(), &inputs).unwrap();
    for cpu in Cpu::all() {
        let found = cpu.run(&g, &Values::new(), &inputs).unwrap_or_else(|e| panic!("{name} on {}: {e}", cpu.name()));
        for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
            for (output, values) in expected {
                compare(&found[output], values, Tolerance::new(2e-4, 1e-6))
                    .unwrap_or_else(|e| panic!("{name} on {}, step {step}, {output}: {e}", cpu.name()));
            }
        }
    }
}
