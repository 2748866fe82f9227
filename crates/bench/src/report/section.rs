//! One experiment's section: question, targets, pictures, comparisons, tables, remarks, how it was
//! measured, and the raw trials.

use super::figure::{NARROW, WIDE, draw};
use super::html::{comma_separated, facts, moment, prose, table, tagged};
use super::numbers::{better_direction, bytes, duration, grouped, is_bytes, measure, short, times};
use super::sentence::{sentence, tells};
use super::svg::{escaped, px};
use crate::result::{Findings, Outcome, Plot, Ratio, Series, Shape, Trial};
use std::collections::BTreeSet;

/// Longer tables of a plot's points are omitted; the file has them all.
const MAX_PLOT_ROWS: usize = 500;

/// Width of a drawn spread in a table, in pixels.
const SPREAD_PX: f64 = 170.0;

/// The class and the word of an outcome.
pub(super) fn outcome_words(outcome: &Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Done => ("done", "measured"),
        Outcome::Partial(_) => ("partial", "in part"),
        Outcome::Unable(_) => ("unable", "not possible here"),
        Outcome::Failed(_) => ("failed", "failed"),
    }
}

/// The section with its number from 1.
pub(super) fn section(number: usize, f: &Findings) -> String {
    let (class, word) = outcome_words(&f.outcome);
    let mut out = format!(
        "<section class=\"experiment\" id=\"e{number}\">\n<h2><span class=\"no\">{number}</span> {}</h2>\n\
         <p class=\"by\"><code>{}</code> · <span class=\"mark {class}\">{word}</span>{} · {} · took {}</p>\n",
        escaped(&f.title),
        escaped(&f.name),
        if f.quick { " · quick" } else { "" },
        escaped(&moment(&f.started)),
        escaped(&duration(f.took_s))
    );
    if !f.question.is_empty() {
        out.push_str(&format!("<p class=\"question\">{}</p>\n", prose(&f.question)));
    }
    if let Some(result) = sentence(f) {
        out.push_str(&format!("<p class=\"result\">{}</p>\n", prose(&result)));
    }
    if let Outcome::Partial(why) | Outcome::Unable(why) | Outcome::Failed(why) = &f.outcome {
        out.push_str(&format!("<p class=\"aside {class}\">{}</p>\n", prose(why)));
    }
    out.push_str(&targets(f));
    for (index, plot) in f.plots.iter().enumerate() {
        out.push_str(&picture(&format!("{number}.{}", index + 1), &f.name, plot));
    }
    let place = AtLabel::of(f);
    out.push_str(&comparisons(f, &place));
    for t in &f.tables {
        let original = t.title.to_lowercase().contains("original");
        let class = if original { "<div class=\"original\">" } else { "<div>" };
        out.push_str(&format!("{class}{}</div>\n", table(&t.title, &t.columns, &t.rows)));
    }
    if !f.notes.is_empty() {
        let notes: String = f.notes.iter().map(|n| format!("<li>{}</li>\n", prose(n))).collect();
        out.push_str(&format!("<h3>Remarks</h3>\n<ul class=\"notes\">\n{notes}</ul>\n"));
    }
    out.push_str(&method(f));
    out.push_str(&trials(f, &place));
    out.push_str("</section>\n");
    out
}

/// Targets and results.
fn targets(f: &Findings) -> String {
    if f.targets.is_empty() {
        return String::new();
    }
    let mut out = String::from("<ul class=\"targets\">\n");
    for target in &f.targets {
        let (class, word) = if target.held { ("held", "held") } else { ("missed", "missed") };
        out.push_str(&format!(
            "<li class=\"{class}\"><b>{word}</b><span>{}<span class=\"sub\">{}</span></span></li>\n",
            prose(&target.condition),
            prose(&target.found)
        ));
    }
    out.push_str("</ul>\n");
    out
}

/// A plot for both widths, with its numbers in a collapsed table.
fn picture(number: &str, name: &str, plot: &Plot) -> String {
    format!(
        "<figure>\n<figcaption><b>Figure {number}</b> {}</figcaption>\n{}{}\
         <details><summary>The numbers of figure {number}</summary>\n{}</details>\n</figure>\n",
        escaped(&plot.title),
        draw(plot, WIDE),
        draw(plot, NARROW),
        plot_numbers(name, plot)
    )
}

