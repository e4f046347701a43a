//! Preparations as a person told them, on small tables.

use super::*;

fn table(text: &str) -> Table {
    Table::from_bytes("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn fit(text: &str, options: &str) -> Result<Preparation, DataError> {
    let table = table(text);
    let options: PrepareOptions = toml::from_str(options).unwrap();
    let rows: Vec<u32> = (0..table.rows as u32).collect();
    let fitted = Preparation::fit(&table, table.column("y")?, &rows, &options)?;
    // What is stored with a model is what was fitted.
    let json = serde_json::to_string(&fitted).unwrap();
    assert_eq!(serde_json::from_str::<Preparation>(&json).unwrap(), fitted);
    Ok(fitted)
}

fn inputs(preparation: &Preparation, text: &str) -> Vec<Vec<f32>> {
    let (data, _) = preparation.encode_features(&table(text)).unwrap();
    data.chunks(preparation.features()).map(<[f32]>::to_vec).collect()
}

fn column(rows: &[Vec<f32>], index: usize) -> Vec<f32> {
    rows.iter().map(|row| row[index]).collect()
}

fn refused(text: &str, options: &str) -> String {
    fit(text, options).err().map(|error| error.to_string()).unwrap_or_default()
}

fn noted(preparation: &Preparation, words: &str) {
    assert!(
        preparation.notes().iter().any(|note| note.to_string().contains(words)),
        "{words:?} not in {:?}",
        preparation.notes()
    );
}

const HOMES: &str = "rooms,area,place,y\n\
    1,10,north,1\n\
    3,20,south,2\n\
    ,40,west,3\n\
    2,30,north,4\n\
    2,90,,6\n";

#[test]
fn nothing_told_is_the_automatic_choice() {
    let t = table(HOMES);
    let rows: Vec<u32> = (0..5).collect();
    let automatic = Preparation::fit(&t, 3, &rows, &PrepareOptions::default()).unwrap();
    assert_eq!(fit(HOMES, "").unwrap(), automatic);
    // Standardising is the automatic choice, too.
    let told = fit(HOMES, "scale = \"standard\"\nimpute = \"mean\"").unwrap();
    assert_eq!(inputs(&told, HOMES), inputs(&automatic, HOMES));
}

#[test]
fn stored_before_there_was_a_choice() {
    let json = r#"{"header":true,"table_columns":3,"missing_tokens":[],
        "target":{"name":"y","index":2,"encoding":{"kind":"regression","mean":1.0,"std":2.0}},
        "features":[
            {"name":"a","index":0,"encoding":{"kind":"number","mean":2.0,"std":4.0,"log":false,"missing":true}},
            {"name":"b","index":1,"encoding":{"kind":"one_hot","labels":["u","v","w"],"other":false,"missing":true}}],
        "notes":[]}"#;
    let old: Preparation = serde_json::from_str(json).unwrap();
    assert_eq!(inputs(&old, "a,b\n6,v\n,\n"), [[1., 0., 0., 1., 0., 0.], [0., 1., 0., 0., 0., 1.]]);
    let again: serde_json::Value = serde_json::to_value(&old).unwrap();
    assert_eq!(again, serde_json::from_str::<serde_json::Value>(json).unwrap(), "and written as it was");
}

#[test]
fn scales() {
    let p = fit(HOMES, "scale = \"min-max\"\ncolumns.rooms.scale = \"none\"").unwrap();
    let rows = inputs(&p, HOMES);
    assert_eq!(column(&rows, 0), [1., 3., 2., 2., 2.], "as they are, the mean where missing");
    assert_eq!(column(&rows, 2), [0., 0.125, 0.375, 0.25, 1.]);
    noted(&p, "numeric columns, min-max scaled: 2");
    noted(&p, "not scaled, as told: rooms");
    assert_eq!(inputs(&p, "rooms,area,place\n1,-30,north\n1,10,north\n")[0][2], -0.5, "beyond the training rows");
    let p = fit(HOMES, "scale = \"robust\"").unwrap();
    assert_eq!(column(&inputs(&p, HOMES), 2), [-1., -0.5, 0.5, 0., 3.]);
    assert!(refused("a,y\n5,1\n5,2\n", "scale = \"min-max\"").contains("the same value in all training rows: a"));
}

