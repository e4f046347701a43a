//! Decoding or scaling done again in every epoch.

use citius_train::What;

use super::Check;
use crate::evidence::{Evidence, Kind};
use crate::finding::{Finding, Fix, Price, Severity};

pub struct RepeatedWork;

impl Check for RepeatedWork {
    fn cause(&self) -> &'static str {
        "repeated-work"
    }

    fn needs(&self) -> &'static [Kind] {
        &[Kind::Speed]
    }

    fn threshold(&self) -> &'static str {
        "Rows are the same in every epoch, all of them would fit into memory, and loading them costs at least a tenth of the time."
    }

    fn find(&self, e: &Evidence) -> Option<Finding> {
        let speed = e.speed.as_ref().filter(|speed| speed.loaded && speed.bytes < FITS)?;
        let epochs = e.settings.as_ref()?.epochs;
        // what is drawn anew in each epoch cannot be kept
        let random = e.wishes.augment.is_some() || e.wishes.mix.is_some();
        if epochs < 2 || random {
            return None;
        }
        let cached = speed.gain(What::CachedBatch)?;
        let what = format!(
            "the same {:.1} MB are prepared again in each of {epochs} epochs, and would fit into memory",
            speed.bytes / 1e6
        );
        let finding = Finding::new("repeated-work", Severity::Warning, what)
            .sure(0.7)
            .because("bytes of all rows", speed.bytes)
            .because("epochs", epochs as f64);
        // the first time it must be done
        let all_but_first = |seconds: f64| seconds * (epochs - 1) as f64 / epochs as f64;
        let price = Price {
            seconds: all_but_first(cached.saves),
            low: all_but_first(cached.saves_low),
            high: all_but_first(cached.saves_high),
        };
        let fix = Fix::new("what was prepared held in memory").set("memory", "8GiB");
        Some(Finding { price: Some(price), ..finding }.fix(fix))
    }
}

/// Bytes that a machine has room for.
const FITS: f64 = (1u64 << 30) as f64;
