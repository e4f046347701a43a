//! What a network learns from: rows resident in memory, which the step gathers itself, or rows that a loader brings.

use std::sync::Arc;

use citius_data::{Dataset, Features, Kind, Loader, LoaderOptions, OnError, Sampling, Source, Stream, Target, schema};

use crate::TrainError;

/// Training rows.
pub enum Material {
    Resident(Dataset),
    Loaded(Loaded),
}

/// Rows that a loader brings.
pub struct Loaded {
    pub feed: Feed,
    pub form: Form,
    pub options: LoadingOptions,
}

/// Where the loader gets them.
#[derive(Clone)]
pub enum Feed {
    Source(Arc<dyn Source>),
    Stream(Arc<dyn Stream>),
}

/// How to load; none of it but `on_error` changes what is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadingOptions {
    pub workers: Option<usize>,
    pub prefetch: Option<usize>,
    pub memory_limit: Option<usize>,
    pub on_error: OnError,
    pub sampling: Sampling,
    /// On their way to a GPU, batches lie in memory that the system may move.
    pub unpinned: bool,
}

/// The shapes and types of rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Form {
    pub rows: usize,
    pub width: usize,
    pub features: FeatureForm,
    pub target: TargetForm,
}

/// What a feature is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FeatureForm {
    Numbers,
    /// value = byte · scale + shift
    Bytes(f32, f32),
    /// The number of a token.
    Tokens,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetForm {
    /// So many numbers.
    Values(usize),
    /// One of so many classes.
    Classes(usize),
    /// The share of each of so many classes.
    Shares(usize),
    /// One of so many classes at each place of a row.
    Sequence { length: usize, classes: usize },
}

impl Material {
    pub fn form(&self) -> Form {
        match self {
            Material::Resident(data) => Form::from(data),
            Material::Loaded(loaded) => loaded.form,
        }
    }

    pub fn rows(&self) -> usize {
        self.form().rows
    }

    pub fn width(&self) -> usize {
        self.form().width
    }

    pub fn outputs(&self) -> usize {
        self.form().outputs()
    }

    /// Batches lie in memory that the system may move, on their way to a GPU; what is bound to the step stays there.
    pub fn unpinned(&self) -> bool {
        matches!(self, Material::Loaded(loaded) if loaded.options.unpinned)
    }

    /// The data set, where all of it is in memory.
    pub fn resident(&self) -> Option<&Dataset> {
        match self {
            Material::Resident(data) => Some(data),
            Material::Loaded(_) => None,
        }
    }
}

impl Loaded {
    /// `bytes`: how the bytes of a u8 input become numbers.
    pub fn new(feed: Feed, bytes: (f32, f32), options: LoadingOptions) -> Result<Loaded, TrainError> {
        let (name, schema, rows) = match &feed {
            Feed::Source(source) => (source.name(), source.schema(), source.rows()),
            Feed::Stream(stream) => (stream.name(), stream.schema(), stream.blocks().last().copied().unwrap_or(0)),
        };
        let wrong = |what: &str| TrainError::Setting(format!("{name}: {what}; its rows are {schema}"));
        let [x, y] = &schema.fields[..] else { return Err(wrong("training needs the fields x and y")) };
        if x.name != schema::INPUT || y.name != schema::TARGET {
            return Err(wrong("training needs the fields x and y, in this order"));
        }
        let features = match x.kind {
            Kind::F32 => FeatureForm::Numbers,
            Kind::U8 => FeatureForm::Bytes(bytes.0, bytes.1),
            Kind::I32 => FeatureForm::Tokens,
        };
        let target = match y.kind {
            Kind::F32 if !y.labels.is_empty() => TargetForm::Shares(y.width()),
            Kind::F32 => TargetForm::Values(y.width()),
            Kind::I32 if y.shape.is_empty() && !y.labels.is_empty() => TargetForm::Classes(y.labels.len()),
            Kind::I32 if y.shape.len() == 1 && !y.labels.is_empty() => {
                TargetForm::Sequence { length: y.width(), classes: y.labels.len() }
            }
            Kind::I32 | Kind::U8 => return Err(wrong("its target is neither numbers nor classes")),
        };
        let form = Form { rows: rows as usize, width: x.width(), features, target };
        Ok(Loaded { feed, form, options })
    }

    /// A loader about to bring this batch of this epoch.
    pub fn loader(&self, batch_size: usize, seed: u64, epoch: u64, batch: u64) -> Result<Loader, TrainError> {
        let LoadingOptions { workers, prefetch, memory_limit, on_error, sampling, .. } = self.options.clone();
        let usual = LoaderOptions::default();
        let memory_limit = memory_limit.unwrap_or(usual.memory_limit);
        let options = LoaderOptions { batch_size, seed, workers, prefetch, memory_limit, on_error, sampling, ..usual };
        let loader = match &self.feed {
            Feed::Source(source) => Loader::new(source.clone(), options)?,
            Feed::Stream(stream) => Loader::stream(stream.clone(), options)?,
        };
        Ok(if (epoch, batch) == (0, 0) { loader } else { loader.seek(epoch, batch)? })
    }
}

impl Form {
    /// Values the model has to give per row, or per place of a row.
    pub fn outputs(&self) -> usize {
        match self.target {
            TargetForm::Values(width) => width,
            TargetForm::Classes(classes) | TargetForm::Shares(classes) | TargetForm::Sequence { classes, .. } => {
                classes
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.width == 0
    }
}

impl From<&Dataset> for Form {
    fn from(data: &Dataset) -> Form {
        Form {
            rows: data.rows,
            width: data.width(),
            features: match &data.features {
                Features::F32 { .. } => FeatureForm::Numbers,
                Features::U8 { scale, shift, .. } => FeatureForm::Bytes(*scale, *shift),
                Features::I32 { .. } => FeatureForm::Tokens,
            },
            target: match &data.target {
                Target::Values { width, .. } => TargetForm::Values(*width),
                Target::Classes { classes, .. } => TargetForm::Classes(*classes),
                Target::Sequence { length, classes, .. } => TargetForm::Sequence { length: *length, classes: *classes },
            },
        }
    }
}
