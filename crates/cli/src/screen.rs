//! What a person sees of a run: the choices, the progress, the result.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use citius_data::{Escaped, escaped_lines, is_hidden, shell_word};
use citius_train::{Choice, ClassReport, Ending, Event, Listener, Metrics, Report, count, plural};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Where text for people goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    Stdout,
    Stderr,
}

/// Why a line did not reach its file.
static LOST: OnceLock<String> = OnceLock::new();

/// Writes a line; nobody reading it is no failure, a full disk is ([`lost`]). Whatever names it holds, it stays one line, and the
/// terminal does nothing but show it.
pub fn line(sink: Sink, text: &str) {
    put(sink, &text.escaped());
}

/// Writes lines of ours; all but their ends is escaped as in [`line`].
pub fn page(sink: Sink, text: &str) {
    put(sink, &escaped_lines(text));
}

/// Writes a line of JSON to stdout. What a terminal would obey or hide is escaped as JSON does it: the same text to its reader.
pub fn json(text: &str) {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown += &format!("\\u{unit:04x}")),
            false => shown.push(c),
        }
    }
    put(Sink::Stdout, &shown);
}

fn put(sink: Sink, text: &str) {
    let written = match sink {
        Sink::Stdout => writeln!(io::stdout(), "{text}"),
        Sink::Stderr => return drop(writeln!(io::stderr(), "{text}")),
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => drop(LOST.set(error.to_string())),
        _ => {}
    }
}

/// What kept a result from being written, if something did.
pub fn lost() -> Option<&'static str> {
    let flushed = io::stdout().flush();
    if let Some(error) = flushed.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        let _ = LOST.set(error.to_string());
    }
    LOST.get().map(String::as_str)
}

/// What is being done, for how long already and about how long it takes, where somebody waits at a terminal.
pub struct Waiting(ProgressBar);

impl Waiting {
    pub fn new() -> Waiting {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg}  {elapsed}{prefix}") {
            bar.set_style(style);
        }
        Waiting(bar)
    }

    pub fn progress(&self) -> citius_doctor::Progress {
        let bar = self.0.clone();
        citius_doctor::Progress::new(move |doing, about| {
            if bar.is_hidden() {
                return;
            }
            bar.reset();
            bar.set_message(doing.escaped());
            bar.set_prefix(about.map_or(String::new(), |about| format!(" of about {}s", about.as_secs_f64().ceil())));
            bar.enable_steady_tick(Duration::from_millis(100));
        })
    }

    /// The line is gone, until something new begins.
    pub fn pause(&self) {
        self.0.disable_steady_tick();
        self.0.finish_and_clear();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Lines of progress of a run without a terminal, at most.
const LINES: usize = 10;
/// Up to this many epochs, each has its line.
const FEW_EPOCHS: usize = 20;

/// Listens to a run and shows it.
pub struct Screen {
    sink: Sink,
    bar: Option<ProgressBar>,
    epochs: usize,
    last_loss: f64,
    validation: Option<Metrics>,
    /// An epoch whose line waits for its validation, and its loss.
    pending: Option<(usize, f64)>,
    validates: bool,
    batch_size: usize,
}

impl Screen {
    pub fn new(sink: Sink) -> Screen {
        Screen {
            sink,
            bar: None,
            epochs: 0,
            last_loss: f64::NAN,
            validation: None,
            pending: None,
            validates: false,
            batch_size: 1,
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| line(self.sink, text)),
            None => line(self.sink, text),
        }
    }

    fn begin(&mut self, epochs: usize, steps_per_epoch: u64) {
        self.end();
        self.epochs = epochs;
        (self.last_loss, self.validation, self.pending) = (f64::NAN, None, None);
        if io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(
                Some(epochs as u64 * steps_per_epoch),
                ProgressDrawTarget::stderr_with_hz(10),
            );
            let template = "  {bar:30} epoch {prefix}  {rate} steps/s  {msg}  {eta} left";
            if let Ok(style) = ProgressStyle::with_template(template) {
                let rate = |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
                    let _ = write!(out, "{}", count(state.per_sec() as usize));
                };
                bar.set_style(style.with_key("rate", rate).progress_chars("━╸─"));
            }
            bar.set_prefix(format!("1/{epochs}"));
            bar.enable_steady_tick(Duration::from_millis(200));
            self.bar = Some(bar);
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Says how an epoch went, if it is one that has a line.
    fn flush(&mut self, validated: Option<&Metrics>) {
        let Some((epoch, loss)) = self.pending.take() else { return };
        let every = self.epochs.div_ceil(LINES);
        let told = match (self.bar.is_some(), self.epochs <= FEW_EPOCHS) {
            (_, true) => true,
            (true, false) => false,
            (false, false) => epoch.is_multiple_of(every) || epoch == self.epochs,
        };
        if told {
            let width = self.epochs.to_string().len();
            let validation = validated.map_or(String::new(), |m| format!("   validation {}", telling(m)));
            let loss = number(loss);
            let text = format!("  epoch {epoch:>width$}/{}   loss {loss:<8}{validation}", self.epochs);
            self.say(text.trim_end());
        }
    }

    fn message(&self) -> String {
        match &self.validation {
            Some(metrics) => format!("loss {}  validation {}", number(self.last_loss), telling(metrics)),
            None => format!("loss {}", number(self.last_loss)),
        }
    }
}

