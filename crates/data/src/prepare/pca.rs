//! Principal components: the directions in which the encoded inputs vary most, instead of the inputs.
//!
//! ```text
//! C = (X − x̄)ᵀ(X − x̄) / (n − 1) = Σ λ_k · v_k · v_kᵀ      λ₁ ≥ λ₂ ≥ …
//! z_k = v_k · (x − x̄),   whitened: z_k / √λ_k
//! ```
//!
//! As scikit-learn's `PCA`; the largest entry of each v is positive. A direction of no variance is 0 when whitened.

use serde::{Deserialize, Serialize};

use super::correlation::spread;
use super::eigen;
use super::options::refused;
use crate::error::DataError;
use crate::table::Table;

/// More inputs than this take too long.
const MOST_INPUTS: usize = 512;
/// Rows from which the covariance is taken.
pub(super) const MOST_ROWS: usize = 100_000;
/// A share of the largest variance below which a direction is rounding.
const FLAT: f64 = 1e-12;

/// How many principal components: exactly one of `components` and `variance`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Pca {
    /// So many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub components: Option<usize>,
    /// As many as hold this share of the variance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variance: Option<f64>,
    /// Each scaled to deviation 1.
    pub whiten: bool,
}

/// Fitted components: `z = W · (x − mean)`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Projection {
    mean: Vec<f64>,
    /// `[components][inputs]`, divided by the deviation if whitened.
    weights: Vec<Vec<f64>>,
}

/// A projection, and the share of the variance it holds.
pub(super) struct Fitted {
    pub projection: Projection,
    pub share: f64,
}

impl Pca {
    /// Fits to rows of `inputs` numbers each.
    pub(super) fn fit(&self, table: &Table, data: &[f32], inputs: usize) -> Result<Fitted, DataError> {
        let refuse = |problem: String, next: String| Err(refused(table, "pca", problem, &next));
        if inputs > MOST_INPUTS {
            let next = "select fewer columns, or use categorical = { hash = 16 } or \"ordinal\"".to_owned();
            return refuse(format!("{inputs} inputs, at most {MOST_INPUTS} are possible"), next);
        }
        match (self.components, self.variance) {
            (Some(count), None) if !(1..=inputs).contains(&count) => {
                return refuse(format!("{count} components of {inputs} inputs"), format!("use 1 to {inputs}"));
            }
            (None, Some(share)) if !(share > 0.0 && share <= 1.0) => {
                return refuse(format!("variance = {share}"), "use a share above 0, at most 1".to_owned());
            }
            (Some(_), None) | (None, Some(_)) => {}
            _ => return refuse("how many components?".to_owned(), "say either components or variance".to_owned()),
        }
        let (mean, covariance) = covariance(data, inputs);
        let (mut values, mut vectors) = eigen::symmetric(covariance, inputs);
        if values.iter().chain(vectors.iter().flatten()).any(|value| !value.is_finite()) {
            let problem = "the covariance of the inputs is beyond numbers".to_owned();
            return refuse(problem, "scale the columns".to_owned());
        }
        values.iter_mut().for_each(|value| *value = value.max(0.0));
        vectors.iter_mut().for_each(|vector| face_forward(vector));
        let total: f64 = values.iter().sum();
        let share_of = |count: usize| match total > 0.0 {
            true => values[..count].iter().sum::<f64>() / total,
            false => 1.0,
        };
        let enough = |share: f64| (1..=inputs).find(|count| share_of(*count) >= share - 1e-12).unwrap_or(inputs);
        let count = self.components.or(self.variance.map(enough)).unwrap_or(inputs);
        if self.whiten {
            for (vector, value) in vectors.iter_mut().zip(&values) {
                let factor = if *value > values[0] * FLAT { 1.0 / value.sqrt() } else { 0.0 };
                vector.iter_mut().for_each(|entry| *entry *= factor);
            }
        }
        let share = share_of(count);
        vectors.truncate(count);
        Ok(Fitted { projection: Projection { mean, weights: vectors }, share })
    }
}

impl Projection {
    pub(super) fn components(&self) -> usize {
        self.weights.len()
    }

    /// `[rows, inputs]` to `[rows, components]`.
    pub(super) fn apply(&self, data: &[f32]) -> Vec<f32> {
        let inputs = self.mean.len();
        let mut centred = vec![0.0; inputs];
        let mut out = Vec::with_capacity(data.len() / inputs.max(1) * self.components());
        for row in data.chunks_exact(inputs.max(1)) {
            for ((centred, value), mean) in centred.iter_mut().zip(row).zip(&self.mean) {
                *centred = *value as f64 - mean;
            }
            out.extend(self.weights.iter().map(|weights| {
                let dot: f64 = weights.iter().zip(&centred).map(|(weight, value)| weight * value).sum();
                dot.clamp(f32::MIN as f64, f32::MAX as f64) as f32
            }));
        }
        out
    }

    /// A damaged model may hold anything: whether this fits so many inputs.
    pub(super) fn fits(&self, inputs: usize) -> bool {
        self.mean.len() == inputs && self.weights.iter().all(|weights| weights.len() == inputs)
    }
}

