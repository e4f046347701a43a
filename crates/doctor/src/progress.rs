//! What the doctor is doing, for somebody who waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

type See = dyn Fn(&str, Option<Duration>) + Send + Sync;

/// Gets a few words whenever something new begins, and about how long that takes; by default nobody does.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<See>>);

impl Progress {
    pub fn new(see: impl Fn(&str, Option<Duration>) + Send + Sync + 'static) -> Progress {
        Progress(Some(Arc::new(see)))
    }

    pub fn tell(&self, doing: &str, about: Option<Duration>) {
        if let Some(see) = &self.0 {
            see(doing, about);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(seen)" } else { "Progress" })
    }
}
