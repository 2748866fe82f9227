//! Maps values to positions on an axis, and chooses the labelled values.
//!
//! A scale maps a value to its *rank* (the value itself, its logarithm, or for percentiles -log10(1 -
//! x/100), which spaces every further nine evenly) and the rank linearly to pixels. Ticks are at round
//! numbers: 1, 2 or 5 times a power of ten, powers of two where bytes are counted.
//!
//! Invariants: `from < to` in every scale; an axis has at most [`MAX_TICKS`] ticks, in ascending order.

use super::numbers::{bytes, grouped, is_bytes, short};

/// No axis is longer than a person reads; a wrong step cannot make it so either.
const MAX_TICKS: usize = 40;

/// Values beyond this are omitted like infinity: differences of them would overflow.
const MAX_SIZE: f64 = 1e100;

/// More nines than any run has calls.
const MAX_NINES: f64 = 9.0;

/// How values become ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Linear,
    Log,
    /// The share of calls in percent, with every nine as wide as the one before.
    Share,
}

impl Kind {
    /// The rank of a value; `None` if it has no position on such an axis. A share of 100 is
    /// infinitely far away: [`Scale::place`] puts it at the end.
    pub(super) fn rank(self, value: f64) -> Option<f64> {
        if !value.is_finite() || value.abs() > MAX_SIZE {
            return None;
        }
        match self {
            Kind::Linear => Some(value),
            Kind::Log => (value > 0.0).then(|| value.log10()),
            Kind::Share if value == 100.0 => Some(f64::INFINITY),
            Kind::Share => (0.0..100.0).contains(&value).then(|| nines(value)),
        }
    }
}

/// 90 is one, 99 is two, 99.9 is three.
fn nines(share: f64) -> f64 {
    (-(1.0 - share / 100.0).log10()).clamp(0.0, MAX_NINES)
}

/// A labelled position on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// The value; 100 on a [`Kind::Share`] axis is at its end.
    pub(super) value: f64,
    pub(super) label: String,
}

/// Values to pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    kind: Kind,
    from: f64,
    to: f64,
    start_px: f64,
    end_px: f64,
}

impl Scale {
    /// A scale over the ranks `from` to `to`, which are separated if they are equal.
    pub(super) fn new(kind: Kind, from: f64, to: f64) -> Self {
        let (mut from, mut to) = if from <= to { (from, to) } else { (to, from) };
        let least = (from.abs().max(to.abs()) * 1e-9).max(1e-12);
        if to - from < least {
            let apart = if kind == Kind::Linear { (from.abs() * 0.1).max(0.5) } else { 0.5 };
            from -= apart;
            to += apart;
        }
        Self { kind, from, to, start_px: 0.0, end_px: 1.0 }
    }

    /// The same scale between two pixels.
    pub(super) fn between(self, start_px: f64, end_px: f64) -> Self {
        Self { start_px, end_px, ..self }
    }

    /// The pixel of a value that has a rank; values outside the scale are at its ends.
    pub(super) fn place(&self, value: f64) -> f64 {
        let rank = self.kind.rank(value).unwrap_or(self.from).clamp(self.from, self.to);
        self.start_px + (rank - self.from) / (self.to - self.from) * (self.end_px - self.start_px)
    }
}

/// The smallest round step that is at least `raw`.
fn round_step(raw: f64, binary: bool) -> f64 {
    if !raw.is_finite() || raw <= 0.0 {
        return 1.0;
    }
    if binary {
        return raw.max(1.0).log2().ceil().exp2();
    }
    let power = 10f64.powf(raw.log10().floor());
    let share = raw / power;
    let lead = [1.0, 2.0, 5.0].into_iter().find(|lead| share <= lead * (1.0 + 1e-9));
    lead.unwrap_or(10.0) * power
}

/// Digits after the point that distinguish multiples of `step`.
fn decimals_of(step: f64) -> usize {
    let digits = (-step.abs().log10() - 1e-9).ceil();
    if digits.is_finite() && digits > 0.0 { (digits as usize).min(12) } else { 0 }
}

/// How the labels of a linear axis are written: all in one unit, with the digits that the step needs.
fn label_of(value: f64, step: f64, largest: f64, unit: &str) -> String {
    if is_bytes(unit) {
        return if value == 0.0 { "0".to_string() } else { bytes(value) };
    }
    if largest >= 1e15 || step < 1e-9 {
        return short(value);
    }
    let (divisor, letter) = match largest {
        l if l >= 1e12 => (1e12, "\u{a0}T"),
        l if l >= 1e9 => (1e9, "\u{a0}G"),
        l if l >= 1e6 => (1e6, "\u{a0}M"),
        _ => (1.0, ""),
    };
    if value == 0.0 {
        return "0".to_string();
    }
    format!("{}{letter}", grouped(value / divisor, decimals_of(step / divisor)))
}