/// The mean of each input, and the covariance of all, `[inputs, inputs]`.
fn covariance(data: &[f32], inputs: usize) -> (Vec<f64>, Vec<f64>) {
    let rows = data.len() / inputs.max(1);
    let used = || spread(rows, MOST_ROWS).map(|row| &data[row * inputs..(row + 1) * inputs]);
    let n = used().count();
    let mut mean = vec![0.0; inputs];
    for row in used() {
        mean.iter_mut().zip(row).for_each(|(mean, value)| *mean += *value as f64);
    }
    mean.iter_mut().for_each(|mean| *mean /= n.max(1) as f64);
    let mut covariance = vec![0.0; inputs * inputs];
    let mut centred = vec![0.0; inputs];
    for row in used() {
        for ((centred, value), mean) in centred.iter_mut().zip(row).zip(&mean) {
            *centred = *value as f64 - mean;
        }
        for i in 0..inputs {
            let a = centred[i];
            if a != 0.0 {
                let sums = &mut covariance[i * inputs + i..(i + 1) * inputs];
                sums.iter_mut().zip(&centred[i..]).for_each(|(sum, b)| *sum += a * b);
            }
        }
    }
    let free = n.saturating_sub(1).max(1) as f64;
    for i in 0..inputs {
        for j in i..inputs {
            covariance[i * inputs + j] /= free;
            covariance[j * inputs + i] = covariance[i * inputs + j];
        }
    }
    (mean, covariance)
}

/// Turns a vector so that its largest entry, in doubt the first, is positive.
fn face_forward(vector: &mut [f64]) {
    let largest = vector.iter().copied().reduce(|best, v| if v.abs() > best.abs() { v } else { best });
    if largest.is_some_and(|value| value < 0.0) {
        vector.iter_mut().for_each(|value| *value = -*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: [f32; 30] = [
        2.5, 2.4, 1., 0.5, 0.7, 0., 2.2, 2.9, 1., 1.9, 2.2, 0., 3.1, 3.0, 2., 2.3, 2.7, 0., 2., 1.6, 1., 1., 1.1, 3.,
        1.5, 1.6, 0., 1.1, 0.9, 1.,
    ];

    fn fit(pca: Pca, data: &[f32], inputs: usize) -> Result<Fitted, DataError> {
        let table = Table { name: "t.csv".into(), columns: vec![], rows: 0, header: true, reading: Default::default() };
        pca.fit(&table, data, inputs)
    }

    fn near(got: &[f32], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!((*got as f64 - want).abs() < 1e-5, "{got} is not {want}");
        }
    }

    /// scikit-learn 1.9: `PCA(whiten=…).fit(P)`: `components_`, `explained_variance_ratio_`, `transform(P)[:2]`
    #[test]
    fn agrees_with_scikit_learn() {
        let all = fit(Pca { components: Some(3), ..Pca::default() }, &DATA, 3).unwrap();
        let first: Vec<f32> = all.projection.weights[0].iter().map(|w| *w as f32).collect();
        near(&first, &[0.67576890, 0.72116245, 0.15251596]);
        let second: Vec<f32> = all.projection.weights[1].iter().map(|w| *w as f32).collect();
        near(&second, &[-0.05341164, -0.15845887, 0.98591987]);
        let got = all.projection.apply(&DATA);
        near(&got[..6], &[0.83490174, -0.01590689, 0.16995900, -1.89512818, -0.62562340, -0.08534950]);
        let white = fit(Pca { components: Some(3), whiten: true, ..Pca::default() }, &DATA, 3).unwrap();
        let got = white.projection.apply(&DATA);
        near(&got[..6], &[0.73476369, -0.01601762, 0.80449378, -1.66782667, -0.62997826, -0.40399824]);
        let share = |variance| {
            let fitted = fit(Pca { variance: Some(variance), ..Pca::default() }, &DATA, 3).unwrap();
            (fitted.projection.components(), (fitted.share * 1e6).round() / 1e6)
        };
        assert_eq!(share(0.5), (1, 0.556049));
        assert_eq!(share(0.95), (2, 0.980779));
        assert_eq!(share(1.0), (3, 1.0));
    }

    #[test]
    fn flat_directions_stay_finite() {
        let data = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0];
        let fitted = fit(Pca { components: Some(2), whiten: true, ..Pca::default() }, &data, 2).unwrap();
        let got = fitted.projection.apply(&data);
        near(&got, &[-1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let same = fit(Pca { variance: Some(0.9), whiten: true, ..Pca::default() }, &[4.0; 6], 2).unwrap();
        assert_eq!(same.projection.apply(&[4.0, 9.0]), [0.0]);
        let wild = [f32::MAX, f32::MIN, 0.0, f32::MAX, 1.0, 2.0];
        let fitted = fit(Pca { components: Some(2), ..Pca::default() }, &wild, 2).unwrap();
        assert!(fitted.projection.apply(&wild).iter().all(|v| v.is_finite()));
    }

    #[test]
    fn impossible_wishes() {
        let message = |pca: Pca, inputs: usize| fit(pca, &[0.0; 2000], inputs).err().unwrap().to_string();
        let components = |count| Pca { components: Some(count), ..Pca::default() };
        assert_eq!(message(components(9), 4), "t.csv: prepare.pca: 9 components of 4 inputs; use 1 to 4");
        assert!(message(components(0), 4).contains("1 to 4"));
        assert!(message(components(2), 1000).contains("at most 512"));
        assert!(message(Pca { variance: Some(1.5), ..Pca::default() }, 4).contains("at most 1"));
        assert!(message(Pca::default(), 4).contains("either components or variance"));
    }
}
