//! Predictions as a CSV or as JSON lines: what each is about, the answer, and a probability per class or a number per quantile.

use std::io::{self, Write};

use citius_data::is_hidden;
use citius_train::{About, KeptColumn, Predictions};
use serde_json::{Map, Value, json};

/// How predictions are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AnswerFormat {
    Csv,
    /// An object per prediction and line.
    JsonLines,
}

/// Writes predictions as they come; classes in the order of their numbers, none for regression; quantiles by their names.
pub struct AnswerWriter<'a> {
    format: AnswerFormat,
    classes: &'a [String],
    /// As cells of a CSV.
    quoted_classes: Vec<String>,
    /// Names of quantiles, rising.
    quantiles: &'a [String],
    written: usize,
    begun: bool,
}

impl<'a> AnswerWriter<'a> {
    pub fn new(format: AnswerFormat, classes: &'a [String], quantiles: &'a [String]) -> AnswerWriter<'a> {
        let quoted_classes = classes.iter().map(|class| quoted(class)).collect();
        AnswerWriter { format, classes, quoted_classes, quantiles, written: 0, begun: false }
    }

    /// Predictions so far.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Writes some predictions; before the first of them, names of columns.
    pub fn write(&mut self, out: &mut dyn Write, predictions: &Predictions) -> io::Result<()> {
        if !self.begun {
            self.begin(out, predictions)?;
        }
        for i in 0..predictions.values.len() {
            match self.format {
                AnswerFormat::Csv => self.csv_line(out, predictions, i)?,
                AnswerFormat::JsonLines => self.json_line(out, predictions, i)?,
            }
        }
        self.written += predictions.values.len();
        Ok(())
    }

    /// Names of columns where there were no predictions at all.
    pub fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.begun {
            self.begin(out, &Predictions::default())?;
        }
        out.flush()
    }

    fn begin(&mut self, out: &mut dyn Write, predictions: &Predictions) -> io::Result<()> {
        self.begun = true;
        if self.format == AnswerFormat::JsonLines {
            return Ok(());
        }
        for column in &predictions.kept {
            write!(out, "{},", quoted(&column.name))?;
        }
        if let Some(time) = time_of(predictions) {
            write!(out, "{},", quoted(&time.name))?;
        }
        let about = match &predictions.about {
            About::Rows => "",
            About::Pictures(_) => "path,",
            About::Ahead { .. } => "step,",
            About::Windows { .. } => "first_row,step,",
        };
        write!(out, "{about}prediction")?;
        for class in &self.quoted_classes {
            write!(out, ",{}", prefixed(class))?;
        }
        for name in self.quantiles {
            write!(out, ",{}", quoted(name))?;
        }
        writeln!(out)
    }

    fn csv_line(&self, out: &mut dyn Write, predictions: &Predictions, i: usize) -> io::Result<()> {
        for column in &predictions.kept {
            write!(out, "{},", column.cells.get(i).map_or(String::new(), |cell| quoted(cell)))?;
        }
        if let Some(time) = time_of(predictions) {
            write!(out, "{},", time.cells.get(i).map_or(String::new(), |cell| quoted(cell)))?;
        }
        match &predictions.about {
            About::Rows => {}
            About::Pictures(paths) => write!(out, "{},", paths.get(i).map_or(String::new(), |path| quoted(path)))?,
            About::Ahead { .. } => write!(out, "{},", i + 1)?,
            About::Windows { first, horizon, .. } => {
                let (window, step) = (i / (*horizon).max(1), i % (*horizon).max(1));
                write!(out, "{},{},", first.get(window).copied().unwrap_or_default(), step + 1)?;
            }
        }
        let value = predictions.values[i];
        match &self.quoted_classes[..] {
            _ if value.is_nan() => {}
            [] => write!(out, "{}", nine_digits(value))?,
            classes => write!(out, "{}", classes.get(value as usize).map_or("", String::as_str))?,
        }
        let known = predictions.probabilities.get(i).map_or(&[][..], Vec::as_slice);
        for class in 0..self.classes.len() {
            write!(out, ",{}", known.get(class).map_or(String::new(), |p| share(*p)))?;
        }
        let known = predictions.quantiles.get(i).map_or(&[][..], Vec::as_slice);
        for at in 0..self.quantiles.len() {
            write!(out, ",{}", known.get(at).map_or(String::new(), |value| nine_digits(*value)))?;
        }
        writeln!(out)
    }

    fn json_line(&self, out: &mut dyn Write, predictions: &Predictions, i: usize) -> io::Result<()> {
        let mut object = Map::new();
        for column in &predictions.kept {
            object.insert(column.name.clone(), json!(column.cells.get(i)));
        }
        if let Some(time) = time_of(predictions) {
            object.insert(time.name.clone(), json!(time.cells.get(i)));
        }
        match &predictions.about {
            About::Rows => {
                object.insert("row".into(), json!(self.written + i));
            }
            About::Pictures(paths) => {
                object.insert("path".into(), json!(paths.get(i)));
            }
            About::Ahead { .. } => {
                object.insert("step".into(), json!(i + 1));
            }
            About::Windows { first, horizon, .. } => {
                let (window, step) = (i / (*horizon).max(1), i % (*horizon).max(1));
                object.insert("first_row".into(), json!(first.get(window)));
                object.insert("step".into(), json!(step + 1));
            }
        }
        let value = predictions.values[i];
        let answer = match self.classes {
            _ if value.is_nan() => Value::Null,
            [] => json!(value),
            classes => json!(classes.get(value as usize)),
        };
        object.insert("prediction".into(), answer);
        let known = predictions.probabilities.get(i).map_or(&[][..], Vec::as_slice);
        if !known.is_empty() {
            let shares = self.classes.iter().zip(known).map(|(class, p)| (class.clone(), json!(p)));
            object.insert("probabilities".into(), Value::Object(shares.collect()));
        }
        let known = predictions.quantiles.get(i).map_or(&[][..], Vec::as_slice);
        if !known.is_empty() {
            let values = self.quantiles.iter().zip(known).map(|(name, value)| (name.clone(), json!(value)));
            object.insert("quantiles".into(), Value::Object(values.collect()));
        }
        writeln!(out, "{}", ascii_hidden(&serde_json::to_string(&object)?))
    }
}

