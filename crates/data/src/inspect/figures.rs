//! Numbers, shares and bars for people.

use crate::escape::Escaped;

/// `1,234,567`
pub fn count(value: usize) -> String {
    grouped(&value.to_string())
}

/// Bytes for people: `22 MB`, `3.1 GB`.
pub fn byte_size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// `1 row`, `2,000 rows`, `3 classes`
pub fn plural(value: usize, what: &str) -> String {
    let ending = match what.ends_with('s') {
        _ if value == 1 => "",
        true => "es",
        false => "s",
    };
    format!("{} {what}{ending}", count(value))
}

/// Four significant digits, all digits of the whole part up to ten, thousands apart: `0.001234`, `12.35`, `206,856`.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e10).contains(&size) {
        let text = format!("{value:.3e}");
        return match text.split_once('e') {
            Some((mantissa, exponent)) => format!("{}e{exponent}", trimmed(mantissa)),
            None => text,
        };
    }
    let decimals = (3 - size.log10().floor() as i32).clamp(0, 8) as usize;
    let text = trimmed(&format!("{value:.decimals$}"));
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, part) = digits.split_once('.').map_or((digits, String::new()), |(w, p)| (w, format!(".{p}")));
    format!("{sign}{}{part}", grouped(whole))
}

/// `45%`, `3.2%`, `<0.1%`
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0%".to_owned(),
        p if p < 0.1 => "<0.1%".to_owned(),
        p if p < 9.95 => format!("{p:.1}%"),
        p if p > 99.5 && p < 100.0 => ">99%".to_owned(),
        p => format!("{p:.0}%"),
    }
}

/// A histogram in ten characters: blank where there is nothing.
pub(super) fn histogram(bars: &[usize]) -> String {
    const LEVELS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];
    let largest = bars.iter().copied().max().unwrap_or(0);
    let level = |bar: &usize| match *bar {
        0 => ' ',
        bar => LEVELS[((bar * LEVELS.len()).div_ceil(largest) - 1).min(LEVELS.len() - 1)],
    };
    bars.iter().map(level).collect()
}

/// A bar for a share of the largest one, at least a sliver where there is something.
pub(super) fn bar(share: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

/// The text in at most `width` characters, `…` at its end where it was cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    let clean = text.chars().take(width.saturating_add(1)).collect::<String>().escaped();
    match clean.chars().count() > width {
        false => clean,
        true => clean.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Without zeros at the end of its decimals.
fn trimmed(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1234567.8, "-1,234,568"),
            (999.96, "1,000"),
            (12.3456, "12.35"),
            (0.00123456, "0.001235"),
            (0.1, "0.1"),
            (1e-7, "1e-7"),
            (1.23456e12, "1.235e12"),
            (f64::NAN, "–"),
            (f64::INFINITY, "inf"),
            (-999.0, "-999"),
        ];
        for (value, want) in cases {
            assert_eq!(number(value), want);
        }
        assert_eq!((count(0), count(1_000), count(20_640)), ("0".into(), "1,000".into(), "20,640".into()));
    }

    #[test]
    fn shares_and_bars() {
        let shares = [0.0, 0.0001, 0.0123, 0.5, 0.999, 1.0].map(percent);
        assert_eq!(shares, ["0%", "<0.1%", "1.2%", "50%", ">99%", "100%"]);
        assert_eq!(histogram(&[0, 1, 50, 100]), " ▁▄▇");
        assert_eq!(histogram(&[0, 0]), "  ");
        assert_eq!(
            (bar(1.0, 3), bar(0.5, 3), bar(1e-9, 3), bar(0.0, 3)),
            ("███".into(), "█▌".into(), "▏".into(), "".into())
        );
        assert_eq!(cut("a\tlong\nname", 7), r"a\tlon…");
    }
}