#[test]
fn a_told_scale_takes_no_logarithm_of_its_own() {
    let mut text = String::from("gain,y\n");
    (0..200).for_each(|i| text += &format!("{},{i}\n", if i % 50 == 0 { 10_000 + i } else { i % 3 }));
    noted(&fit(&text, "").unwrap(), "strongly skewed): gain");
    let p = fit(&text, "scale = \"min-max\"").unwrap();
    assert!((inputs(&p, "gain\n5075\n1\n")[0][0] - 0.5).abs() < 1e-6);
    let p = fit(&text, "scale = \"none\"\nlog = [\"gain\"]").unwrap();
    assert!((inputs(&p, "gain\n5075\n1\n")[0][0] as f64 - 5076f64.ln()).abs() < 1e-6);
    noted(&p, "logarithm taken, as told: gain");
}

#[test]
fn logarithms() {
    let text = "a,b,y\n0,-1,1\n1,0,2\n3,3,3\n";
    let p = fit(text, "log = [\"a\"]\nsigned-log = [\"b\"]\nscale = \"none\"").unwrap();
    let ln2 = std::f32::consts::LN_2;
    assert_eq!(inputs(&p, text), [[0., -ln2], [ln2, 0.], [2. * ln2, 2. * ln2]]);
    let got = p.encode_features(&table("a,b\n1,1\n-2,1\n")).unwrap_err().to_string();
    assert!(got.contains("row 2, column \"a\"") && got.contains("-2 is negative"), "{got}");
    let got = refused(text, "log = [\"b\"]");
    assert!(got.contains("row 1, column \"b\"") && got.contains("signed-log"), "{got}");
    assert!(refused(HOMES, "log = [\"place\"]").contains("holds categories"));
    assert!(refused(HOMES, "log = [\"area\"]\nsigned-log = [\"area\"]").contains("keep one of them"));
}

#[test]
fn missing_cells() {
    let rooms = |impute: &str| {
        let p = fit(HOMES, &format!("scale = \"none\"\n{impute}")).unwrap();
        let row = inputs(&p, HOMES).swap_remove(2);
        assert_eq!(row[1], 1.0, "the mark stays");
        row[0]
    };
    assert_eq!(rooms("impute = \"mean\""), 2.0);
    assert_eq!(rooms("impute = \"most-frequent\""), 2.0);
    assert_eq!(rooms("impute = { constant = -1 }"), -1.0);
    assert_eq!(rooms("impute = \"median\"\ncolumns.rooms.impute = { constant = 7.5 }"), 7.5);
    let p = fit(HOMES, "impute = \"most-frequent\"").unwrap();
    noted(&p, "missing values filled with the most frequent value, and marked in an input of their own: rooms, place");
    assert_eq!(inputs(&p, HOMES)[4][3..], [1., 0., 0., 1.]);
    let p = fit(HOMES, "columns.place.impute = { constant = \"none\" }").unwrap();
    assert_eq!(p.feature_names()[3..], ["place=none", "place=north", "place=south", "place=west", "place=(missing)"]);
    assert_eq!(inputs(&p, HOMES)[4][3..], [1., 0., 0., 0., 1.]);

    let got = refused(HOMES, "impute = \"error\"");
    assert!(got.contains("row 3, column \"rooms\"") && got.contains("missing"), "{got}");
    let full = "a,y\n1,1\n2,2\n3,5\n";
    let got =
        fit(full, "impute = \"error\"").unwrap().encode_features(&table("a,b\n1,1\n,2\n")).unwrap_err().to_string();
    assert!(got.contains("row 2, column \"a\""), "{got}");
    assert!(refused(HOMES, "columns.place.impute = \"median\"").contains("does not suit a column of categories"));
    assert!(refused(HOMES, "columns.rooms.impute = { constant = \"x\" }").contains("numbers"));
    assert!(refused(HOMES, "impute = { constant = inf }").contains("finite"));
}

#[test]
fn two_labels_and_a_fill() {
    let text = "a,y\nno,1\nyes,2\n,3\nyes,4\n";
    let p = fit(text, "impute = { constant = \"no\" }").unwrap();
    assert_eq!(inputs(&p, text), [[0., 0.], [1., 0.], [0., 1.], [1., 0.]]);
    assert_eq!(inputs(&p, "a\nmaybe\nno\n")[0], [0.5, 0.], "an unknown label is the share");
    let p = fit(text, "categorical = \"one-hot\"").unwrap();
    assert_eq!(p.feature_names(), ["a=no", "a=yes", "a=(missing)"]);
}

