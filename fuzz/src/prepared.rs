//! A table on its way to a network.

use citius_data::{Features, Preparation, PrepareOptions, Table, Target};

/// Work of selection and components grows with the square and the cube of this.
const MOST_INPUTS: usize = 64;

/// Prepares the table for some columns as target, fitted on half of its rows: what comes out is finite, and a
/// preparation that was stored does the same.
pub fn check_prepared(table: &Table, options: &PrepareOptions) {
    let mut options = options.clone();
    if table.columns.len() > MOST_INPUTS {
        options.select = Default::default();
        options.pca = None;
    }
    let rows: Vec<u32> = (0..table.rows as u32).collect();
    let train = &rows[..rows.len().div_ceil(2)];
    for target in (0..table.columns.len().min(2)).chain(table.columns.len().checked_sub(1)) {
        let Ok(preparation) = Preparation::fit(table, target, train, &options) else { continue };
        assert_eq!(preparation.feature_names().len(), preparation.features());
        if let Ok((inputs, _)) = preparation.encode_features(table) {
            assert!(inputs.iter().all(|value| value.is_finite()), "an input that is not finite");
            assert_eq!(inputs.len(), table.rows * preparation.features());
        }
        let labelled = preparation.labelled_rows(table, &rows).expect("the rows are the table's");
        if let Ok(dataset) = preparation.encode(table, &labelled) {
            if let Features::F32 { data, .. } = &dataset.features {
                assert!(data.iter().all(|value| value.is_finite()), "an input that is not finite");
            }
            if let Target::Values { data, .. } = &dataset.target {
                assert!(data.iter().all(|value| value.is_finite()), "a target that is not finite");
            }
            let json = serde_json::to_string(&preparation).expect("a preparation can be stored");
            let stored: Preparation = serde_json::from_str(&json).expect("what was stored can be read");
            assert_eq!(stored.encode(table, &labelled).ok(), Some(dataset), "a stored preparation");
        }
        preparation.notes_for(table).expect("the table it was fitted on");
    }
}
