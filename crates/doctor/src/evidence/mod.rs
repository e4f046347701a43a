//! What is known of a training, in four kinds. What could not be had is `None`, and checks that need it are silent.
//!
//! ```text
//! statics.rs   the traced step: layers, head, loss, mode, what the gradient reaches
//! data.rs      columns, labels, balance, what leaks, what goes together
//! dynamic.rs   the first steps of the training itself, under probes
//! speed.rs     how fast steps are, and would be otherwise
//! ledger.rs    a run as its events tell it, and where its time went
//! ```

pub mod data;
pub mod dynamic;
pub mod ledger;
pub mod speed;
pub mod statics;

use std::rc::Rc;

use citius_data::Task;
use citius_train::{Device, Problem, Settings, What, Wishes};

use crate::what_if::WhatIf;

pub use data::DataFacts;
pub use dynamic::Dynamic;
pub use ledger::Ledger;
pub use speed::Speed;
pub use statics::Statics;

/// A kind of evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Static,
    Data,
    Dynamic,
    Ledger,
    Speed,
}

/// Operations a second that a core comes to in a large network.
const CORE: f64 = 4e10;

/// All that is known.
#[derive(Default)]
pub struct Evidence {
    /// What was asked for.
    pub wishes: Wishes,
    /// What was read.
    pub problem: Option<Rc<Problem>>,
    pub task: Option<Task>,
    /// With everything that was left open; `None` if nothing could be chosen.
    pub settings: Option<Settings>,
    /// Why training cannot start.
    pub cannot_start: Option<String>,
    pub statics: Option<Statics>,
    pub data: Option<DataFacts>,
    pub dynamic: Option<Dynamic>,
    /// Answers what would be if.
    pub what_if: Option<WhatIf>,
    pub ledger: Option<Ledger>,
    pub speed: Option<Speed>,
    /// What could not be looked at, and why.
    pub missing: Vec<String>,
}

impl Evidence {
    /// Where steps are timed: on a GPU that was asked for, else on the processor.
    pub fn device(&self) -> Device {
        self.wishes.device.filter(|device| matches!(device, Device::Cuda(_))).unwrap_or(Device::Cpu)
    }

    /// Seconds of a step on the processor: as measured, or by its operations.
    pub fn processor_step(&self, cpu: citius_cpu::Options) -> f64 {
        let measured = self.speed.as_ref().and_then(|speed| match (speed.on_gpu, speed.loaded) {
            (false, false) => Some(speed.otherwise.step_us),
            // without what the loader takes
            (false, true) => speed.find(What::CachedBatch).map(|other| other.step_us),
            (true, _) => speed.find(What::Processor).map(|other| other.step_us),
        });
        if let Some(microseconds) = measured {
            return microseconds / 1e6;
        }
        let cores = match cpu.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            threads => threads,
        };
        self.statics.as_ref().map_or(0, |statics| statics.flops) as f64 / (CORE * cores as f64)
    }

    pub fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Static => self.settings.is_some(),
            Kind::Data => self.data.is_some(),
            Kind::Dynamic => self.dynamic.is_some(),
            Kind::Ledger => self.ledger.is_some(),
            Kind::Speed => self.speed.is_some(),
        }
    }
}