impl Listener for Screen {
    fn on(&mut self, event: &Event) {
        match event {
            Event::RunStarted { choices, rows, settings, steps_per_epoch, .. } => {
                (self.validates, self.batch_size) = (rows.validation > 0, settings.batch_size.max(1));
                line(self.sink, concat!("citius ", env!("CARGO_PKG_VERSION")));
                show_choices(self.sink, choices);
                line(self.sink, "");
                self.begin(settings.epochs, *steps_per_epoch);
            }
            Event::Resumed { epoch, step } => {
                self.say(&format!("  going on after epoch {epoch}, step {}", count(*step as usize)));
                if let Some(bar) = &self.bar {
                    bar.set_position(*step);
                    bar.reset_eta();
                }
            }
            Event::Refitting { epochs, rows } => {
                self.flush(None);
                self.end();
                let rows_text = count(*rows);
                line(self.sink, &format!("  refit on all {rows_text} rows for {}", plural(*epochs, "epoch")));
                self.validates = false;
                self.begin(*epochs, rows.div_ceil(self.batch_size) as u64);
            }
            Event::Progress { epoch, epochs, step, steps, loss } => {
                self.flush(None);
                self.last_loss = *loss;
                if let Some(bar) = &self.bar {
                    bar.set_length(*steps);
                    bar.set_position(*step);
                    bar.set_prefix(format!("{epoch}/{epochs}"));
                    bar.set_message(self.message());
                }
            }
            Event::EpochEnded { epoch, loss, .. } => {
                self.flush(None);
                self.last_loss = *loss;
                self.pending = Some((*epoch, *loss));
                if !self.validates {
                    self.flush(None);
                }
            }
            Event::Validated { metrics, .. } => {
                self.validation = Some(*metrics);
                self.flush(Some(metrics));
            }
            Event::RateReduced { epoch, factor } => {
                self.say(&format!("  epoch {epoch}: learning rate reduced to {factor} of its start"));
            }
            Event::EarlyStopped { epoch, best_epoch } => {
                self.flush(None);
                self.say(&format!("  stopped early after epoch {epoch}: the best was epoch {best_epoch}"));
            }
            Event::Warning { message } => self.say(&format!("  warning: {message}")),
            Event::Finding { cause, message } => self.say(&format!("  doctor: {message} ({cause})")),
            Event::Ready { .. }
            | Event::Units { .. }
            | Event::Improved { .. }
            | Event::CheckpointSaved { .. }
            | Event::Ledger(_) => {}
            Event::Diverged(_) | Event::Interrupted { .. } | Event::Finished(_) => {
                self.flush(None);
                self.end();
            }
        }
    }
}

/// One aligned line each.
pub fn show_choices(sink: Sink, choices: &[Choice]) {
    for choice in choices {
        let why = if choice.why.is_empty() { String::new() } else { format!("  ({})", choice.why) };
        line(sink, &format!("  {:<10} {}{why}", choice.what, choice.value));
    }
}

