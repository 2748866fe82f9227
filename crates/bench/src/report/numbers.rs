//! Readable numbers and names: `57,353`, `4 KiB`, `calls/s`.
//!
//! Invariant: nothing here depends on the locale, so the same findings give the same page everywhere.

/// With commas between thousands and exactly `decimals` digits after the point.
pub(super) fn grouped(value: f64, decimals: usize) -> String {
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = String::with_capacity(plain.len() + 8);
    let zero = plain.chars().all(|c| c == '0' || c == '.');
    if value < 0.0 && !zero {
        text.push('\u{2212}');
    }
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// To four significant digits, or all digits of the whole part: `57,353`, `146.3`, `0.0301`.
pub(super) fn short(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "not a number" } else { "infinite" }.to_string();
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".to_string();
    }
    if !(1e-6..1e15).contains(&size) {
        let text = format!("{value:.3e}");
        return match text.split_once('e') {
            Some((digits, power)) => format!("{}e{power}", trimmed(digits)),
            None => text,
        };
    }
    let decimals = match size {
        s if s >= 1000.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        s if s >= 1.0 => 3,
        s => 4 + (-s.log10()).floor() as usize,
    };
    trimmed(&grouped(value, decimals))
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text.to_string()
    }
}

/// A count of bytes in the largest binary unit that divides it evenly: `60 KiB`, `1 MiB`, `1,500 B`.
pub(super) fn bytes(value: f64) -> String {
    const UNITS: [(&str, f64); 4] = [
        ("TiB", 1_099_511_627_776.0),
        ("GiB", 1_073_741_824.0),
        ("MiB", 1_048_576.0),
        ("KiB", 1024.0),
    ];
    for (name, size) in UNITS {
        if value.abs() >= size && value % size == 0.0 {
            return format!("{} {name}", grouped(value / size, 0));
        }
    }
    format!("{} B", short(value))
}

/// A readable unit: code has `us`, a page µs.
pub(super) fn unit(name: &str) -> &str {
    if name == "us" { "µs" } else { name }
}

/// Whether an axis of this unit counts bytes, whose round numbers are powers of two.
pub(super) fn is_bytes(unit: &str) -> bool {
    matches!(unit, "B" | "byte" | "bytes")
}

/// A value of an axis with this unit, for a label that stands alone.
pub(super) fn with_unit(value: f64, name: &str) -> String {
    if is_bytes(name) {
        bytes(value)
    } else if name.is_empty() {
        short(value)
    } else {
        format!("{}\u{a0}{}", short(value), unit(name))
    }
}

/// A ratio: `1.41×`.
pub(super) fn times(value: f64) -> String {
    let size = value.abs();
    let decimals = if size >= 100.0 {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 0.095 {
        2
    } else {
        3
    };
    if value.is_finite() { format!("{}×", grouped(value, decimals)) } else { short(value) }
}

/// A readable name of a measure: `server_cpu_us_per_call` is `server CPU µs/call`.
pub(super) fn measure(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut glue = "";
    for word in name.split('_') {
        if word == "per" && !text.is_empty() {
            glue = "/";
            continue;
        }
        text.push_str(glue);
        text.push_str(match word {
            "us" => unit("us"),
            "mb" => "MB",
            "gb" => "GB",
            "kb" => "KB",
            "cpu" => "CPU",
            "rss" => "RSS",
            other => other,
        });
        glue = " ";
    }
    text
}

/// Whether more or less of something is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BetterDirection {
    More,
    Less,
}

impl BetterDirection {
    /// The arrow beside a name.
    pub(super) const fn arrow(self) -> &'static str {
        match self {
            Self::More => "↑",
            Self::Less => "↓",
        }
    }

    /// As the end of an axis's title.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::More => "more is better ↑",
            Self::Less => "less is better ↓",
        }
    }
}

