//! `bowline bench list` and `bowline bench run`.

use super::json_file::write_json;
use super::progress::{Spinner, stop_on_signals};
use crate::cli::bench::RunOptions;
use crate::output::UsageError;
use crate::output::print;
use admin::Align::Left;
use admin::Table;
use bench::experiments::{ALL, Experiment, RunContext, named, run as run_one, save};
use bench::report::ReportError;
use bench::result::{Findings, Machine, Outcome};
use bench::servers::ScratchDir;
use export::exports_file::nearest_name;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

/// A row of the list.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    title: &'static str,
    question: &'static str,
}

/// Runs `bowline bench list`.
pub fn list(json: bool) -> anyhow::Result<ExitCode> {
    let rows = ALL.iter().map(|e| Row { name: e.name, title: e.title, question: e.question });
    if json {
        let rows: Vec<Row> = rows.collect();
        write_json(Path::new("-"), &rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&[("NAME", Left), ("QUESTION", Left)]);
    for row in rows {
        table.row([row.name, row.title]);
    }
    print(table.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The named experiments; `all` stands for all of them.
fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>, UsageError> {
    let mut chosen = Vec::new();
    for name in names {
        if name == "all" {
            chosen.extend(ALL);
            continue;
        }
        let found = named(name).ok_or_else(|| unknown(name))?;
        chosen.push(found);
    }
    chosen.dedup_by_key(|e| e.name);
    Ok(chosen)
}

fn unknown(name: &str) -> UsageError {
    let known: Vec<&str> = ALL.iter().map(|e| e.name).collect();
    let hint = match nearest_name(name.as_bytes(), known.iter().copied()) {
        Some(near) => format!("did you mean {near}? "),
        None => String::new(),
    };
    UsageError(format!("{name}: no such experiment; {hint}use all, or one of {}", known.join(", ")))
}

/// Runs `bowline bench run`.
pub fn run(options: &RunOptions) -> anyhow::Result<ExitCode> {
    let experiments = chosen(&options.names)?;
    let stop = stop_on_signals()?;
    let out = &options.out;
    std::fs::create_dir_all(out).map_err(|e| anyhow::anyhow!("--out {}: {e}", out.display()))?;
    let machine = Machine::here(env!("CARGO_PKG_VERSION"), &std::env::temp_dir());
    write_json(&out.join("machine.json"), &machine)?;
    let bowline = std::env::current_exe()?;
    let mut all_done = true;
    for experiment in experiments {
        let scratch = ScratchDir::new()?;
        let spinner = Spinner::new();
        let ctx = RunContext {
            quick: options.quick,
            bowline: bowline.clone(),
            scratch: scratch.path().to_path_buf(),
            stop: &stop,
            say: &|text| spinner.say(text),
        };
        let findings = run_one(experiment, &ctx);
        spinner.end();
        save(&findings, out).map_err(|e| anyhow::anyhow!("--out {}: {e}", out.display()))?;
        all_done &= findings.outcome == Outcome::Done;
        print(summary(&findings))?;
        if stop.load(Relaxed) {
            break;
        }
    }
    report(out, None)?;
    Ok(ExitCode::from(u8::from(!all_done || stop.load(Relaxed))))
}

/// Runs `bowline bench report`.
pub fn report(from: &Path, compact: Option<&Path>) -> anyhow::Result<ExitCode> {
    let written = match compact {
        Some(to) => bench::report::write_compact(from, to).map(|()| to.to_path_buf()),
        None => bench::report::write(from),
    };
    let written = written.map_err(|error| match error {
        ReportError::Write { .. } => error.into(),
        unread => anyhow::Error::new(UsageError(unread.to_string())),
    })?;
    print(format!("results in {}, written to {}\n", from.display(), written.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The result of an experiment in a few lines.
fn summary(findings: &Findings) -> String {
    let mut text = String::new();
    let outcome = match &findings.outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::Partial(why) => format!("in part: {why}"),
        Outcome::Unable(why) => format!("cannot run here: {why}"),
        Outcome::Failed(why) => format!("failed: {why}"),
    };
    let noise = findings.noise.map_or_else(String::new, |n| format!(", noise {:.0} %", n * 100.0));
    let _ = writeln!(text, "{}: {outcome} ({:.0} s{noise})", findings.name, findings.took_s);
    if let Some(result) = bench::report::sentence(findings) {
        let _ = writeln!(text, "  {}", result.replace('`', ""));
    }
    for note in &findings.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    for target in &findings.targets {
        let verdict = if target.held { "held" } else { "MISSED" };
        let _ = writeln!(text, "  {verdict}: {}: {}", target.condition, target.found);
    }
    for ratio in &findings.ratios {
        let at = ratio.at.map_or_else(String::new, |at| format!(" at {at}"));
        let _ = writeln!(
            text,
            "  {} / {}{at}: x{:.2} [{:.2}-{:.2}] {}",
            ratio.of, ratio.to, ratio.median, ratio.low, ratio.high, ratio.measure
        );
    }
    text
}
