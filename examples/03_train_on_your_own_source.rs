//! Rows that a program makes, trained on through a loader: nothing is stored, and the same run comes out every time.
//!
//!     cargo run --release -p citius --example 03_train_on_your_own_source

use std::sync::Arc;

use citius::prelude::*;

/// y = sin(3a) + b, at points that follow from the row's number and the epoch: there is always more to see.
struct Waves(Schema);

impl Source for Waves {
    fn name(&self) -> &str {
        "waves"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn rows(&self) -> u32 {
        20_000
    }

    fn gather(&self, rows: &Rows<'_>, into: &mut [FieldMut<'_>]) -> Result<(), DataError> {
        let [FieldMut::F32(x), FieldMut::F32(y)] = into else {
            return Err(DataError::Inconsistent("buffers of another schema".into()));
        };
        for ((row, x), y) in rows.numbers.iter().zip(x.chunks_exact_mut(2)).zip(y.iter_mut()) {
            let bits = rows.key(*row); // random, and the same whoever asks
            let unit = |bits: u32| bits as f32 / u32::MAX as f32 * 2.0 - 1.0;
            (x[0], x[1]) = (unit(bits as u32), unit((bits >> 32) as u32));
            *y = (3.0 * x[0]).sin() + x[1];
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = Schema::new(vec![Field::new("x", Kind::F32, &[2]), Field::new("y", Kind::F32, &[1])])?;
    let source = Arc::new(Waves(schema));
    let rows: Vec<u32> = (0..source.rows()).collect();
    let splits = Splits::random(&rows, SplitOptions { validation: 0.1, test: 0.1, seed: 0 })?;
    let problem = Problem::on_source(source, splits, LoadingOptions::default())?;
    let wishes = Wishes { epochs: Some(5), hidden: Some(vec![32, 32]), ..Wishes::default() };
    let out = tempfile::tempdir()?;
    let options = RunOptions { out: Some(out.path().to_owned()), ..RunOptions::default() };
    let report = Training::on(problem, wishes)?.run(&options, &mut Silent, &Default::default())?;
    println!("test RMSE {:.4} after {:.2} s", report.test.rmse.unwrap_or(f64::NAN), report.seconds);
    Ok(())
}
