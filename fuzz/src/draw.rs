//! Settings drawn from the first bytes of an input; what is left is the file.

use citius_data::{Categorical, Delimiter, Fill, Impute, Pca, PrepareOptions, ReadOptions, Scale, Select, Task};

/// The bytes of an input that are not used yet. Zeros follow its end.
pub struct Draw<'a>(&'a [u8]);

impl<'a> Draw<'a> {
    pub fn new(input: &'a [u8]) -> Draw<'a> {
        Draw(input)
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// One of the choices, the first for 0.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.byte() as usize % choices.len()].clone()
    }

    /// At most so many bytes.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Four bytes; zeros are the default.
    pub fn read_options(&mut self) -> ReadOptions {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let choices = [vec![], names(&["0"]), names(&["-1", "1"]), names(&["a"])];
        let (delimiters, lists, header) = (self.byte(), self.byte(), self.byte());
        let list = |shift: u8| choices[(lists >> shift) as usize & 3].clone();
        ReadOptions {
            delimiter: match delimiters % 5 {
                0 => None,
                1 => Some(Delimiter::Comma),
                2 => Some(Delimiter::Semicolon),
                3 => Some(Delimiter::Tab),
                _ => Some(Delimiter::Spaces),
            },
            header: [None, Some(true), Some(false)][header as usize % 3],
            columns: list(0),
            text: list(2),
            expect_text: list(4),
            expect_written: Default::default(),
            encoding: None,
            expect_columns: list(6),
            for_model: header >= 128,
            most_bytes: None,
            missing: self.pick(&[vec![], names(&["x"]), names(&["-999", "inf"])]),
        }
    }

    /// Seven bytes; zeros are the default.
    pub fn prepare_options(&mut self) -> PrepareOptions {
        let logarithms = self.byte();
        let column = |wanted: bool| if wanted { vec!["-1".to_owned()] } else { vec![] };
        let select = self.byte();
        PrepareOptions {
            log: column(logarithms & 1 != 0),
            signed_log: column(logarithms & 2 != 0),
            task: self.pick(&[None, Some(Task::Regression), Some(Task::Binary), Some(Task::Classes)]),
            scale: self.pick(&[
                None,
                Some(Scale::Standard),
                Some(Scale::MinMax),
                Some(Scale::Robust),
                Some(Scale::None),
            ]),
            impute: self.pick(&[
                None,
                Some(Impute::Mean),
                Some(Impute::Median),
                Some(Impute::MostFrequent),
                Some(Impute::Error),
                Some(Impute::Constant(Fill::Number(-1e300))),
                Some(Impute::Constant(Fill::Label("x".to_owned()))),
            ]),
            categorical: self.pick(&[
                None,
                Some(Categorical::OneHot),
                Some(Categorical::Ordinal),
                Some(Categorical::Hash(3)),
                Some(Categorical::Embedding),
            ]),
            select: Select {
                min_variance: (select & 1 != 0).then_some(0.01),
                max_correlation: (select & 2 != 0).then_some(0.9),
                best: (select & 4 != 0).then_some(2),
            },
            pca: self.pick(&[
                None,
                Some(Pca { components: Some(2), variance: None, whiten: false }),
                Some(Pca { components: None, variance: Some(0.9), whiten: true }),
            ]),
            ..PrepareOptions::default()
        }
    }
}
