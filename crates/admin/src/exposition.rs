//! Writes metrics as text: Prometheus' exposition format 0.0.4, or OpenMetrics 1.0.
//!
//! Each name begins with [`PREFIX`]. The two formats differ in the names of counters' families, the end, and the
//! content type.

use std::fmt::{Display, Write as _};

/// What all names begin with.
pub const PREFIX: &str = "bowline_";

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The media type of an answer.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What a family's values mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the server is restarted; the samples' names end in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations by size.
    Histogram,
}

/// Labels of a sample: names and values.
pub type Labels<'l> = &'l [(&'l str, &'l str)];

/// A text under construction.
#[derive(Debug)]
pub struct Exposition {
    text: String,
    format: Format,
}

impl Exposition {
    /// Without any family.
    pub const fn new(format: Format) -> Self {
        Self { text: String::new(), format }
    }

    /// Begins a family; its samples follow. `name` has neither the prefix nor `_total`. `help` is one line.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let (suffix, kind) = match (kind, self.format) {
            (Kind::Counter, Format::Prometheus) => ("_total", "counter"),
            (Kind::Counter, Format::OpenMetrics) => ("", "counter"),
            (Kind::Gauge, _) => ("", "gauge"),
            (Kind::Histogram, _) => ("", "histogram"),
        };
        // writing to a string does not fail
        let _ = write!(self.text, "# HELP {PREFIX}{name}{suffix} ");
        escape(&mut self.text, help, self.format == Format::OpenMetrics);
        let _ = writeln!(self.text, "\n# TYPE {PREFIX}{name}{suffix} {kind}");
    }

    /// A sample of a counter.
    pub fn counter(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.sample(name, "_total", labels, None, value);
    }

    /// A sample of a gauge.
    pub fn gauge(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.sample(name, "", labels, None, value);
    }

    /// A histogram: the upper bounds of its buckets, rising, with how many observations are at most as large; then
    /// all observations and their sum.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        buckets: &[(f64, u64)],
        (count, sum): (u64, f64),
    ) {
        for (bound, below) in buckets {
            self.sample(name, "_bucket", labels, Some(&bound.to_string()), below);
        }
        self.sample(name, "_bucket", labels, Some("+Inf"), count);
        self.sample(name, "_sum", labels, None, sum);
        self.sample(name, "_count", labels, None, count);
    }

    fn sample(
        &mut self,
        name: &str,
        suffix: &str,
        labels: Labels<'_>,
        bound: Option<&str>,
        value: impl Display,
    ) {
        let _ = write!(self.text, "{PREFIX}{name}{suffix}");
        let bound = bound.map(|bound| ("le", bound));
        for (index, (label, value)) in labels.iter().copied().chain(bound).enumerate() {
            let _ = write!(self.text, "{}{label}=\"", if index == 0 { '{' } else { ',' });
            escape(&mut self.text, value, true);
            self.text.push('"');
        }
        if !labels.is_empty() || bound.is_some() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// The text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// Appends text with backslashes and line ends escaped, and quotation marks where the format wants that.
fn escape(to: &mut String, text: &str, quotes: bool) {
    for letter in text.chars() {
        match letter {
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '"' if quotes => to.push_str("\\\""),
            letter => to.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Exposition, Format, Kind};

    fn example(format: Format) -> String {
        let mut out = Exposition::new(format);
        out.family("calls", Kind::Counter, "Calls \\ answered.");
        out.counter("calls", &[("export", "/a \"b\"\n")], 7);
        out.family("connections", Kind::Gauge, "Open connections.");
        out.gauge("connections", &[], 3);
        out.family("call_duration_seconds", Kind::Histogram, "How long.");
        out.histogram("call_duration_seconds", &[], &[(0.000_008, 1), (2.5, 4)], (5, 9.5));
        out.finish()
    }

    #[test]
    fn prometheus_and_openmetrics_texts_match() {
        let rest = "# HELP bowline_connections Open connections.\n# TYPE bowline_connections gauge\n\
                    bowline_connections 3\n# HELP bowline_call_duration_seconds How long.\n\
                    # TYPE bowline_call_duration_seconds histogram\n\
                    bowline_call_duration_seconds_bucket{le=\"0.000008\"} 1\n\
                    bowline_call_duration_seconds_bucket{le=\"2.5\"} 4\n\
                    bowline_call_duration_seconds_bucket{le=\"+Inf\"} 5\n\
                    bowline_call_duration_seconds_sum 9.5\nbowline_call_duration_seconds_count 5\n";
        assert_eq!(
            example(Format::Prometheus),
            "# HELP bowline_calls_total Calls \\\\ answered.\n# TYPE bowline_calls_total counter\n\
             bowline_calls_total{export=\"/a \\\"b\\\"\\n\"} 7\n"
                .to_owned()
                + rest
        );
        assert_eq!(
            example(Format::OpenMetrics),
            "# HELP bowline_calls Calls \\\\ answered.\n# TYPE bowline_calls counter\n\
             bowline_calls_total{export=\"/a \\\"b\\\"\\n\"} 7\n"
                .to_owned()
                + rest
                + "# EOF\n"
        );
    }
}
