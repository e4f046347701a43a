/// How far a number may be from the expected one: `absolute + relative·|expected|`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub relative: f64,
    pub absolute: f64,
}

impl Tolerance {
    pub fn new(relative: f64, absolute: f64) -> Tolerance {
        Tolerance { relative, absolute }
    }

    pub fn accepts(self, actual: f64, expected: f64) -> bool {
        // beyond f32 an f32 executor rightly answers ∞
        if expected.abs() > f32::MAX as f64 && actual.is_infinite() && actual.signum() == expected.signum() {
            return true;
        }
        if expected.is_nan() || expected.is_infinite() {
            return actual == expected || (actual.is_nan() && expected.is_nan());
        }
        (actual - expected).abs() <= self.absolute + self.relative * expected.abs()
    }
}

/// `Err` shows the worst element.
pub fn compare(actual: &[f64], expected: &[f64], tolerance: Tolerance) -> Result<(), String> {
    if actual.len() != expected.len() {
        return Err(format!("{} elements, expected {}", actual.len(), expected.len()));
    }
    let wrong: Vec<usize> = (0..actual.len()).filter(|&i| !tolerance.accepts(actual[i], expected[i])).collect();
    let distance = |i: usize| {
        let d = (actual[i] - expected[i]).abs() / (tolerance.absolute + tolerance.relative * expected[i].abs());
        if d.is_nan() { f64::INFINITY } else { d }
    };
    match wrong.iter().copied().max_by(|&a, &b| distance(a).total_cmp(&distance(b))) {
        None => Ok(()),
        Some(i) => Err(format!(
            "{} of {} elements differ; worst [{i}] is {:e}, expected {:e}, off by {:.2e} ({:.1} tolerances)",
            wrong.len(),
            actual.len(),
            actual[i],
            expected[i],
            (actual[i] - expected[i]).abs(),
            distance(i)
        )),
    }
}

/// Panics with the first few complaints, if there are any.
#[track_caller]
pub(crate) fn assert_none(title: &str, cases: usize, failures: Vec<String>) {
    assert!(cases > 0, "{title}: no cases");
    let shown: Vec<&str> = failures.iter().take(12).map(|f| f.as_str()).collect();
    assert!(failures.is_empty(), "{title}: {} of {cases} cases fail\n{}", failures.len(), shown.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_worst() {
        let t = Tolerance::new(1e-6, 1e-9);
        assert!(compare(&[1.0, f64::NAN], &[1.0, f64::NAN], t).is_ok());
        assert!(compare(&[f64::INFINITY], &[1e39], t).is_ok());
        assert!(compare(&[f64::INFINITY], &[1e37], t).is_err());
        assert!(compare(&[1.0], &[], t).is_err());
        let message = compare(&[1.0, 2.1, f64::NAN], &[1.0, 2.0, 3.0], t).unwrap_err();
        assert!(message.contains("2 of 3") && message.contains("[2]"), "{message}");
    }
}
