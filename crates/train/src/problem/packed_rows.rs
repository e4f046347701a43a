//! Rows of a packed file for a model, block by block.

use std::path::Path;
use std::sync::Arc;

use citius_data::{Dataset, Escaped, Kind, PackedFile, Stream, schema};

use super::Input;
use super::packed::preparation;
use super::rows::SomeBlocks;
use crate::TrainError;

/// A packed file whose rows are what a model takes.
pub(crate) struct PackedRows {
    file: Arc<PackedFile>,
    bytes: (f32, f32),
}

impl PackedRows {
    /// Refuses a file whose rows were prepared in another way than the model's.
    pub fn open(path: &Path, input: &Input) -> Result<PackedRows, TrainError> {
        let file = PackedFile::open(path)?;
        let wrong =
            |problem: &str, next: &str| Err(TrainError::Setting(format!("{}: {problem}; {next}", path.escaped())));
        let x = file.metadata().schema.field(schema::INPUT);
        let labels = file.metadata().schema.field(schema::TARGET).map_or(&[][..], |y| &y.labels);
        let mut bytes = (1.0 / 255.0, 0.0);
        match input {
            Input::Table { preparation: known } => match preparation(&file)? {
                Some(found) if found == **known => {}
                Some(_) => {
                    return wrong(
                        "its rows were scaled and encoded by themselves, not as the model's training rows were",
                        "give the table that it was packed from",
                    );
                }
                None => return wrong("its rows are not those of a table", "give rows like those of the training"),
            },
            Input::Images { height, width, scale, shift, labels: known } => {
                let fits = x.is_some_and(|x| x.kind == Kind::U8 && x.width() == height.saturating_mul(*width));
                if !fits {
                    let problem = format!("its rows are not grey pictures of {height}×{width} pixels");
                    return wrong(&problem, "give pictures like those of the training");
                }
                if labels != known {
                    return wrong("its classes are not those of the model", "give the files that it was packed from");
                }
                bytes = (*scale, *shift);
            }
            Input::Rows(_) => return wrong("its rows are read in another way", "please report this"),
        }
        Ok(PackedRows { file: Arc::new(file), bytes })
    }

    pub fn blocks(&self) -> usize {
        self.file.blocks().len().saturating_sub(1)
    }

    /// The rows of a block.
    pub fn read(&self, block: usize) -> Result<Dataset, TrainError> {
        let stream: Arc<dyn Stream> = self.file.clone();
        Ok(SomeBlocks::new(stream, vec![block]).dataset(self.bytes)?)
    }
}
