//! The events of a run on their way: to whoever listens or watches, and into `events.jsonl`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use serde_json::json;

use crate::events::{Event, Listener, Watch};

/// Passes events on, and keeps them in `events.jsonl`.
pub struct Log<'a> {
    file: Option<File>,
    started: Instant,
    listener: &'a mut dyn Listener,
    watch: &'a mut dyn Watch,
}

impl<'a> Log<'a> {
    pub fn open(out: &Path, resumed: bool, listener: &'a mut dyn Listener, watch: &'a mut dyn Watch) -> Log<'a> {
        let path = out.join("events.jsonl");
        // a pipe would be waited for
        if std::fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
            return Log { file: None, started: Instant::now(), listener, watch };
        }
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(resumed).truncate(!resumed);
        Log { file: options.open(path).ok(), started: Instant::now(), listener, watch }
    }

    /// Without a file.
    #[cfg(test)]
    pub fn nowhere(listener: &'a mut dyn Listener, watch: &'a mut dyn Watch) -> Log<'a> {
        Log { file: None, started: Instant::now(), listener, watch }
    }
}

impl Listener for Log<'_> {
    fn on(&mut self, event: &Event) {
        self.say(event);
        for said in self.watch.hear(event) {
            self.say(&said);
        }
    }
}

impl Log<'_> {
    fn say(&mut self, event: &Event) {
        if !matches!(event, Event::Progress { .. })
            && let Some(file) = &mut self.file
        {
            let mut line = json!({ "time": self.started.elapsed().as_secs_f64() });
            if let (Some(line), Ok(serde_json::Value::Object(fields))) =
                (line.as_object_mut(), serde_json::to_value(event))
            {
                line.extend(fields);
            }
            // whole lines, each in one write: whoever reads along sees no half of one; a log that cannot be written is not worth a training
            if file.write_all(format!("{line}\n").as_bytes()).is_err() {
                self.file = None;
            }
        }
        self.listener.on(event);
    }
}
