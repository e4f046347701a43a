//! Many steps in one go. The host fills a chunk of steps while the GPU runs the one before, and looks at results behind it.

use std::time::Instant;

use citius_cpu::{Driver, Flow, Inputs, Outputs, RowOrder, Staging, View};
use citius_graph::random;
use cudarc::driver::{result, sys};

use crate::device::device_error;
use crate::draw::Wanted;
use crate::error::CudaError;
use crate::executable::{Chunk, Executable, Form};
use crate::session::Session;

/// Steps of the first launch of a run: where filling is nothing beside computing, and where it is not.
const FIRST_CHUNK: f64 = 64.0;
const FIRST_CHUNK_OF_MUCH: f64 = 16.0;
/// Filling counts as nothing up to this share of computing.
const NOTHING: f64 = 0.2;
/// A chunk is at most this many times the one before: each costs a launch.
const GROWTH: f64 = 4.0;
/// Up to so many bytes the GPU reads and writes the host's memory itself, which takes less time than a copy needs to begin.
const FEW_BYTES: usize = 1 << 12;
/// Inputs that can stay on the GPU.
const MOST_BOUND: usize = 16;

/// What the kernel is called with, as `Args` in its source: four addresses, those of the bound inputs (at least one), the barrier's,
/// the number of steps and the clocks', each eight bytes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Words(pub [u64; 7 + MOST_BOUND]);

impl Words {
    fn new(regions: [u64; 4], bound: &[u64], rest: [u64; 3]) -> Words {
        let none = [0];
        let bound = if bound.is_empty() { &none[..] } else { bound };
        let mut words = [0; 7 + MOST_BOUND];
        let all = regions.iter().chain(bound).chain(&rest);
        words.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        Words(words)
    }
}

impl Executable {
    /// Takes up to `steps` steps, numbered from `first`; returns how many were taken. When the driver stops, what is on its
    /// way still happens, and the driver hears of it.
    pub fn run(
        &mut self,
        session: &mut Session,
        seed: u64,
        inputs: &Inputs,
        first: u64,
        steps: u64,
        driver: &mut dyn Driver,
    ) -> Result<u64, CudaError> {
        self.device.enter()?;
        let began = Instant::now();
        let bound = self.bind(session, inputs)?;
        let fed = self.layout.fed.iter().map(|i| (i.name.clone(), i.dtype, i.elements));
        let mut staging = Staging::new(fed);
        let mut views: Vec<View> = self
            .layout
            .results
            .iter()
            .map(|o| View { pointer: std::ptr::null(), elements: o.elements, dtype: o.dtype })
            .collect();
        let (mut sent, mut seen, mut stopped) = (0, 0, false);
        // chunks sent whose results were not looked at yet
        let mut waiting: Vec<usize> = Vec::new();
        let mut turn = 0;
        let mut wish = 0.0;
        loop {
            if sent < steps && !stopped {
                wish = self.next_chunk(wish);
                let most = (wish as usize).min(self.chunk_steps).min((steps - sent) as usize);
                let start = Instant::now();
                let order = self.draw.as_ref().and_then(|draw| driver.rows(&draw.input, first + sent));
                let (filled, end) = match order {
                    Some(_) => (most, false),
                    None => self.fill(turn, seed, first + sent, most, &mut staging, driver),
                };
                self.ledger.filling += start.elapsed().as_secs_f64();
                stopped |= end;
                if filled > 0 {
                    let chunk = &mut self.chunks[turn];
                    (chunk.first, chunk.steps) = (first + sent, filled);
                    self.bring(turn, order.as_ref(), seed)?;
                    self.send(turn, session, &bound)?;
                    waiting.push(turn);
                    sent += filled as u64;
                    turn = 1 - turn;
                }
            }
            let idle = sent >= steps || stopped;
            if waiting.len() == 2 || (idle && !waiting.is_empty()) {
                let at = waiting.remove(0);
                seen += self.look(at, &mut views, driver, &mut stopped)?;
            } else if idle {
                self.ledger.wall += began.elapsed().as_secs_f64();
                return Ok(seen);
            }
        }
    }

