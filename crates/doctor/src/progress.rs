//! What the doctor is doing, for somebody who waits.

use std::fmt;
use std::sync::Arc;

/// Gets a few words whenever something new begins; by default nobody does.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(&str) + Send + Sync>>);

impl Progress {
    pub fn new(see: impl Fn(&str) + Send + Sync + 'static) -> Progress {
        Progress(Some(Arc::new(see)))
    }

    pub fn tell(&self, doing: &str) {
        if let Some(see) = &self.0 {
            see(doing);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(seen)" } else { "Progress" })
    }
}