/// Metrics of all sets, time, and where the model is.
pub fn show_report(sink: Sink, report: &Report) {
    let sets = [
        ("train", &report.train, trained_rows(report)),
        ("validation", &report.validation, report.rows.validation),
        ("test", &report.test, report.rows.test),
    ];
    let shown: Vec<_> = sets.into_iter().filter(|(_, metrics, _)| !metrics.named().is_empty()).collect();
    if !shown.is_empty() {
        line(sink, "");
        table(sink, &shown);
    }
    if let Some(classes) = &report.classes {
        show_classes(sink, classes);
    }
    line(sink, "");
    let by = match (report.device.as_str(), report.threads) {
        (device, _) if device.starts_with("cuda") => format!("on {device}, {}", report.hardware),
        (_, 1) => "1 thread".to_owned(),
        (_, threads) => format!("{threads} threads"),
    };
    let time = format!(
        "{} of training: {}, {} µs each, {by}",
        seconds(report.seconds),
        plural(report.steps as usize, "step"),
        number(report.us_per_step)
    );
    line(sink, &format!("  time       {time}"));
    if report.ledger.steps > 0 {
        line(sink, &format!("  spent      {} in all: {}", seconds(report.ledger.seconds), report.ledger.summary()));
    }
    line(sink, &format!("  saved in   {}", report.out));
}

/// After a refit, the validation rows are among those trained on.
fn trained_rows(report: &Report) -> usize {
    report.rows.train + if report.refit { report.rows.validation } else { 0 }
}

fn table(sink: Sink, sets: &[(&str, &Metrics, usize)]) {
    // training rows that were loaded have their loss alone
    let named = sets.iter().map(|(_, metrics, _)| metrics.named());
    let names: Vec<&str> = named.max_by_key(Vec::len).into_iter().flatten().map(|(name, _)| name).collect();
    let mut head = format!("  {:<10} {:>9}", "", "rows");
    let width = |name: &str| name.len().max(10);
    names.iter().for_each(|name| head.push_str(&format!(" {:>1$}", name.replace('_', " "), width(name))));
    line(sink, &head);
    for (set, metrics, rows) in sets {
        let values = metrics.named();
        let mut row = format!("  {set:<10} {:>9}", count(*rows));
        for name in &names {
            let value = values.iter().find(|(n, _)| n == name).map_or("-".into(), |(_, v)| metric(name, *v));
            row.push_str(&format!(" {:>1$}", value, width(name)));
        }
        line(sink, &row);
    }
}

/// Metrics of one set of rows.
pub fn show_metrics(sink: Sink, name: &str, metrics: &Metrics, rows: usize) {
    table(sink, &[(name, metrics, rows)]);
}

/// Precision, recall and F1 of each class, and the confusion matrix of a few.
pub fn show_classes(sink: Sink, report: &ClassReport) {
    line(sink, "");
    let widest = report.classes.iter().take(SHOWN_CLASSES).map(|class| short_label(&class.label).chars().count()).max();
    let width = widest.unwrap_or(0).max("class".len());
    line(sink, &format!("  {:<width$} {:>9} {:>10} {:>10} {:>10}", "class", "rows", "precision", "recall", "f1"));
    let share = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
    for class in report.classes.iter().take(SHOWN_CLASSES) {
        let positive = match report.positive.as_ref() == Some(&class.label) {
            true => "   positive: f1 above is of this class",
            false => "",
        };
        let (precision, recall, f1) = (share(class.precision), share(class.recall), share(class.f1));
        let label = short_label(&class.label);
        let rows = count(class.rows);
        line(sink, &format!("  {label:<width$} {rows:>9} {precision:>10} {recall:>10} {f1:>10}{positive}"));
    }
    let more = report.classes.len().saturating_sub(SHOWN_CLASSES);
    if more > 0 {
        line(sink, &format!("  and {more} more classes: --json has them all"));
    }
    if report.confusion.is_empty() || report.confusion.len() > MATRIX_CLASSES {
        return;
    }
    line(sink, "");
    line(sink, &format!("  {:<width$}   predicted", "true"));
    let labels: Vec<String> = report.classes.iter().map(|class| short_label(&class.label)).collect();
    let cell = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).max(7);
    let head: String = labels.iter().map(|label| format!(" {label:>cell$}")).collect();
    line(sink, &format!("  {:<width$}{head}", ""));
    for (label, row) in labels.iter().zip(&report.confusion) {
        let cells: String = row.iter().map(|rows| format!(" {:>cell$}", count(*rows))).collect();
        line(sink, &format!("  {label:<width$}{cells}"));
    }
}

/// Classes that a table lists, and a matrix has.
const SHOWN_CLASSES: usize = 20;
const MATRIX_CLASSES: usize = 10;

/// A label that leaves room for the numbers.
fn short_label(label: &str) -> String {
    match label.char_indices().nth(20) {
        Some((end, _)) => format!("{}…", &label[..end]),
        None => label.to_owned(),
    }
}