/// A linear axis that covers `low..=high`, with ends on round numbers, with about `wanted` steps.
pub(super) fn linear(low: f64, high: f64, wanted: usize, unit: &str) -> (Scale, Vec<Tick>) {
    let Scale { from, to, .. } = Scale::new(Kind::Linear, low, high);
    let step = round_step((to - from) / wanted.max(1) as f64, is_bytes(unit));
    let first = (from / step + 1e-9).floor();
    let last = (to / step - 1e-9).ceil();
    let scale = Scale::new(Kind::Linear, first * step, last * step);
    let count = ((last - first).max(0.0) as usize).min(MAX_TICKS);
    (scale, steps(first, step, count, unit))
}

/// The round numbers inside a linear axis whose ends are those of the data.
pub(super) fn inside(low: f64, high: f64, wanted: usize, unit: &str) -> (Scale, Vec<Tick>) {
    let scale = Scale::new(Kind::Linear, low, high);
    let step = round_step((scale.to - scale.from) / wanted.max(1) as f64, is_bytes(unit));
    let first = (scale.from / step - 1e-9).ceil();
    let last = (scale.to / step + 1e-9).floor();
    let count = ((last - first).max(0.0) as usize).min(MAX_TICKS);
    (scale, steps(first, step, count, unit))
}

fn steps(first: f64, step: f64, count: usize, unit: &str) -> Vec<Tick> {
    let largest = (first * step).abs().max(((first + count as f64) * step).abs());
    (0..=count)
        .map(|i| {
            let value = (first + i as f64) * step;
            Tick { value, label: label_of(value, step, largest, unit) }
        })
        .collect()
}

/// A logarithmic axis that covers `low..=high` (both above zero), about `wanted` ticks: decades, or 1, 2 and 5
/// of each if there are few, or powers of four where bytes are counted. `tight` leaves the ends at the data.
pub(super) fn log(
    low: f64,
    high: f64,
    wanted: usize,
    unit: &str,
    tight: bool,
) -> (Scale, Vec<Tick>) {
    let marks =
        if is_bytes(unit) { log_bytes(low, high, wanted) } else { log_tens(low, high, wanted) };
    let at_most = marks.iter().copied().rfind(|m| *m <= low * (1.0 + 1e-9)).unwrap_or(low);
    let at_least = marks.iter().copied().find(|m| *m >= high * (1.0 - 1e-9)).unwrap_or(high);
    let (from, to) = if tight { (low, high) } else { (at_most, at_least) };
    let scale = Scale::new(Kind::Log, from.log10(), to.log10());
    let (from, to) = (10f64.powf(scale.from), 10f64.powf(scale.to));
    let inside = marks.into_iter().filter(|m| *m >= from * 0.999_999 && *m <= to * 1.000_001);
    let ticks = inside
        .map(|value| {
            let label = if is_bytes(unit) { bytes(value) } else { compact(value, to >= 1e6) };
            Tick { value, label }
        })
        .take(MAX_TICKS)
        .collect();
    (scale, ticks)
}

/// Round numbers of the decimal logarithmic axis, one beyond each end.
fn log_tens(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let first = low.log10().floor() as i32 - 1;
    let last = high.log10().ceil() as i32 + 1;
    let decades = high.log10() - low.log10();
    let leads: &[f64] = if decades * 3.0 <= wanted as f64 + 1.0 {
        &[1.0, 2.0, 5.0]
    } else if decades * 2.0 <= wanted as f64 {
        &[1.0, 3.0]
    } else {
        &[1.0]
    };
    let stride = ((decades / wanted.max(1) as f64).ceil() as usize).max(1);
    (first..=last)
        .step_by(stride)
        .flat_map(|power| leads.iter().map(move |lead| lead * 10f64.powi(power)))
        .collect()
}

/// Powers of two of the logarithmic axis for bytes.
fn log_bytes(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let stride = (((high / low).log2() / wanted.max(1) as f64).ceil() as i32).max(1);
    let first = (low.log2() / f64::from(stride)).floor() as i32;
    let last = (high.log2() / f64::from(stride)).ceil() as i32;
    (first - 1..=last + 1).map(|i| f64::from(i * stride).exp2()).collect()
}

/// A round number of any size in few characters; `lettered` axes have letters at all of their thousands.
fn compact(value: f64, lettered: bool) -> String {
    for (size, letter) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if lettered && value >= size * 0.999_999 && value < 1e15 {
            return format!("{}\u{a0}{letter}", short(value / size));
        }
    }
    if value < 1e-6 { format!("{value:e}") } else { short(value) }
}

