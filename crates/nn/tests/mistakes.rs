//! What people get wrong with these layers, found while tracing: the layer, the caller's line and the numbers.

use citius_graph::{DType, Graph, Tensor};
use citius_nn::{
    BatchNorm, Conv1d, Conv2d, ConvTranspose2d, Embedding, Flatten, Linear, Masks, Module, MultiheadAttention, Pool,
    Sequential, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer, cross_entropy, gru, lstm,
};

fn message(build: impl Fn(&Graph)) -> String {
    let g = Graph::new();
    build(&g);
    g.check().expect_err("nothing was found").to_string()
}

/// The CNN of an article on poor performance: after a 3×3 kernel 32×32 pixels are 30×30, not 26×26.
#[test]
fn the_width_of_a_flattened_picture() {
    let net =
        Sequential::new().with(Conv2d::new("conv1", 3, 16, 3)).with(Flatten).with(Linear::new("fc", 16 * 26 * 26, 10));
    let said = message(|g| drop(net.forward(&g.input("x", &[32, 3, 32, 32]))));
    for part in ["[32,14400]", "16·30·30 = 14400", "must be 10816", "mistakes.rs", "in fc Linear"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Its transformer: tokens `[batch,tokens]`, layers in PyTorch's default order, the mean over what was meant to be the tokens.
fn article_transformer(g: &Graph, tokens: &Tensor, batch_first: bool, rows: usize) {
    let h = Embedding::new("embedding", 100, 16).forward(tokens);
    let h = (0..2).fold(h, |h, i| {
        let layer = TransformerEncoderLayer::new(format!("layers.{i}"), 16, 4).feedforward(32).dropout(0.0);
        layer.batch_first(batch_first).forward(&h)
    });
    let logits = Linear::new("fc", 16, 10).forward(&h.mean(&[1], false));
    cross_entropy(&logits, &g.input_of("y", &[rows], DType::I32), 0.0, None);
}

#[test]
fn attention_over_the_batch_is_warned_of() {
    let g = Graph::new();
    article_transformer(&g, &g.input_of("x", &[32, 50], DType::I32), false, 32);
    g.check().unwrap();
    let warnings = g.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let said = warnings[0].to_string();
    for part in
        ["layers.1", "mistakes.rs", "attends along axis 1 of [50,32,16]", "every row sees the others", "batch_first"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    // gathered batches are seen through
    let g = Graph::new();
    let table = g.input_of("x", &[640, 50], DType::I32);
    article_transformer(&g, &table.gather_rows(&g.input_of("rows", &[32], DType::I32)), false, 32);
    assert_eq!(g.warnings().len(), 1);
}

#[test]
fn the_right_order_is_not_warned_of() {
    let g = Graph::new();
    article_transformer(&g, &g.input_of("x", &[32, 50], DType::I32), true, 32);
    assert!(g.check().is_ok() && g.warnings().is_empty(), "{:?}", g.warnings());

    // tokens first throughout, with a norm at the end
    let g = Graph::new();
    let layer = TransformerEncoderLayer::new("", 16, 4).batch_first(false);
    let h = TransformerEncoder::new("", layer, 2).norm(true).forward(&g.input("x", &[50, 32, 16]));
    assert_eq!(h.dims(), [50, 32, 16]);
    let logits = Linear::new("fc", 16, 10).forward(&h.mean(&[0], false));
    cross_entropy(&logits, &g.input_of("y", &[32], DType::I32), 0.0, None);
    assert!(g.check().is_ok() && g.warnings().is_empty(), "{:?}", g.warnings());

    // a class for each token, even of a single row
    for batch in [1, 4] {
        let g = Graph::new();
        let h = TransformerEncoderLayer::new("", 16, 4).forward(&g.input("x", &[batch, 50, 16]));
        let logits = Linear::new("fc", 16, 10).forward(&h).reshape(&[batch * 50, 10]);
        cross_entropy(&logits, &g.input_of("y", &[batch * 50], DType::I32), 0.0, None);
        assert!(g.check().is_ok() && g.warnings().is_empty(), "{batch}: {:?}", g.warnings());
    }
}

#[test]
fn attention_alone_and_a_norm_at_the_end_are_seen_through() {
    let g = Graph::new();
    // [tokens,batch,width] given where the batch is to be first
    let h = MultiheadAttention::new("attn", 8, 2).forward(&g.input("x", &[20, 6, 8]));
    let logits = Linear::new("fc", 8, 3).forward(&h.mean(&[0], false));
    cross_entropy(&logits, &g.input_of("y", &[6], DType::I32), 0.0, None);
    assert!(g.check().is_ok() && g.warnings()[0].to_string().contains("attn"), "{:?}", g.warnings());

    let g = Graph::new();
    let layer = TransformerEncoderLayer::new("", 8, 2).batch_first(false);
    let h = TransformerEncoder::new("enc", layer, 1).norm(true).forward(&g.input("x", &[6, 20, 8]));
    let logits = Linear::new("fc", 8, 3).forward(&h.mean(&[1], false));
    cross_entropy(&logits, &g.input_of("y", &[6], DType::I32), 0.0, None);
    assert_eq!(g.warnings().len(), 1, "{:?}", g.warnings());
}

#[test]
fn kernels_larger_than_their_input() {
    let refused = |layer: &dyn Module, dims: &[usize]| message(|g| drop(layer.forward(&g.input("x", dims))));
    let cases: [(&dyn Module, &[usize], &str); 5] = [
        (&Conv2d::new("conv", 3, 4, 5), &[2, 3, 4, 9], "conv Conv2d 3→4 5×5"),
        (&Conv2d::new("conv", 3, 4, 3).dilation(3), &[2, 3, 6, 9], "conv Conv2d 3→4 3×3"),
        (&Conv1d::new("conv", 3, 4, 8), &[2, 3, 7], "conv Conv1d 3→4 of 8"),
        (&Pool::max(3), &[2, 3, 2, 2], "MaxPool2d 3×3"),
        (&Pool::mean(3), &[2, 3, 5, 2], "AvgPool2d 3×3"),
    ];
    for (layer, dims, named) in cases {
        let said = refused(layer, dims);
        assert!(said.contains(named) && said.contains("mistakes.rs"), "{said}");
        assert!(["reaches over", "window"].iter().any(|numbers| said.contains(numbers)), "{said}");
    }
    let cut = refused(&ConvTranspose2d::new("up", 3, 4, 2).padding(4), &[2, 3, 4, 4]);
    assert!(cut.contains("leaves nothing over") && cut.contains("mistakes.rs"), "{cut}");
}

#[test]
fn heads_that_do_not_divide_the_width() {
    let said = message(|g| drop(TransformerEncoderLayer::new("enc", 10, 4).forward(&g.input("x", &[2, 3, 10]))));
    assert!(said.contains("4 heads do not divide a width of 10") && said.contains("enc.self_attn"), "{said}");
    let said = message(|g| {
        let (x, m) = (g.input("x", &[2, 3, 10]), g.input("m", &[2, 5, 10]));
        TransformerDecoderLayer::new("dec", 10, 0).decode(&x, &m, &Masks::causal(), &Masks::default());
    });
    assert!(said.contains("0 heads do not divide a width of 10"), "{said}");
}

#[test]
fn sequences_of_length_0() {
    let said = message(|g| drop(gru("rnn", 3, 4).batch_first(true).forward(&g.input("x", &[2, 0, 3]))));
    assert!(said.contains("length 0") && said.contains("in rnn GRU"), "{said}");
    let said = message(|g| drop(TransformerEncoderLayer::new("enc", 4, 2).forward(&g.input("x", &[2, 0, 4]))));
    assert!(said.contains("nothing to attend to") && said.contains("mistakes.rs"), "{said}");
    let said = message(|g| drop(Conv1d::new("conv", 3, 4, 3).forward(&g.input("x", &[2, 3, 0]))));
    assert!(said.contains("conv Conv1d"), "{said}");
    // a mean of nothing is not a number
    let said = message(|g| drop(g.input("x", &[2, 0, 4]).mean(&[1], false)));
    assert!(said.contains("[2,0,4] has no elements along axes [1]"), "{said}");
}

#[test]
fn a_batch_of_one_in_batch_norm() {
    let said = message(|g| drop(BatchNorm::new_1d("bn", 5).forward(&g.input("x", &[1, 5]))));
    assert!(said.contains("[1,5]: one value per channel has no variance") && said.contains("in bn"), "{said}");
    let said = message(|g| drop(BatchNorm::new_2d("bn", 5).forward(&g.input("x", &[1, 5, 1, 1]))));
    assert!(said.contains("more rows a batch"), "{said}");
}

/// Which tokens there may be is known of the input.
#[test]
fn tokens_and_classes_have_limits() {
    let g = Graph::new();
    article_transformer(&g, &g.input_of("x", &[32, 50], DType::I32), true, 32);
    let limits: Vec<(String, &str, usize)> = g.limits().into_iter().map(|l| (l.input, l.what, l.below)).collect();
    assert_eq!(limits, [("x".into(), "token", 100), ("y".into(), "class", 10)]);
    assert!(g.limits()[0].place.layer.as_deref().is_some_and(|layer| layer.contains("embedding Embedding 100×16")));
}

#[test]
fn groups_that_do_not_divide_the_channels() {
    for (outputs, groups) in [(3, 2), (4, 3), (4, 0)] {
        let layer = ConvTranspose2d::new("up", 4, outputs, 2).groups(groups).bias(false);
        let said = message(|g| drop(layer.forward(&g.input("x", &[1, 4, 3, 3]))));
        let expected = format!("{groups} groups must divide 4 inputs and {outputs} outputs");
        assert!(said.contains(&expected), "{said}");
    }
}

/// `Linear` stores the transpose of what it shows: taking an embedding's table for its own would turn it.
#[test]
fn a_name_for_two_orders_of_axes() {
    let said = message(|g| {
        let h = Embedding::new("tok", 2, 2).forward(&g.input_of("i", &[3], DType::I32));
        Linear::new("tok", 2, 2).bias(false).forward(&h);
    });
    assert!(said.contains("\"tok.weight\" is already declared") && said.contains("another order"), "{said}");
}

#[test]
fn nothing_to_walk_or_to_turn() {
    for layers in [gru("r", 3, 4), lstm("r", 3, 4)] {
        let said = message(|g| drop(layers.clone().layers(0).forward(&g.input("x", &[5, 2, 3]))));
        assert!(said.contains("at least one layer"), "{said}");
    }
    let g = Graph::new();
    assert_eq!(g.input("x", &[2, 0]).flip(1).dims(), [2, 0]);
    g.check().unwrap();
    let said = message(|g| drop(Tensor::concat(&[g.input("x", &[2, 1]), g.input("y", &[2, 1])], 7)));
    assert!(said.contains("no axis 7 in [2,1]"), "{said}");
}
