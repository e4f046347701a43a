//! A text that a model goes on with, token by token.

use citius_data::Features;
use citius_data::rng::SplitMix64;

use crate::TrainError;
use crate::metrics::{likeliest, softmax};
use crate::predictor::Predictor;

/// How the next token is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Logits are divided by it; at 0 the likeliest token is taken.
    pub temperature: f64,
    pub seed: u64,
}

/// A text being written.
pub struct Writer<'a> {
    predictor: &'a mut Predictor,
    sampling: Sampling,
    random: SplitMix64,
    /// The longest text that the network sees at once, and the number of different tokens.
    context: usize,
    vocabulary: usize,
    tokens: Vec<i32>,
}

impl<'a> Writer<'a> {
    /// Goes on with `tokens`, of which there is at least one.
    pub(crate) fn new(
        predictor: &'a mut Predictor,
        (context, vocabulary): (usize, usize),
        tokens: Vec<i32>,
        sampling: Sampling,
    ) -> Result<Writer<'a>, TrainError> {
        if tokens.is_empty() || context == 0 || vocabulary == 0 {
            return Err(TrainError::Setting("there is nothing to go on with; give --prompt some text".into()));
        }
        if !(sampling.temperature.is_finite() && sampling.temperature >= 0.0) {
            let problem = format!("the temperature is {}, it must be a number of at least 0", sampling.temperature);
            return Err(TrainError::Setting(problem));
        }
        let random = SplitMix64::new(sampling.seed);
        Ok(Writer { predictor, sampling, random, context, vocabulary, tokens })
    }

    /// Draws the next token and adds it to the text.
    pub fn next_token(&mut self) -> Result<i32, TrainError> {
        let from = self.tokens.len().saturating_sub(self.context);
        let mut seen = self.tokens[from..].to_vec();
        let last = seen.len() - 1;
        // one plan for every length: a causal network does not look at what stands behind
        seen.resize(self.context, 0);
        let logits = self.predictor.outputs(&Features::I32 { data: seen, width: self.context })?;
        let token = self.draw(&logits[last * self.vocabulary..][..self.vocabulary]) as i32;
        self.tokens.push(token);
        Ok(token)
    }

    fn draw(&mut self, logits: &[f32]) -> usize {
        let temperature = self.sampling.temperature;
        let scaled: Vec<f32> = logits.iter().map(|x| (*x as f64 / temperature) as f32).collect();
        if temperature == 0.0 || scaled.iter().any(|x| !x.is_finite()) {
            return likeliest(logits);
        }
        let shares = softmax(&scaled);
        let mut left = (self.random.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        for (token, share) in shares.iter().enumerate() {
            left -= share;
            if left < 0.0 {
                return token;
            }
        }
        likeliest(logits) // what rounding has left over
    }
}
