//! Loading alone: one pass over the data after another, without a model, delivering finished f32 batches.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Instant;

use citius_data::picture::transform::{HorizontalFlip, RandomResizedCrop, Size};
use citius_data::picture::{Channels, Output, PictureFolder, PictureSource, Pipeline, Transform};
use citius_data::{DataError, Heap, InMemory, Loader, LoaderOptions, LoaderReport, OnError, Order, Rows, Slot, Source};

use citius_train::{Bytes, Material, Problem, Wishes, Workers};

use super::workload::{SEED, Workload};
use super::{median, rounded};

#[derive(clap::Args, Debug)]
pub struct LoaderArgs {
    /// What to load, separated by commas [default: table,mnist, and photos where --photos names a folder]
    #[arg(long, value_enum, value_delimiter = ',')]
    workloads: Option<Vec<Loaded>>,
    /// Threads that fill batches besides the caller's, or auto
    #[arg(long, default_value = "auto")]
    workers: Workers,
    /// Passes over the data
    #[arg(long, default_value_t = 15)]
    epochs: usize,
    /// Directory of the four MNIST files; random pixels are used when there is none
    #[arg(long, value_name = "DIR")]
    mnist: Option<PathBuf>,
    /// Folder of pictures, a folder per class
    #[arg(long, value_name = "DIR")]
    photos: Option<PathBuf>,
    /// Load the training rows of this source instead, as `citius train` would where it does not hold them in memory
    #[arg(long, value_name = "PATH", conflicts_with = "workloads")]
    source: Option<PathBuf>,
    /// With --source: the column to predict
    #[arg(long, requires = "source", allow_hyphen_values = true)]
    target: Option<String>,
    /// With --source: rows per batch
    #[arg(long, requires = "source", default_value_t = 1024)]
    batch_size: usize,
    /// With --source: memory for data
    #[arg(long, requires = "source")]
    memory: Option<Bytes>,
    /// One JSON object per workload instead of the table
    #[arg(long)]
    json: bool,
}

/// Data, transforms and batch of `torch_loader_bench.py`.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Loaded {
    /// 100,000 rows of 100 numbers, batch 32
    Table,
    /// 60,000 pictures kept as bytes, delivered normalised, batch 64
    Mnist,
    /// JPEGs in class folders: decode, random resized crop to 224, flip, normalise, batch 32
    Photos,
}

pub fn run(args: &LoaderArgs) -> Result<(), String> {
    if !args.json {
        println!("{HEAD}");
    }
    if let Some(source) = &args.source {
        let result = measure_source(source, args)?;
        println!(
            "{}",
            if args.json { serde_json::to_string(&result).map_err(|e| e.to_string())? } else { result.row() }
        );
        return Ok(());
    }
    for workload in args.workloads() {
        let (source, batch) = workload.source(args)?;
        let result = measure(workload, source, batch, args)?;
        println!(
            "{}",
            if args.json { serde_json::to_string(&result).map_err(|e| e.to_string())? } else { result.row() }
        );
    }
    Ok(())
}

impl LoaderArgs {
    fn workloads(&self) -> Vec<Loaded> {
        let usual = || match self.photos {
            Some(_) => vec![Loaded::Table, Loaded::Mnist, Loaded::Photos],
            None => vec![Loaded::Table, Loaded::Mnist],
        };
        self.workloads.clone().unwrap_or_else(usual)
    }
}

impl Loaded {
    fn name(self) -> &'static str {
        match self {
            Loaded::Table => "table",
            Loaded::Mnist => "mnist",
            Loaded::Photos => "photos",
        }
    }

    fn source(self, args: &LoaderArgs) -> Result<(Arc<dyn Source>, usize), String> {
        let workload = match self {
            Loaded::Table => Workload::Tabular,
            Loaded::Mnist => Workload::Mnist,
            Loaded::Photos => {
                let folder = args.photos.as_deref();
                let folder =
                    folder.ok_or("photos needs a folder of pictures, a folder per class: give it with --photos")?;
                return Ok((photos(folder).map_err(|e| e.to_string())?, 32));
            }
        };
        let rows = Arc::new(workload.data(args.mnist.as_deref())?);
        let source = InMemory::finished(self.name(), rows).map_err(|e| e.to_string())?;
        Ok((Arc::new(source), workload.batch()))
    }
}