    /// Steps of the next chunk: short ones first, and none so much longer than the one before that the GPU would have to wait until
    /// it is filled.
    fn next_chunk(&self, last: f64) -> f64 {
        // unknown before the first chunk was seen
        let share = self.ledger.filling / self.ledger.computing.max(1e-9);
        match (last > 0.0, share < NOTHING) {
            (false, true) => FIRST_CHUNK,
            (false, false) => FIRST_CHUNK_OF_MUCH,
            (true, _) => (last * (0.9 / share).clamp(1.0, GROWTH)).min(self.chunk_steps as f64),
        }
    }

    /// Brings the caller's data to the GPU, once.
    fn bind(&self, session: &mut Session, inputs: &Inputs) -> Result<Vec<sys::CUdeviceptr>, CudaError> {
        let mut bound = Vec::new();
        if self.layout.bound.len() > MOST_BOUND {
            return Err(CudaError::Plan(format!("more than {MOST_BOUND} inputs that stay")));
        }
        for input in &self.layout.bound {
            let (host, found, dtype) =
                inputs.find(&input.name).ok_or_else(|| CudaError::Missing(input.name.clone()))?;
            if found != input.elements || dtype != input.dtype {
                return Err(CudaError::Input {
                    name: input.name.clone(),
                    found,
                    found_type: dtype,
                    expected: input.elements,
                    expected_type: input.dtype,
                });
            }
            for limit in self.plan.limits.iter().filter(|limit| limit.input == input.name) {
                limit.check(inputs.whole_numbers(&input.name))?;
            }
            // SAFETY: `Inputs` borrows so many elements of this type.
            bound.push(unsafe { session.resident(&input.name, host, found * dtype.bytes())? });
        }
        Ok(bound)
    }

    /// Has the driver fill the inputs of up to `most` steps; (steps filled, the driver stopped).
    fn fill(
        &mut self,
        turn: usize,
        seed: u64,
        first: u64,
        most: usize,
        staging: &mut Staging,
        driver: &mut dyn Driver,
    ) -> (usize, bool) {
        let layout = &self.layout;
        let base = self.chunks[turn].fed_host.pointer;
        for i in 0..most {
            let step = first + i as u64;
            // SAFETY: the chunk has room for `chunk_steps` steps of `fed_bytes`, offsets are aligned to 16 bytes, and the copy that
            // read it last was waited for in `look`.
            let at = unsafe { base.add(i * layout.fed_bytes) };
            if let Some(offset) = layout.step_offset {
                // SAFETY: as above.
                unsafe { *(at.add(offset) as *mut f32) = step as f32 };
            }
            if let Some(offset) = layout.key_offset {
                let key = random::mix(seed ^ random::mix(step));
                // SAFETY: as above.
                unsafe { *(at.add(offset) as *mut u64) = key };
            }
            let places = || layout.fed.iter().map(|input| unsafe { at.add(input.offset) });
            // SAFETY: as above; slots of `feed` are gone before those of `fill`.
            unsafe {
                driver.feed(step, &mut staging.at(places()));
                if driver.fill(step, &mut staging.at(places())) == Flow::Stop {
                    return (i, true);
                }
            }
        }
        (most, false)
    }

    /// Is it not worth a copy? One kernel reads each byte about once; many kernels may read it many times.
    fn is_few(&self, bytes: usize) -> bool {
        bytes <= FEW_BYTES && matches!(self.form, Form::Together(_))
    }

    /// Copies what was filled, or has the GPU draw it; a few bytes are left where they are.
    fn bring(&mut self, turn: usize, order: Option<&RowOrder>, seed: u64) -> Result<(), CudaError> {
        let bytes = self.chunks[turn].steps * self.layout.fed_bytes;
        // the GPU cannot read what the system may move
        let readable = self.chunks[turn].fed_host.is_pinned();
        self.chunks[turn].copied_in = order.is_some() || !readable || !self.is_few(bytes);
        let chunk = &self.chunks[turn];
        if !chunk.copied_in {
            return Ok(());
        }
        let Chunk { first, steps, .. } = *chunk;
        self.copy.record(&chunk.copying)?;
        // SAFETY: the host's and the device's memory live in `self`; the host waits for `done` before it touches either again.
        unsafe {
            match (&self.draw, order) {
                (Some(draw), Some(order)) => {
                    draw.start(&self.copy, order, Wanted { fed: chunk.fed.pointer, first, steps, seed })?
                }
                _ => self.copy.to_device(chunk.fed.pointer, chunk.fed_host.pointer, bytes)?,
            }
        }
        self.copy.record(&chunk.copied)
    }

