//! `bowline bench load`: a load on one server, or on two alternately.

use super::json_file::write_json;
use super::{progress, server_cost};
use crate::cli::bench::LoadOptions;
use crate::output::UsageError;
use crate::output::print;
use admin::{
    Align::{Left, Right},
    Table,
};
use bench::load::{FileSet, Latency, LiveCounters, LoadError, LoadReport, Plan, Run};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Rounds when two servers are compared.
const ROUNDS: usize = 3;

/// What is written as JSON.
#[derive(Serialize)]
struct Output {
    loads: Vec<LoadReport>,
}

/// A server under load.
struct LoadTarget {
    name: String,
    plan: Plan,
    file_set: Arc<FileSet>,
}

/// Runs `bowline bench load`.
pub fn load(options: &LoadOptions) -> anyhow::Result<ExitCode> {
    let plan = options.plan(&options.server).map_err(UsageError)?;
    let other = match &options.vs {
        Some(vs) => Some(options.plan(std::slice::from_ref(vs)).map_err(UsageError)?),
        None => None,
    };
    let stop = progress::stop_on_signals()?;
    let mut targets = vec![prepare(options.server.join(","), plan)?];
    if let (Some(plan), Some(vs)) = (other, &options.vs) {
        targets.push(prepare(vs.clone(), plan)?);
    }
    let rounds = if targets.len() > 1 { ROUNDS } else { 1 };
    let mut loads = Vec::new();
    let mut failure = None;
    'rounds: for _ in 0..rounds {
        for target in &targets {
            let run = one(target, options, &stop)?;
            if !(options.quiet && options.json.is_some()) {
                print(page(&target.name, &run.report))?;
            }
            loads.push(run.report);
            if let Some(error) = run.error {
                failure = Some(error);
                break 'rounds;
            }
            if stop.load(Relaxed) {
                break 'rounds;
            }
        }
    }
    if !options.keep {
        for target in &targets {
            // after a failure the server may have ended; the first error is reported
            let cleared = target.file_set.clear(&target.plan);
            if failure.is_none() {
                cleared?;
            }
        }
    }
    let clean = loads.iter().all(LoadReport::is_clean);
    if let Some(file) = &options.json {
        write_json(file, &Output { loads })?;
    }
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(ExitCode::from(u8::from(!clean))),
    }
}

fn prepare(name: String, plan: Plan) -> anyhow::Result<LoadTarget> {
    let file_set = FileSet::prepare(&plan).map_err(|error| match error {
        LoadError::Plan(_) | LoadError::Recording { .. } => UsageError(error.to_string()).into(),
        of_server => anyhow::Error::new(of_server),
    });
    let file_set = Arc::new(file_set?);
    Ok(LoadTarget { name, plan, file_set })
}

fn one(target: &LoadTarget, options: &LoadOptions, stop: &AtomicBool) -> anyhow::Result<Run> {
    let live = LiveCounters::new(target.plan.threads);
    let label = format!("{} {}", target.plan.workload.name(), target.name);
    let expected = target.plan.warmup + target.plan.time;
    let (mut before, mut calls_before) = (server_cost::before(options)?, 0);
    let mut run = progress::with_bar(&label, expected, &live, options.quiet, || {
        bench::load::run_from(&target.plan, &target.file_set, &live, stop, || {
            calls_before = live.calls();
            before.iter_mut().for_each(server_cost::CostSample::renew);
        })
    })?;
    let calls = live.calls().saturating_sub(calls_before);
    run.report.server = before.and_then(|before| before.since(calls));
    Ok(run)
}

/// A time with a fitting unit and precision.
fn time(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.2} us"),
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

fn times(latency: &Latency) -> [String; 5] {
    let Latency { p50_us, p90_us, p99_us, p999_us, max_us, .. } = *latency;
    [p50_us, p90_us, p99_us, p999_us, max_us].map(time)
}

/// The result as text.
fn page(name: &str, report: &LoadReport) -> String {
    let mut page = String::new();
    let rate = report.rate_per_s.map_or_else(String::new, |rate| format!(" at {rate:.0} calls/s"));
    let _ = writeln!(
        page,
        "{name}: {} v{}/{}/{}, {} clients x {}{rate}, {:.1} s",
        report.workload,
        report.version,
        report.proto,
        report.sec,
        report.clients,
        report.depth,
        report.seconds
    );
    let _ = write!(page, "  {:.0} calls/s", report.calls_per_s);
    for (what, mb_per_s) in [("read", report.read_mb_per_s), ("written", report.write_mb_per_s)] {
        if mb_per_s > 0.0 {
            let _ = write!(page, ", {mb_per_s:.1} MB/s {what}");
        }
    }
    let _ = writeln!(page, ", {:.2} us of client CPU per call", report.client_cpu_us_per_call);
    let mut table = Table::new(&[
        ("  OPERATION", Left),
        ("CALLS", Right),
        ("P50", Right),
        ("P90", Right),
        ("P99", Right),
        ("P99.9", Right),
        ("MAX", Right),
        ("ERRORS", Left),
    ]);
    let all = [("all".to_owned(), report.calls, report.latency, String::new())];
    let each = report.operations.iter().map(|op| {
        let errors: Vec<_> =
            op.errors.iter().map(|(name, calls)| format!("{name} {calls}")).collect();
        (op.op.clone(), op.calls, op.latency, errors.join(", "))
    });
    let rows: Vec<_> = if report.operations.len() > 1 {
        all.into_iter().chain(each).collect()
    } else {
        each.collect()
    };
    for (op, calls, latency, errors) in rows {
        let [p50, p90, p99, p999, max] = times(&latency);
        table.row([format!("  {op}"), admin::count(calls), p50, p90, p99, p999, max, errors]);
    }
    let _ = write!(page, "{table}");
    remarks(&mut page, report);
    page
}

/// Further results, one line each.
fn remarks(page: &mut String, report: &LoadReport) {
    if report.clients > 1 {
        let fair = &report.fairness;
        let _ = writeln!(
            page,
            "  calls per client {} .. {} .. {} (least, median, most), Jain's index {:.3}",
            fair.least, fair.median, fair.most, fair.jain
        );
    }
    if report.servers.len() > 1 {
        for server in &report.servers {
            let _ = writeln!(
                page,
                "  {}: {} clients, {:.0} calls/s",
                server.address, server.clients, server.calls_per_s
            );
        }
    }
    if report.checked > 0 || report.wrong > 0 {
        let _ =
            writeln!(page, "  data of {} READs compared, {} wrong", report.checked, report.wrong);
    }
    for (what, calls) in [
        ("datagrams retransmitted", report.retransmitted),
        ("calls lost", report.lost),
        ("replies to no call (duplicates)", report.strays),
        ("calls that were due and not sent", report.late),
        ("short READs", report.short_reads),
    ] {
        if calls > 0 {
            let _ = writeln!(page, "  {what}: {calls}");
        }
    }
    if let Some(server) = &report.server {
        let _ = writeln!(
            page,
            "  server: {:.2} us of CPU and {:.3} context switches per call, {} threads, {} resident",
            server.cpu_us_per_call,
            server.switches_per_call,
            server.threads,
            admin::bytes(server.rss_bytes)
        );
        if let (Some(copied), Some(not)) = (server.bytes_copied, server.bytes_not_copied) {
            let (copied, not) = (admin::bytes(copied), admin::bytes(not));
            let _ = writeln!(page, "  server: {copied} copied, {not} not copied");
        }
    }
    if let Some(why) = &report.incomplete {
        let _ = writeln!(page, "  incomplete: {why}");
    }
}