fn photos(folder: &Path) -> Result<Arc<dyn Source>, DataError> {
    let transforms = vec![
        Transform::RandomResizedCrop(RandomResizedCrop::new(Size::One(224))),
        Transform::HorizontalFlip(HorizontalFlip { probability: 0.5 }),
    ];
    let pipeline = Pipeline { channels: Channels::Rgb, transforms, output: Output::imagenet() };
    let pictures = Box::new(PictureFolder::open(folder)?);
    Ok(Arc::new(PictureSource::new(pictures, pipeline, OnError::Fail)?))
}

fn measure(workload: Loaded, source: Arc<dyn Source>, batch: usize, args: &LoaderArgs) -> Result<Measured, String> {
    let options = LoaderOptions { batch_size: batch, seed: SEED, workers: args.workers.0, ..LoaderOptions::default() };
    let copy_s = copy_seconds(source.as_ref(), batch)?;
    copy_on_every_core(source.as_ref(), batch)?;
    let runs: Vec<Run> =
        (0..LOADERS).map(|_| Run::of(source.clone(), options.clone(), args.epochs.max(3))).collect::<Result<_, _>>()?;
    let each = |of: &dyn Fn(&Run) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>());
    let later: Vec<f64> = runs.iter().flat_map(|run| &run.seconds[1..]).copied().collect();
    let (epoch_s, items, batches) = (median(&later), runs[0].items, runs[0].batches as f64);
    let bytes = items as f64 * source.schema().row_bytes() as f64;
    let report = &runs[LOADERS - 1].report;
    Ok(Measured {
        peer: concat!("citius ", env!("CARGO_PKG_VERSION")),
        workload: workload.name(),
        variant: format!("workers={}", args.workers),
        epoch_s: rounded(epoch_s, 6),
        first_epoch_s: rounded(each(&|run| run.seconds[0]), 6),
        start_s: rounded(each(&|run| run.start_s), 6),
        items,
        items_per_s: (items as f64 / epoch_s).round(),
        workers: report.workers,
        prefetch: report.prefetch,
        gb_per_s: rounded(bytes / epoch_s / 1e9, 2),
        copy_gb_per_s: Some(rounded(bytes / copy_s / 1e9, 2)),
        us_per_batch: rounded(epoch_s / batches * 1e6, 3),
        copy_us_per_batch: Some(rounded(copy_s / batches * 1e6, 3)),
        epochs_s: runs.iter().flat_map(|run| &run.seconds).map(|s| rounded(*s, 6)).collect(),
    })
}

/// A first epoch is had once in a loader's life, and single ones of a few milliseconds say little: so many lives.
const LOADERS: usize = 5;

/// A loader's life.
struct Run {
    start_s: f64,
    seconds: Vec<f64>,
    items: usize,
    batches: u64,
    report: LoaderReport,
}

impl Run {
    fn of(source: Arc<dyn Source>, options: LoaderOptions, count: usize) -> Result<Run, String> {
        let start = Instant::now();
        let mut loader = Loader::new(source, options).map_err(|e| e.to_string())?;
        let start_s = start.elapsed().as_secs_f64();
        let (seconds, items) = epochs(&mut loader, count)?;
        Ok(Run { start_s, seconds, items, batches: loader.batches_per_epoch(), report: loader.report() })
    }
}

