//! A step with large products: kernels and products one after the other, recorded once and started as a whole.

use std::sync::Arc;

use citius_plan::{Operand, Plan, Work};

use crate::device::{Bytes, Device, Graph, Kernel, Module, Stream};
use crate::error::CudaError;
use crate::layout::Layout;
use crate::precision::Precision;
use crate::product::{Library, Product, WORKSPACE};
use crate::run::Words;
use crate::schedule::{Cut, Fibre, Grid, Schedule, Step};
use crate::source::LEVELS_TOGETHER;

pub struct Levels {
    levels: Vec<Level>,
    /// Copies outputs that live elsewhere.
    outputs: Option<Kernel>,
    threads: usize,
    /// Kernels are on their way while the one before still runs.
    early: bool,
    library: Option<Library>,
    workspace: Bytes,
    /// For each step of each chunk: what it was started with, and the recording.
    recorded: Vec<Recorded>,
}

struct Level {
    products: Vec<(Product, [Address; 3])>,
    /// With its blocks, and the bytes of memory of each.
    kernel: Option<(Kernel, usize, usize)>,
}

#[derive(Default)]
struct Recorded {
    words: Option<Words>,
    graph: Option<Graph>,
}

/// Where an operand of a product begins: a region of the launch's addresses, or a bound input, and an offset.
#[derive(Clone, Copy)]
struct Address {
    word: usize,
    offset: u64,
}

impl Levels {
    pub fn new(
        device: &Arc<Device>,
        modules: &[Arc<Module>],
        plan: &Plan,
        schedule: &Schedule,
        layout: &Layout,
        precision: Precision,
    ) -> Result<Levels, CudaError> {
        // half a gigabyte of code that most steps of small precision do without
        let any = schedule.levels.iter().flatten().any(|fibre| fibre.cut == Cut::Library);
        let library = any.then(Library::open).transpose()?;
        let early = device.starts_early();
        let mut levels = Vec::new();
        for (n, fibres) in schedule.levels.iter().enumerate() {
            let mut products = Vec::new();
            for fibre in fibres.iter().filter(|f| f.cut == Cut::Library) {
                let (Some(library), [Step::Call(call)]) = (&library, &fibre.steps[..]) else { continue };
                let Work::Matmul(m) = &plan.calls[*call].work else { continue };
                let operands = [&m.a, &m.b, &m.operands[m.stores[0].1]];
                let half = operands.map(|o| layout.is_half(o.buffer));
                let product = Product::new(library, m, half, precision)?;
                products.push((product, operands.map(|o| address(layout, o))));
            }
            let units = Grid::of(fibres.iter().filter(|f| f.cut != Cut::Library)).blocks;
            let kernel = (units > 0).then(|| modules[n / LEVELS_TOGETHER].kernel(&format!("level{n}"))).transpose()?;
            let shared = fibres.iter().map(|f| stage_bytes(plan, f)).max().unwrap_or(0);
            if let Some(kernel) = kernel.as_ref().filter(|_| shared > 0) {
                kernel.allow_shared(shared)?;
            }
            levels.push(Level { products, kernel: kernel.map(|k| (k, units, shared)) });
        }
        let outputs = (!layout.copied.is_empty()).then(|| modules[0].kernel("outputs")).transpose()?;
        let workspace = Bytes::new(device, "products", if any { WORKSPACE } else { 0 })?;
        let threads = schedule.team.threads;
        Ok(Levels { levels, outputs, threads, early, library, workspace, recorded: Vec::new() })
    }

    /// Starts a step, always number `at` among those of all chunks. The first time it is done as it comes, which lets the library load
    /// what it needs; then it is recorded.
    ///
    /// SAFETY: `words` is laid out as the kernels' `Args` and leads to memory that lives until the stream has done it.
    pub unsafe fn start(&mut self, at: usize, stream: &Stream, words: &Words) -> Result<(), CudaError> {
        if self.recorded.len() <= at {
            self.recorded.resize_with(at + 1, Recorded::default);
        }
        if self.recorded[at].words != Some(*words) {
            self.recorded[at] = Recorded { words: Some(*words), graph: None };
            return self.put(stream, words);
        }
        if self.recorded[at].graph.is_none() {
            let graph = Graph::record(stream, || self.put(stream, words))?;
            self.recorded[at].graph = Some(graph);
        }
        match &self.recorded[at].graph {
            Some(graph) => graph.start(stream),
            None => self.put(stream, words),
        }
    }

    /// SAFETY: as [`Levels::start`].
    unsafe fn put(&self, stream: &Stream, words: &Words) -> Result<(), CudaError> {
        let mut args = *words;
        // what comes before the first is not ours
        let mut first = true;
        let mut launch = |kernel: &Kernel, blocks: usize, shared: usize| {
            let early = self.early && !std::mem::take(&mut first);
            match early {
                true => kernel.launch_early(stream, blocks, self.threads, shared, &mut args.0),
                false => kernel.launch(stream, blocks, self.threads, shared, &mut args.0),
            }
        };
        for level in &self.levels {
            if let Some(library) = &self.library {
                for (product, addresses) in &level.products {
                    let at = addresses.map(|a| words.0[a.word] + a.offset);
                    product.run(library, at, self.workspace.pointer, stream)?;
                }
            }
            if let Some((kernel, units, shared)) = &level.kernel {
                launch(kernel, *units, *shared)?;
            }
        }
        match &self.outputs {
            Some(kernel) => launch(kernel, OUTPUT_BLOCKS, 0),
            None => Ok(()),
        }
    }
}

/// Of a block's own memory, for the stages of a product.
fn stage_bytes(plan: &Plan, fibre: &Fibre) -> usize {
    match (fibre.cut, &fibre.steps[..]) {
        (Cut::Tensor { tile, .. }, [Step::Call(call)]) => match &plan.calls[*call].work {
            Work::Matmul(m) => tile.bytes(m),
            _ => 0,
        },
        _ => 0,
    }
}

/// Enough to copy at full speed.
const OUTPUT_BLOCKS: usize = 256;

fn address(layout: &Layout, o: &Operand) -> Address {
    let bytes = if layout.is_half(o.buffer) { 2 } else { o.dtype.bytes() } * o.offset;
    let (region, offset) = match layout.place(o.buffer) {
        Some((region, offset)) => (region, offset),
        None => ("", 0),
    };
    // in the order of `Args`
    let word = match region {
        "scratch" => 0,
        "leaves" => 1,
        "fed" => 2,
        "results" => 3,
        _ => 4 + layout.bound.iter().position(|i| i.buffer == o.buffer).unwrap_or(0),
    };
    Address { word, offset: (offset + bytes) as u64 }
}
