//! Predictions as a CSV: what each is about, the answer, and a probability per class.

use std::io::{self, Write};

use citius_train::{About, Predictions};

/// Writes all of it; `classes` in the order of their numbers, none for regression.
pub fn write(out: &mut impl Write, predictions: &Predictions, classes: &[String]) -> io::Result<()> {
    let classes: Vec<String> = classes.iter().map(|class| quoted(class)).collect();
    let about = match &predictions.about {
        About::Rows => "",
        About::Pictures(_) => "path,",
        About::Ahead => "step,",
        About::Windows { .. } => "first_row,step,",
    };
    write!(out, "{about}prediction")?;
    for class in &classes {
        write!(out, ",{}", prefixed(class))?;
    }
    writeln!(out)?;
    for (i, value) in predictions.values.iter().enumerate() {
        match &predictions.about {
            About::Rows => {}
            About::Pictures(paths) => write!(out, "{},", paths.get(i).map_or(String::new(), |path| quoted(path)))?,
            About::Ahead => write!(out, "{},", i + 1)?,
            About::Windows { first, horizon } => {
                let (window, step) = (i / (*horizon).max(1), i % (*horizon).max(1));
                write!(out, "{},{},", first.get(window).copied().unwrap_or_default(), step + 1)?;
            }
        }
        match &classes[..] {
            [] => write!(out, "{value}")?,
            _ if value.is_nan() => {}
            classes => write!(out, "{}", classes.get(*value as usize).map_or("", String::as_str))?,
        }
        let known = predictions.probabilities.get(i).map_or(&[][..], Vec::as_slice);
        for class in 0..classes.len() {
            write!(out, ",{}", known.get(class).map_or(String::new(), |p| share(*p)))?;
        }
        writeln!(out)?;
    }
    out.flush()
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
        write(&mut out, predictions, &classes).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_picture_that_cannot_be_read_keeps_its_line() {
        let predictions = Predictions {
            values: vec![1.0, f64::NAN, 0.0],
            probabilities: vec![vec![0.25, 0.75], Vec::new(), vec![1.0, 1e-60]],
            about: About::Pictures(vec!["a.png".into(), "b, c.png".into(), "d.png".into()]),
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
        let about = |about| Predictions { values: vec![5.0, 6.5, 7.0, 8.0], probabilities: Vec::new(), about };
        assert_eq!(written(&about(About::Rows), &[]), "prediction\n5\n6.5\n7\n8\n");
        assert_eq!(written(&about(About::Ahead), &[]), "step,prediction\n1,5\n2,6.5\n3,7\n4,8\n");
        let windows = About::Windows { first: vec![3, 6], horizon: 2 };
        assert_eq!(written(&about(windows), &[]), "first_row,step,prediction\n3,1,5\n3,2,6.5\n6,1,7\n6,2,8\n");
    }
}