/// The one number to look at.
fn telling(metrics: &Metrics) -> String {
    match metrics.named().first() {
        Some((name, value)) => format!("{name} {}", metric(name, *value)),
        None => String::new(),
    }
}

fn metric(name: &str, value: f64) -> String {
    match name {
        "accuracy" | "coverage" | "nominal_coverage" => format!("{:.2}%", value * 100.0),
        _ => number(value),
    }
}

/// Four significant digits, thousands apart.
pub fn number(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => format!("{x}"),
        0.0 => "0".to_owned(),
        a if a < 1e-4 => format!("{x:.3e}"),
        a if a < 1.0 => format!("{x:.4}"),
        a if a < 10.0 => format!("{x:.3}"),
        a if a < 100.0 => format!("{x:.2}"),
        a if a < 1000.0 => format!("{x:.1}"),
        a if a < 1e12 => format!("{}{}", if x < 0.0 { "-" } else { "" }, count(a.round() as usize)),
        _ => format!("{x:.3e}"),
    }
}

pub fn seconds(s: f64) -> String {
    match s {
        s if s < 100.0 => format!("{s:.2} s"),
        s if s < 6000.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// How the run ended, where it did not end well.
pub fn show_ending(sink: Sink, report: &Report) {
    match &report.ending {
        Ending::Completed | Ending::EarlyStopped => {}
        Ending::Interrupted => {
            line(sink, "");
            line(sink, &format!("  interrupted after step {}; nothing is lost", count(report.steps as usize)));
            line(sink, &format!("  go on with  citius train --resume {}", shell_word(&report.out)));
        }
        Ending::Diverged(d) => {
            line(sink, "");
            line(sink, &format!("  diverged   epoch {}, step {}: {}", d.epoch, count(d.step as usize), d.what));
            line(sink, &format!("  kept       the last good weights, {}", d.kept));
            line(sink, &format!("  try        a lower learning rate: --lr {}", lower(d.lr)));
        }
    }
}

/// A tenth, in one digit; of a rate beyond reason, what is usual.
fn lower(lr: f64) -> String {
    if !(lr > 0.0 && lr <= 0.1) {
        return "0.001".to_owned();
    }
    let exponent = (lr / 10.0).log10().floor();
    let digit = (lr / 10f64.powf(exponent + 1.0)).round().max(1.0);
    format!("{digit}e{exponent}")
}

/// Foreign text on its way to a terminal, which obeys control characters: each line is escaped, its break is kept. What is flushed
/// before its line ends is escaped as it is.
pub struct TerminalLines<W: Write> {
    out: W,
    begun: Vec<u8>,
}

impl<W: Write> TerminalLines<W> {
    pub fn new(out: W) -> TerminalLines<W> {
        TerminalLines { out, begun: Vec::new() }
    }
}

impl<W: Write> Write for TerminalLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.begun.pop();
                self.out.write_all(self.begun.escaped().as_bytes())?;
                self.out.write_all(b"\n")?;
                self.begun.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // half a character waits for the rest of it
        let whole = match std::str::from_utf8(&self.begun) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        self.out.write_all(self.begun.escaped().as_bytes())?;
        self.begun = rest;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_a_terminal_are_escaped() {
        let mut out = Vec::new();
        let mut lines = TerminalLines::new(&mut out);
        lines.write_all("a\u{1b}[31m,\u{202e}b\n\u{9b}é".as_bytes()).unwrap();
        lines.flush().unwrap();
        lines.write_all(b"\n").unwrap();
        drop(lines);
        assert_eq!(String::from_utf8(out).unwrap(), "a\\u{1b}[31m,\\u{202e}b\n\\u{9b}é\n");
    }

    #[test]
    fn numbers_have_four_digits() {
        let shown = [0.0, 1e-5, 0.01234, 1.23456, 45.678, 999.94, 52431.7, -1234.5, 1e15].map(number);
        assert_eq!(shown, ["0", "1.000e-5", "0.0123", "1.235", "45.68", "999.9", "52,432", "-1,235", "1.000e15"]);
    }

    #[test]
    fn a_lower_rate() {
        assert_eq!([0.1, 0.003, 1e-3, 1e9, f64::NAN].map(lower), ["1e-2", "3e-4", "1e-4", "0.001", "0.001"]);
    }
}
