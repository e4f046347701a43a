//! Feeds the rows of an epoch to the step and watches every result. Nothing here allocates, but for a failure's name.
//!
//! A GPU has some hundred steps under way when the walk says stop. They happen, so they are counted, and the walk hears of each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use citius_cpu::{Batch, Driver, Flow, Outputs, RowOrder, Slots};
use citius_data::{DataError, Order};

use crate::events::{Event, Listener};
use crate::fill::{Filler, row_order};
use crate::fit::Progress;
use crate::step::Places;

/// Between two signs of progress.
const SAY_EVERY: Duration = Duration::from_millis(100);
/// Steps between two looks at the clock.
const LOOK_EVERY: u64 = 64;

pub(crate) struct Walk<'a, 'b> {
    pub batches: Bringer<'a>,
    /// Rows in a batch.
    pub size: usize,
    pub places: &'a Places,
    pub progress: &'a mut Progress,
    pub view: &'a mut View<'b>,
    pub seen: &'a mut Seen,
}

/// Who brings the batches.
pub(crate) enum Bringer<'a> {
    /// The step gathers rows by number. `first`: the step that begins at position `start` of the order.
    Order {
        order: &'a Order,
        batch: usize,
        first: u64,
        start: u64,
    },
    Loader(Filler<'a>),
}

/// What is told to the outside, and asked of it.
pub(crate) struct View<'a> {
    pub epochs: usize,
    /// In the whole fit.
    pub steps: u64,
    /// When progress was last told: epochs may be shorter than the time between.
    pub said: &'a mut Instant,
    pub listener: &'a mut dyn Listener,
    pub stop: &'a AtomicBool,
}

/// Of the last step.
#[derive(Default)]
pub(crate) struct Seen {
    pub lr: f64,
    pub grad_norm: f64,
    pub trouble: Option<Trouble>,
    /// Why there is no next batch.
    pub failure: Option<DataError>,
}

/// The first value that is not finite, whatever came after it.
pub(crate) struct Trouble {
    pub what: String,
    /// Steps taken by then.
    pub step: u64,
    pub lr: f64,
}

impl View<'_> {
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Driver for Walk<'_, '_> {
    fn feed(&mut self, step: u64, slots: &mut Slots) {
        match &mut self.batches {
            Bringer::Order { order, batch, first, start } => {
                let Some(rows) = slots.i32("rows") else { return };
                order.draw((*start + (step - *first) * *batch as u64) as u32, rows);
            }
            Bringer::Loader(filler) => filler.look_ahead(slots),
        }
    }

    fn rows(&self, input: &str, step: u64) -> Option<RowOrder> {
        match &self.batches {
            Bringer::Order { order, batch, first, start } if input == "rows" => {
                Some(row_order(order, *start + (step - *first) * *batch as u64))
            }
            _ => None,
        }
    }

    fn fill(&mut self, _: u64, slots: &mut Slots) -> Flow {
        let Bringer::Loader(filler) = &mut self.batches else { return Flow::Continue };
        filler.fill(slots).unwrap_or_else(|error| {
            self.seen.failure = Some(error);
            Flow::Stop
        })
    }

    fn left(&self) -> Option<&dyn Batch> {
        match &self.batches {
            Bringer::Order { .. } => None,
            Bringer::Loader(filler) => Some(filler),
        }
    }

    fn after(&mut self, step: u64, outputs: &Outputs) -> Flow {
        let loss = outputs.scalar(self.places.loss);
        let grad_norm = outputs.scalar(self.places.grad_norm);
        self.seen.lr = outputs.scalar(self.places.rate) as f64;
        // at a smaller scale of the loss the same gradients may be finite: the step has changed nothing but the scale
        let scale = self.places.loss_scale.map_or(1.0, |at| outputs.scalar(at));
        let skipped = loss.is_finite() && !grad_norm.is_finite() && scale > 1.0;
        if !skipped {
            self.seen.grad_norm = grad_norm as f64;
        }
        let p = &mut *self.progress;
        p.step = step + 1;
        p.in_epoch += 1;
        p.loss_sum += loss as f64 * self.size as f64;
        p.loss_rows += self.size as u64;
        p.first_loss.get_or_insert(loss as f64);
        if !(loss.is_finite() && grad_norm.is_finite() || skipped) {
            let (step, lr) = (p.step, self.seen.lr);
            let what = || first_trouble(loss, outputs, self.places);
            self.seen.trouble.get_or_insert_with(|| Trouble { what: what(), step, lr });
            return Flow::Stop;
        }
        if self.seen.trouble.is_some() || self.view.stopped() {
            return Flow::Stop;
        }
        if step.is_multiple_of(LOOK_EVERY) {
            self.say();
        }
        Flow::Continue
    }
}

impl Walk<'_, '_> {
    fn say(&mut self) {
        let now = Instant::now();
        if now - *self.view.said < SAY_EVERY {
            return;
        }
        *self.view.said = now;
        let p = &*self.progress;
        self.view.listener.on(&Event::Progress {
            epoch: p.epoch + 1,
            epochs: self.view.epochs,
            step: p.step,
            steps: self.view.steps,
            loss: p.loss_sum / p.loss_rows.max(1) as f64,
        });
    }
}

/// The loss comes before all gradients, and the last layer's gradient before those of earlier layers.
fn first_trouble(loss: f32, outputs: &Outputs, places: &Places) -> String {
    if !loss.is_finite() {
        return format!("the loss is {}", word(loss));
    }
    let sums = places.gradients.iter().rev().map(|(name, at)| (name, outputs.scalar(*at)));
    match sums.into_iter().find(|(_, sum)| !sum.is_finite()) {
        Some((name, sum)) => format!("the gradient of {name} is {}", word(sum)),
        None => "the norm of the gradient is infinite".to_owned(),
    }
}

fn word(value: f32) -> &'static str {
    if value.is_nan() { "NaN" } else { "infinite" }
}