/// Whole epochs of the training rows of a source.
fn measure_source(path: &Path, args: &LoaderArgs) -> Result<Measured, String> {
    let wishes = Wishes {
        source: Some(path.to_owned()),
        target: args.target.clone(),
        memory: args.memory,
        workers: Some(args.workers),
        ..Wishes::default()
    };
    let problem = Problem::read(&wishes).map_err(|e| e.to_string())?;
    let Material::Loaded(loaded) = &problem.train else {
        return Err("its rows fit into memory, and are not loaded; say --memory 0 to load them".into());
    };
    let start = Instant::now();
    let mut loader = loaded.loader(args.batch_size.max(1), SEED, 0, 0).map_err(|e| e.to_string())?;
    let start_s = start.elapsed().as_secs_f64();
    let (seconds, items) = epochs(&mut loader, args.epochs.max(1))?;
    let epoch_s = median(&seconds[seconds.len().min(2) - 1..]);
    let gb_per_s = rounded(items as f64 * loader.schema().row_bytes() as f64 / epoch_s / 1e9, 2);
    let us_per_batch = rounded(epoch_s / loader.batches_per_epoch() as f64 * 1e6, 3);
    Ok(Measured {
        peer: concat!("citius ", env!("CARGO_PKG_VERSION")),
        workload: "source",
        variant: format!("workers={}", args.workers),
        epoch_s: rounded(epoch_s, 6),
        first_epoch_s: rounded(seconds[0], 6),
        start_s: rounded(start_s, 6),
        items,
        items_per_s: (items as f64 / epoch_s).round(),
        workers: loader.report().workers,
        prefetch: loader.report().prefetch,
        gb_per_s,
        copy_gb_per_s: None,
        us_per_batch,
        copy_us_per_batch: None,
        epochs_s: seconds.iter().map(|s| rounded(*s, 6)).collect(),
    })
}

/// Seconds of each pass, and the rows of one.
fn epochs(loader: &mut Loader, count: usize) -> Result<(Vec<f64>, usize), String> {
    let (mut seconds, mut items) = (Vec::new(), 0);
    for _ in 0..count {
        let start = Instant::now();
        items = 0;
        while let Some(batch) = loader.next_batch().map_err(|e| e.to_string())? {
            items += batch.rows();
        }
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok((seconds, items))
}

/// The first epoch shall meet the machine as the others do: a core that has slept takes some milliseconds to come up to speed, and its
/// caches are empty.
fn copy_on_every_core(source: &dyn Source, batch: usize) -> Result<(), String> {
    let cores = available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        let copies: Vec<_> = (0..cores).map(|_| scope.spawn(|| copy_seconds(source, batch))).collect();
        copies.into_iter().try_for_each(|copy| match copy.join() {
            Ok(end) => end.map(|_| ()),
            Err(_) => Err("copying on every core failed".to_owned()),
        })
    })
}

/// The same rows gathered into one buffer by one thread: what the bytes alone cost.
fn copy_seconds(source: &dyn Source, batch: usize) -> Result<f64, String> {
    let mut rows = vec![0; source.rows() as usize];
    let mut slot = Slot::new(source.schema(), batch, &Heap).map_err(|e| e.to_string())?;
    let mut seconds = Vec::new();
    for epoch in 0..5 {
        Order::new(source.rows(), SEED, epoch).fill(0, &mut rows);
        let start = Instant::now();
        for numbers in rows.chunks(batch) {
            let rows = Rows { numbers, seed: SEED, epoch };
            source.gather(&rows, &mut slot.rows_mut(0..numbers.len())).map_err(|e| e.to_string())?;
        }
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(median(&seconds[1..]))
}

/// One line of output; the keys of the peers first, then ours.
#[derive(serde::Serialize)]
struct Measured {
    peer: &'static str,
    workload: &'static str,
    variant: String,
    epoch_s: f64,
    first_epoch_s: f64,
    /// Until the loader stands, before the first epoch: slots and threads, which may have begun to fill.
    start_s: f64,
    items: usize,
    items_per_s: f64,
    workers: usize,
    prefetch: usize,
    gb_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_gb_per_s: Option<f64>,
    us_per_batch: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_us_per_batch: Option<f64>,
    /// Each of them, in order, of each loader.
    epochs_s: Vec<f64>,
}

const HEAD: &str = "workload  variant         items/s   epoch ms   first ms   workers   GB/s   one thread copies, GB/s";

impl Measured {
    fn row(&self) -> String {
        format!(
            "{:<8}  {:<12} {:>10} {:>10.2} {:>10.2} {:>9} {:>6.1}   {:>6.1}",
            self.workload,
            self.variant,
            self.items_per_s,
            self.epoch_s * 1e3,
            self.first_epoch_s * 1e3,
            self.workers,
            self.gb_per_s,
            self.copy_gb_per_s.unwrap_or(f64::NAN)
        )
    }
}
