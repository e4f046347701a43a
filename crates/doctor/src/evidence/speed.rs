//! How fast steps are, and how fast they would be otherwise; and of a run, where its time went.

use std::thread::available_parallelism;
use std::time::Duration;

use citius_train::{
    Counterfactual, Counterfactuals, Device, Ledger, Machine, Material, Settings, WORTH, WORTH_SECONDS, What,
    counterfactuals,
};

/// What is known of the speed of a training.
#[derive(Clone, Debug)]
pub struct Speed {
    /// Measured here and now.
    pub otherwise: Counterfactuals,
    /// A loader brings the batches.
    pub loaded: bool,
    /// Its threads, where their number was given.
    pub workers: Option<usize>,
    /// Bytes of all training rows, as steps read them.
    pub bytes: f64,
    pub on_gpu: bool,
    pub cores: usize,
    /// Of a run that was looked at.
    pub run: Option<Ledger>,
}

impl Speed {
    /// Measures; `Err` says why it cannot be.
    pub fn of(
        material: &Material,
        settings: &Settings,
        device: Device,
        cpu: citius_cpu::Options,
        budget: Duration,
    ) -> Result<Speed, String> {
        let machine = Machine::of(device, cpu, settings, material);
        let otherwise = counterfactuals(material, settings, machine, budget).map_err(|error| error.to_string())?;
        let form = material.form();
        let width = match form.features {
            citius_train::FeatureForm::Bytes(..) => form.width,
            citius_train::FeatureForm::Numbers | citius_train::FeatureForm::Tokens => 4 * form.width,
        };
        let workers = match material {
            Material::Loaded(loaded) => loaded.options.workers,
            Material::Resident(_) => None,
        };
        Ok(Speed {
            otherwise,
            loaded: material.resident().is_none(),
            workers,
            bytes: form.rows as f64 * (width + 4 * form.outputs()) as f64,
            on_gpu: matches!(device, Device::Cuda(_)),
            cores: available_parallelism().map_or(1, |n| n.get()),
            run: None,
        })
    }

    pub fn find(&self, what: What) -> Option<&Counterfactual> {
        self.otherwise.others.iter().find(|other| other.what == what)
    }

    /// What saves time beyond doubt, and enough of it.
    pub fn gain(&self, what: What) -> Option<&Counterfactual> {
        self.find(what).filter(|other| other.high < 1.0 - WORTH && other.saves > WORTH_SECONDS)
    }

    /// The number of loading threads that is fastest, if that is faster than now beyond doubt.
    pub fn better_workers(&self) -> Option<(usize, &Counterfactual)> {
        let tried = self.otherwise.others.iter().filter_map(|other| match other.what {
            What::Workers(n) => Some((n, other)),
            _ => None,
        });
        let sure = tried.filter(|(_, other)| other.high < 1.0 - WORTH && other.saves > WORTH_SECONDS);
        sure.min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))
    }
}
