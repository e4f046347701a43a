//! `citius profile`: what it prints and what it writes.

mod common;

use std::collections::HashMap;
use std::fs;

use common::{Folder, houses};
use serde_json::Value;

#[test]
fn a_table_of_kernels_and_a_verdict() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.write("settings.toml", "source = \"houses.csv\"\ntarget = \"price\"\nhidden = [16]\n");
    let shown = folder.works("profile settings.toml --steps 20 --otherwise 0.1 --sort flops --rows 3").out;
    for said in ["the step of", "spent", "reached", "memory", "GFLOP/s", "roofline", "more,", "a cached batch", "bound"]
    {
        assert!(shown.contains(said) || (said == "bound" && shown.contains("nothing left to gain")), "{said}: {shown}");
    }
    let told = folder.works("profile houses.csv --target price --steps 20 --otherwise 0 --json");
    let json: Value = serde_json::from_str(told.out.lines().last().unwrap()).unwrap();
    assert_eq!(json["ledger"]["steps"], 20);
    assert!(json["memory"]["peak"]["parameters"].as_u64().unwrap() > 0 && json["otherwise"].is_null());
    assert!(!folder.path("runs").exists(), "nothing is trained");
    assert!(folder.fails(2, "profile houses.csv --steps 0").contains("--steps"));
    assert!(folder.fails(2, "profile houses.csv --otherwise -1").contains("no time"));
    assert!(folder.fails(1, "profile houses.csv --steps 2 --otherwise 0 --trace no/where.json").contains("--trace"));
}

/// The object form of the trace-event format, with what each kind of event must have: metadata first, then complete events in order, each
/// within its step and none across another's end, counters last. Times are compared as Perfetto reads them, in whole nanoseconds, since
/// it leaves out what crosses an end by one.
#[test]
fn a_trace_for_chrome() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("profile houses.csv --target price --steps 25 --threads 2 --otherwise 0 --trace trace.json");
    let trace: Value = serde_json::from_slice(&fs::read(folder.path("trace.json")).unwrap()).unwrap();
    assert_eq!(trace["displayTimeUnit"], "ns", "ms or ns");
    let events = trace["traceEvents"].as_array().unwrap();
    let nanoseconds = |event: &Value, name: &str| {
        let us = event[name].as_f64().unwrap_or_else(|| panic!("{name} of {event}"));
        assert!(us >= 0.0 && (us * 1e3 - (us * 1e3).round()).abs() < 1e-3, "microseconds, to the nanosecond: {event}");
        (us * 1e3).round() as i64
    };
    let mut open: HashMap<u64, Vec<i64>> = HashMap::new();
    let (mut last, mut steps, mut calls, mut counters) = (0, 0, 0, 0);
    let mut named: Vec<(String, u64)> = Vec::new();
    for event in events {
        let (ts, thread) = (nanoseconds(event, "ts"), event["tid"].as_u64().unwrap());
        assert!(thread > 0, "Perfetto takes thread 0 for the system's own and leaves it out");
        assert!(event["pid"].is_u64() && event["name"].is_string() && event["args"].is_object(), "{event}");
        match event["ph"].as_str().unwrap() {
            "M" => {
                assert!(steps == 0 && event["args"]["name"].is_string(), "names come first: {event}");
                named.push((event["name"].as_str().unwrap().to_owned(), thread));
            }
            "C" => {
                let values: Vec<&Value> = event["args"].as_object().unwrap().values().collect();
                assert!(values.len() == 5 && values.iter().all(|value| value.is_u64()), "{event}");
                counters += 1;
            }
            "X" => {
                assert!(ts >= last && counters == 0, "sorted: {event}");
                last = ts;
                let end = ts + nanoseconds(event, "dur");
                let stack = open.entry(thread).or_default();
                while stack.last().is_some_and(|outer| *outer <= ts) {
                    stack.pop();
                }
                assert!(stack.iter().all(|outer| end <= *outer), "nested: {event} in {stack:?}");
                assert!(stack.len() < 2, "steps, and what is in them");
                stack.push(end);
                match event["cat"].as_str().unwrap() {
                    "step" => steps += 1,
                    part => {
                        assert!(PARTS.contains(&part), "{part}");
                        calls += 1;
                    }
                }
            }
            other => panic!("{other}"),
        }
    }
    let names = [("process_name", 1), ("thread_name", 1), ("thread_name", 2)];
    assert_eq!(named, names.map(|(name, thread)| (name.to_owned(), thread)));
    assert_eq!(steps, 2 * 25, "on each thread");
    assert!(calls > 4 * steps && counters > 0, "{calls}");
}

const PARTS: [&str; 7] = ["data", "copy", "forward", "backward", "update", "threads", "metrics"];

/// `TFRecord`s whose lengths and checksums are right, with scalars; and the trace that the plugin looks for.
#[test]
fn files_for_tensorboard() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("profile houses.csv --target price --steps 10 --otherwise 0 --tensorboard tb");
    let names: Vec<String> =
        fs::read_dir(folder.path("tb")).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|name| name.ends_with(".pt.trace.json")), "{names:?}");
    let events = names.iter().find(|name| name.starts_with("events.out.tfevents.")).unwrap();
    let bytes = fs::read(folder.path("tb").join(events)).unwrap();
    let (mut rest, mut records) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        records.push(&rest[12..12 + length]);
        rest = &rest[12 + length + 4..];
    }
    assert!(records[0].ends_with(b"brain.Event:2"));
    let holds = |tag: &str| records.iter().any(|r| r.windows(tag.len()).any(|w| w == tag.as_bytes()));
    for tag in ["step/ms", "time/forward_us", "share/update", "memory/parameters_bytes"] {
        assert!(holds(tag), "{tag}");
    }
}

#[test]
fn the_loader_bench_needs_no_files() {
    let folder = Folder::new();
    let ran = folder.works("bench loader --workloads table --epochs 3 --json");
    let line: serde_json::Value = serde_json::from_str(ran.out.trim()).unwrap();
    assert_eq!((line["workload"].as_str(), line["items"].as_u64()), (Some("table"), Some(100_000)));
    let said = folder.fails(1, "bench loader --workloads photos");
    assert!(said.contains("give it with --photos"), "{said}");
}
