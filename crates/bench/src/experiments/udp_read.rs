//! `udp-read`: one UDP socket or many.
//!
//! The original had three gigabit cards, six clients, 128 threads, and replies that were sent from the page
//! cache without copying, each holding its socket during the send: 146 MB/s with one socket, 210 to 230
//! with one for each card. Copied replies do not hold the socket in today's kernels, so that one socket is
//! no limit then; both are measured.

use super::udp::Bench;
use super::{Experiment, Rounds, RunContext, RunError, axis};
use crate::result::{Findings, Plot, Point, Series, Shape, Table, Target};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "udp-read",
    title: "Many UDP sockets on one port",
    question: "Three interfaces, six clients, cached READs of 32 KiB over UDP: what does one socket for each \
               interface, each CPU, or both gain over one socket, and how evenly are the interfaces served?",
    run,
};

const MODES: [&str; 4] = ["single", "interface", "cpu", "interface-cpu"];
/// MB/s of the original, with one socket and with one for each interface.
const ORIGINAL: [f64; 2] = [146.0, 220.0];
const GAIN: f64 = 1.5;
const BALANCE: f64 = 1.25;

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let mut bench = Bench::new(ctx, findings)?;
    let ways: &[&str] = if bench.has_zero_copy() { &["on", "off"] } else { &["off"] };
    let variants: Vec<String> =
        ways.iter().flat_map(|way| MODES.map(|mode| variant(mode, way))).collect();
    Rounds::new(findings, ctx, ctx.quick_or_full(3, 7)).interleave(&variants, None, |name| {
        let (mode, way) = name.split_once(", ").unwrap_or((name, "copied"));
        bench.server.set("udp-sockets", mode)?;
        if ways.len() > 1 {
            bench.server.set("zero-copy", if way == "copied" { "off" } else { "on" })?;
        }
        bench.once(ctx)
    })?;
    for way in ways {
        evaluate_targets(findings, way);
    }
    if ways.len() == 1 {
        findings.notes.push("This version copies all replies to READ over UDP.".into());
    }
    add_plots(findings, ways);
    Ok(())
}

fn variant(mode: &str, zero_copy: &str) -> String {
    format!("{mode}, {}", if zero_copy == "on" { "not copied" } else { "copied" })
}

/// Ratios and targets of one way of replying.
fn evaluate_targets(findings: &mut Findings, way: &str) {
    let single = variant("single", way);
    for mode in MODES.iter().skip(1) {
        let name = variant(mode, way);
        let gain = findings.ratio("read_mb_per_s", &name, &single, None);
        findings.ratio("server_cpu_us_per_call", &name, &single, None);
        let balance = findings.median(&name, None, "interfaces_most_to_least");
        let waited = findings.median(&name, None, "sends_waited_per_call");
        if way == "on" {
            findings.targets.push(Target {
                condition: format!("{mode} gives at least {GAIN} times single in MB/s"),
                found: format!("{gain:.2} times"),
                held: gain >= GAIN,
            });
        }
        findings.targets.push(Target {
            condition: format!("{name}: the busiest interface at most {BALANCE} times the least"),
            found: format!("{balance:.2} times"),
            held: balance <= BALANCE,
        });
        findings.targets.push(Target {
            condition: format!("{name}: no reply waits for another's"),
            found: format!("{waited:.4} waits for each call"),
            held: waited == 0.0,
        });
    }
}

fn add_plots(findings: &mut Findings, ways: &[&str]) {
    let series = |name: &str, values: Vec<f64>, original: bool| Series {
        name: name.to_owned(),
        original,
        points: (0_u8..)
            .zip(values)
            .map(|(x, y)| Point { x: f64::from(x), y, low: None, high: None })
            .collect(),
    };
    let all = |way: &str| {
        MODES.map(|mode| findings.median(&variant(mode, way), None, "read_mb_per_s")).to_vec()
    };
    let mut drawn: Vec<Series> = ways
        .iter()
        .map(|way| series(if *way == "on" { "not copied" } else { "copied" }, all(way), false))
        .collect();
    drawn.push(series("original (2004)", ORIGINAL.to_vec(), true));
    findings.plots.push(Plot {
        title: "READ of 32 KiB over three interfaces".into(),
        shape: Shape::GroupedBars,
        x: axis("udp-sockets", ""),
        y: axis("data", "MB/s"),
        bars: MODES.map(str::to_owned).to_vec(),
        series: drawn,
    });
    let row = |name: &String| {
        let cell = |measure: &str| format!("{:.2}", findings.median(name, None, measure));
        vec![
            name.clone(),
            format!("{:.0}", findings.median(name, None, "read_mb_per_s")),
            cell("server_cpu_us_per_call"),
            cell("interfaces_most_to_least"),
            cell("sends_waited_per_call"),
            cell("switches_per_call"),
        ]
    };
    let names: Vec<String> =
        ways.iter().flat_map(|way| MODES.map(|mode| variant(mode, way))).collect();
    let rows = names.iter().map(row).collect();
    let columns = [
        "udp-sockets",
        "MB/s",
        "server µs/call",
        "most/least over interfaces",
        "sends waited/call",
        "switches/call",
    ];
    findings.tables.push(Table {
        title: "Medians".into(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    });
}