#[test]
fn categories() {
    let p = fit(HOMES, "categorical = \"ordinal\"\nscale = \"none\"").unwrap();
    assert_eq!(column(&inputs(&p, HOMES), 3), [0., 1., 2., 0., 0.75]);
    noted(&p, "text columns, ordinal: 1");
    let p = fit(HOMES, "categorical = { hash = 4 }").unwrap();
    assert_eq!(p.features(), 3 + 4 + 1);
    assert_eq!(p.feature_names()[3], "place#0");
    let rows = inputs(&p, HOMES);
    assert_eq!(rows[0][3..], rows[3][3..]);
    let p = fit(HOMES, "categorical = \"embedding\"").unwrap();
    assert_eq!(p.embeddings(), [(3, 4)]);
    assert_eq!(column(&inputs(&p, HOMES), 3), [1., 2., 3., 1., 0.]);
    let new = table("rooms,area,place\n1,1,east\n2,2,west\n");
    assert_eq!(p.encode_features(&new).unwrap().0[3], 0.0);
    assert!(p.notes_for(&new).unwrap()[0].contains("index 0: east"));
    assert!(refused(HOMES, "categorical = { hash = 0 }").contains("1 to 65536"));
}

#[test]
fn numbers_as_categories() {
    let text = "zip,y\n10115,1\n9,2\n80331,3\n9,4\n";
    let p = fit(text, "columns.zip.categorical = \"embedding\"").unwrap();
    assert_eq!(column(&inputs(&p, text), 0), [2., 1., 3., 1.], "in order of size");
    noted(&p, "index of an embedding, as told: zip");
    assert!(p.read_options().expect_text.is_empty(), "later files are read as numbers, too");
    let as_text = ReadOptions { text: vec!["zip".to_owned()], ..ReadOptions::default() };
    let new = Table::from_bytes("n.csv", b"zip\n9.0\n010115\nelsewhere\n", &as_text).unwrap();
    assert_eq!(p.encode_features(&new).unwrap().0, [1., 2., 0.]);
    // Names of rows are dropped unless the column is named.
    let mut text = String::from("id,x,y\n");
    (0..60).for_each(|i| text += &format!("u{i},{i},{}\n", i * i));
    assert_eq!(fit(&text, "categorical = \"embedding\"").unwrap().embeddings(), []);
    assert_eq!(fit(&text, "columns.id.categorical = \"embedding\"").unwrap().embeddings(), [(0, 61)]);
}

#[test]
fn selected_columns() {
    let mut text = String::from("flat,a,twice,noise,y\n");
    (0..100).for_each(|i| text += &format!("{},{i},{},{},{}\n", i % 2, 2 * i, i * 7919 % 101, 3 * i));
    let names = |options: &str| fit(&text, options).unwrap().feature_names();
    assert_eq!(names("select = { min-variance = 1 }"), ["a", "twice", "noise"]);
    assert_eq!(names("select = { max-correlation = 0.99 }"), ["flat", "a", "noise"]);
    assert_eq!(names("select = { max-correlation = 0.99, best = 1 }"), ["a"]);
    let p = fit(&text, "select = { best = 2 }").unwrap();
    assert_eq!(p.feature_names(), ["a", "twice"]);
    noted(&p, "inputs: 2");
    let logged = fit(&text, "log = [\"noise\"]\nselect = { best = 1 }").unwrap();
    assert!(
        !logged.notes().iter().any(|note| note.to_string().contains("logarithm")),
        "nothing is said of columns left out"
    );
    assert_eq!(inputs(&p, "a,twice\n1,2\n2,4\n").len(), 2, "what was left out is not needed later");
    assert!(refused(&text, "select = { best = 5 }").contains("5 of 4 usable columns; use at most 4"));
    assert!(refused(&text, "select = { min-variance = 1e9 }").contains("variance below 1000000000"));
}

#[test]
fn principal_components() {
    let mut text = String::from("a,b,c,y\n");
    (0..50).for_each(|i| text += &format!("{i},{},{},{i}\n", 2 * i + 1, i * 31 % 50));
    let p = fit(&text, "pca = { variance = 0.99 }").unwrap();
    assert_eq!(p.feature_names(), ["component 1", "component 2"]);
    noted(&p, "inputs: 2 (principal components, 100.0% of the variance of 3;");
    let white = fit(&text, "pca = { components = 2, whiten = true }").unwrap();
    let rows = inputs(&white, &text);
    for k in 0..2 {
        let squares: f32 = column(&rows, k).iter().map(|v| v * v).sum();
        assert!((squares / 49.0 - 1.0).abs() < 1e-4, "{squares}");
    }
    assert!(refused(&text, "pca = { components = 4 }").contains("4 components of 3 inputs; use 1 to 3"));
    let zip = "columns.a.categorical = \"embedding\"\npca = { components = 1 }";
    assert!(refused(&text, zip).contains("index of an embedding"));
}

