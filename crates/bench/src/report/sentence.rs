//! The result of an experiment in one sentence: its first comparison, the better direction, and the targets.

use super::numbers::{better_direction, measure, times};
use crate::result::{Findings, Outcome, Ratio, Target};

/// The sentence, with names between backticks; none if nothing was measured.
pub fn sentence(findings: &Findings) -> Option<String> {
    if matches!(findings.outcome, Outcome::Unable(_) | Outcome::Failed(_)) {
        return None;
    }
    let held = findings.targets.iter().filter(|target| target.held).count();
    let targets = match findings.targets.len() {
        0 => String::new(),
        all => format!("; {held} of {all} targets held"),
    };
    if let Some(first) = findings.ratios.iter().find(|ratio| tells(ratio)) {
        return Some(format!("{}{targets}.", compared(first, &findings.ratios)));
    }
    let Target { condition, found, .. } = findings.targets.first()?;
    Some(format!("{}: {found}{targets}.", upper_first(condition)))
}

/// Whether a ratio is meaningful: a variant against itself is always 1.
pub(super) fn tells(ratio: &Ratio) -> bool {
    ratio.of != ratio.to
}

/// A variant against another, over all places where they were compared.
fn compared(first: &Ratio, all: &[Ratio]) -> String {
    let same = |r: &&Ratio| (&r.measure, &r.of, &r.to) == (&first.measure, &first.of, &first.to);
    let group: Vec<&Ratio> = all.iter().filter(same).collect();
    let low = group.iter().map(|r| r.median).fold(f64::INFINITY, f64::min);
    let high = group.iter().map(|r| r.median).fold(f64::NEG_INFINITY, f64::max);
    let factor = match group.len() {
        1 => format!("{} ({} – {})", times(low), times(first.low), times(first.high)),
        _ => format!("{} to {}", times(low), times(high)),
    };
    let direction = better_direction(&first.measure)
        .map_or_else(String::new, |direction| format!(", {}", direction.words()));
    let Ratio { of, to, .. } = first;
    format!("`{of}` has {factor} the {} of `{to}`{direction}", measure(&first.measure))
}

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::{Findings, Outcome, Ratio, Target, sentence};

    fn findings(ratios: Vec<Ratio>, targets: Vec<Target>) -> Findings {
        Findings {
            name: "a".into(),
            title: String::new(),
            question: String::new(),
            quick: false,
            started: String::new(),
            took_s: 1.0,
            outcome: Outcome::Done,
            commands: Vec::new(),
            setup: Vec::new(),
            noise: None,
            trials: Vec::new(),
            ratios,
            targets,
            tables: Vec::new(),
            plots: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn ratio(measure: &str, at: f64, median: f64) -> Ratio {
        Ratio {
            measure: measure.into(),
            of: "new".into(),
            to: "old".into(),
            at: Some(at),
            median,
            low: 0.5,
            high: 2.5,
            rounds: 3,
        }
    }

    #[test]
    fn the_first_comparison_is_a_sentence_with_its_direction() {
        let target = Target { condition: "it is fast".into(), found: "3 ms".into(), held: true };
        let one = findings(vec![ratio("calls_per_s", 1.0, 1.5)], vec![target.clone()]);
        let wanted = "`new` has 1.50× (0.50× – 2.50×) the calls/s of `old`, more is better ↑; 1 of 1 targets held.";
        assert_eq!(sentence(&one).as_deref(), Some(wanted));
        let more = vec![
            ratio("server_cpu_us_per_call", 1.0, 0.5),
            ratio("server_cpu_us_per_call", 2.0, 0.75),
        ];
        let wanted = "`new` has 0.50× to 0.75× the server CPU µs/call of `old`, less is better ↓.";
        assert_eq!(sentence(&findings(more, Vec::new())).as_deref(), Some(wanted));
        let wanted = "It is fast: 3 ms; 1 of 1 targets held.";
        assert_eq!(sentence(&findings(Vec::new(), vec![target.clone()])).as_deref(), Some(wanted));
        let mut none = findings(Vec::new(), vec![target]);
        none.outcome = Outcome::Unable("why".into());
        assert_eq!(sentence(&none), None);
        assert_eq!(sentence(&findings(Vec::new(), Vec::new())), None);
    }
}