/// The axis of percentiles from 0 to the largest finite rank, `whole` if 100 % is to be shown.
pub(super) fn shares(largest: f64, whole: bool) -> (Scale, Vec<Tick>) {
    let last = largest.clamp(1.0, MAX_NINES);
    let to = if whole { last + 0.6 } else { last };
    let scale = Scale::new(Kind::Share, 0.0, to);
    let mut ticks = vec![Tick { value: 0.0, label: "0".into() }];
    for count in 1..=(last + 1e-9).floor() as usize {
        let value = 100.0 - 10f64.powi(2 - count as i32);
        ticks.push(Tick { value, label: format!("{value:.*}", count.saturating_sub(2)) });
    }
    if whole {
        ticks.push(Tick { value: 100.0, label: "100".into() });
    }
    (scale, ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|t| t.label.as_str()).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_cover_the_data() {
        let (scale, ticks) = linear(0.0, 81775.0, 5, "");
        assert_eq!(labels(&ticks), ["0", "20,000", "40,000", "60,000", "80,000", "100,000"]);
        let scale = scale.between(300.0, 0.0);
        assert_eq!((scale.place(0.0), scale.place(100_000.0)), (300.0, 0.0));
        assert_eq!(labels(&linear(0.0, 0.7, 4, "").1), ["0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(labels(&linear(-3.0, 4.0, 4, "").1), ["\u{2212}4", "\u{2212}2", "0", "2", "4"]);
        assert_eq!(labels(&linear(0.0, 2.4e6, 3, "").1), ["0", "1\u{a0}M", "2\u{a0}M", "3\u{a0}M"]);
    }

    #[test]
    fn bytes_have_binary_steps() {
        let (_, ticks) = linear(0.0, 13.0e6, 4, "B");
        assert_eq!(labels(&ticks), ["0", "4 MiB", "8 MiB", "12 MiB", "16 MiB"]);
        let (_, ticks) = log(4096.0, 1_048_576.0, 4, "B", true);
        assert_eq!(labels(&ticks), ["4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"]);
    }

    #[test]
    fn log_ticks_fit_the_number_of_decades() {
        assert_eq!(labels(&log(3.0, 40.0, 6, "", false).1), ["2", "5", "10", "20", "50"]);
        assert_eq!(
            labels(&log(8.0, 20_000.0, 5, "", false).1),
            ["1", "10", "100", "1,000", "10,000", "100,000"]
        );
        assert_eq!(
            labels(&log(200.0, 3e6, 5, "", false).1),
            ["100", "1\u{a0}k", "10\u{a0}k", "100\u{a0}k", "1\u{a0}M", "10\u{a0}M"]
        );
        let many = log(1e-30, 1e30, 6, "", false).1;
        assert!(many.len() <= 10 && many.len() >= 4, "{many:?}");
    }

    #[test]
    fn a_log_axis_always_has_two_ticks_or_more() {
        for (low, high) in [(1.0, 1.0), (3.0, 3.0), (57.0, 58.0), (1e-9, 1.0), (900.0, 1100.0)] {
            let ticks = log(low, high, 5, "", false).1;
            assert!(ticks.len() >= 2, "{low} {high} {ticks:?}");
        }
    }

    #[test]
    fn nines_are_evenly_spaced() {
        let (scale, ticks) = shares(nines(99.99), true);
        assert_eq!(labels(&ticks), ["0", "90", "99", "99.9", "99.99", "100"]);
        let scale = scale.between(0.0, 460.0);
        let gap = scale.place(99.0) - scale.place(90.0);
        assert!((gap - 100.0).abs() < 1e-6, "{gap}");
        assert!((scale.place(99.9) - scale.place(99.0) - gap).abs() < 1e-6);
        assert_eq!(scale.place(100.0), 460.0);
    }

    #[test]
    fn a_single_value_still_has_an_axis() {
        for value in [0.0, 5.0, -5.0, 1e90, 1e-90] {
            let (scale, ticks) = linear(value, value, 5, "");
            assert!(scale.from < scale.to, "{value}");
            assert!(ticks.len() >= 2 && ticks.len() <= MAX_TICKS + 1, "{value} {ticks:?}");
            assert!(scale.between(0.0, 100.0).place(value).is_finite());
        }
    }

    #[test]
    fn values_outside_a_scale_have_no_rank() {
        assert_eq!(Kind::Linear.rank(f64::NAN), None);
        assert_eq!(Kind::Linear.rank(1e200), None);
        assert_eq!(Kind::Log.rank(0.0), None);
        assert_eq!(Kind::Log.rank(-1.0), None);
        assert_eq!(Kind::Share.rank(100.5), None);
        assert_eq!(Kind::Share.rank(-0.5), None);
    }
}
