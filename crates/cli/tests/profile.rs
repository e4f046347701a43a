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

/// Metadata first, then complete events in order, each within its step, none across another's end.
#[test]
fn a_trace_for_chrome() {
    let folder = Folder::new();
    folder.write("houses.csv", houses());
    folder.works("profile houses.csv --target price --steps 25 --threads 2 --otherwise 0 --trace trace.json");
    let trace: Value = serde_json::from_slice(&fs::read(folder.path("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let number = |event: &Value, name: &str| event[name].as_f64().unwrap_or_else(|| panic!("{name} of {event}"));
    let mut open: HashMap<u64, Vec<(f64, f64)>> = HashMap::new();
    let (mut last, mut steps, mut calls) = (0.0, 0, 0);
    for event in events {
        let (ts, thread) = (number(event, "ts"), event["tid"].as_u64().unwrap());
        assert!(event["pid"].is_u64() && event["name"].is_string());
        match event["ph"].as_str().unwrap() {
            "M" => assert_eq!(last, 0.0, "names come first"),
            "C" => assert!(event["args"]["parameters"].is_u64()),
            "X" => {
                let dur = number(event, "dur");
                assert!(ts >= last && dur >= 0.0, "sorted: {event}");
                last = ts;
                let stack = open.entry(thread).or_default();
                let slack = 1e-6;
                while stack.last().is_some_and(|top| top.1 <= ts + slack) {
                    stack.pop();
                }
                assert!(stack.iter().all(|outer| ts + dur <= outer.1 + 2e-3), "nested: {event} in {stack:?}");
                assert!(stack.len() < 2, "steps, and what is in them");
                stack.push((ts, ts + dur));
                match event["cat"].as_str().unwrap() {
                    "step" => steps += 1,
                    _ => calls += 1,
                }
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(steps, 2 * 25, "on each thread");
    assert!(calls > 4 * steps, "{calls}");
}

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
