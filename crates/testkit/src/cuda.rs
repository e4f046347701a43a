//! The CUDA executor under the same tests as the reference.

use std::sync::Arc;

use citius_cpu::{Inputs, Memory};
use citius_cuda::{Device, Executable, Options, Precision, Session, Team};
use citius_graph::Graph;

use crate::cpu::Feeder;
use crate::{Evaluate, Values};

/// One GPU, one way of running a step.
pub struct Cuda {
    pub device: Arc<Device>,
    /// `None`: products by cuBLASLt or on matrix units, kernels one after the other.
    pub team: Option<Team>,
    pub precision: Precision,
    /// As kernels of a short training are compiled.
    pub quickly: bool,
}

impl Cuda {
    /// The first GPU with one multiprocessor, with a cluster and with a grid of them, and with the library.
    pub fn all() -> Result<Vec<Cuda>, String> {
        let device = Device::open(0).map_err(|e| e.to_string())?;
        let team = |(blocks, groups, threads)| Some(Team { blocks, groups, threads });
        let teams = [team((1, 8, 64)), team((4, 16, 32)), team((40, 1, 256)), None];
        Ok(teams.map(|team| Cuda { device: device.clone(), team, precision: Precision::Fp32, quickly: false }).into())
    }

    /// The first GPU with large products in this precision.
    pub fn in_precision(precision: Precision) -> Result<Cuda, String> {
        let device = Device::open(0).map_err(|e| e.to_string())?;
        Ok(Cuda { device, team: None, precision, quickly: false })
    }
}

impl Evaluate for Cuda {
    fn name(&self) -> String {
        format!("{} with {:?} in {}", self.device.name, self.team, self.precision)
    }

    fn run(&self, graph: &Graph, initial: &Values, inputs: &[Values]) -> Result<Vec<Values>, String> {
        let plan = citius_plan::compile(graph).map_err(|e| e.to_string())?;
        let mut memory = Memory::new(0);
        memory.admit(&plan).map_err(|e| e.to_string())?;
        crate::cpu::fill(&mut memory, initial)?;
        let mut session = Session::new(self.device.clone(), [&plan]).map_err(|e| e.to_string())?;
        session.upload(&memory).map_err(|e| e.to_string())?;
        let position = |name: &str| plan.outputs.iter().position(|o| o.0 == name);
        let mut feeder = Feeder::new(graph, inputs, &position);
        let bytes = feeder.u8_inputs();
        let bound = bytes.iter().fold(Inputs::new(), |b, (name, data)| b.u8(name, data));
        let options = Options {
            team: self.team,
            precision: self.precision,
            library_from: Some(1),
            steps: self.quickly.then_some(1),
            ..Options::default()
        };
        let mut executable = Executable::new(plan.clone(), &session, &bound, options).map_err(|e| e.to_string())?;
        let steps = inputs.len() as u64;
        executable.run(&mut session, 0, &bound, 0, steps, &mut feeder).map_err(|e| e.to_string())?;
        Ok(feeder.results)
    }
}
