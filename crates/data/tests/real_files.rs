//! The public data sets people start with, where they are on this machine; skipped where not.

use std::path::PathBuf;

use citius_data::{
    Features, Preparation, PrepareOptions, ReadOptions, SplitOptions, Splits, Table, Task, Values, image_dataset,
    mnist_dir, read_row_file,
};

/// A path under the folder of data sets that `CITIUS_DATA` names, or a line that says what is skipped.
fn data(path: &str) -> Option<PathBuf> {
    let path = std::env::var_os("CITIUS_DATA").map(|root| PathBuf::from(root).join(path)).filter(|path| path.exists());
    if path.is_none() {
        println!("skipped: CITIUS_DATA names no folder that holds it");
    }
    path
}

fn read(path: &str) -> Option<Table> {
    Some(Table::read(data(path)?, &ReadOptions::default()).unwrap())
}

fn fit(table: &Table, target: &str) -> Preparation {
    let rows: Vec<u32> = (0..table.rows as u32).collect();
    let target = table.column(target).unwrap();
    let fitted = Preparation::fit(table, target, &rows, &PrepareOptions::default()).unwrap();
    println!("{}: {:#?}", table.name, fitted.notes());
    fitted
}

fn missing(table: &Table) -> usize {
    let columns = table.columns.iter();
    columns.map(|column| (0..table.rows).filter(|row| column.is_missing(*row)).count()).sum()
}

fn is_number(table: &Table, column: usize) -> bool {
    matches!(table.columns[column].values, Values::Number(_))
}

#[test]
fn uci_regression() {
    for (name, rows, columns) in
        [("concrete", 1030, 9), ("energy", 768, 9), ("power-plant", 9568, 5), ("wine-quality-red", 1599, 12)]
    {
        let Some(table) = read(&format!("uci_regression/{name}/data.txt")) else {
            return;
        };
        assert_eq!((table.rows, table.columns.len()), (rows, columns), "{name}");
        assert!(!table.header && missing(&table) == 0);
        let preparation = fit(&table, "-1");
        assert_eq!(preparation.task(), Task::Regression);
        assert_eq!(preparation.features(), columns - 1);

        let list = |kind: &str| {
            let path = data(&format!("uci_regression/{name}/index_{kind}_3.txt")).unwrap();
            read_row_file(path, table.rows).unwrap()
        };
        let options = SplitOptions { validation: 0.1, test: 0.0, seed: 1 };
        let (train, test) = (list("train"), list("test"));
        assert_eq!(train.len() + test.len(), rows);
        Splits::given(rows as u32, Some(train), Some(test), None, options).unwrap();
    }
}

#[test]
fn adult() {
    let (Some(train), Some(test)) = (read("adult/adult.data"), read("adult/adult.test")) else {
        return;
    };
    assert_eq!((train.rows, test.rows), (32_561, 16_281));
    assert_eq!((train.columns.len(), test.columns.len()), (15, 15));
    assert!(!train.header && !test.header);
    let preparation = fit(&train, "-1");
    assert_eq!(preparation.task(), Task::Binary);
    assert_eq!(preparation.class_labels(), ["<=50K", ">50K"]);
    let rows: Vec<u32> = (0..test.rows as u32).collect();
    let set = preparation.encode(&test, &rows).unwrap();
    assert_eq!(set.rows, 16_281);
    match &set.target {
        citius_data::Target::Values { data, .. } => {
            assert_eq!(data.iter().filter(|v| **v == 1.0).count(), 3846);
        }
        other => panic!("{other:?}"),
    }
    let notes = preparation.notes_for(&test).unwrap();
    assert!(notes.iter().any(|note| note.contains("full stop")), "{notes:?}");
}

#[test]
fn california_housing() {
    let Some(table) = read("california_housing/housing.csv") else {
        return;
    };
    assert_eq!((table.rows, table.columns.len()), (20_640, 10));
    assert!(table.header && is_number(&table, 0) && !is_number(&table, 9));
    assert_eq!(missing(&table), 207);
    let preparation = fit(&table, "median_house_value");
    assert_eq!(preparation.task(), Task::Regression);
    assert_eq!(preparation.features(), 8 + 1 + 5);
    let (data, rows) = preparation.encode_features(&table).unwrap();
    assert_eq!(data.len(), rows * 14);
    assert!(data.iter().all(|value| value.is_finite()));
}

#[test]
fn wine_quality() {
    for (path, rows) in [("red", 1599), ("white", 4898)] {
        let Some(table) = read(&format!("wine_quality/winequality-{path}.csv")) else {
            return;
        };
        assert_eq!((table.rows, table.columns.len()), (rows, 12));
        assert!(table.header && missing(&table) == 0);
        assert_eq!(table.columns[0].name, "fixed acidity");
        let preparation = fit(&table, "quality");
        assert_eq!(preparation.task(), Task::Regression);
        assert!(preparation.notes()[0].to_string().contains("--task classes"));
    }
}

#[test]
fn auto_mpg_and_ett() {
    if let Some(table) = read("auto_mpg/auto-mpg.csv") {
        assert_eq!((table.rows, table.columns.len()), (392, 10));
        assert!((0..10).all(|column| is_number(&table, column)));
        fit(&table, "MPG");
    }
    if let Some(table) = read("ett/ETTh1.csv") {
        assert_eq!((table.rows, table.columns.len()), (17_420, 8));
        assert_eq!(fit(&table, "OT").features(), 6, "the date is an identifier");
    }
}

#[test]
fn mnist() {
    let Some(dir) = data("mnist") else { return };
    let mnist = mnist_dir(dir).unwrap();
    let (images, labels) = mnist.train;
    assert_eq!((images.count, images.height, images.width), (60_000, 28, 28));
    assert_eq!((mnist.classes, mnist.test.0.count), (10, 10_000));
    assert_eq!(labels.iter().filter(|label| **label == 0).count(), 5923);
    let set = image_dataset(images, &labels, mnist.classes, None).unwrap();
    match set.features {
        Features::U8 { scale, shift, .. } => {
            let std = 1.0 / (255.0 * scale);
            assert!((std - 0.3081).abs() < 1e-4 && (-shift * std - 0.1307).abs() < 1e-4);
        }
        Features::F32 { .. } | Features::I32 { .. } => panic!("not bytes"),
    }
}
