//! What holds for every table of finite numbers, labels and missing cells.

use proptest::prelude::*;

use super::*;
use crate::table::{Column, MISSING, Values};

/// Any finite number, the largest included.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e3..1e3f64,
        1 => any::<f64>().prop_map(|value| if value.is_finite() { value } else { 0.0 }),
        1 => prop_oneof![Just(0.0), Just(f64::MAX), Just(f64::MIN), Just(1e-308)],
        1 => Just(f64::NAN),
    ]
}

/// Two columns of numbers and one of labels, and a target of 1, 2, …
fn any_table() -> impl Strategy<Value = Table> {
    let row = (number(), number(), prop_oneof![3 => 0..5u32, 1 => Just(MISSING)]);
    prop::collection::vec(row, 2..40).prop_map(|rows| {
        let column = |name: &str, values: Values| Column { name: name.to_owned(), values };
        let labels = ["a", "b", "10", "9", "é"].map(str::to_owned).to_vec();
        let columns = vec![
            column("p", Values::Number(rows.iter().map(|row| row.0).collect())),
            column("q", Values::Number(rows.iter().map(|row| row.1).collect())),
            column("c", Values::Text { codes: rows.iter().map(|row| row.2).collect(), labels }),
            column("y", Values::Number((0..rows.len()).map(|row| row as f64).collect())),
        ];
        Table { name: "t".to_owned(), rows: rows.len(), columns, header: true, reading: Default::default() }
    })
}

fn any_options() -> impl Strategy<Value = PrepareOptions> {
    let scale =
        prop::option::of(prop::sample::select(vec![Scale::Standard, Scale::MinMax, Scale::Robust, Scale::None]));
    let impute = prop::option::of(prop::sample::select(vec![
        Impute::Mean,
        Impute::Median,
        Impute::MostFrequent,
        Impute::Constant(Fill::Number(-1e300)),
        Impute::Constant(Fill::Label("new".to_owned())),
    ]));
    let categorical = prop::option::of(prop::sample::select(vec![
        Categorical::OneHot,
        Categorical::Ordinal,
        Categorical::Hash(3),
        Categorical::Embedding,
    ]));
    let select = (prop::option::of(0.0..2.0f64), prop::option::of(0.1..1.0f64), prop::option::of(1..4usize));
    let pca = prop::option::of((0.1..1.0f64, any::<bool>()));
    (scale, impute, categorical, select, pca, any::<bool>()).prop_map(
        |(scale, impute, categorical, select, pca, log)| PrepareOptions {
            scale,
            impute,
            categorical,
            signed_log: if log { vec!["p".to_owned()] } else { Vec::new() },
            select: Select { min_variance: select.0, max_correlation: select.1, best: select.2 },
            pca: pca.map(|(variance, whiten)| Pca { components: None, variance: Some(variance), whiten }),
            ..PrepareOptions::default()
        },
    )
}

/// Every second row, to train on.
fn half(table: &Table) -> Vec<u32> {
    (0..table.rows as u32).step_by(2).collect()
}

fn everything(table: &Table) -> Vec<u32> {
    (0..table.rows as u32).collect()
}

/// The present values of column "p" after a scale, or nothing where it was dropped.
fn scaled(table: &Table, scale: Scale) -> Vec<f64> {
    let options = PrepareOptions { scale: Some(scale), ..PrepareOptions::default() };
    let Ok(p) = Preparation::fit(table, 3, &everything(table), &options) else { return Vec::new() };
    if p.feature_names().first().map(String::as_str) != Some("p") {
        return Vec::new();
    }
    let (data, _) = p.encode_features(table).unwrap();
    let present = data.chunks(p.features()).enumerate().filter(|(row, _)| !table.columns[0].is_missing(*row));
    present.map(|(_, inputs)| inputs[0] as f64).collect()
}

proptest! {
    #[test]
    fn inputs_are_finite(table in any_table(), options in any_options()) {
        if let Ok(p) = Preparation::fit(&table, 3, &half(&table), &options) {
            let (data, rows) = p.encode_features(&table).unwrap();
            prop_assert_eq!(data.len(), rows * p.features());
            prop_assert_eq!(p.feature_names().len(), p.features());
            prop_assert!(data.iter().all(|value| value.is_finite()));
            for (input, vocabulary) in p.embeddings() {
                prop_assert!(data.chunks(p.features()).all(|row| (row[input] as usize) < vocabulary));
            }
        }
    }

    #[test]
    fn standard_is_mean_0_deviation_1(mut table in any_table(), offset in -1e3..1e3f64) {
        let tame = (0..table.rows).map(|row| offset + (row * row % 17) as f64);
        if let Values::Number(values) = &mut table.columns[0].values {
            values.iter_mut().zip(tame).filter(|(value, _)| !value.is_nan()).for_each(|(value, tame)| *value = tame);
        }
        let values = scaled(&table, Scale::Standard);
        if !values.is_empty() {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
            prop_assert!(mean.abs() < 1e-5, "mean {}", mean);
            prop_assert!((variance - 1.0).abs() < 1e-5, "variance {}", variance);
        }
    }

    #[test]
    fn min_max_is_from_0_to_1(table in any_table()) {
        let values = scaled(&table, Scale::MinMax);
        let largest = values.iter().copied().fold(0.0, f64::max);
        // A range beyond f64 cannot be divided by: then values are finite, no more.
        let Values::Number(raw) = &table.columns[0].values else { unreachable!() };
        let range = raw.iter().copied().fold(f64::MIN, f64::max) - raw.iter().copied().fold(f64::MAX, f64::min);
        if !values.is_empty() && range.is_finite() {
            prop_assert!(values.iter().all(|v| (0.0..=1.0).contains(v)));
            prop_assert_eq!(largest, 1.0);
            prop_assert!(values.contains(&0.0));
        }
    }
}
