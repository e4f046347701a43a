//! Which device a run takes: the one asked for, or the faster one, found by trying both on a throw-away copy of the model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use citius_cpu::{Driver, Flow, Options, Outputs, Slots};
use citius_cuda::{CudaError, Device as Gpu};

use crate::step::{Arrival, plan_step, tables};
use crate::{Choice, Device, Engine, Machine, Material, Settings, TrainError};

/// A run shorter than this on the processor is over before a GPU would be ready.
const WORTH_A_GPU: f64 = 2.0;
/// Time for threads to be tried out and memory to be touched; and then for the measurement.
const SPANS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(50)];
/// Seconds of steps that a GPU gets at a time, by the processor's measure; it takes no notice of the clock before they are done.
const AT_A_TIME: f64 = 0.2;

/// For the processor, which looks at the clock after every step.
const MANY: u64 = 1 << 20;

/// A device, and the reason for it.
pub(crate) struct Decision {
    pub device: Device,
    pub choice: Choice,
    /// Kept open from here on: opening it again would take as long again.
    pub gpu: Option<Arc<Gpu>>,
}

/// What a run needs of its device.
pub(crate) struct Job<'a> {
    pub material: &'a Material,
    pub settings: &'a Settings,
    pub cpu: Options,
}

impl Decision {
    fn new(device: Device, why: impl Into<String>) -> Decision {
        Decision { device, choice: Choice::new("device", device.to_string(), why), gpu: None }
    }

    fn on(gpu: Arc<Gpu>, device: Device, why: &str) -> Decision {
        let why = format!("{why}: {}", gpu.name);
        Decision { gpu: Some(gpu), ..Decision::new(device, why) }
    }

    /// `Err` when a GPU was asked for by name and cannot be had.
    pub fn of(asked: Device, job: &Job) -> Result<Decision, TrainError> {
        match asked {
            Device::Cpu => Ok(Decision::new(asked, "as told")),
            Device::Cuda(index) => Ok(Decision::on(Gpu::open(index)?, asked, "as told")),
            Device::Auto => job.faster(),
        }
    }

    /// For a run that began on `before`: the same, if it is there.
    pub fn again(before: Device) -> Decision {
        let Device::Cuda(index) = before else { return Decision::new(Device::Cpu, "as the run began") };
        match Gpu::open(index) {
            Ok(gpu) => Decision::on(gpu, before, "as the run began"),
            Err(error) => Decision::new(Device::Cpu, format!("the run began on {before}, but {}", missing(&error))),
        }
    }
}

impl Job<'_> {
    fn faster(&self) -> Result<Decision, TrainError> {
        if !Gpu::has_driver() {
            return Ok(Decision::new(Device::Cpu, missing(&CudaError::NoDriver)));
        }
        let (cpu, _) = self.step_seconds(Device::Cpu, MANY)?;
        let whole = cpu * self.steps() as f64;
        if whole < WORTH_A_GPU {
            return Ok(Decision::new(
                Device::Cpu,
                format!("the whole run takes about {whole:.1} s, too short for a GPU"),
            ));
        }
        let at_a_time = (AT_A_TIME / cpu).clamp(16.0, 4096.0) as u64;
        let gpu = match Gpu::open(0) {
            Ok(gpu) => gpu,
            Err(error) => return Ok(Decision::new(Device::Cpu, missing(&error))),
        };
        let tried = self.step_seconds(Device::Cuda(0), at_a_time).map_err(|error| match error {
            TrainError::Cuda(error) => missing(&error),
            other => first_line(&other.to_string()),
        });
        let decision = verdict(cpu, tried);
        let kept = (decision.device != Device::Cpu).then_some(gpu);
        Ok(Decision { gpu: kept, ..decision })
    }

    /// Seconds of a step of full batches, and what it ran on.
    fn step_seconds(&self, device: Device, at_a_time: u64) -> Result<(f64, String), TrainError> {
        let Job { material, settings, cpu } = *self;
        let form = material.form();
        let model = settings.model_for(device, form.width, form.outputs())?;
        let batch = settings.batch_size.clamp(1, form.rows.max(1));
        let updates = settings.updates(form.rows, settings.epochs);
        let plan = plan_step(model.as_ref(), settings, &form, Arrival::of(material), batch, updates)?;
        let inputs = tables(material);
        let machine = Machine::of(device, cpu, settings, material);
        let mut engine = Engine::new(vec![plan], settings.seed, &inputs, machine)?;
        let (mut step, mut seconds) = (0, 0.0);
        for span in SPANS {
            let (started, from) = (Instant::now(), step);
            while started.elapsed() < span {
                let mut rehearsal = Rehearsal { rows: form.rows.max(1) as u64, until: started + span };
                step += engine.run(0, &inputs, step, at_a_time, &mut rehearsal)?;
            }
            seconds = started.elapsed().as_secs_f64() / (step - from).max(1) as f64;
        }
        Ok((seconds, engine.hardware()))
    }

    /// Of the run, if nothing stops it early.
    fn steps(&self) -> usize {
        let Settings { batch_size, epochs, refit, .. } = self.settings;
        let rows = self.material.rows();
        let per_epoch = rows.div_ceil((*batch_size).clamp(1, rows.max(1)));
        per_epoch.saturating_mul(*epochs) * if *refit { 2 } else { 1 }
    }
}

