//! Rows of a chunk of steps drawn on the GPU: nothing is filled, nothing copied.

use citius_cpu::RowOrder;
use citius_graph::DType;

use crate::device::{Kernel, Module, Stream};
use crate::error::CudaError;
use crate::layout::{Input, Layout};
use std::sync::Arc;

/// The kernel `draw`, for a step that is fed row numbers and nothing else.
pub(crate) struct Draw {
    kernel: Kernel,
    pub input: String,
    words: Words,
}

/// As `struct Draw` in `source/draw.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Words {
    fed: u64,
    first: u64,
    seed: u64,
    steps: u32,
    batch: u32,
    stride: u32,
    rows_at: i32,
    step_at: i32,
    key_at: i32,
    start: u32,
    rows: u32,
    blocks: u32,
    low_bits: u32,
    rounds: u32,
    keys: [[u32; 4]; 12],
}

/// Which chunk to draw: where it lies on the GPU, and its steps.
pub(crate) struct Wanted {
    pub fed: u64,
    pub first: u64,
    pub steps: usize,
    pub seed: u64,
}

const THREADS: usize = 256;

/// The row numbers, if they are all that a step is fed.
pub(crate) fn rows_alone(layout: &Layout) -> Option<&Input> {
    match &layout.fed[..] {
        [input] if input.dtype == DType::I32 => Some(input),
        _ => None,
    }
}

impl Draw {
    /// `None` where steps are fed other things.
    pub fn new(module: &Arc<Module>, layout: &Layout) -> Result<Option<Draw>, CudaError> {
        let Some(input) = rows_alone(layout) else { return Ok(None) };
        let at = |offset: Option<usize>| offset.map_or(-1, |offset| offset as i32);
        let words = Words {
            fed: 0,
            first: 0,
            seed: 0,
            steps: 0,
            batch: input.elements as u32,
            stride: layout.fed_bytes as u32,
            rows_at: input.offset as i32,
            step_at: at(layout.step_offset),
            key_at: at(layout.key_offset),
            start: 0,
            rows: 0,
            blocks: 0,
            low_bits: 0,
            rounds: 0,
            keys: [[0; 4]; 12],
        };
        Ok(Some(Draw { kernel: module.kernel("draw")?, input: input.name.clone(), words }))
    }

    /// SAFETY: `wanted.fed` has room for the steps, and nobody else uses it until the stream has done this.
    pub unsafe fn start(&self, stream: &Stream, order: &RowOrder, wanted: Wanted) -> Result<(), CudaError> {
        let RowOrder { start, rows, blocks, low_bits, rounds, keys } = *order;
        let Wanted { fed, first, steps, seed } = wanted;
        let steps_u32 = steps as u32;
        let mut words =
            Words { fed, first, seed, steps: steps_u32, start, rows, blocks, low_bits, rounds, keys, ..self.words };
        let numbers = steps * self.words.batch as usize;
        self.kernel.launch(stream, numbers.div_ceil(THREADS), THREADS, 0, &mut words)
    }
}
