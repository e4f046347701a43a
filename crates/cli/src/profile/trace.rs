//! The format of Chrome's tracing: one complete event (`X`) for each stretch of a thread's time, within one for its step.

use std::path::Path;

use citius_data::Escaped;
use citius_train::{Kinds, Profile, Traced};
use serde_json::{Value, json};

use crate::error::Failure;

pub fn write(path: &Path, profile: &Profile) -> Result<(), Failure> {
    let text = serde_json::to_string(&trace(profile)).map_err(|e| Failure::Failed(e.to_string()))?;
    citius_data::write_whole(path, text.as_bytes()).map_err(|e| {
        Failure::Failed(format!("cannot write {}: {e}; choose another place with --trace", path.escaped()))
    })
}

/// The process of all events.
const PROCESS: u64 = 1;

/// Threads are numbered from 1: to Perfetto, number 0 is the system's idle thread, and what it did is not shown.
fn id(thread: usize) -> usize {
    thread + 1
}

pub fn trace(profile: &Profile) -> Value {
    let mut events = vec![named("process_name", 0, &format!("citius: {}", profile.model))];
    let threads = profile.trace.iter().map(|t| t.thread + 1).max().unwrap_or(0);
    events.extend((0..threads).map(|t| named("thread_name", t, &format!("thread {t}"))));
    let mut timed: Vec<(f64, f64, Value)> = Vec::new();
    for thread in 0..threads {
        let mut own: Vec<&Traced> = profile.trace.iter().filter(|t| t.thread == thread).collect();
        own.sort_by(|a, b| a.start.total_cmp(&b.start));
        for step in own.chunk_by(|a, b| a.step == b.step) {
            let (start, end) = (step[0].start, step.iter().map(|s| s.end).fold(step[0].start, f64::max));
            timed.push(complete(&format!("step {}", step[0].step), "step", thread, (start, end), json!({})));
            for span in step {
                let args = match span.work {
                    Some((flops, bytes)) => json!({ "flops": flops, "bytes": bytes }),
                    None => json!({}),
                };
                timed.push(complete(&span.name, span.part, thread, (span.start, span.end), args));
            }
        }
    }
    // a step before what is in it, and what took no time before what came after it
    let is_step = |event: &Value| event["cat"] == "step";
    timed.sort_by(|a, b| {
        let steps_first = is_step(&b.2).cmp(&is_step(&a.2));
        a.0.total_cmp(&b.0).then(steps_first).then(a.1.total_cmp(&b.1))
    });
    events.extend(timed.into_iter().map(|(_, _, event)| event));
    events.extend(memory(&profile.memory.timeline, &profile.trace));
    json!({ "displayTimeUnit": "ns", "traceEvents": events })
}

fn named(what: &str, thread: usize, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": PROCESS, "tid": id(thread), "ts": 0, "args": { "name": name } })
}

/// Times are microseconds.
fn complete(name: &str, part: &str, thread: usize, (start, end): (f64, f64), args: Value) -> (f64, f64, Value) {
    // whole nanoseconds, so that what ends with its step does not end after it
    let us = |seconds: f64| (seconds * 1e9).round() / 1e3;
    let (ts, dur) = (us(start), ((us(end) - us(start)) * 1e3).round() / 1e3);
    let event = json!({
        "ph": "X", "name": name, "cat": part, "pid": PROCESS, "tid": id(thread), "ts": ts, "dur": dur, "args": args
    });
    (ts, dur, event)
}

/// Bytes by kind along the first step, as counters; waves are spread evenly over it.
fn memory(timeline: &[Kinds], trace: &[Traced]) -> Vec<Value> {
    let Some(first) = trace.first() else { return Vec::new() };
    let of_step: Vec<&Traced> = trace.iter().filter(|t| t.step == first.step && t.thread == first.thread).collect();
    let end = of_step.iter().map(|t| t.end).fold(first.start, f64::max);
    let at = |wave: usize| first.start + (end - first.start) * wave as f64 / timeline.len().max(1) as f64;
    let counter = |(wave, kinds): (usize, &Kinds)| {
        let args: serde_json::Map<String, Value> =
            kinds.named().into_iter().map(|(name, bytes)| (name.to_owned(), json!(bytes))).collect();
        let ts = (at(wave) * 1e9).round() / 1e3;
        json!({ "ph": "C", "name": "bytes of a step", "pid": PROCESS, "tid": id(0), "ts": ts, "args": args })
    };
    timeline.iter().enumerate().map(counter).collect()
}
