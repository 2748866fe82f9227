//! Rounds of trials, and what is computed from them: medians, spreads, ratios inside rounds, lines.
//!
//! A ratio is taken inside each round first and the median over the rounds then: slowness of the whole
//! machine for some seconds cancels out. The noise of an experiment is how far trials of the same variant
//! differ from their own median. A trial from which the machine's host took CPU time is repeated
//! (`steal.rs`).

use super::{Experiment, RunContext, RunError};
use crate::result::{Axis, Fact, Findings, Outcome, Plot, Point, Ratio, Series, Shape, Trial};
use crate::steal::TrialRetries;
use std::collections::BTreeMap;

/// Empty findings.
pub(super) fn empty(experiment: &Experiment, quick: bool) -> Findings {
    Findings {
        name: experiment.name.to_owned(),
        title: experiment.title.to_owned(),
        question: experiment.question.to_owned(),
        quick,
        started: crate::result::now(),
        took_s: 0.0,
        outcome: Outcome::Failed("it did not end".into()),
        commands: Vec::new(),
        setup: Vec::new(),
        noise: None,
        trials: Vec::new(),
        ratios: Vec::new(),
        targets: Vec::new(),
        tables: Vec::new(),
        plots: Vec::new(),
        notes: Vec::new(),
    }
}

/// A fact of the setup.
pub fn fact(name: &str, value: &impl ToString) -> Fact {
    Fact { name: name.to_owned(), value: value.to_string() }
}

/// Measures by name; the name ends in the unit.
pub fn measures<const N: usize>(all: [(&str, f64); N]) -> BTreeMap<String, f64> {
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The middle value; of an even number the mean of both. NaN if there is none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(middle)) {
        (_, None) => f64::NAN,
        (1, Some(value)) => *value,
        (_, Some(value)) => {
            let before = sorted.get(middle.wrapping_sub(1)).copied().unwrap_or(*value);
            f64::midpoint(before, *value)
        }
    }
}

