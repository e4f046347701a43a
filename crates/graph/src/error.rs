use std::fmt;

/// Where in the user's program an op was written, and inside which layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub file: &'static str,
    pub line: u32,
    pub layer: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        match &self.layer {
            Some(layer) => write!(f, " (in {layer})"),
            None => Ok(()),
        }
    }
}

/// A mistake found while tracing. The first one is kept; [`crate::Graph::check`] returns it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{op} at {place}: {problem}")]
pub struct TraceError {
    pub op: String,
    pub place: Place,
    pub problem: String,
}
