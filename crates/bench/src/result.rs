//! The results of an experiment as data: written by `experiments`, read by `report`, stored on
//! disk.
//!
//! A directory of results has `machine.json` (one [`Machine`]) and for each experiment one
//! `NAME.json` (one [`Findings`]). The report shows these data and computes nothing of its own, so
//! every number of a figure can be checked in the file, raw trials included.
//!
//! Invariants: names of measures carry their unit last (`calls_per_s`, `server_cpu_us_per_call`,
//! `read_mb_per_s`; MB is 10^6 bytes); a [`Trial`] is one run of one variant, and trials of different
//! variants are interleaved in `sequence`.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The machine and the programs that the figures belong to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The day, `2026-11-21`, and time in UTC at which the run began (RFC 3339).
    pub started: String,
    /// Version and commit of Bowline.
    pub bowline: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor, as the kernel names it.
    pub cpu_model: String,
    /// CPUs that may be used.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Distribution.
    pub system: String,
    /// True if the run had root's rights (namespaces, real-time priority).
    pub privileged: bool,
    /// Network sysctls and other facts that change results.
    pub facts: Vec<Fact>,
}

/// A named value for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// Its value, unit included.
    pub value: String,
}

/// How an experiment ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "why")]
pub enum Outcome {
    /// All variants were measured.
    Done,
    /// Some were; the missing ones are named.
    Partial(String),
    /// This machine cannot run it: what is missing.
    Unable(String),
    /// It failed: the cause.
    Failed(String),
}

/// One experiment's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// As on the command line: `rsync-walk`.
    pub name: String,
    /// One line for a heading.
    pub title: String,
    /// The question, in a sentence or two.
    pub question: String,
    /// True for a short run, whose spread is wide.
    pub quick: bool,
    /// When it began (RFC 3339, UTC).
    pub started: String,
    /// Seconds that it took.
    #[serde(deserialize_with = "number")]
    pub took_s: f64,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The commands that started the servers.
    pub commands: Vec<String>,
    /// Sizes, counts, link parameters.
    pub setup: Vec<Fact>,
    /// How much the same variant differed from round to round, as a share of its median: the noise.
    pub noise: Option<f64>,
    /// All trials.
    pub trials: Vec<Trial>,
    /// Comparisons of variants.
    pub ratios: Vec<Ratio>,
    /// Targets, and whether they were met.
    pub targets: Vec<Target>,
    /// Tables; the original experiment's figures among them.
    pub tables: Vec<Table>,
    /// Plots.
    pub plots: Vec<Plot>,
    /// Remarks: what limits a figure, what was omitted.
    pub notes: Vec<String>,
}

/// One run of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which variant: `cap:5`.
    pub variant: String,
    /// The value on the x axis, if the experiment has one: clients, bytes, entries.
    pub at: Option<f64>,
    /// Trials of one round belong together.
    pub round: u32,
    /// The order in which trials ran.
    pub sequence: u32,
    /// The measures; the unit is the name's end.
    #[serde(deserialize_with = "numbers")]
    pub measures: BTreeMap<String, f64>,
}

/// A variant against another: ratios inside rounds, so that slow drift of the machine cancels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The measure that is compared.
    pub measure: String,
    /// The numerator's variant.
    pub of: String,
    /// The denominator's variant.
    pub to: String,
    /// The value on the x axis, if any.
    pub at: Option<f64>,
    /// Median over the rounds.
    #[serde(deserialize_with = "number")]
    pub median: f64,
    /// The smallest.
    #[serde(deserialize_with = "number")]
    pub low: f64,
    /// The largest.
    #[serde(deserialize_with = "number")]
    pub high: f64,
    /// Rounds.
    pub rounds: u32,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// What has to hold, as `cap:5 gains at least 1.3 times at every client count`; `wish` in older results.
    #[serde(alias = "wish")]
    pub condition: String,
    /// The measured value, as text with its unit.
    pub found: String,
    /// Whether it was met.
    pub held: bool,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Caption.
    pub title: String,
    /// Names of the columns, units included.
    pub columns: Vec<String>,
    /// Rows of as many cells as there are columns.
    pub rows: Vec<Vec<String>>,
}

/// A plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Caption.
    pub title: String,
    /// How the series are drawn.
    pub shape: Shape,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// For [`Shape::StackedBars`]: the names of the bars; a point's `x` is an index into it.
    pub bars: Vec<String>,
    /// The series.
    pub series: Vec<Series>,
}

/// How the series of a plot are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Points joined by lines, with whiskers from `low` to `high`.
    Lines,
    /// Bars of stacked parts, one bar for each of `bars`, one part for each series.
    StackedBars,
    /// Bars side by side in groups, one group for each of `bars`, one bar for each series.
    GroupedBars,
    /// A value over time: thin lines, no marks.
    OverTime,
    /// Latency against the share of calls that were no slower (x: the share in percent from the top on a
    /// log scale as HDR plots are drawn: 0, 90, 99, 99.9 …; y: microseconds).
    Percentiles,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// Its unit; empty for a count.
    pub unit: String,
    /// A logarithmic scale.
    pub log: bool,
}

/// A line, or the parts of one colour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// As in the legend.
    pub name: String,
    /// True for the figures of the original experiment; drawn dashed.
    pub original: bool,
    /// In the order of x.
    pub points: Vec<Point>,
}

/// A point, with its spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Position.
    #[serde(deserialize_with = "number")]
    pub x: f64,
    /// Median.
    #[serde(deserialize_with = "number")]
    pub y: f64,
    /// Smallest, where there were several.
    pub low: Option<f64>,
    /// Largest.
    pub high: Option<f64>,
}

/// The time, as results give it (RFC 3339, UTC).
pub fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    text(since.map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date (Howard Hinnant's civil-from-days, for years after 1970).
fn text(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A number, or JSON's `null` for those that are not finite (0 calls in 0 seconds): one such value must
/// not make a whole result unreadable.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// As [`number`], for named values.
fn numbers<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let values = BTreeMap::<String, Option<f64>>::deserialize(from)?;
    Ok(values.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
}

#[cfg(test)]
mod tests {
    use super::{Point, Trial};

    #[test]
    fn dates_are_right() {
        assert_eq!(super::text(0), "1970-01-01T00:00:00Z");
        assert_eq!(super::text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(super::text(1_795_257_671), "2026-11-21T10:41:11Z");
    }

    #[test]
    fn values_that_are_not_finite_survive_a_round_trip() {
        let point = Point { x: 1.0, y: f64::INFINITY, low: None, high: None };
        let text = serde_json::to_string(&point).unwrap();
        let back: Point = serde_json::from_str(&text).unwrap();
        assert_eq!(back.x, 1.0);
        assert!(back.y.is_nan());
        let trial =
            r#"{"variant":"a","at":null,"round":0,"sequence":0,"measures":{"calls_per_s":null}}"#;
        let trial: Trial = serde_json::from_str(trial).unwrap();
        assert!(trial.measures["calls_per_s"].is_nan());
    }
}
