//! Numbers for people: sizes, times and rates with units, in at most four significant digits.

/// A size in bytes: `0 B`, `1023 B`, `1.0 KiB`, `34.5 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = "KiB";
    for next in UNITS.iter().skip(1) {
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// A count with separated thousands: `1 234 567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(' ');
        }
        shown.push(digit);
    }
    shown
}

/// A span of nanoseconds: `850 ns`, `12.3 µs`, `4.0 ms`, `1.2 s`.
pub fn duration_ns(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.1} s", value / 1e9),
    }
}

/// A span of seconds: `12 s`, `3 min 20 s`, `5 h 12 min`, `3 d 4 h`.
pub fn duration_s(s: u64) -> String {
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => format!("{} min {} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {} min", s / 3_600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3_600 % 24),
    }
}

/// A rate: `0/s`, `0.4/s`, `12 345/s`.
pub fn per_second(rate: f64) -> String {
    if !rate.is_finite() || rate < 0.05 {
        "0/s".to_owned()
    } else if rate < 10.0 {
        format!("{rate:.1}/s")
    } else {
        format!("{}/s", count(rate.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, count, duration_ns, duration_s, per_second};

    #[test]
    fn sizes_have_a_fitting_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(bytes(36_175_872), "34.5 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn counts_have_separated_thousands() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1 000");
        assert_eq!(count(12_345_678), "12 345 678");
    }

    #[test]
    fn times_have_a_fitting_unit() {
        assert_eq!(duration_ns(999), "999 ns");
        assert_eq!(duration_ns(12_340), "12.3 µs");
        assert_eq!(duration_ns(4_000_000), "4.0 ms");
        assert_eq!(duration_ns(1_200_000_000), "1.2 s");
        assert_eq!(duration_s(59), "59 s");
        assert_eq!(duration_s(200), "3 min 20 s");
        assert_eq!(duration_s(18_720), "5 h 12 min");
        assert_eq!(duration_s(273_600), "3 d 4 h");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!(per_second(0.0), "0/s");
        assert_eq!(per_second(f64::NAN), "0/s");
        assert_eq!(per_second(0.42), "0.4/s");
        assert_eq!(per_second(12_345.4), "12 345/s");
    }
}