#[test]
fn damaged_components_are_refused() {
    let p = fit("a,b,y\n1,5,1\n2,3,2\n4,4,3\n", "pca = { components = 1 }").unwrap();
    let mut json = serde_json::to_value(&p).unwrap();
    json["projection"]["mean"] = serde_json::json!([0.0]);
    let damaged: Preparation = serde_json::from_value(json).unwrap();
    assert!(damaged.encode_features(&table("a,b\n1,2\n3,4\n")).is_err());
}

#[test]
fn mistakes_are_named() {
    assert!(refused(HOMES, "columns.plaice.scale = \"none\"").contains("did you mean \"place\"?"));
    assert!(refused(HOMES, "log = [\"areas\"]").contains("did you mean \"area\"?"));
    assert!(refused(HOMES, "columns.y.scale = \"none\"").contains("is the target"));
    assert!(
        refused(HOMES, "columns.place.scale = \"none\"").contains("columns.place.scale: the column holds categories")
    );
    assert!(refused(HOMES, "columns.place.scale = \"none\"\ncolumns.2.impute = \"error\"").contains("say it once"));
    let unknown = toml::from_str::<PrepareOptions>("scal = \"none\"").unwrap_err().to_string();
    assert!(unknown.contains("scal"), "{unknown}");
    assert!(toml::from_str::<PrepareOptions>("scale = \"minmax\"").is_err());
}

#[test]
fn options_are_written_as_they_are_read() {
    let text = "scale = \"robust\"\nlog = [\"a\"]\nimpute = { constant = 0.0 }\ncategorical = { hash = 8 }\n\
        select = { best = 2 }\npca = { variance = 0.9 }\ncolumns.b.categorical = \"ordinal\"";
    let options: PrepareOptions = toml::from_str(text).unwrap();
    let written = toml::to_string(&options).unwrap();
    assert_eq!(toml::from_str::<PrepareOptions>(&written).unwrap(), options);
    assert_eq!(toml::to_string(&PrepareOptions::default()).unwrap(), "");
}

#[test]
fn new_rows_are_read_as_the_training_rows_were() {
    let text = "a;b;y\n1,288;7%;-4,038\n1,169;9%;1,312\n0,199;4%;-2,823\n";
    let p = fit(text, "scale = \"none\"\nscale-target = \"none\"").unwrap();
    noted(&p, "read as numbers, a comma before the decimals: a, y");
    noted(&p, "read as numbers, in percent: b");
    assert_eq!(p.task(), Task::Regression);
    let read = |text: &str| {
        let table = Table::from_bytes("new.csv", text.as_bytes(), &p.read_options()).unwrap();
        p.encode_features(&table).unwrap().0
    };
    assert_eq!(read("a;b\n1,288;7%\n"), [1.288, 7.0]);
    assert_eq!(read("a,b\n\"1,288\",7\n"), [1.288, 7.0]);
}

#[test]
fn a_target_told_to_be_text_is_read_as_text_again() {
    let as_text = ReadOptions { text: vec!["y".into()], ..Default::default() };
    let t = Table::from_bytes("t.csv", b"a,y\n1,5%\n2,10%\n3,20%\n4,5%\n", &as_text).unwrap();
    let p = Preparation::fit(&t, 1, &[0, 1, 2, 3], &PrepareOptions::default()).unwrap();
    let new = Table::from_bytes("n.csv", b"a,y\n1,10%\n2,20%\n", &p.read_options()).unwrap();
    assert_eq!(p.encode(&new, &[0, 1]).unwrap().rows, 2);
}

#[test]
fn whole_numbers_that_collapse_are_told() {
    let big = |first: u128| (0..200).fold("i,y\n".to_owned(), |text, i| text + &format!("{i},{}\n", first + i));
    let told = refused(&big(1 << 60), "");
    assert!(told.contains("differ only beyond what a floating-point number") && told.contains("--text"), "{told}");
    let swapped = big(1 << 63).replace("i,y", "y,i");
    let told = refused(&swapped, "");
    assert!(told.contains("whole numbers beyond 2^53, rounded"), "{told}");
    assert!(!refused(&big(1 << 40), "").contains("2^53"));
}