    fn send(&mut self, turn: usize, session: &Session, bound: &[sys::CUdeviceptr]) -> Result<(), CudaError> {
        let chunk = &self.chunks[turn];
        let steps = chunk.steps;
        // pinned memory has the same address on the host and on the GPU
        let fed = if chunk.copied_in { chunk.fed.pointer } else { chunk.fed_host.pointer as u64 };
        let len = steps * self.layout.result_bytes;
        let few = self.is_few(len);
        let results = if few { chunk.results_host.pointer as u64 } else { chunk.results.pointer };
        if chunk.copied_in {
            self.compute.wait(&chunk.copied)?;
        }
        if self.schedule.team.blocks > 1 && matches!(self.form, Form::Together(_)) {
            // SAFETY: device memory lives in `self`; the host waits for `done` before it touches it again.
            unsafe {
                result::memset_d8_async(self.barrier.pointer, 0, 4, self.compute.handle)
                    .map_err(|e| device_error("starting a step", e))?;
            }
        }
        // what is recorded is a step, of however many there are
        let told = if matches!(self.form, Form::Together(_)) { steps as u64 } else { 1 };
        let mut words = Words::new(
            [self.scratch.pointer, session.bytes().pointer, fed, results],
            bound,
            [self.barrier.pointer, told, self.ticks.as_ref().map_or(0, |t| t.pointer)],
        );
        self.compute.record(&chunk.computing)?;
        // SAFETY: `words` is laid out as the kernels' `Args`, and all it leads to lives in `self` and the session.
        unsafe {
            match &mut self.form {
                Form::Together(kernel) => {
                    kernel.launch_together(&self.compute, self.schedule.team, self.chip_bytes, &mut words.0)?
                }
                Form::Levels(levels) => {
                    for i in 0..steps {
                        levels.start(turn * self.chunk_steps + i, &self.compute, &words)?;
                        // in the order of `Args`
                        words.0[2] += self.layout.fed_bytes as u64;
                        words.0[3] += self.layout.result_bytes as u64;
                    }
                }
            }
        }
        let chunk = &self.chunks[turn];
        self.compute.record(&chunk.computed)?;
        if !few {
            // SAFETY: as above.
            unsafe { self.compute.to_host(chunk.results_host.pointer, chunk.results.pointer, len)? };
        }
        self.compute.record(&chunk.done)
    }

    /// Waits for a chunk and shows its results to the driver.
    fn look(
        &mut self,
        turn: usize,
        views: &mut [View],
        driver: &mut dyn Driver,
        stopped: &mut bool,
    ) -> Result<u64, CudaError> {
        let chunk = &self.chunks[turn];
        let start = Instant::now();
        chunk.done.finish()?;
        self.ledger.waiting += start.elapsed().as_secs_f64();
        if chunk.copied_in {
            self.ledger.copying += chunk.copied.since(&chunk.copying)?;
        }
        self.ledger.computing += chunk.computed.since(&chunk.computing)?;
        self.ledger.steps += chunk.steps as u64;
        for i in 0..chunk.steps {
            for (view, output) in views.iter_mut().zip(&self.layout.results) {
                // SAFETY: the chunk has room for `chunk_steps` steps of results.
                view.pointer = unsafe { chunk.results_host.pointer.add(i * self.layout.result_bytes + output.offset) };
            }
            // SAFETY: the copy into this memory is done, and the next begins after this function.
            let outputs = unsafe { Outputs::new(views) };
            *stopped |= driver.after(chunk.first + i as u64, &outputs) == Flow::Stop;
        }
        Ok(chunk.steps as u64)
    }
}
