//! `bowline bench compare`: runs the comparison and prints one table.

use super::json_file::write_json;
use super::progress::{Spinner, stop_on_signals};
use crate::cli::bench::CompareOptions;
use crate::output::UsageError;
use crate::output::{self, print};
use admin::Align::{Left, Right};
use admin::Table;
use bench::compare::{Compared, Comparison, ComparisonConfig, Peer, Spread, compare as run, loads};
use bench::experiments::{RunContext, median, spread};
use bench::load::Version;
use bench::servers::ScratchDir;
use std::process::ExitCode;

/// Rounds of a full and of a quick comparison.
const ROUNDS: (u32, u32) = (11, 3);

/// Runs `bowline bench compare`.
pub fn compare(options: &CompareOptions) -> anyhow::Result<ExitCode> {
    let version = options.vers;
    if version == Version::V2 {
        return Err(UsageError("--vers 2: 3, 4.0, 4.1 or 4.2".into()).into());
    }
    let loads = loads(version, &options.only).map_err(|part| {
        let all = loads(version, &[]).into_iter().flatten();
        let names: Vec<_> = all.map(|load| load.name_in(version)).collect();
        UsageError(format!(
            "--only {part}: no load has that in its name; the loads are: {}",
            names.join("; ")
        ))
    })?;
    let peer = Peer::from(options.peer.as_str());
    if matches!(&peer, Peer::Command(line) if !line.contains("{PORT}")) {
        let what = "neither ganesha nor knfsd, nor a command with {PORT} for the port and {DIR} for the directory";
        return Err(UsageError(format!("--peer {}: {what}", options.peer)).into());
    }
    if let Some(options) = &options.export_options {
        check_export_options(options)?;
    }
    let stop = stop_on_signals()?;
    let scratch = ScratchDir::new()?;
    let spinner = Spinner::new();
    let ctx = RunContext {
        quick: options.quick,
        bowline: std::env::current_exe()?,
        scratch: scratch.path().to_path_buf(),
        stop: &stop,
        say: &|text| spinner.say(text),
    };
    let rounds = options.rounds.unwrap_or(if options.quick { ROUNDS.1 } else { ROUNDS.0 });
    let (below, export_options) = (options.below.as_deref(), options.export_options.as_deref());
    let config = ComparisonConfig { version, rounds, below, export_options };
    let comparison = run(&peer, &loads, &ctx, config);
    spinner.end();
    let comparison = comparison?;
    print(page(&comparison))?;
    if let Some(file) = &options.json {
        write_json(file, &comparison)?;
    }
    if comparison.stopped {
        output::print_error("stopped: the table contains the rounds measured so far");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses what a server would not start with, before anything is measured.
fn check_export_options(options: &str) -> Result<(), UsageError> {
    let refused = |why: &str| Err(UsageError(format!("--export-options {options}: {why}")));
    if options.is_empty() || options.contains(|c: char| c.is_whitespace() || "()#\"\\".contains(c))
    {
        return refused("options with commas between them, for example attr-cache=1000,async");
    }
    let parsed = export::exports_file::parse(format!("/dir *({options})\n").as_bytes());
    parsed.errors.first().map_or(Ok(()), |error| refused(&error.text))
}

fn cost(us: &[f64]) -> String {
    if us.is_empty() {
        return "-".to_owned();
    }
    let (low, high) = spread(us);
    format!("{:.1} [{low:.1}-{high:.1}]", median(us))
}

fn times(ratio: Option<Spread>) -> String {
    ratio.map_or_else(
        || "-".to_owned(),
        |Spread { median, low, high }| format!("x{median:.2} [{low:.2}-{high:.2}]"),
    )
}

fn rate(per_s: &[f64]) -> String {
    if per_s.is_empty() { "-".to_owned() } else { format!("{:.0}", median(per_s)) }
}

/// The table as text.
fn page(comparison: &Comparison) -> String {
    let name = |index: usize| {
        let first = comparison.loads.first();
        first.and_then(|load| load.figures.get(index)).map_or("-", |f| f.server.as_str())
    };
    let peer = name(1).to_uppercase();
    let columns = [
        "LOAD".to_owned(),
        "BOWLINE us/call".to_owned(),
        format!("{peer} us/call"),
        "BOUND us/call".to_owned(),
        format!("{peer}/BOWLINE"),
        "BOUND/BOWLINE".to_owned(),
        "BOWLINE calls/s".to_owned(),
        format!("{peer} calls/s"),
    ];
    let columns: Vec<_> =
        columns.iter().map(|c| (c.as_str(), if c == "LOAD" { Left } else { Right })).collect();
    let mut table = Table::new(&columns);
    let mut remarks = String::new();
    for load in &comparison.loads {
        table.row(cells(load));
        for figures in &load.figures {
            if let Some(remark) = figures.remark.as_ref().filter(|r| *r != "no canned reply") {
                remarks.push_str(&format!("{}, {}: {remark}\n", load.load, figures.server));
            }
        }
    }
    let rounds = comparison
        .loads
        .iter()
        .flat_map(|load| &load.figures)
        .map(|figures| figures.us_per_call.len())
        .max()
        .unwrap_or(0);
    let fewer = if comparison.stopped { ", fewer in the last row" } else { "" };
    let options = comparison.export_options.as_ref();
    let with = options.map_or_else(String::new, |with| format!(", Bowline's export with {with}"));
    format!(
        "{table}{remarks}NFS version {}; us of server CPU per call: median [smallest-largest] of {rounds} rounds in turn{fewer}, {} s \
         each, files {}{with}, {}\nratios within rounds: CPU of the peer / Bowline; CPU of a server of canned replies / \
         Bowline (1: nothing left to gain)\n",
        comparison.version,
        comparison.seconds,
        comparison.below.as_ref().map_or_else(|| "in memory".to_owned(), |dir| format!("in {dir}")),
        comparison.started
    )
}

fn cells(load: &Compared) -> [String; 8] {
    let figures = |index: usize| load.figures.get(index);
    let us = |index| figures(index).map_or_else(String::new, |f| cost(&f.us_per_call));
    let per_s = |index| figures(index).map_or_else(String::new, |f| rate(&f.calls_per_s));
    [
        load.load.clone(),
        us(0),
        us(1),
        us(2),
        times(load.ratio(0, 1)),
        times(load.ratio(0, 2)),
        per_s(0),
        per_s(1),
    ]
}