/// JSON with all that a terminal would obey or hide as `\\u…`, which means the same to a reader of JSON.
fn ascii_hidden(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        match is_hidden(c) {
            false => out.push(c),
            true => out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"))),
        }
    }
    out
}

/// The times of rows that are predicted.
fn time_of(predictions: &Predictions) -> Option<&KeptColumn> {
    match &predictions.about {
        About::Ahead { time } | About::Windows { time, .. } => time.as_ref(),
        About::Rows | About::Pictures(_) => None,
    }
}

/// Nine significant digits, more than a number of 32 bits has.
fn nine_digits(value: f64) -> String {
    match format!("{value:.8e}").parse::<f64>() {
        Ok(rounded) => rounded.to_string(),
        Err(_) => value.to_string(),
    }
}

/// As short as it can be to read back as the same f32; where that is 0 and the probability is not, as f64.
fn share(p: f64) -> String {
    match p as f32 {
        0.0 if p > 0.0 => format!("{p:?}"),
        p => format!("{p:?}"),
    }
}

/// `probability of a`, inside the quotes where there are any.
fn prefixed(label: &str) -> String {
    match label.strip_prefix('"') {
        Some(rest) => format!("\"probability of {rest}"),
        None => format!("probability of {label}"),
    }
}

/// A CSV cell.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(predictions: &Predictions, classes: &[&str]) -> String {
        let classes: Vec<String> = classes.iter().map(|class| (*class).to_owned()).collect();
        let mut out = Vec::new();
        let mut writer = AnswerWriter::new(AnswerFormat::Csv, &classes, &[]);
        writer.write(&mut out, predictions).unwrap();
        writer.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn regressions_have_nine_digits() {
        let shown = [676.8355425930517, -0.1, 1e20, 0.0, 1.0 / 3.0].map(nine_digits);
        assert_eq!(shown, ["676.835543", "-0.1", "100000000000000000000", "0", "0.333333333"]);
    }

    #[test]
    fn kept_columns_come_first_and_json_has_a_line_each() {
        let predictions = Predictions {
            values: vec![1.0, f64::NAN],
            probabilities: vec![vec![0.25, 0.75], Vec::new()],
            kept: vec![KeptColumn { name: "id, no".into(), cells: vec!["007".into(), "a\"b".into()] }],
            ..Predictions::default()
        };
        let expected = "\"id, no\",prediction,probability of x,probability of y\n007,y,0.25,0.75\n\"a\"\"b\",,,\n";
        assert_eq!(written(&predictions, &["x", "y"]), expected);
        let classes = ["x".to_owned(), "y".to_owned()];
        let (mut out, mut writer) = (Vec::new(), AnswerWriter::new(AnswerFormat::JsonLines, &classes, &[]));
        writer.write(&mut out, &predictions).unwrap();
        let lines: Vec<Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["probabilities"]["y"], json!(0.75));
        assert_eq!((&lines[0]["prediction"], &lines[1]["prediction"]), (&json!("y"), &Value::Null));
        assert_eq!((&lines[0]["id, no"], &lines[1]["row"]), (&json!("007"), &json!(1)));
    }

    #[test]
    fn quantiles_stand_behind_the_prediction() {
        let predictions = Predictions {
            values: vec![5.0, f64::NAN],
            quantiles: vec![vec![1.5, 5.0], Vec::new()],
            ..Predictions::default()
        };
        let names = ["a, b_q0.1".to_owned(), "a, b_q0.5".to_owned()];
        let write = |format: AnswerFormat| {
            let (mut out, mut writer) = (Vec::new(), AnswerWriter::new(format, &[], &names));
            writer.write(&mut out, &predictions).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(write(AnswerFormat::Csv), "prediction,\"a, b_q0.1\",\"a, b_q0.5\"\n5,1.5,5\n,,\n");
        let lines: Vec<Value> =
            write(AnswerFormat::JsonLines).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["quantiles"]["a, b_q0.1"], &lines[0]["prediction"]), (&json!(1.5), &json!(5.0)));
        assert_eq!((lines[1].get("quantiles"), &lines[1]["prediction"]), (None, &Value::Null));
    }

    #[test]
    fn no_rows_have_a_header() {
        let (mut out, mut writer) = (Vec::new(), AnswerWriter::new(AnswerFormat::Csv, &[], &[]));
        writer.finish(&mut out).unwrap();
        assert_eq!(out, b"prediction\n");
    }

    #[test]
    fn a_picture_that_cannot_be_read_keeps_its_line() {
        let predictions = Predictions {
            values: vec![1.0, f64::NAN, 0.0],
            probabilities: vec![vec![0.25, 0.75], Vec::new(), vec![1.0, 1e-60]],
            about: About::Pictures(vec!["a.png".into(), "b, c.png".into(), "d.png".into()]),
            ..Predictions::default()
        };
        let expected = "path,prediction,probability of x,\"probability of y, z\"\n\
                        a.png,\"y, z\",0.25,0.75\n\"b, c.png\",,,\nd.png,x,1.0,1e-60\n";
        assert_eq!(written(&predictions, &["x", "y, z"]), expected);
    }

    #[test]
    fn probabilities_read_back() {
        for p in [0.1f32, 1.0 / 3.0, 0.999_999_94, 1.0, 0.0, 3.7e-9, f32::MIN_POSITIVE] {
            assert_eq!(share(p as f64).parse::<f32>().unwrap(), p);
        }
        assert_eq!([share(0.1), share(1e-9), share(0.0)], ["0.1", "1e-9", "0.0"]);
    }

    #[test]
    fn steps_and_windows_are_told() {
        let about = |about| Predictions { values: vec![5.0, 6.5, 7.0, 8.0], about, ..Predictions::default() };
        assert_eq!(written(&about(About::Rows), &[]), "prediction\n5\n6.5\n7\n8\n");
        let ahead = |time| written(&about(About::Ahead { time }), &[]);
        assert_eq!(ahead(None), "step,prediction\n1,5\n2,6.5\n3,7\n4,8\n");
        let time = KeptColumn { name: "day".into(), cells: ["1.5.", "2.5.", "3.5.", "4.5."].map(String::from).into() };
        let expected = "day,step,prediction\n1.5.,1,5\n2.5.,2,6.5\n3.5.,3,7\n4.5.,4,8\n";
        assert_eq!(ahead(Some(time)), expected);
        let windows = About::Windows { first: vec![3, 6], horizon: 2, time: None };
        assert_eq!(written(&about(windows), &[]), "first_row,step,prediction\n3,1,5\n3,2,6.5\n6,1,7\n6,2,8\n");
    }
}
