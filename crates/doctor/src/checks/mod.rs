//! One file per symptom. A check says what evidence it needs, its threshold and why, and what it explains: a finding that another one
//! explains is told as its consequence.

mod adam_epsilon;
mod ascending;
mod batch_too_large;
mod batch_too_small;
mod broadcast_loss;
mod class_imbalance;
mod constant_column;
mod correlated_columns;
mod cut_gradient;
mod dead_units;
mod device_underused;
mod duplicate_column;
mod exploding_gradients;
mod full_precision;
mod gpu_too_large;
mod init_too_large;
mod init_too_small;
mod label_changing_augmentation;
mod label_noise;
mod leakage;
mod learning_rate_too_high;
mod learning_rate_too_low;
mod moved_every_epoch;
mod no_early_stop;
mod no_momentum;
mod no_schedule;
mod no_validation;
mod non_finite;
mod nothing_to_gain;
mod overfitting;
mod oversubscribed_loader;
mod regularisation_too_strong;
mod repeated_work;
mod saturated_units;
mod softmax_missing;
mod softmax_twice;
mod starved_loader;
mod summed_loss;
mod symmetric_init;
mod too_deep;
mod too_few_epochs;
mod too_much_logging;
mod too_small;
mod twice_normalised;
mod unpinned_copy;
mod unrelated_labels;
mod unscaled_features;
mod unscaled_target;
mod vanishing_gradients;
mod wrong_head;
mod wrong_loss;
mod wrong_mode;

use citius_nn::{Activation, HiddenLayer};
use citius_train::{Settings, Wishes, choose};

use crate::arm::end;
use crate::evidence::dynamic::{Dynamic, Observed};
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix};

/// Looks for one symptom.
pub trait Check: Sync {
    /// The cause it raises.
    fn cause(&self) -> &'static str;

    /// Without these it is silent.
    fn needs(&self) -> &'static [Kind];

    /// When it speaks, and why then.
    fn threshold(&self) -> &'static str;

    /// Causes that are consequences of this one.
    fn explains(&self) -> &'static [&'static str] {
        &[]
    }

    /// It keeps a network from learning anything, and explains all that follows from that too.
    fn stops_learning(&self) -> bool {
        false
    }

    /// Whether that cause is a consequence of this one.
    fn accounts_for(&self, cause: &str) -> bool {
        self.explains().contains(&cause) || self.stops_learning() && OF_LEARNING_NOTHING.contains(&cause)
    }

    /// What it finds; nothing is the usual answer.
    fn find(&self, _: &Evidence) -> Option<Finding> {
        None
    }

    /// The same for those that may find several.
    fn look(&self, evidence: &Evidence) -> Vec<Finding> {
        self.find(evidence).into_iter().collect()
    }
}

/// Consequences of whatever keeps a network from learning anything.
const OF_LEARNING_NOTHING: &[&str] = &[
    "learning-rate-too-high",
    "learning-rate-too-low",
    "dead-units",
    "saturated-units",
    "vanishing-gradients",
    "exploding-gradients",
    "non-finite",
    "too-small",
    "too-deep",
    "no-momentum",
    "batch-too-small",
    "batch-too-large",
    "too-few-epochs",
    "no-schedule",
    "adam-epsilon",
    "overfitting",
    "no-early-stop",
    "class-imbalance",
    "label-noise",
    "unrelated-labels",
    "regularisation-too-strong",
];