/// Smallest and largest; infinities if there is none.
pub fn spread(values: &[f64]) -> (f64, f64) {
    let finite = values.iter().copied().filter(|v| v.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// How much trials of the same variant differ: the median over all trials of |value / median − 1|, of
/// every measure that is a rate or a cost.
pub(super) fn noise(trials: &[Trial]) -> Option<f64> {
    let mut groups: BTreeMap<(&str, u64, &str), Vec<f64>> = BTreeMap::new();
    for trial in trials {
        let at = trial.at.unwrap_or(0.0).to_bits();
        for (name, value) in &trial.measures {
            if name.ends_with("_per_s") || name.ends_with("_per_call") {
                groups.entry((&trial.variant, at, name)).or_default().push(*value);
            }
        }
    }
    let mut distances = Vec::new();
    for values in groups.values().filter(|values| values.len() > 1) {
        let middle = median(values);
        if middle > 0.0 {
            distances.extend(values.iter().map(|value| (value / middle - 1.0).abs()));
        }
    }
    let noise = median(&distances);
    noise.is_finite().then_some(noise)
}

/// How much CPU time the machine's host took from the trials, if it took any.
pub(super) fn stolen(trials: &[Trial]) -> Option<Fact> {
    let of = |measure: &str| -> Vec<f64> {
        trials.iter().filter_map(|trial| trial.measures.get(measure).copied()).collect()
    };
    let (shares, retries) = (of("stolen_cpu_share"), of("made_again").iter().sum::<f64>());
    let worst = shares.iter().copied().fold(0.0, f64::max);
    (worst > 0.0 || retries > 0.0).then(|| {
        let text = format!(
            "{:.1} % of the CPUs in the median trial, {:.1} % in the worst; {retries:.0} repeated",
            median(&shares) * 100.0,
            worst * 100.0
        );
        fact("taken by the machine's host", &text)
    })
}

/// Runs trials and stores them.
pub struct Rounds<'f, 's> {
    findings: &'f mut Findings,
    ctx: &'s RunContext<'s>,
    rounds: u32,
    sequence: u32,
}

impl<'f, 's> Rounds<'f, 's> {
    /// Number of rounds.
    pub fn new(findings: &'f mut Findings, ctx: &'s RunContext<'s>, rounds: u32) -> Self {
        let sequence = u32::try_from(findings.trials.len()).unwrap_or(u32::MAX);
        Self { findings, ctx, rounds, sequence }
    }

    /// Runs each of `variants` in turn, round after round: A B C A B C. `trial` returns the measures of
    /// one.
    ///
    /// # Errors
    /// The first error of a trial; the trials before it are kept.
    pub fn interleave<V: ToString>(
        &mut self,
        variants: &[V],
        at: Option<f64>,
        mut trial: impl FnMut(&V) -> Result<BTreeMap<String, f64>, RunError>,
    ) -> Result<(), RunError> {
        let trials = self.rounds.saturating_mul(u32::try_from(variants.len()).unwrap_or(u32::MAX));
        let mut retries = TrialRetries::of(trials, self.ctx);
        for round in 0..self.rounds {
            for variant in variants {
                self.ctx.go_on()?;
                let name = variant.to_string();
                let place = at.map_or_else(String::new, |at| format!(" at {at}"));
                let experiment = &self.findings.name;
                let rounds = self.rounds;
                (self.ctx.say)(&format!(
                    "{experiment}: {name}{place}, round {} of {rounds}",
                    round + 1
                ));
                let before = retries.made;
                let (mut measures, stolen) = retries.run(self.ctx, || trial(variant))?;
                measures.insert("stolen_cpu_share".into(), stolen);
                measures.insert("made_again".into(), f64::from(retries.made - before));
                let sequence = self.sequence;
                self.sequence += 1;
                self.findings.trials.push(Trial { variant: name, at, round, sequence, measures });
            }
        }
        Ok(())
    }
}

impl Findings {
    /// All values of a measure of a variant, by round.
    pub fn values(&self, variant: &str, at: Option<f64>, measure: &str) -> Vec<(u32, f64)> {
        self.trials
            .iter()
            .filter(|trial| trial.variant == variant && trial.at == at)
            .filter_map(|trial| Some((trial.round, *trial.measures.get(measure)?)))
            .collect()
    }

    /// The median of a measure of a variant; NaN if there is none.
    pub fn median(&self, variant: &str, at: Option<f64>, measure: &str) -> f64 {
        let values: Vec<f64> = self.values(variant, at, measure).iter().map(|(_, v)| *v).collect();
        median(&values)
    }

    /// Adds the ratio of one variant to another, taken inside rounds; returns its median.
    pub fn ratio(&mut self, measure: &str, of: &str, to: &str, at: Option<f64>) -> f64 {
        let below: BTreeMap<u32, f64> = self.values(to, at, measure).into_iter().collect();
        let ratios: Vec<f64> = self
            .values(of, at, measure)
            .into_iter()
            .filter_map(|(round, value)| Some(value / below.get(&round)?))
            .filter(|ratio| ratio.is_finite())
            .collect();
        let middle = median(&ratios);
        if ratios.is_empty() {
            return middle;
        }
        let (low, high) = spread(&ratios);
        self.ratios.push(Ratio {
            measure: measure.to_owned(),
            of: of.to_owned(),
            to: to.to_owned(),
            at,
            median: middle,
            low,
            high,
            rounds: u32::try_from(ratios.len()).unwrap_or(u32::MAX),
        });
        middle
    }

    /// The values of `at` that occur, ascending.
    pub fn places(&self) -> Vec<f64> {
        let mut places: Vec<f64> = self.trials.iter().filter_map(|trial| trial.at).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }

    /// Adds a plot of a measure over `at`, a line for each variant.
    pub fn plot_lines(&mut self, title: &str, x: Axis, y: Axis, measure: &str, variants: &[&str]) {
        let series = variants.iter().map(|variant| line(self, variant, measure)).collect();
        let (title, bars) = (title.to_owned(), Vec::new());
        self.plots.push(Plot { title, shape: Shape::Lines, x, y, bars, series });
    }

    /// Adds a plot of the medians of measures: a group of bars for each variant, in it a bar for each of
    /// `measures`, given by label and name.
    pub fn plot_bars<V: ToString>(
        &mut self,
        title: &str,
        x: Axis,
        y: Axis,
        variants: &[V],
        measures: &[(&str, &str)],
    ) {
        let bars: Vec<String> = variants.iter().map(ToString::to_string).collect();
        let point = |(n, variant): (u8, &String), measure| Point {
            x: f64::from(n),
            y: self.median(variant, None, measure),
            low: None,
            high: None,
        };
        let series = measures.iter().map(|(name, measure)| Series {
            name: (*name).to_owned(),
            original: false,
            points: (0_u8..).zip(&bars).map(|group| point(group, measure)).collect(),
        });
        let (title, series) = (title.to_owned(), series.collect());
        self.plots.push(Plot { title, shape: Shape::GroupedBars, x, y, bars, series });
    }
}

/// An axis; linear.
pub fn axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.to_owned(), unit: unit.to_owned(), log: false }
}