/// The points of a plot as a table: a row for each x, a column for each series.
fn plot_numbers(name: &str, plot: &Plot) -> String {
    let mut places: Vec<f64> = plot.series.iter().flat_map(|s| &s.points).map(|p| p.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup_by(|a, b| a.total_cmp(b).is_eq());
    if places.len() > MAX_PLOT_ROWS {
        let count = grouped(places.len() as f64, 0);
        return tagged("p", &format!("{count} places: series of the plots in {name}.json.")) + "\n";
    }
    let bars = matches!(plot.shape, Shape::StackedBars | Shape::GroupedBars);
    let first = match super::figure::axis_title(&plot.x) {
        title if title.is_empty() => "what".to_owned(),
        title => title,
    };
    let heads = plot.series.iter().map(|s| s.name.clone());
    let columns: Vec<String> = std::iter::once(first).chain(heads).collect();
    let rows: Vec<Vec<String>> = places
        .iter()
        .map(|x| {
            let place = match plot
                .bars
                .get(*x as usize)
                .filter(|_| bars && *x >= 0.0 && x.fract() == 0.0)
            {
                Some(name) => name.clone(),
                None if is_bytes(&plot.x.unit) => bytes(*x),
                None => short(*x),
            };
            std::iter::once(place).chain(plot.series.iter().map(|s| points_at(s, *x))).collect()
        })
        .collect();
    let unit = if is_bytes(&plot.y.unit) { " (bytes)" } else { "" };
    table(&format!("{}{unit}", super::figure::axis_title(&plot.y)), &columns, &rows)
}

/// The values of a series at an x, with their spread.
fn points_at(series: &Series, x: f64) -> String {
    let here = series.points.iter().filter(|p| p.x.total_cmp(&x).is_eq());
    let texts: Vec<String> = here
        .map(|p| match (p.low, p.high) {
            (Some(low), Some(high)) => {
                format!("{} ({} – {})", short(p.y), short(low), short(high))
            }
            _ => short(p.y),
        })
        .collect();
    texts.join("; ")
}

/// The meaning of `at` in ratios and trials: the x axis of the plot with those values.
struct AtLabel {
    title: String,
    bytes: bool,
}

impl AtLabel {
    fn of(f: &Findings) -> Self {
        let ats: Vec<f64> = f
            .ratios
            .iter()
            .filter_map(|r| r.at)
            .chain(f.trials.iter().filter_map(|t| t.at))
            .collect();
        let shows = |plot: &&Plot| {
            plot.shape == Shape::Lines
                && !ats.is_empty()
                && ats.iter().all(|at| {
                    plot.series.iter().flat_map(|s| &s.points).any(|p| p.x.total_cmp(at).is_eq())
                })
        };
        match f.plots.iter().find(shows) {
            Some(plot) => {
                Self { title: super::figure::axis_title(&plot.x), bytes: is_bytes(&plot.x.unit) }
            }
            None => Self { title: "at".to_string(), bytes: false },
        }
    }

    fn text(&self, at: Option<f64>) -> String {
        match at {
            Some(at) if self.bytes => bytes(at),
            Some(at) => short(at),
            None => String::new(),
        }
    }
}

/// Ratios with their spread, drawn on one scale for each measure.
fn comparisons(f: &Findings, place: &AtLabel) -> String {
    let ratios: Vec<&Ratio> = f.ratios.iter().filter(|r| tells(r)).collect();
    if ratios.is_empty() {
        return String::new();
    }
    let with_place = ratios.iter().any(|r| r.at.is_some());
    let at_head = if with_place {
        format!("<th class=\"n\">{}</th>", escaped(&place.title))
    } else {
        String::new()
    };
    let mut out = format!(
        "<h3>Comparisons</h3>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"ratios\">\n<thead><tr>\
         <th>what</th>{at_head}<th class=\"n\">median</th><th class=\"n\">smallest – largest</th>\
         <th class=\"n\">rounds</th><th>spread, with a line at 1×</th></tr></thead>\n<tbody>\n"
    );
    let mut before: Option<&Ratio> = None;
    for (index, ratio) in ratios.iter().copied().enumerate() {
        let rest = ratios.get(index..).unwrap_or_default();
        let same = |b: &Ratio| (&b.measure, &b.of, &b.to) == (&ratio.measure, &ratio.of, &ratio.to);
        let repeated = before.is_some_and(same);
        let what = if repeated { String::new() } else { compared(ratio, rest) };
        let at = if with_place {
            format!("<td class=\"n\">{}</td>", escaped(&place.text(ratio.at)))
        } else {
            String::new()
        };
        let class = if repeated { "" } else { " class=\"first\"" };
        out.push_str(&format!(
            "<tr{class}>{what}{at}<td class=\"n\"><b>{}</b></td><td class=\"n\">{} – {}</td>\
             <td class=\"n\">{}</td><td>{}</td></tr>\n",
            times(ratio.median),
            times(ratio.low),
            times(ratio.high),
            ratio.rounds,
            spread(ratio, &ratios)
        ));
        before = Some(ratio);
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// What is compared, in a cell as tall as the ratios of the same two variants that follow.
fn compared(ratio: &Ratio, rest: &[&Ratio]) -> String {
    let name = (&ratio.measure, &ratio.of, &ratio.to);
    let alike = rest.iter().take_while(|r| (&r.measure, &r.of, &r.to) == name).count();
    format!(
        "<td rowspan=\"{alike}\">{}{} <span class=\"sub\">{} against {}</span></td>",
        escaped(&measure(&ratio.measure)),
        arrow(&ratio.measure),
        escaped(&ratio.of),
        escaped(&ratio.to)
    )
}

/// The arrow of the better direction behind a measure, with its meaning.
pub(super) fn arrow(measure: &str) -> String {
    better_direction(measure).map_or_else(String::new, |direction| {
        format!(" <abbr title=\"{}\">{}</abbr>", direction.words(), direction.arrow())
    })
}

/// A ratio as a dot on a line from the smallest to the largest, on a logarithmic scale that all
/// ratios of the measure share.
fn spread(ratio: &Ratio, all: &[&Ratio]) -> String {
    let usable = |v: f64| v.is_finite() && v > 0.0;
    let of_ratio = |r: &Ratio| [r.low, r.median, r.high];
    if !of_ratio(ratio).into_iter().all(usable) {
        return String::new();
    }
    let alike = all.iter().filter(|r| r.measure == ratio.measure);
    let logs = alike.flat_map(|r| of_ratio(r)).filter(|v| usable(*v)).map(f64::ln);
    let (from, to) = logs.fold((-0.05f64, 0.05f64), |(a, b), v| (a.min(v), b.max(v)));
    let edge = 5.0;
    let place = |v: f64| px(edge + (v.ln() - from) / (to - from) * (SPREAD_PX - 2.0 * edge));
    let (low, middle, high) = (place(ratio.low), place(ratio.median), place(ratio.high));
    format!(
        "<svg class=\"fig spread\" viewBox=\"0 0 {w} 16\" width=\"{w}\" height=\"16\" \
         aria-hidden=\"true\"><line class=\"base\" x1=\"{one}\" y1=\"0\" x2=\"{one}\" y2=\"16\"/>\
         <g class=\"s0\"><path class=\"line\" d=\"M{low} 8H{high}M{low} 4.5V11.5M{high} 4.5V11.5\"/>\
         <circle class=\"mark\" cx=\"{middle}\" cy=\"8\" r=\"4\"/></g></svg>",
        w = px(SPREAD_PX),
        one = place(1.0)
    )
}

/// Sizes, noise and commands.
fn method(f: &Findings) -> String {
    let mut out = String::new();
    let noise = f.noise.filter(|n| n.is_finite()).map(|n| {
        format!("±{} % of the median between rounds of the same variant", short(n * 100.0))
    });
    if !f.setup.is_empty() || noise.is_some() {
        let pairs = f.setup.iter().map(|s| (s.name.as_str(), s.value.as_str()));
        let pairs = pairs.chain(noise.as_deref().map(|n| ("noise", n)));
        out.push_str(&format!("<h3>How it was measured</h3>\n{}", facts(pairs)));
    }
    if !f.commands.is_empty() {
        out.push_str("<h3>Commands</h3>\n");
        let commands: String = f.commands.iter().map(|c| tagged("span", c)).collect();
        out.push_str(&format!("<pre class=\"commands\">{commands}</pre>\n"));
    }
    out
}

/// All trials: a table to read, and the same with all digits to copy.
fn trials(f: &Findings, place: &AtLabel) -> String {
    if f.trials.is_empty() {
        return String::new();
    }
    let names: BTreeSet<&str> =
        f.trials.iter().flat_map(|t| t.measures.keys()).map(String::as_str).collect();
    let placed = f.trials.iter().any(|t| t.at.is_some());
    let mut ordered: Vec<&Trial> = f.trials.iter().collect();
    ordered.sort_by_key(|t| t.sequence);
    let columns = |at: &str| -> Vec<String> {
        let own = ["sequence", "round", "variant"].into_iter().chain(placed.then_some(at));
        own.chain(names.iter().copied()).map(str::to_string).collect()
    };
    let row = |t: &Trial, at: String, value: &dyn Fn(f64) -> String| -> Vec<String> {
        let mut row = vec![t.sequence.to_string(), t.round.to_string(), t.variant.clone()];
        row.extend(placed.then_some(at));
        row.extend(names.iter().map(|n| t.measures.get(*n).copied().map_or(String::new(), value)));
        row
    };
    let read: Vec<Vec<String>> = ordered.iter().map(|t| row(t, place.text(t.at), &short)).collect();
    let exact = |v: f64| if v.is_finite() { format!("{v}") } else { String::new() };
    let mut copied = vec![columns("at")];
    copied.extend(ordered.iter().map(|t| row(t, t.at.map_or(String::new(), exact), &exact)));
    let count = ordered.len();
    let noun = if count == 1 { "trial" } else { "trials" };
    format!(
        "<details class=\"raw\"><summary>{count} raw {noun}</summary>\n{}\
         <details><summary>To copy (comma-separated, all digits)</summary>\n<pre>{}</pre></details>\n\
         </details>\n",
        table("", &columns(&place.title), &read),
        escaped(&comma_separated(&copied))
    )
}
