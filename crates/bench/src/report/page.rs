//! The page: head, overview of all experiments, machine, and then each experiment's section.

use super::figure;
use super::html::{facts, moment, prose, tagged};
use super::numbers::{duration, grouped, measure, times};
use super::read::Results;
use super::section::{self, outcome_words};
use super::sentence::tells;
use super::svg::escaped;
use crate::result::{Findings, Machine, Outcome, Ratio};

/// The style of the page; that of the figures is `figure.css`.
const STYLE: &str = include_str!("page.css");

/// How a page has its style.
#[derive(Debug, Clone, Copy)]
pub enum Style<'a> {
    /// Inside, for a page that is one file.
    Inside,
    /// From an address, for a server that lets no page have a style of its own.
    Linked {
        /// Where [`stylesheet()`] is.
        stylesheet: &'a str,
        /// Where the icon is.
        icon: &'a str,
        /// Where the list of reports is.
        back: &'a str,
    },
}

/// The style of a page and its figures.
pub(super) fn stylesheet() -> String {
    format!("{STYLE}{}", figure::STYLE)
}

/// The whole document.
pub(super) fn page(results: &Results, style: Style<'_>) -> String {
    let day = results.machine.started.get(..10).unwrap_or("");
    let (style, back) = match style {
        Style::Inside => (
            format!(
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
                 style-src 'unsafe-inline'\">\n<style>\n{}</style>\n",
                stylesheet()
            ),
            String::new(),
        ),
        Style::Linked { stylesheet, icon, back } => (
            format!(
                "<link rel=\"icon\" href=\"{}\">\n<link rel=\"stylesheet\" href=\"{}\">\n",
                escaped(icon),
                escaped(stylesheet)
            ),
            format!("<p class=\"by\"><a href=\"{}\">Back to all reports</a></p>\n", escaped(back)),
        ),
    };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Bowline bench {}</title>\n{style}</head>\n<body>\n<main>\n{back}",
        escaped(day),
    );
    out.push_str(&head(results));
    out.push_str(&overview(&results.findings));
    out.push_str(&machine(&results.machine));
    for (index, findings) in results.findings.iter().enumerate() {
        out.push_str(&section::section(index + 1, findings));
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// Title and what this is.
fn head(results: &Results) -> String {
    let machine = &results.machine;
    let mut out = String::from("<header>\n<h1>Bowline, measured</h1>\n");
    out.push_str(&format!(
        "<p class=\"by\">{} · {} · {}</p>\n",
        escaped(&moment(&machine.started)),
        escaped(&version(&machine.bowline)),
        escaped(&machine.cpu_model)
    ));
    let quick = results.findings.iter().filter(|f| f.quick).count();
    if quick > 0 {
        let which = match quick {
            all if all == results.findings.len() => "This is a quick run".to_string(),
            1 => "One of the experiments, marked quick, is a short run".to_string(),
            some => format!("{some} of the experiments, marked quick, are short runs"),
        };
        out.push_str(&format!(
            "<p class=\"aside\">{which}: few rounds of short trials. Such figures say that \
             everything works and roughly how fast; their spread is wide.</p>\n"
        ));
    }
    out.push_str("</header>\n");
    out
}

/// The version with the name before it, which the machine's description may leave out.
fn version(bowline: &str) -> String {
    if bowline.starts_with(|c: char| c.is_ascii_digit()) {
        format!("Bowline {bowline}")
    } else {
        bowline.to_string()
    }
}

/// One row for each experiment.
fn overview(findings: &[Findings]) -> String {
    let mut out = String::from("<section id=\"overview\">\n<h2>Overview</h2>\n");
    out.push_str(&tagged("p", &summary(findings)));
    out.push_str(
        "\n<div class=\"scroll\" tabindex=\"0\"><table class=\"overview\">\n<thead><tr><th>Experiment</th>\
         <th>Outcome</th><th>First comparison</th><th class=\"n\">Targets held</th></tr></thead>\n\
         <tbody>\n",
    );
    for (index, f) in findings.iter().enumerate() {
        let (class, word) = outcome_words(&f.outcome);
        out.push_str(&format!(
            "<tr><td><a href=\"#e{}\"><code>{}</code></a><span class=\"sub\">{}</span></td>\
             <td><span class=\"mark {class}\">{word}</span></td><td>{}</td>\
             <td class=\"n\">{}</td></tr>\n",
            index + 1,
            escaped(&f.name),
            escaped(&f.title),
            headline(f),
            targets(f)
        ));
    }
    out.push_str("</tbody></table></div>\n</section>\n");
    out
}

/// The overview in two sentences.
fn summary(findings: &[Findings]) -> String {
    let count = |test: fn(&Outcome) -> bool| findings.iter().filter(|f| test(&f.outcome)).count();
    let kinds = [
        (count(|o| matches!(o, Outcome::Done)), "measured in full"),
        (count(|o| matches!(o, Outcome::Partial(_))), "in part"),
        (count(|o| matches!(o, Outcome::Unable(_))), "not possible on this machine"),
        (count(|o| matches!(o, Outcome::Failed(_))), "failed"),
    ];
    let kinds: Vec<String> =
        kinds.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}")).collect();
    let all: usize = findings.iter().map(|f| f.targets.len()).sum();
    let held = findings.iter().flat_map(|f| &f.targets).filter(|t| t.held).count();
    let took: f64 = findings.iter().map(|f| f.took_s).filter(|s| s.is_finite()).sum();
    let noun = if findings.len() == 1 { "experiment" } else { "experiments" };
    format!(
        "{} {noun} in {}: {}. {held} of {all} targets held.",
        findings.len(),
        duration(took),
        kinds.join(", ")
    )
}