/// The line of a variant: medians over `at`, with the spread of the rounds.
pub fn line(findings: &Findings, variant: &str, measure: &str) -> Series {
    let points = findings.places().into_iter().filter_map(|at| {
        let values: Vec<f64> =
            findings.values(variant, Some(at), measure).iter().map(|(_, v)| *v).collect();
        let (low, high) = spread(&values);
        let y = median(&values);
        y.is_finite().then_some(Point { x: at, y, low: Some(low), high: Some(high) })
    });
    Series { name: variant.to_owned(), original: false, points: points.collect() }
}

#[cfg(test)]
mod tests {
    use super::{Rounds, empty, measures, median, noise, spread};
    use crate::experiments::{Experiment, RunContext, RunError, run};
    use crate::result::{Findings, Outcome};
    use std::sync::atomic::AtomicBool;

    const NOTHING: Experiment = Experiment {
        name: "nothing",
        title: "",
        question: "",
        run: |ctx, findings| two_variants(ctx, findings),
    };

    /// B is 1.5 times A in each round, while the machine gets slower all the time.
    fn two_variants(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
        let mut speed = 100.0;
        Rounds::new(findings, ctx, 4).interleave(&["a", "b"], Some(8.0), |variant| {
            let factor = if *variant == "b" { 1.5 } else { 1.0 };
            let calls_per_s = speed * factor;
            if *variant == "b" {
                speed *= 0.5;
            }
            Ok(measures([("calls_per_s", calls_per_s)]))
        })
    }

    fn ctx(stop: &AtomicBool) -> RunContext<'_> {
        let (bowline, scratch) = ("bowline".into(), std::env::temp_dir());
        RunContext { quick: true, bowline, scratch, stop, say: &|_| {} }
    }

    #[test]
    fn machine_drift_cancels_out_in_ratios() {
        let stop = AtomicBool::new(false);
        let mut findings = run(&NOTHING, &ctx(&stop));
        assert_eq!(findings.outcome, Outcome::Done);
        let order: Vec<_> = findings.trials.iter().map(|t| t.variant.as_str()).collect();
        assert_eq!(order, ["a", "b", "a", "b", "a", "b", "a", "b"]);
        let ratio = findings.ratio("calls_per_s", "b", "a", Some(8.0));
        assert!((ratio - 1.5).abs() < 1e-9, "{ratio}");
        assert!(findings.noise.is_some_and(|noise| noise > 0.3));
        assert_eq!(findings.places(), [8.0]);
    }

    #[test]
    fn a_stopped_experiment_keeps_partial_results() {
        let stop = AtomicBool::new(true);
        let findings = run(&NOTHING, &ctx(&stop));
        assert!(matches!(findings.outcome, Outcome::Partial(_)), "{:?}", findings.outcome);
    }

    #[test]
    fn medians_and_spreads_of_known_values() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert!(median(&[]).is_nan());
        assert_eq!(spread(&[2.0, f64::NAN, 5.0]), (2.0, 5.0));
        assert_eq!(noise(&empty(&NOTHING, true).trials), None);
    }
}
