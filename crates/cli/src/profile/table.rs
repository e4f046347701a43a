//! Kernels, those that are alike taken together.

use citius_train::KernelTime;

use crate::screen::{Sink, line, number};

/// What a table is sorted by.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Time in the kernel itself
    #[value(name = "self")]
    Own,
    /// The same
    Share,
    /// FLOP/s
    Flops,
    /// Bytes per second
    Bytes,
    /// Times it was called
    Calls,
}

pub fn show(sink: Sink, kernels: &[KernelTime], sort: Sort, rows: usize) {
    let mut all = together(kernels);
    let rate = |amount: f64, k: &KernelTime| if k.seconds > 0.0 { amount / k.seconds } else { 0.0 };
    let key = |k: &KernelTime| match sort {
        Sort::Own | Sort::Share => k.seconds,
        Sort::Flops => rate(k.flops, k),
        Sort::Bytes => rate(k.bytes, k),
        Sort::Calls => k.calls as f64,
    };
    all.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let head = ["calls", "self µs", "share", "GFLOP/s", "GB/s", "roofline"];
    line(
        sink,
        &format!(
            "  {:<34} {:<8} {:>7} {:>9} {:>6} {:>8} {:>7} {:>8}  where",
            "kernel", "phase", head[0], head[1], head[2], head[3], head[4], head[5]
        ),
    );
    let shown = if rows == 0 { all.len() } else { rows.min(all.len()) };
    for k in &all[..shown] {
        let each = k.seconds / k.calls.max(1) as f64 * 1e6;
        let roofline = k.roofline.map_or("-".to_owned(), |r| format!("{:.0}%", r * 100.0));
        let place = if k.place.is_empty() { k.ops.clone() } else { format!("{}  {}", k.place, k.ops) };
        line(
            sink,
            &format!(
                "  {:<34} {:<8} {:>7} {:>9} {:>6} {:>8} {:>7} {:>8}  {}",
                shortened(&k.name, 34),
                k.phase,
                k.calls,
                number(each),
                format!("{:.1}%", k.share * 100.0),
                number(rate(k.flops, k) / 1e9),
                number(rate(k.bytes, k) / 1e9),
                roofline,
                shortened(&place, 60)
            ),
        );
    }
    if shown < all.len() {
        let left: f64 = all[shown..].iter().map(|k| k.share).sum();
        line(sink, &format!("  and {} more, {:.1}% of the time (--rows 0)", all.len() - shown, left * 100.0));
    }
}

/// Calls of the same kernel on the same shapes at the same place are one line.
fn together(kernels: &[KernelTime]) -> Vec<KernelTime> {
    let mut all: Vec<KernelTime> = Vec::new();
    for k in kernels {
        let same = |o: &&mut KernelTime| o.name == k.name && o.place == k.place && o.phase == k.phase && o.ops == k.ops;
        match all.iter_mut().find(same) {
            Some(o) => {
                // weighed by time
                let both = o.seconds + k.seconds;
                o.roofline = o.roofline.zip(k.roofline).map(|(a, b)| match both > 0.0 {
                    true => (a * o.seconds + b * k.seconds) / both,
                    false => a,
                });
                (o.calls, o.seconds, o.share) = (o.calls + k.calls, both, o.share + k.share);
                (o.flops, o.bytes) = (o.flops + k.flops, o.bytes + k.bytes);
            }
            None => all.push(k.clone()),
        }
    }
    all
}

fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_are_alike_are_one_line() {
        let k = |name: &str, seconds: f64| KernelTime {
            name: name.into(),
            calls: 10,
            seconds,
            share: seconds,
            flops: 1e9,
            roofline: Some(seconds),
            ..KernelTime::default()
        };
        let all = together(&[k("matmul", 0.25), k("map", 0.5), k("matmul", 0.75)]);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].calls, all[0].seconds, all[0].flops), (20, 1.0, 2e9));
        assert_eq!(all[0].roofline, Some(0.25 * 0.25 + 0.75 * 0.75));
        assert_eq!(shortened("abcdef", 4), "abc…");
    }
}