/// The faster one, with both times. `gpu`: seconds of a step and its name, or why there are none.
fn verdict(cpu: f64, gpu: Result<(f64, String), String>) -> Decision {
    let us = |seconds: f64| match seconds * 1e6 {
        us if us < 100.0 => format!("{us:.1} µs"),
        us => format!("{us:.0} µs"),
    };
    match gpu {
        Ok((gpu, name)) if gpu < cpu => {
            Decision::new(Device::Cuda(0), format!("{name}: {} a step, {} on the processor", us(gpu), us(cpu)))
        }
        Ok((gpu, name)) => Decision::new(Device::Cpu, format!("{} a step, {} on the {name}", us(cpu), us(gpu))),
        Err(why) => Decision::new(Device::Cpu, why),
    }
}

/// What keeps a GPU from being used, in a few words.
fn missing(error: &CudaError) -> String {
    match error {
        CudaError::NoDriver => "no NVIDIA driver".to_owned(),
        CudaError::NoDevice(_) => "no NVIDIA GPU is visible".to_owned(),
        other => first_line(&other.to_string()),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Some rows for every step, until the time is over.
struct Rehearsal {
    rows: u64,
    until: Instant,
}

impl Driver for Rehearsal {
    fn feed(&mut self, step: u64, slots: &mut Slots) {
        let Some(slot) = slots.i32("rows") else { return };
        let first = step.wrapping_mul(slot.len() as u64);
        // far apart, as shuffled rows are
        slot.iter_mut().zip(first..).for_each(|(to, i)| *to = (i.wrapping_mul(40_503) % self.rows) as i32);
    }

    fn after(&mut self, _: u64, _: &Outputs) -> Flow {
        if Instant::now() < self.until { Flow::Continue } else { Flow::Stop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::tests::{rows, settings};

    #[test]
    fn the_faster_device_is_taken_and_both_times_are_said() {
        let gpu = verdict(186e-6, Ok((12.1e-6, "NVIDIA H200".into())));
        assert_eq!(gpu.device, Device::Cuda(0));
        assert_eq!(gpu.choice.why, "NVIDIA H200: 12.1 µs a step, 186 µs on the processor");
        let cpu = verdict(1.7e-6, Ok((4e-6, "NVIDIA H200".into())));
        assert_eq!(cpu.device, Device::Cpu);
        assert_eq!(cpu.choice.why, "1.7 µs a step, 4.0 µs on the NVIDIA H200");
        let without = verdict(1.0, Err(missing(&CudaError::NoCompiler)));
        assert!(without.device == Device::Cpu && without.choice.why.contains("libnvrtc"));
    }

    #[test]
    fn a_rehearsal_times_the_step_of_the_run() {
        let (settings, material) = (settings(), rows());
        let job = Job { material: &material, settings: &settings, cpu: Options::default() };
        assert_eq!(job.steps(), 7 * 4);
        let (seconds, hardware) = job.step_seconds(Device::Cpu, MANY).unwrap();
        assert!(seconds > 1e-7 && seconds < 0.1, "{seconds}");
        assert!(!hardware.is_empty());
        let open = Decision::of(Device::Auto, &job).unwrap();
        // 28 steps are never worth a GPU
        assert_eq!((open.device, open.choice.value.as_str()), (Device::Cpu, "cpu"));
        assert!(open.choice.why.contains(if Gpu::has_driver() { "too short" } else { "no NVIDIA driver" }));
    }
}