/// The first comparison that an experiment names, over all places where it was made.
fn headline(findings: &Findings) -> String {
    let Some(first) = findings.ratios.iter().find(|r| tells(r)) else {
        return match &findings.outcome {
            Outcome::Unable(why) | Outcome::Failed(why) => {
                format!("<span class=\"sub\">{}</span>", prose(why))
            }
            Outcome::Done | Outcome::Partial(_) => "–".to_string(),
        };
    };
    let same = |r: &&Ratio| (&r.measure, &r.of, &r.to) == (&first.measure, &first.of, &first.to);
    let group: Vec<&Ratio> = findings.ratios.iter().filter(same).collect();
    let low = group.iter().map(|r| r.median).fold(f64::INFINITY, f64::min);
    let high = group.iter().map(|r| r.median).fold(f64::NEG_INFINITY, f64::max);
    let value = match group.len() {
        1 => {
            format!("{} <small>({} – {})</small>", times(low), times(first.low), times(first.high))
        }
        n => format!("{} – {} <small>at {n} places</small>", times(low), times(high)),
    };
    format!(
        "<b>{value}</b><span class=\"sub\">{}{}: {} against {}</span>",
        escaped(&measure(&first.measure)),
        section::arrow(&first.measure),
        escaped(&first.of),
        escaped(&first.to)
    )
}

fn targets(findings: &Findings) -> String {
    let held = findings.targets.iter().filter(|t| t.held).count();
    match findings.targets.len() {
        0 => "–".to_string(),
        all if all == held => format!("<span class=\"held\">{held} of {all}</span>"),
        all => format!("<span class=\"missed\">{held} of {all}</span>"),
    }
}

/// What the figures belong to.
fn machine(machine: &Machine) -> String {
    let cpus = machine.cpus.to_string();
    let memory = format!("{} GiB", grouped(machine.memory_bytes as f64 / 1_073_741_824.0, 1));
    let rights = if machine.privileged {
        "root (namespaces, real-time priority)"
    } else {
        "an ordinary user's: no namespaces, no real-time priority"
    };
    let started = moment(&machine.started);
    let own = [
        ("started", started.as_str()),
        ("bowline", machine.bowline.as_str()),
        ("system", machine.system.as_str()),
        ("kernel", machine.kernel.as_str()),
        ("processor", machine.cpu_model.as_str()),
        ("CPUs used", cpus.as_str()),
        ("memory", memory.as_str()),
        ("rights", rights),
    ];
    let further = machine.facts.iter().map(|f| (f.name.as_str(), f.value.as_str()));
    format!(
        "<section id=\"machine\">\n<h2>Machine</h2>\n{}</section>\n",
        facts(own.into_iter().chain(further))
    )
}