/// The better direction of a measure, by its unit; none where neither is, or nobody can tell.
pub(super) fn better_direction(measure: &str) -> Option<BetterDirection> {
    let cost = [
        "_us",
        "_ns",
        "_ms",
        "cpu_s",
        "switches",
        "waited",
        "retransmitted",
        "lost",
        "drops",
        "rss",
    ];
    if cost.iter().any(|part| measure.contains(part)) {
        return Some(BetterDirection::Less);
    }
    measure.ends_with("_per_s").then_some(BetterDirection::More)
}

/// The better direction of an axis.
pub(super) fn better_direction_on(axis: &crate::result::Axis) -> Option<BetterDirection> {
    match axis.unit.as_str() {
        "us" | "ns" | "ms" | "s" | "s/GB" => Some(BetterDirection::Less),
        unit if unit.ends_with("/s") => Some(BetterDirection::More),
        _ if axis.label.starts_with("context switches") => Some(BetterDirection::Less),
        _ => None,
    }
}

/// A length of time: `42 s`, `3 min 20 s`.
pub(super) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "unknown time".to_string();
    }
    if seconds < 10.0 {
        return format!("{} s", trimmed(&grouped(seconds, 1)));
    }
    let whole = seconds.round();
    if whole < 120.0 {
        return format!("{} s", grouped(whole, 0));
    }
    let minutes = (whole / 60.0).floor();
    let rest = whole - minutes * 60.0;
    if rest == 0.0 {
        format!("{} min", grouped(minutes, 0))
    } else {
        format!("{} min {} s", grouped(minutes, 0), grouped(rest, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas_and_a_true_minus() {
        assert_eq!(grouped(57353.0, 0), "57,353");
        assert_eq!(grouped(-1_234_567.891, 2), "\u{2212}1,234,567.89");
        assert_eq!(grouped(999.9, 0), "1,000");
        assert_eq!(grouped(-0.001, 1), "0.0");
    }

    #[test]
    fn four_digits_are_enough() {
        assert_eq!(short(57353.4), "57,353");
        assert_eq!(short(146.28), "146.3");
        assert_eq!(short(0.03014), "0.03014");
        assert_eq!(short(2.5), "2.5");
        assert_eq!(short(0.0), "0");
        assert_eq!(short(f64::NAN), "not a number");
        assert_eq!(short(1e-9), "1e-9");
        assert_eq!(short(1.25e20), "1.25e20");
    }

    #[test]
    fn bytes_use_the_largest_unit_that_divides_them() {
        assert_eq!(bytes(61440.0), "60 KiB");
        assert_eq!(bytes(1_048_576.0), "1 MiB");
        assert_eq!(bytes(1500.0), "1,500 B");
        assert_eq!(bytes(0.0), "0 B");
    }

    #[test]
    fn measures_are_written_with_their_units() {
        assert_eq!(measure("calls_per_s"), "calls/s");
        assert_eq!(measure("server_cpu_us_per_call"), "server CPU µs/call");
        assert_eq!(measure("read_mb_per_s"), "read MB/s");
    }

    #[test]
    fn measures_have_their_better_direction() {
        for cost in [
            "server_cpu_us_per_call",
            "p99_us",
            "cpu_s_per_gb",
            "look_up_ns_per_call",
            "mount_p99_ms",
        ] {
            assert_eq!(better_direction(cost), Some(BetterDirection::Less), "{cost}");
        }
        for gain in ["calls_per_s", "read_mb_per_s", "entries_per_s"] {
            assert_eq!(better_direction(gain), Some(BetterDirection::More), "{gain}");
        }
        assert_eq!(
            (better_direction("retransmitted_per_s"), better_direction("window_mb")),
            (Some(BetterDirection::Less), None)
        );
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(3.24), "3.2 s");
        assert_eq!(duration(42.4), "42 s");
        assert_eq!(duration(200.0), "3 min 20 s");
        assert_eq!(duration(f64::NAN), "unknown time");
    }
}
