use crate::{Part, Shape, random};

/// What a parameter or state tensor holds before the first step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Init {
    Zeros,
    Constant(f32),
    Uniform {
        low: f32,
        high: f32,
    },
    Normal {
        mean: f32,
        std: f32,
    },
    /// Around 0, but elements from `zeros.0` up to `zeros.1` are 0 themselves: a table with one row that means nothing.
    NormalBut {
        std: f32,
        zeros: (usize, usize),
    },
}

impl Init {
    /// The values a leaf starts with. A part of a parameter gets those that the whole would have had there.
    pub fn values(self, seed: u64, name: &str, shape: &Shape, part: Option<&Part>) -> Vec<f32> {
        let mut own = vec![0.0; shape.elements()];
        self.fill_leaf(seed, name, shape, part, &mut own);
        own
    }

    /// The same, written to where the leaf is.
    pub fn fill_leaf(self, seed: u64, name: &str, shape: &Shape, part: Option<&Part>, out: &mut [f32]) {
        match part {
            None => self.fill(seed, name, out),
            Some(part) => {
                let key = random::key_of_name(seed, &part.whole);
                part.each(shape, |i, w| out[i] = self.value(key, w));
            }
        }
    }

    /// Fills `out` from a generator keyed by `(seed, name)`: the values do not depend on the order of declaration.
    pub fn fill(self, seed: u64, name: &str, out: &mut [f32]) {
        let key = random::key_of_name(seed, name);
        for (i, x) in out.iter_mut().enumerate() {
            *x = self.value(key, i);
        }
    }

    /// Element `i` of the whole tensor.
    fn value(self, key: u64, i: usize) -> f32 {
        match self {
            Init::Zeros => 0.0,
            Init::Constant(value) => value,
            Init::Uniform { low, high } => low + (high - low) * random::uniform(key, 0, i as u64),
            Init::Normal { mean, std } => mean + std * random::normal(key, i as u64),
            Init::NormalBut { zeros, .. } if (zeros.0..zeros.1).contains(&i) => 0.0,
            Init::NormalBut { std, .. } => Init::Normal { mean: 0.0, std }.value(key, i),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_as_asked() {
        let mut x = vec![0.0f32; 40_000];
        Init::Normal { mean: 1.0, std: 0.5 }.fill(3, "w", &mut x);
        let mean = x.iter().map(|&v| v as f64).sum::<f64>() / x.len() as f64;
        let var = x.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / x.len() as f64;
        assert!((mean - 1.0).abs() < 0.01 && (var.sqrt() - 0.5).abs() < 0.01, "{mean} {var}");

        Init::Uniform { low: -2.0, high: 4.0 }.fill(3, "w", &mut x);
        let mean = x.iter().map(|&v| v as f64).sum::<f64>() / x.len() as f64;
        assert!(x.iter().all(|&v| (-2.0..4.0).contains(&v)) && (mean - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn names_and_seeds_give_different_streams() {
        let draw = |seed, name| {
            let mut x = [0.0f32; 4];
            Init::Uniform { low: 0.0, high: 1.0 }.fill(seed, name, &mut x);
            x
        };
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }
}