/// All checks, causes before their consequences: of two findings as grave, the earlier one is told first.
pub const ALL: &[&dyn Check] = &[
    &wrong_loss::WrongLoss,
    &softmax_twice::SoftmaxTwice,
    &softmax_missing::SoftmaxMissing,
    &wrong_head::WrongHead,
    &broadcast_loss::BroadcastLoss,
    &summed_loss::SummedLoss,
    &ascending::Ascending,
    &cut_gradient::CutGradient,
    &wrong_mode::WrongMode,
    &twice_normalised::TwiceNormalised,
    &unscaled_features::UnscaledFeatures,
    &unscaled_target::UnscaledTarget,
    &label_changing_augmentation::LabelChangingAugmentation,
    &unrelated_labels::UnrelatedLabels,
    &label_noise::LabelNoise,
    &leakage::Leakage,
    &duplicate_column::DuplicateColumn,
    &constant_column::ConstantColumn,
    &correlated_columns::CorrelatedColumns,
    &symmetric_init::SymmetricInit,
    &init_too_large::InitTooLarge,
    &init_too_small::InitTooSmall,
    &adam_epsilon::AdamEpsilon,
    &learning_rate_too_high::LearningRateTooHigh,
    &learning_rate_too_low::LearningRateTooLow,
    &regularisation_too_strong::RegularisationTooStrong,
    &saturated_units::SaturatedUnits,
    &dead_units::DeadUnits,
    &vanishing_gradients::VanishingGradients,
    &too_deep::TooDeep,
    &exploding_gradients::ExplodingGradients,
    &non_finite::NonFinite,
    &class_imbalance::ClassImbalance,
    &too_small::TooSmall,
    &no_momentum::NoMomentum,
    &batch_too_small::BatchTooSmall,
    &batch_too_large::BatchTooLarge,
    &too_few_epochs::TooFewEpochs,
    &no_early_stop::NoEarlyStop,
    &overfitting::Overfitting,
    &no_schedule::NoSchedule,
    &no_validation::NoValidation,
    &oversubscribed_loader::OversubscribedLoader,
    &starved_loader::StarvedLoader,
    &gpu_too_large::GpuTooLarge,
    &unpinned_copy::UnpinnedCopy,
    &moved_every_epoch::MovedEveryEpoch,
    &device_underused::DeviceUnderused,
    &full_precision::FullPrecision,
    &repeated_work::RepeatedWork,
    &too_much_logging::TooMuchLogging,
    &nothing_to_gain::NothingToGain,
];

/// What the settings would be with a fix that leaves the data as it is.
fn changed(e: &Evidence, fix: &Fix) -> Option<(Settings, Wishes)> {
    let wishes = fix.apply(&e.wishes).ok()?;
    let (settings, _) = choose(e.problem.as_deref()?, &wishes).ok()?;
    Some((settings, wishes))
}

/// Weights that start as they usually do.
fn usual_start(settings: &Settings) -> Fix {
    let fix = Fix::new("the usual start").remove("init").remove("inits");
    match settings.details.layers.iter().any(|layer| layer.init.is_some()) {
        true => {
            let layers = settings.details.layers.iter().map(|layer| HiddenLayer { init: None, ..layer.clone() });
            fix.layers(layers.collect())
        }
        false => fix,
    }
}

/// Another activation in all layers.
fn activation(settings: &Settings, activation: Activation) -> Fix {
    let fix = Fix::new(format!("{activation} instead")).set("activation", activation.name());
    match settings.details.layers.iter().any(|layer| layer.activation.is_some()) {
        true => {
            let layers = settings.details.layers.iter().map(|layer| HiddenLayer { activation: None, ..layer.clone() });
            fix.layers(layers.collect())
        }
        false => fix,
    }
}

/// Validations without improvement after which to stop: a fifth of all that the run has, as ten may be more than there are.
fn patience(settings: &Settings) -> i64 {
    ((settings.epochs / settings.validate_every.max(1)) as i64 / 5).clamp(2, 10)
}

/// The gradient of a typical weight of the first layer by that of the last.
fn gradient_decay(run: &Observed) -> f64 {
    let typical = |layer: &crate::evidence::dynamic::Layer| layer.grad / (layer.elements.max(1) as f64).sqrt();
    match (run.layers.first(), run.layers.last()) {
        (Some(first), Some(last)) => typical(first) / typical(last).max(1e-30),
        _ => 1.0,
    }
}

/// Best error on unseen rows, the share of the run at which it was reached, and the last; the middle of the seeds.
fn unseen(d: &Dynamic) -> Option<(f64, f64, f64)> {
    let errors = |run: &Observed| -> Vec<(u64, f64)> {
        run.points.iter().filter_map(|p| Some((p.step, p.validation?.error))).collect()
    };
    if d.runs.iter().any(|run| run.diverged.is_some() || errors(run).len() < 4) {
        return None;
    }
    let best = |run: &Observed| errors(run).into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::NAN));
    let value = d.median(|run| best(run).1);
    let at = d.median(|run| best(run).0 as f64 / run.steps.max(1) as f64);
    let last = d.median(|run| end(&run.points, |p| p.validation.map_or(f64::NAN, |v| v.error)));
    Some((value, at, last))
}
